/** Counting per key in fixed windows: in memory, one process, bounded. */
import { LRUCache } from 'lru-cache'

export interface Rate {
  readonly count: number
  readonly windowSeconds: number
}

export interface RateLimiter {
  /** Seconds until `key` may try again, or 0 while it has something left. Spends nothing. */
  waitSeconds(key: string, nowMs: number): number
  /** Spends one, and answers as `waitSeconds` did before. */
  take(key: string, nowMs: number): number
  /** Returns one that was taken at `takenMs`, if that window is still open. */
  giveBack(key: string, takenMs: number): void
}

interface Window {
  readonly endsMs: number
  used: number
}

/**
 * At most `maxKeys` keys are remembered (default 100 000); beyond that the least recently seen is forgotten, which
 * forgives that key its window and never another's.
 */
export function createMemoryRateLimiter(rate: Rate, maxKeys = 100_000): RateLimiter {
  const windows = new LRUCache<string, Window>({ max: maxKeys })
  // A clock set back must not lock anybody out for longer than one window.
  const isOpen = ({ endsMs }: Window, nowMs: number) => endsMs > nowMs && endsMs - nowMs <= rate.windowSeconds * 1000
  const open = (key: string, nowMs: number): Window => {
    const found = windows.get(key)
    if (found !== undefined && isOpen(found, nowMs)) return found
    const fresh = { endsMs: nowMs + rate.windowSeconds * 1000, used: 0 }
    windows.set(key, fresh)
    return fresh
  }
  const wait = (window: Window, nowMs: number) =>
    window.used < rate.count ? 0 : Math.max(1, Math.ceil((window.endsMs - nowMs) / 1000))
  return {
    waitSeconds(key, nowMs) {
      const found = windows.peek(key)
      return found !== undefined && isOpen(found, nowMs) ? wait(found, nowMs) : 0
    },
    take(key, nowMs) {
      const window = open(key, nowMs)
      const seconds = wait(window, nowMs)
      if (seconds === 0) window.used += 1
      return seconds
    },
    giveBack(key, takenMs) {
      const found = windows.peek(key)
      if (found !== undefined && found.used > 0 && takenMs >= found.endsMs - rate.windowSeconds * 1000) found.used -= 1
    },
  }
}
