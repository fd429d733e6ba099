/** Remembers what was used once: in memory, one process, bounded. */
import { TrustError } from '../errors.ts'
import type { Clock } from '../types.ts'
import type { ReplayStore } from './stores.ts'

/** How often, at most, a full store looks for entries that have ended. */
const SWEEP_EVERY_MS = 1000

export interface MemoryReplayStoreOptions {
  readonly clock?: Clock
  /** Keys remembered at once. Default 100 000. */
  readonly maxKeys?: number
}

export interface MemoryReplayStore extends ReplayStore {
  claim(key: string, ttlSeconds: number): boolean
}

/**
 * Holds at most `maxKeys`. When that many are still alive, `claim` throws `ERR_STORE_UNAVAILABLE`: to forget one would
 * let it be used again.
 */
export function createMemoryReplayStore({
  clock = Date.now,
  maxKeys = 100_000,
}: MemoryReplayStoreOptions = {}): MemoryReplayStore {
  const endings = new Map<string, number>()
  let nextSweepMs = Number.NEGATIVE_INFINITY

  function sweep(nowMs: number): void {
    if (nowMs < nextSweepMs && nextSweepMs - nowMs <= SWEEP_EVERY_MS) return
    nextSweepMs = nowMs + SWEEP_EVERY_MS
    for (const [key, endsMs] of endings) if (endsMs <= nowMs) endings.delete(key)
  }

  return {
    claim(key, ttlSeconds) {
      const nowMs = clock()
      const endsMs = endings.get(key)
      if (endsMs !== undefined && endsMs > nowMs) return false
      if (endsMs === undefined && endings.size >= maxKeys) sweep(nowMs)
      if (endsMs === undefined && endings.size >= maxKeys)
        throw new TrustError('ERR_STORE_UNAVAILABLE', { details: { maxKeys } })
      endings.set(key, nowMs + ttlSeconds * 1000)
      return true
    },
  }
}
