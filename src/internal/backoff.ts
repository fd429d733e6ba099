/** When to ask a service again that has failed: not at once, not all together, and not because of one odd request. */
import type { Clock } from '../types.ts'

const FIRST_MS = 1000
const LONGEST_MS = 30_000
/** Failures in a row that one request could have caused by itself, until the service counts as down. */
const STRIKES = 3

export interface Backoff {
  /**
   * Milliseconds to wait; 0 says go, and must be followed by `succeeded` or `failed`. While the service is down, one
   * caller at a time is let through to see whether it is back.
   */
  admit(): number
  succeeded(): void
  /** `down`: no request of ours can be to blame. Otherwise it takes three in a row to think so. */
  failed(down: boolean): void
  readonly isDown: boolean
}

export function createBackoff(clock: Clock): Backoff {
  let strikes = 0
  let rounds = 0
  let failedAt = 0
  let waitMs = 0
  let probing = false
  const down = (): boolean => strikes >= STRIKES
  /** A clock that was set back ends the wait rather than prolong it. */
  const remaining = (): number => {
    const elapsed = clock() - failedAt
    return elapsed < 0 ? 0 : Math.max(0, waitMs - elapsed)
  }
  return {
    admit() {
      if (!down()) return 0
      const wait = remaining()
      if (wait > 0) return wait
      if (probing) return FIRST_MS
      probing = true
      return 0
    },
    succeeded() {
      strikes = rounds = waitMs = 0
      probing = false
    },
    failed(isDown) {
      strikes = Math.min(STRIKES, strikes + (isDown ? STRIKES : 1))
      probing = false
      // Those who failed together count as one round.
      if (!down() || remaining() > 0) return
      waitMs = Math.min(FIRST_MS * 2 ** rounds, LONGEST_MS)
      rounds += 1
      failedAt = clock()
    },
    get isDown() {
      return down()
    },
  }
}
