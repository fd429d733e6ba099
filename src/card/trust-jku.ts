/** Keys at a URL that the card itself names (RFC 7515 §4.1.2): only where the trust file allows it. */
import { LRUCache } from 'lru-cache'
import { TrustError } from '../errors.ts'
import { createJwksCache, type JwksCache } from '../internal/jwks-cache.ts'
import { type OriginScope, originScope } from './origin-scope.ts'
import { fetchOf, type LoadTrustOptions } from './trust-file.ts'
import type { KeyHint, TrustedKey } from './trusted-keys.ts'

export interface JkuTrust {
  allows(url: string | undefined): url is string
  /** For a card of origin `from`. Rejects with `ERR_CARD_ORIGIN` and `ERR_CARD_KEY_UNAVAILABLE`. */
  keysFor(url: string, hint: KeyHint, from: string | undefined): Promise<readonly TrustedKey[]>
  scopeOf(signer: string): OriginScope | undefined
}

const MAX_JKU_SETS = 100
const JKU_WINDOW_MS = 60_000

/** A key set named by the card itself: only at listed origins, and it speaks for its own origin alone. */
export function jkuTrust(allowed: readonly string[], options: LoadTrustOptions): JkuTrust {
  const isAllowed: OriginScope = allowed.length === 0 ? () => false : originScope(allowed)
  const { clock = Date.now } = options
  const sets = new LRUCache<string, JwksCache>({ max: MAX_JKU_SETS })
  let window = { startMs: Number.NEGATIVE_INFINITY, added: 0 }

  /** URLs come from cards, so that whoever writes cards could cause any number of requests. */
  function mayAdd(nowMs: number): boolean {
    if (Math.abs(nowMs - window.startMs) >= JKU_WINDOW_MS) window = { startMs: nowMs, added: 0 }
    window.added += 1
    return window.added <= MAX_JKU_SETS
  }
  return {
    allows: (url): url is string => url?.startsWith('https://') === true && isAllowed(url),
    async keysFor(url, { kid, alg }, from) {
      // Not even fetched: whatever the set holds, it may not sign for this card.
      if (from !== undefined && !originScope([new URL(url).origin])(from)) throw new TrustError('ERR_CARD_ORIGIN')
      let keys = sets.get(url)
      if (keys === undefined) {
        if (!mayAdd(clock())) throw new TrustError('ERR_CARD_KEY_UNAVAILABLE', { details: { reason: 'too many jku' } })
        keys = createJwksCache({ source: { url }, fetch: fetchOf(options), clock })
        sets.set(url, keys)
      }
      const lookup = await keys.find(kid, alg)
      if (lookup.kind === 'unavailable') throw new TrustError('ERR_CARD_KEY_UNAVAILABLE')
      return lookup.kind === 'found' ? [{ key: lookup.key, signer: `jku:${new URL(url).origin}` }] : []
    },
    scopeOf: (signer) => (signer.startsWith('jku:') ? originScope([signer.slice('jku:'.length)]) : undefined),
  }
}
