/**
 * Page tokens that serve one caller and one query. They are encrypted, not only authenticated: the position inside may
 * name a task of somebody else, where the store behind does not keep callers apart.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

export interface Position {
  /** The page token of the store behind. */
  readonly cursor: string
  /** How many results the query has in all. */
  readonly total: number
}

export interface PageTokens {
  /** `bound`: caller and query. */
  seal(bound: readonly (string | undefined)[], position: Position): string
  /** `undefined`: not one of ours, or not of this caller and query. */
  open(bound: readonly (string | undefined)[], token: string): Position | undefined
}

const IV_BYTES = 12
const TAG_BYTES = 16
const LONGEST_TOKEN = 8192

/** Without `secret` (at least 32 bytes) tokens are good in this process only. */
export function createPageTokens(secret: string | Uint8Array = randomBytes(32)): PageTokens {
  if ((typeof secret !== 'string' && !(secret instanceof Uint8Array)) || Buffer.byteLength(secret) < 32) {
    throw new TypeError('"pageTokenSecret" must have at least 32 bytes')
  }
  const key = createHash('sha256').update('a2a-trust page token').update(secret).digest()
  return {
    seal(bound, { cursor, total }) {
      const iv = randomBytes(IV_BYTES)
      const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(aad(bound))
      const sealed = Buffer.concat([cipher.update(JSON.stringify([cursor, total])), cipher.final()])
      return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
    },
    open(bound, token) {
      const bytes = token.length > LONGEST_TOKEN ? Buffer.alloc(0) : Buffer.from(token, 'base64url')
      if (bytes.length <= IV_BYTES + TAG_BYTES || bytes.toString('base64url') !== token) return undefined
      const start = IV_BYTES + TAG_BYTES
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
          .setAAD(aad(bound))
          .setAuthTag(bytes.subarray(IV_BYTES, start))
        const text = Buffer.concat([decipher.update(bytes.subarray(start)), decipher.final()]).toString()
        const [cursor, total] = JSON.parse(text) as [string, number]
        return { cursor, total }
      } catch {
        return undefined
      }
    },
  }
}

/** JSON, so that no two lists give the same bytes. */
function aad(bound: readonly (string | undefined)[]): Buffer {
  return Buffer.from(JSON.stringify(bound.map((part) => part ?? null)))
}
