/** RFC 7638: which key it is, whatever its `kid` and wherever it is published. */
import { createHash } from 'node:crypto'
import type { VerificationKey } from './verification-key.ts'

const known = new WeakMap<VerificationKey, string>()

/** SHA-256 thumbprint, base64url. */
export function thumbprintOf(key: VerificationKey): string {
  const found = known.get(key)
  if (found !== undefined) return found
  const { crv, e, kty, n, x, y } = key.keyObject.export({ format: 'jwk' })
  // §3.2: the required members, in the order of their names. `undefined` is left out.
  const made = createHash('sha256').update(JSON.stringify({ crv, e, kty, n, x, y })).digest('base64url')
  known.set(key, made)
  return made
}
