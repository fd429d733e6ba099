/** When to ask a service again that did not answer: not at once, and not all together. */
import type { Clock } from '../types.ts'

const FIRST_MS = 1000
const LONGEST_MS = 30_000

export interface Backoff {
  /**
   * Milliseconds to wait; 0 says go, and must be followed by `answered` or `failed`. While the service is down, one
   * caller at a time is let through to see whether it is back.
   */
  admit(): number
  answered(): void
  /** Milliseconds until the next caller may go. */
  failed(): number
  readonly isDown: boolean
}

export function createBackoff(clock: Clock): Backoff {
  let rounds = 0
  let failedAt = 0
  let waitMs = 0
  let probing = false
  /** A clock that was set back ends the wait rather than prolong it. */
  const remaining = (): number => {
    const elapsed = clock() - failedAt
    return elapsed < 0 ? 0 : Math.max(0, waitMs - elapsed)
  }
  return {
    admit() {
      if (rounds === 0) return 0
      const wait = remaining()
      if (wait > 0) return wait
      if (probing) return FIRST_MS
      probing = true
      return 0
    },
    answered() {
      rounds = waitMs = 0
      probing = false
    },
    failed() {
      probing = false
      // Those who failed together count as one round.
      if (remaining() > 0) return remaining()
      waitMs = Math.min(FIRST_MS * 2 ** rounds, LONGEST_MS)
      rounds += 1
      failedAt = clock()
      return waitMs
    },
    get isDown() {
      return rounds > 0
    },
  }
}
