/**
 * What is kept of a credential that arrived: enough to recognise it in outgoing bytes, and not enough to have it. Of every
 * form in which it may leave there is a keyed 32-bit hash of the first bytes, the length, and a keyed SHA-256 of the
 * whole. The keys are random, for this process only. The text itself is dropped.
 */
import { createHmac, randomBytes, randomInt } from 'node:crypto'
import { LRUCache } from 'lru-cache'

/** Shorter texts are not watched: they would be found in what has nothing to do with them. */
export const SHORTEST = 8
/** Bytes whose hash begins a comparison: the longer one where the form is long enough. */
export const WINDOWS = [16, SHORTEST] as const
/** Of a signature this much is enough to know it: 96 bits that occur nowhere else. */
const SIGNATURE_LENGTH = 16
const MOST_REMEMBERED = 1000

export type Encoding = 'as it is' | 'base64' | 'hex'

export interface Form {
  readonly encoding: Encoding
  readonly window: (typeof WINDOWS)[number]
  readonly hash: number
  readonly length: number
  readonly digest: Buffer
}

export interface Fingerprint {
  /** Names the text in logs of this process, and says nothing about it. */
  readonly name: string
  readonly forms: readonly Form[]
}

/** Odd, so that it has an inverse and no byte is lost. */
export const BASE = randomInt(2 ** 29, 2 ** 30) * 2 + 1
const key = randomBytes(32)

/** A byte that is not there, for the search: lines of base64 and of headers are folded. */
export const SKIPPED = -1
/**
 * Bytes that mean the same: base64 and base64url are one alphabet here, and so are `+` and a space. Anything that folds
 * is folded in credentials and in what is searched.
 */
export const FOLD: Int16Array = Int16Array.from({ length: 256 }, (_, byte) => {
  if (byte === 0x0d || byte === 0x0a) return SKIPPED
  if (byte === 0x2d || byte === 0x20) return 0x2b
  return byte === 0x5f ? 0x2f : byte
})

export function keyedDigest(bytes: Uint8Array): Buffer {
  return createHmac('sha256', key).update(bytes).digest()
}

const remembered = new LRUCache<string, Fingerprint>({ max: MOST_REMEMBERED })

/** `undefined` for a text that is too short. One that came before costs one digest. */
export function fingerprint(text: string): Fingerprint | undefined {
  if (text.length < SHORTEST) return undefined
  const bytes = Buffer.from(text)
  const id = keyedDigest(bytes)
  const known = remembered.get(id.toString('latin1'))
  if (known !== undefined) return known
  const signature = signatureOf(text)
  const secret = signature === undefined ? bytes : Buffer.from(signature)
  const most = signature === undefined ? Number.POSITIVE_INFINITY : SIGNATURE_LENGTH
  const forms = [
    form('as it is', secret, most),
    ...[0, 1, 2].map((before) => form('base64', encoded(secret, before), most)),
    form('hex', Buffer.from(secret.toString('hex')), most),
    form('hex', Buffer.from(secret.toString('hex').toUpperCase()), most),
  ]
  const made: Fingerprint = Object.freeze({ name: id.toString('hex', 0, 5), forms: Object.freeze(forms) })
  remembered.set(id.toString('latin1'), made)
  return made
}

/** The last of three parts: who has it has the token, and who has the other two has nothing. RFC 7515 §7.1. */
function signatureOf(text: string): string | undefined {
  const signature = /^[\w-]+\.[\w-]*\.([\w-]{22,})$/.exec(text)?.[1]
  return signature
}

/** The characters of base64 that stand for `bytes` and for nothing else, with this many bytes in front of them. */
function encoded(bytes: Buffer, before: number): Buffer {
  const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
  return Buffer.from(text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6)))
}

function form(encoding: Encoding, text: Buffer, most: number): Form {
  const folded = Uint8Array.from([...text].map((byte) => FOLD[byte] as number).filter((byte) => byte !== SKIPPED))
  const bytes = folded.subarray(0, most)
  const window = WINDOWS.find((size) => size <= bytes.length) ?? SHORTEST
  let hash = 0
  for (const byte of bytes.subarray(0, window)) hash = (Math.imul(hash, BASE) + byte) | 0
  return Object.freeze({ encoding, window, hash, length: bytes.length, digest: keyedDigest(bytes) })
}
