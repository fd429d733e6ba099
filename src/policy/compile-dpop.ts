/** How DPoP proofs are judged, for all schemes at once: a response has room for one nonce. */
import { createSecretKey } from 'node:crypto'
import type { Sections } from './compare-card.ts'
import type { DpopConfig, SchemeConfig } from './compiled.ts'
import type { LoadContext } from './files.ts'
import { resolveSecret } from './references.ts'
import type { Report } from './report.ts'
import { isTokenScheme } from './token-schemes.ts'

export async function compileDpop(
  { nonce = 'off', nonceSecret }: NonNullable<Sections['dpop']> = {},
  schemes: ReadonlyMap<string, SchemeConfig>,
  context: LoadContext,
  report: Report,
): Promise<DpopConfig> {
  const secret =
    nonceSecret === undefined ? undefined : await resolveSecret(nonceSecret, '/dpop/nonceSecret', context, report)
  if (nonce === 'off') {
    if (nonceSecret !== undefined) {
      report.error(
        'ERR_POLICY_VALUE',
        '/dpop/nonceSecret',
        '"nonceSecret" has no effect without nonce: required',
        'key',
      )
    }
    return { nonce }
  }
  if (![...schemes.values()].some(takesDpop)) {
    const message = 'no scheme takes DPoP-bound tokens: write senderConstraint: optional or dpop at one'
    report.error('ERR_POLICY_VALUE', '/dpop/nonce', message)
  }
  return { nonce, ...(secret === undefined ? {} : { nonceKey: createSecretKey(secret, 'utf8') }) }
}

function takesDpop(config: SchemeConfig): boolean {
  return isTokenScheme(config) && (config.senderConstraint === 'optional' || config.senderConstraint === 'dpop')
}
