/** Secrets of an approval. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** 256 bits, 43 characters of base64url. */
export function randomToken(): string {
  return randomBytes(32).toString('base64url')
}

/** In constant time, whatever the lengths. */
export function isEqual(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
