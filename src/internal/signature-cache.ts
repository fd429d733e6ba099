/**
 * Remembers which tokens had a good or a bad signature, so that a repeated token costs one hash and no event-loop turn.
 * Never a permission: whoever asks still judges issuer, audience, time and everything else, and compares the key.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { VerificationKey } from './verification-key.ts'

const MAX_ENTRIES = 10_000
/** Of token text. Parsed claims take a small multiple of it. */
const MAX_TOKEN_CHARACTERS = 16 * 1024 * 1024
/** Apart from the good ones, so that a flood of forgeries cannot push them out. */
const MAX_BAD_ENTRIES = 1000

export interface SignatureCache<T> {
  /** What was stored with a token of exactly this text, and the key its signature verified with. */
  get(digest: string): { readonly key: VerificationKey; readonly value: T } | undefined
  set(digest: string, tokenLength: number, key: VerificationKey, value: T): void
  isBad(digest: string, key: VerificationKey): boolean
  setBad(digest: string, key: VerificationKey): void
}

/** Collision-free name of a token's exact text. The text itself is not kept. */
export function digestOf(token: string): string {
  return hash('sha256', token, 'base64url')
}

export function createSignatureCache<T>(): SignatureCache<T> {
  const good = new LRUCache<string, { readonly key: VerificationKey; readonly value: T; readonly size: number }>({
    max: MAX_ENTRIES,
    maxSize: MAX_TOKEN_CHARACTERS,
    sizeCalculation: (entry) => entry.size,
  })
  const bad = new LRUCache<string, VerificationKey>({ max: MAX_BAD_ENTRIES })
  return {
    get: (digest) => good.get(digest),
    set: (digest, tokenLength, key, value) => void good.set(digest, { key, value, size: tokenLength }),
    isBad: (digest, key) => bad.get(digest) === key,
    setBad: (digest, key) => void bad.set(digest, key),
  }
}
