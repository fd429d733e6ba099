/** A JWK Set in a file: public, asymmetric keys, checked when they are loaded. */
import { type KeyRefusal, loadVerificationKey } from '../internal/verification-key.ts'
import { step } from '../protocol/card-reader.ts'
import { isProduction, type LoadContext, openSource } from './files.ts'
import type { Report } from './report.ts'

export interface JwkSet {
  readonly keys: readonly Readonly<Record<string, unknown>>[]
}

/** With these a key is lost or makes tokens forgeable; any other unusable key is just not used. */
const FATAL: ReadonlySet<KeyRefusal> = new Set<KeyRefusal>(['not an object', 'private key material', 'symmetric key'])

/** Loads the set that `reference` names. Reports it when no key in it can verify one of `algorithms`. */
export async function loadKeySet(
  reference: string,
  pointer: string,
  algorithms: readonly string[],
  context: LoadContext,
  report: Report,
): Promise<JwkSet | undefined> {
  const opened = await openSource(reference, pointer, context, report)
  if (opened === undefined) return undefined
  const { source, report: inFile } = opened
  const set = source.value as { keys?: unknown; example?: unknown } | null
  const keys = typeof set === 'object' && set !== null ? set.keys : undefined
  if (!Array.isArray(keys)) {
    inFile.error('ERR_POLICY_KEY_FILE', '', 'the file is not a JWK Set: {"keys": [ … ]} (RFC 7517 §5)')
    return undefined
  }

  const { fatal, usable } = checkKeys(keys, inFile, isProduction(context), set?.example === true)
  if (fatal) return undefined
  if (!algorithms.some((algorithm) => usable.has(algorithm))) {
    const message = `the set holds no key for ${algorithms.join(', ')}: no token could be verified`
    inFile.error('ERR_POLICY_KEY_FILE', '/keys', message)
    return undefined
  }
  return { keys: keys as JwkSet['keys'] }
}

/**
 * Checks each key of the list at `/keys`. `usable` holds the algorithms that some key can verify; `fatal` says that the
 * set must not be used, for what it gives away or leaves open.
 */
export function checkKeys(
  keys: readonly unknown[],
  report: Report,
  inProduction: boolean,
  isExample = false,
): { readonly fatal: boolean; readonly usable: ReadonlySet<string> } {
  const kids = new Set<string>()
  const usable = new Set<string>()
  let fatal = false
  const refuse = (at: string, message: string): void => {
    report.error('ERR_POLICY_KEY_FILE', at, message)
    fatal = true
  }
  keys.forEach((jwk: unknown, index) => {
    const at = `/keys${step(index)}`
    const loaded = loadVerificationKey(jwk)
    const kid = loaded.ok ? loaded.key.kid : loaded.kid
    if (loaded.ok) for (const algorithm of loaded.key.algorithms) usable.add(algorithm)
    else if (FATAL.has(loaded.reason)) refuse(at, `the key cannot be here: ${loaded.reason}; a set holds public keys`)
    else report.warning('ERR_POLICY_KEY_FILE', at, `the key is not used: ${loaded.reason}`)
    if (kid !== undefined && kids.has(kid)) refuse(`${at}/kid`, 'the kid is used by two keys: give each its own')
    if (kid !== undefined) kids.add(kid)
    if (inProduction && (kid?.startsWith('example-') || isExample)) {
      report.error('ERR_POLICY_EXAMPLE_KEY', at, 'this key is published with the package: use that of your issuer')
    }
  })
  return { fatal, usable }
}
