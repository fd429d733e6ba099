/** Remembers what is revoked: in memory, one process, bounded. */
import { TrustError } from '../errors.ts'
import type { Clock } from '../types.ts'
import type { RevocationEntry, RevocationStore } from './stores.ts'

export interface MemoryRevocationStoreOptions {
  readonly clock?: Clock
  /** Entries remembered at once. Default 100 000. */
  readonly maxEntries?: number
}

export interface MemoryRevocationStore extends RevocationStore {
  add(entry: RevocationEntry): void
}

interface Kept {
  readonly issuedBefore: number
  readonly expiresAt: number
}

/**
 * Holds at most `maxEntries`. When that many are still in force, `add` throws `ERR_STORE_UNAVAILABLE` and what was there
 * stays: to forget one would let a revoked credential in again.
 *
 * Entries of one name become one, with the later time and the later end: adding never takes anything back.
 */
export function createMemoryRevocationStore({
  clock = Date.now,
  maxEntries = 100_000,
}: MemoryRevocationStoreOptions = {}): MemoryRevocationStore {
  const entries = new Map<string, Kept>()

  return {
    add({ name, issuedBefore = Number.POSITIVE_INFINITY, expiresAt = Number.POSITIVE_INFINITY }) {
      const now = clock() / 1000
      const found = entries.get(name)
      if (found === undefined && entries.size >= maxEntries) {
        for (const [other, entry] of entries) if (entry.expiresAt <= now) entries.delete(other)
        if (entries.size >= maxEntries) throw new TrustError('ERR_STORE_UNAVAILABLE', { details: { maxEntries } })
      }
      const before = found === undefined || found.expiresAt <= now ? undefined : found
      entries.set(name, {
        issuedBefore: Math.max(issuedBefore, before?.issuedBefore ?? issuedBefore),
        expiresAt: Math.max(expiresAt, before?.expiresAt ?? expiresAt),
      })
    },
    revokes(names, issuedAt) {
      if (entries.size === 0) return false
      const now = clock() / 1000
      return names.some((name) => {
        const entry = entries.get(name)
        return entry !== undefined && issuedAt < entry.issuedBefore && now < entry.expiresAt
      })
    },
  }
}
