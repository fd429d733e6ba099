/**
 * Server-provided nonces of DPoP (RFC 9449 §9). Nothing is stored: a nonce is the HMAC of the time it was made in, so
 * every process that has the key makes and knows the same ones.
 */
import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import type { Clock } from '../types.ts'

/** How long one nonce is handed out. It is accepted for as long again. */
const PERIOD_MS = 120_000

export interface DpopNonces {
  /** The nonce handed out now. */
  current(): string
  /** Whether `nonce` is of this period or the one before it, or of the next: another process may be a little ahead. */
  accepts(nonce: unknown): boolean
}

/** `key` is shared by all processes of one agent; without it, it is random and good for this process. */
export function createDpopNonces(clock: Clock, key: KeyObject = createSecretKey(randomBytes(32))): DpopNonces {
  const made = new Map<number, string>()
  const period = () => Math.floor(clock() / PERIOD_MS)
  const nonceOf = (number: number): string => {
    const known = made.get(number)
    if (known !== undefined) return known
    const nonce = createHmac('sha256', key).update(`a2a-trust dpop nonce ${number}`).digest('base64url')
    for (const old of made.keys()) if (Math.abs(old - number) > 2) made.delete(old)
    made.set(number, nonce)
    return nonce
  }
  return {
    current: () => nonceOf(period()),
    accepts(nonce) {
      const now = period()
      // A nonce is no secret: it is sent to whoever asks. So nothing is lost by an ordinary comparison.
      return [now, now - 1, now + 1].some((number) => nonceOf(number) === nonce)
    },
  }
}
