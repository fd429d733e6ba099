/** Who may sign cards for which origins, since when, until when, and which keys no longer: what a trust file says. */
import { TrustError } from '../errors.ts'
import { PolicyError } from '../policy/policy-error.ts'
import type { Problem } from '../policy/problem.ts'
import { compileTrust, type LoadTrustOptions, type Signer, type TrustMode } from './trust-file.ts'
import { type JkuTrust, jkuTrust } from './trust-jku.ts'
import type { KeyHint, SigningContext, Trust, TrustedKey } from './trusted-keys.ts'

export type { LoadTrustOptions, TrustMode } from './trust-file.ts'

export interface LoadedTrust extends Trust {
  /**
   * `require`: only verified cards. `prefer`: unsigned cards pass, badly signed ones do not. `audit`: everything passes
   * and the result is told. `off`: nothing is verified.
   */
  readonly mode: TrustMode
}

/** Every mistake of a trust file, by place. */
export async function lintTrust(options: LoadTrustOptions): Promise<readonly Problem[]> {
  return (await compileTrust(options)).problems
}

/**
 * Loads a trust file. Key sets in files are read now, those behind URLs when a signature first names one of their keys.
 *
 * Rejects with `PolicyError` (`ERR_POLICY_INVALID`), all mistakes at once; one that trusts nobody or everybody is a mistake.
 */
export async function loadTrust(options: LoadTrustOptions): Promise<LoadedTrust> {
  const { problems, file, signers } = await compileTrust(options)
  if (file === undefined || problems.some(({ severity }) => severity === 'error')) throw new PolicyError(problems)
  const { mode = 'require', threshold = 1, jku } = file
  const jkuKeys = jkuTrust(jku?.allow ?? [], options)
  const byName = new Map(signers.map((signer) => [signer.name, signer.scope]))
  return Object.freeze({
    mode,
    threshold,
    keysFor: (hint: KeyHint, context: SigningContext) => keysFor(signers, jkuKeys, hint, context),
    refusalOf(
      { signer }: TrustedKey,
      { origin: from, urls }: { readonly origin?: string; readonly urls: readonly string[] },
    ) {
      const scope = byName.get(signer) ?? jkuKeys.scopeOf(signer)
      return scope !== undefined && [...(from === undefined ? [] : [from]), ...urls].every(scope)
        ? undefined
        : 'ERR_CARD_ORIGIN'
    },
  })
}

/**
 * Only signers who may sign for the card's origin are asked, at the same time: nobody else's keys can delay the answer,
 * be fetched for it, or crowd out the right one under the same `kid`.
 */
async function keysFor(
  signers: readonly Signer[],
  jku: JkuTrust,
  hint: KeyHint,
  { origin: from, nowMs }: SigningContext,
): Promise<readonly TrustedKey[]> {
  const eligible = from === undefined ? signers : signers.filter(({ scope }) => scope(from))
  const found: TrustedKey[] = []
  let failure: TrustError | undefined
  const lookups = await Promise.all(
    eligible.map(async (signer) => [signer, await signer.keys.find(hint.kid, hint.alg)] as const),
  )
  for (const [{ name, revoked, notBeforeMs, notAfterMs }, lookup] of lookups) {
    if (lookup.kind === 'unavailable')
      failure ??= new TrustError('ERR_CARD_KEY_UNAVAILABLE', { details: { signer: name } })
    if (revoked.has(hint.kid))
      failure = new TrustError('ERR_CARD_KEY_REVOKED', { details: { signer: name, kid: hint.kid } })
    else if (lookup.kind !== 'found') continue
    else if (nowMs < notBeforeMs || nowMs > notAfterMs)
      failure = new TrustError('ERR_CARD_KEY_EXPIRED', { details: { signer: name } })
    else found.push({ key: lookup.key, signer: name })
  }
  if (found.length > 0) return found
  if (failure !== undefined) throw failure
  // A signer who lost a key, or whose time is over, does not come back through a URL in the card.
  if (jku.allows(hint.jku) && !signers.some(({ revoked }) => revoked.has(hint.kid))) {
    return jku.keysFor(hint.jku, hint, from)
  }
  if (signers.length > 0 && eligible.length === 0) throw new TrustError('ERR_CARD_ORIGIN')
  return []
}
