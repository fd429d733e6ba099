/** Remembers whose tasks and contexts are: in memory, one process, bounded. */
import { TrustError } from '../errors.ts'
import { assertKnownOptions } from '../internal/options.ts'
import type { Clock } from '../types.ts'
import type { Ownership, OwnershipStore } from './stores.ts'

/** How often, at most, a full store looks for entries that have ended. */
const SWEEP_EVERY_MS = 1000

export interface MemoryOwnershipStoreOptions {
  readonly clock?: Clock
  /** Tasks and contexts remembered at once. Default 100 000. */
  readonly maxEntries?: number
  /** Of one owner, so that one caller cannot use up the room of all. Default a tenth of `maxEntries`. */
  readonly maxPerOwner?: number
  /** How long an entry is kept after it was last claimed. Default 30 days. */
  readonly ttlSeconds?: number
}

export interface MemoryOwnershipStore extends OwnershipStore {
  find(key: string): Ownership | undefined
  claim(key: string, claimant: Ownership): Ownership
  forget(key: string): void
}

interface Entry {
  readonly ownership: Ownership
  readonly endsMs: number
}

/**
 * `claim` throws `ERR_STORE_UNAVAILABLE` for a new key when there is no room. An entry leaves after `ttlSeconds` without
 * a claim, or by `forget`, never to make room for another: what is forgotten is nobody's, so a task is then out of reach
 * for its owner, and a context may be claimed anew.
 */
export function createMemoryOwnershipStore(options: MemoryOwnershipStoreOptions = {}): MemoryOwnershipStore {
  assertKnownOptions('createMemoryOwnershipStore', options, ['clock', 'maxEntries', 'maxPerOwner', 'ttlSeconds'])
  const { clock = Date.now, maxEntries = 100_000, ttlSeconds = 30 * 86_400 } = options
  const { maxPerOwner = Math.max(1, Math.ceil(maxEntries / 10)) } = options
  for (const [name, value] of Object.entries({ maxEntries, maxPerOwner, ttlSeconds })) {
    if (!Number.isSafeInteger(value) || value < 1) throw new TypeError(`"${name}" must be a whole number from 1`)
  }
  const entries = new Map<string, Entry>()
  const counts = new Map<string, number>()
  let nextSweepMs = Number.NEGATIVE_INFINITY

  function remove(key: string, { ownership }: Entry): void {
    entries.delete(key)
    const left = (counts.get(ownership.owner) ?? 1) - 1
    if (left === 0) counts.delete(ownership.owner)
    else counts.set(ownership.owner, left)
  }

  function sweep(nowMs: number): void {
    if (nowMs < nextSweepMs && nextSweepMs - nowMs <= SWEEP_EVERY_MS) return
    nextSweepMs = nowMs + SWEEP_EVERY_MS
    for (const [key, entry] of entries) if (entry.endsMs <= nowMs) remove(key, entry)
  }

  function alive(key: string, nowMs: number): Entry | undefined {
    const entry = entries.get(key)
    if (entry === undefined || entry.endsMs > nowMs) return entry
    remove(key, entry)
    return undefined
  }

  const isFull = (owner: string) => entries.size >= maxEntries || (counts.get(owner) ?? 0) >= maxPerOwner

  return {
    find(key) {
      return alive(key, clock())?.ownership
    },
    claim(key, claimant) {
      const nowMs = clock()
      const held = alive(key, nowMs)
      if (held === undefined) {
        if (isFull(claimant.owner)) sweep(nowMs)
        if (isFull(claimant.owner))
          throw new TrustError('ERR_STORE_UNAVAILABLE', { details: { maxEntries, maxPerOwner } })
        counts.set(claimant.owner, (counts.get(claimant.owner) ?? 0) + 1)
      }
      const ownership = held === undefined ? claimant : withSkills(held.ownership, claimant.skills)
      // A stranger's claim changes nothing, and so keeps nothing alive.
      const endsMs =
        held !== undefined && held.ownership.owner !== claimant.owner ? held.endsMs : nowMs + ttlSeconds * 1000
      entries.set(key, { ownership, endsMs })
      return ownership
    },
    forget(key) {
      const entry = entries.get(key)
      if (entry !== undefined) remove(key, entry)
    },
  }
}

function withSkills(held: Ownership, more: readonly string[]): Ownership {
  const added = more.filter((skill) => !held.skills.includes(skill))
  return added.length === 0 ? held : Object.freeze({ ...held, skills: Object.freeze([...held.skills, ...added]) })
}
