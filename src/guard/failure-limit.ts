/** Failed authentications of one address, and those that may still become some. */
import { createMemoryRateLimiter, type Rate } from '../store/rate-limiter.ts'

export interface FailureLimit {
  /**
   * 0: go on. Seconds: too much has failed. A promise: what is being checked may become too much, and decides who comes
   * next; ask again then. Spends nothing.
   */
  ask(address: string, nowMs: number): number | Promise<void>
  /** Counts one that has failed. */
  count(address: string, nowMs: number): void
  /** Counts one that is being checked as if it had failed, until the function says how it ended. Call that exactly once. */
  hold(address: string, nowMs: number): (failed: boolean) => void
}

/** Callers of one address who wait for others of theirs. */
const MAX_WAITING = 256

interface Line {
  checking: number
  readonly waiting: (() => void)[]
}

/**
 * A failure is known only when it has been checked, and guesses that are sent together would all be looked at before the
 * first is known. So no more is checked at a time than may still fail. Callers beyond that are not refused, as those
 * before them may be good and spend nothing: they wait, and only for what has begun, which ends by itself.
 */
export function createFailureLimit(rate: Rate): FailureLimit {
  const failures = createMemoryRateLimiter(rate)
  /** Addresses of which something is being checked. */
  const lines = new Map<string, Line>()
  return {
    ask(address, nowMs) {
      const seconds = failures.waitSeconds(address, nowMs)
      const line = lines.get(address)
      if (seconds === 0 || line === undefined) return seconds
      if (line.waiting.length >= MAX_WAITING) return 1
      return new Promise((resolve) => line.waiting.push(resolve))
    },
    count(address, nowMs) {
      failures.take(address, nowMs)
    },
    hold(address, nowMs) {
      failures.take(address, nowMs)
      const line = lines.get(address) ?? { checking: 0, waiting: [] }
      lines.set(address, line)
      line.checking += 1
      return (failed) => {
        line.checking -= 1
        if (line.checking === 0) lines.delete(address)
        if (failed && line.checking > 0) return
        if (!failed) failures.giveBack(address, nowMs)
        // Each asks again, in order: the first take what is free, the others wait anew or are refused.
        for (const wake of line.waiting.splice(0)) wake()
      }
    },
  }
}
