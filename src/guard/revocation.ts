/** The last question about a credential that a scheme found good: whether it has been revoked since. */
import type { SchemeConfig } from '../policy/compiled.ts'
import { type Revocation, revocationEntry, revocationNames, revocationSchema } from '../policy/revocation.ts'
import type { RevocationCheck } from '../schemes/authenticate.ts'
import type { RevocationEntry, RevocationStore } from '../store/stores.ts'

/** A store that throws, or answers anything but `false`, lets nobody in. */
export function revocationCheck(stores: readonly RevocationStore[]): RevocationCheck {
  return (part) => {
    const names = revocationNames(part)
    // What does not say when it was issued may be as old as it likes.
    const issuedAt = part.credential.issuedAt ?? Number.NEGATIVE_INFINITY
    try {
      return stores.some((store) => store.revokes(names, issuedAt) !== false) ? REVOKED : undefined
    } catch {
      return UNKNOWN
    }
  }
}

const REVOKED = Object.freeze({ kind: 'invalid', code: 'ERR_CREDENTIAL_REVOKED' } as const)
const UNKNOWN = Object.freeze({ kind: 'unavailable', code: 'ERR_STORE_UNAVAILABLE', retryAfterSeconds: 1 } as const)

/** What a file of keys or users marks as revoked: the scheme refuses it, and this reaches who was let in just before. */
export function revokedInFile(scheme: SchemeConfig): RevocationEntry[] {
  const records =
    scheme.type === 'apiKey'
      ? scheme.keys
      : scheme.type === 'basic'
        ? scheme.users.map(({ user: id, revoked }) => ({ id, revoked }))
        : []
  return records.flatMap(({ id, revoked }) =>
    revoked === true ? revocationEntry({ key: { issuer: scheme.name, id } }) : [],
  )
}

/** Throws `TypeError` for what is no revocation: a misspelt one would revoke nothing. */
export function parseRevocation(revocation: Revocation): RevocationEntry {
  const { success, data, error } = revocationSchema.safeParse(revocation)
  if (success) return revocationEntry(data)
  const [issue] = error.issues
  throw new TypeError(`"${['revocation', ...(issue?.path ?? [])].join('.')}" ${issue?.message}`)
}
