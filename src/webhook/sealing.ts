/** What is secret in a push notification config, encrypted at rest: AES-256-GCM, bound to the record it belongs to. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { TrustError } from '../errors.ts'

export interface Sealing {
  seal(text: string, boundTo: readonly string[]): string
  /** Throws `ERR_PUSH_CONFIG_SEALED` when no key opens it for what it is bound to. */
  open(sealed: string, boundTo: readonly string[]): string
}

const MAX_KEYS = 8
const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * `keys` are base64 of 32 random bytes; the first encrypts and each decrypts, so that a new one is put in front and an
 * old one stays until what it sealed is gone. Without keys: a random one, which ends with the process.
 */
export function createSealing(keys: readonly string[] | undefined, option: string): Sealing {
  const list = keys ?? [randomBytes(32).toString('base64')]
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_KEYS)
    throw new TypeError(`"${option}" must be a list of 1 to ${MAX_KEYS} keys, the current one first`)
  const byId = new Map<string, Buffer>()
  for (const text of list as readonly unknown[]) {
    const key = typeof text === 'string' ? Buffer.from(text, 'base64') : Buffer.alloc(0)
    if (key.length !== 32 || key.toString('base64') !== text)
      throw new TypeError(`"${option}" must hold base64 of 32 random bytes each`)
    byId.set(createHash('sha256').update(key).digest('hex').slice(0, 16), key)
  }
  const [current] = byId as Iterable<readonly [string, Buffer]>
  const [currentId, currentKey] = current as readonly [string, Buffer]

  return {
    seal(text, boundTo) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', currentKey, nonce).setAAD(associated(boundTo))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return `${currentId}.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64')}`
    },
    open(sealed, boundTo) {
      const [id = '', text = ''] = sealed.split('.')
      const key = byId.get(id)
      const bytes = Buffer.from(text, 'base64')
      try {
        if (key === undefined || bytes.length < NONCE_BYTES + TAG_BYTES) throw new TypeError('no such key')
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), {
          authTagLength: TAG_BYTES,
        })
          .setAAD(associated(boundTo))
          .setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
        return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
      } catch (cause) {
        throw new TrustError('ERR_PUSH_CONFIG_SEALED', { details: { known: key !== undefined }, cause })
      }
    },
  }
}

function associated(boundTo: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(boundTo))
}
