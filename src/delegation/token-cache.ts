/** Tokens that were obtained, by everything that they depend on. Bounded, one request at a time for each. */
import { LRUCache } from 'lru-cache'
import { TrustError } from '../errors.ts'
import { sha256Hex } from '../internal/sha256.ts'
import type { Clock } from '../types.ts'
import type { ObtainedToken } from './token-endpoint.ts'

const MAX_TOKENS = 10_000
const MAX_CHARACTERS = 16 * 1024 * 1024
/** Requests to authorization servers at once; past it callers are told that it is too much. */
const MAX_IN_FLIGHT = 256
/** A token this close to its end is not begun with: it could end on the way. */
const SKEW_MS = 30_000

export interface TokenCache {
  /** The token under `key`, or what `obtain` gives. Rejects as `obtain` does, and with `ERR_OVERLOADED`. */
  get(key: string, obtain: () => Promise<ObtainedToken>): Promise<ObtainedToken>
  /** Forgets the token that was refused, and none that has replaced it since. */
  drop(key: string, refused: ObtainedToken): void
}

interface Kept {
  readonly token: ObtainedToken
  readonly sinceMs: number
}

function isFresh({ expiresAtMs }: ObtainedToken, nowMs: number): boolean {
  return nowMs < expiresAtMs - SKEW_MS
}

/** One text for several, so that no two lists of them make the same. Digested, since some are secrets. */
export function cacheKey(parts: readonly string[]): string {
  return sha256Hex(parts.map((part) => `${part.length}:${part}`).join(''))
}

export function createTokenCache(clock: Clock): TokenCache {
  const tokens = new LRUCache<string, Kept>({ max: MAX_TOKENS, maxSize: MAX_CHARACTERS })
  const flights = new Map<string, Promise<ObtainedToken>>()
  return {
    get(key, obtain) {
      const known = tokens.get(key)
      // A clock that was set back makes everything old rather than good for longer.
      if (known !== undefined && clock() >= known.sinceMs && isFresh(known.token, clock()))
        return Promise.resolve(known.token)
      const flying = flights.get(key)
      if (flying !== undefined) return flying
      if (flights.size >= MAX_IN_FLIGHT) return Promise.reject(new TrustError('ERR_OVERLOADED'))
      const flight = obtain()
        .then((token) => {
          const sinceMs = clock()
          if (isFresh(token, sinceMs)) tokens.set(key, { token, sinceMs }, { size: token.token().length })
          else tokens.delete(key)
          return token
        })
        .finally(() => flights.delete(key))
      flights.set(key, flight)
      return flight
    },
    drop(key, refused) {
      if (tokens.peek(key)?.token === refused) tokens.delete(key)
    },
  }
}
