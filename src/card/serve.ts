/** A card made ready to be served: signed once, the same bytes each time. */
import { createHash } from 'node:crypto'
import type { JWK } from 'jose'
import { assertKnownOptions } from '../internal/options.ts'
import { loadVerificationKey } from '../internal/verification-key.ts'
import { JCS, serialize } from './canonicalize.ts'
import { publicJwkOf, type SignCardOptions, signWithAll } from './sign.ts'

export interface ServedCardOptions {
  /** The card: text, or JSON. Its URLs are served as they are; nothing is taken from a request. */
  readonly card: string | object
  /** Keys that sign, the current one first; two of them while one replaces the other. Empty: what others signed stays. */
  readonly keys?: readonly Omit<SignCardOptions, 'signatures'>[]
  /** Public keys to publish although they do not sign here: those of yesterday, or of tomorrow. */
  readonly retiredKeys?: readonly JWK[]
  /** Default 300. */
  readonly maxAgeSeconds?: number
}

export interface ServedDocument {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  readonly etag: string
}

export interface ServedCard {
  readonly card: ServedDocument
  /** For `/.well-known/jwks.json`. */
  readonly jwks: ServedDocument
}

/**
 * Signs now; rejects as `signCard` does. Throws `TypeError` for a "retiredKeys" that holds anything but public keys with
 * a `kid` of their own: what is in it is published.
 */
export async function createServedCard(options: ServedCardOptions): Promise<ServedCard> {
  assertKnownOptions('createServedCard', options, ['card', 'keys', 'retiredKeys', 'maxAgeSeconds'])
  const { keys = [], retiredKeys = [], maxAgeSeconds = 300 } = options
  if (!Number.isSafeInteger(maxAgeSeconds) || maxAgeSeconds < 0 || maxAgeSeconds > 86_400) {
    throw new TypeError('"maxAgeSeconds" must be a whole number from 0 to 86400')
  }
  const text = await signWithAll(typeof options.card === 'string' ? options.card : JSON.stringify(options.card), keys)
  const published = [...(await Promise.all(keys.map(publicJwkOf))), ...retiredKeys]
  const kids = new Set<string>()
  for (const jwk of published) {
    const loaded = loadVerificationKey(jwk)
    if (!loaded.ok) throw new TypeError(`"retiredKeys" must hold public keys: ${loaded.reason}`)
    const { kid } = loaded.key
    if (kid === undefined || kids.has(kid))
      throw new TypeError('"keys" and "retiredKeys" must each have a kid of its own')
    kids.add(kid)
  }
  return Object.freeze({
    card: document(text, 'application/json', maxAgeSeconds),
    jwks: document(serialize({ keys: published }, JCS), 'application/jwk-set+json', maxAgeSeconds),
  })
}

function document(body: string, type: string, maxAgeSeconds: number): ServedDocument {
  const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
  return Object.freeze({
    body,
    etag,
    headers: Object.freeze({ 'content-type': type, 'cache-control': `public, max-age=${maxAgeSeconds}`, etag }),
  })
}

/** Whether an `If-None-Match` value names this document (RFC 9110 §13.1.2, weak comparison). */
export function matchesEtag(header: string | undefined, { etag }: ServedDocument): boolean {
  if (header === undefined) return false
  return header.trim() === '*' || header.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)
}
