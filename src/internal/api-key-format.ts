/**
 * The form of generated API keys: `a2a_<id>_<secret>_<checksum>`. The fixed beginning is for secret scanners, the id for
 * lookup and audit, the checksum so that a mistyped key, a cut one and a real leak can be told apart without asking
 * anybody. Keys of any other form are accepted too: they are known by their digest alone.
 */
import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** What the id may be: no `_`, which separates, and nothing that a URL, a cookie or YAML would have to escape. */
export const KEY_ID = /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/
/** The same expression as in docs/api-keys.md, anchored. */
const FORM = /^a2a_([a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?)_[0-9A-Za-z]{43}_([0-9A-Za-z]{6})$/

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** 62^43 is just above 2^256. */
const SECRET_LENGTH = 43
/** 62^6 is above 2^32. */
const CHECKSUM_LENGTH = 6

/** A new key: 256 random bits under this id. Throws `TypeError` for an id that does not fit the form. */
export function generateApiKey(id: string): string {
  if (!KEY_ID.test(id)) throw new TypeError('"id" must be 1 to 64 of a-z, 0-9 and -, with no - at an end')
  let secret = ''
  while (secret.length < SECRET_LENGTH) {
    // 248 is the largest multiple of 62 in a byte: taking more would make some digits likelier.
    for (const byte of randomBytes(64)) if (byte < 248 && secret.length < SECRET_LENGTH) secret += DIGITS[byte % 62]
  }
  const begin = `a2a_${id}_${secret}`
  return `${begin}_${checksumOf(begin)}`
}

/** The id and whether the checksum holds; `undefined` for a text of another form. Proves nothing: anybody can write one. */
export function readApiKey(text: string): { readonly id: string; readonly intact: boolean } | undefined {
  const match = FORM.exec(text)
  if (match === null) return undefined
  const [, id = '', checksum] = match
  return { id, intact: checksum === checksumOf(text.slice(0, -CHECKSUM_LENGTH - 1)) }
}

/**
 * CRC-32 in base 62. Not a secret and no protection: it finds every single wrong or swapped character, and anything
 * else but for one in 2^32.
 */
function checksumOf(text: string): string {
  let rest = crc32(text)
  let checksum = ''
  for (let i = 0; i < CHECKSUM_LENGTH; i += 1) {
    checksum = DIGITS[rest % 62] + checksum
    rest = Math.floor(rest / 62)
  }
  return checksum
}
