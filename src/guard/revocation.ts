/** The last question about a credential that a scheme found good: whether it has been revoked since. */
import type { SchemeConfig } from '../policy/compiled.ts'
import { type Revocation, revocationEntry, revocationNames, revocationSchema } from '../policy/revocation.ts'
import type { RevocationCheck } from '../schemes/authenticate.ts'
import type { RevocationEntry, RevocationStore } from '../store/stores.ts'

/**
 * A store that throws, or answers anything but `false`, lets nobody in. Nor does a key or user that the file has no more,
 * or has as revoked: the scheme refuses it anyway, and this reaches who was let in just before.
 */
export function revocationCheck(
  stores: readonly RevocationStore[],
  schemes: ReadonlyMap<string, SchemeConfig>,
): RevocationCheck {
  const listed = new Map([...schemes.values()].map((scheme) => [scheme.name, standingIn(scheme)]))
  return (part) => {
    const { kind, scheme, credential } = part
    if ((kind === 'apiKey' || kind === 'basic') && listed.get(scheme)?.has(credential.keyId ?? '') !== true)
      return REVOKED
    const names = revocationNames(part)
    // What does not say when it was issued may be as old as it likes.
    const issuedAt = credential.issuedAt ?? Number.NEGATIVE_INFINITY
    try {
      return stores.some((store) => store.revokes(names, issuedAt) !== false) ? REVOKED : undefined
    } catch {
      return UNKNOWN
    }
  }
}

/** Ids of the keys or users of a file that are not revoked; `undefined` for schemes without such a file. */
function standingIn(scheme: SchemeConfig): ReadonlySet<string> | undefined {
  if (scheme.type === 'apiKey') return new Set(scheme.keys.flatMap(({ id, revoked }) => (revoked === true ? [] : id)))
  if (scheme.type === 'basic')
    return new Set(scheme.users.flatMap(({ user, revoked }) => (revoked === true ? [] : user)))
  return undefined
}

const REVOKED = Object.freeze({ kind: 'invalid', code: 'ERR_CREDENTIAL_REVOKED' } as const)
const UNKNOWN = Object.freeze({ kind: 'unavailable', code: 'ERR_STORE_UNAVAILABLE', retryAfterSeconds: 1 } as const)

/** Throws `TypeError` for what is no revocation: a misspelt one would revoke nothing. */
export function parseRevocation(revocation: Revocation): RevocationEntry {
  const { success, data, error } = revocationSchema.safeParse(revocation)
  if (success) return revocationEntry(data)
  const [issue] = error.issues
  throw new TypeError(`"${['revocation', ...(issue?.path ?? [])].join('.')}" ${issue?.message}`)
}
