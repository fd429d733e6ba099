/** Who may sign, as the verifier asks. A trust file and a bare key set both answer in these terms. */
import type { ErrorCode } from '../errors.ts'
import { loadVerificationKey, type VerificationKey } from '../internal/verification-key.ts'

export interface TrustedKey {
  readonly key: VerificationKey
  /** Who the key belongs to; in a bare key set the `kid`. */
  readonly signer: string
}

/** What a signature's protected header says of its key. Untrusted: it selects among trusted keys, and nothing more. */
export interface KeyHint {
  readonly kid: string
  readonly alg: string
  readonly jku?: string
}

export interface SigningContext {
  /** Origin the card was fetched from, where known. */
  readonly origin?: string
  readonly nowMs: number
}

export interface Trust {
  /** Keys that may have made the signature. A rejection counts against this one entry only. */
  keysFor(hint: KeyHint, context: SigningContext): Promise<readonly TrustedKey[]> | readonly TrustedKey[]
  /** Why `signer` may not sign a card of this origin with these interfaces; `undefined`: it may. */
  refusalOf(
    signer: TrustedKey,
    card: { readonly origin?: string; readonly urls: readonly string[] },
  ): ErrorCode | undefined
  /** How many different signers must have signed. */
  readonly threshold: number
}

export interface JwkSet {
  readonly keys: readonly unknown[]
}

const MAX_KEYS = 256

/**
 * Trusts every usable key of the set, for any origin. Throws `TypeError` when the set is no JWK Set, and when it has no
 * usable key: a set that trusts nobody is a mistake.
 */
export function trustJwks(jwks: JwkSet): Trust {
  const entries: unknown = (jwks as { keys?: unknown } | null | undefined)?.keys
  if (!Array.isArray(entries) || entries.length > MAX_KEYS) {
    throw new TypeError(`"jwks" must be a JWK Set with at most ${MAX_KEYS} keys`)
  }
  const byKid = new Map<string, TrustedKey[]>()
  for (const entry of entries) {
    const loaded = loadVerificationKey(entry)
    if (!loaded.ok || loaded.key.kid === undefined) continue
    const same = byKid.get(loaded.key.kid) ?? []
    same.push({ key: loaded.key, signer: loaded.key.kid })
    byKid.set(loaded.key.kid, same)
  }
  if (byKid.size === 0) throw new TypeError('"jwks" must hold at least one usable public key with a kid')
  return { keysFor: ({ kid }) => byKid.get(kid) ?? [], refusalOf: () => undefined, threshold: 1 }
}
