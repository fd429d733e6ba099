/** Strict base64url (RFC 4648 §5, no padding): exactly one text for each byte string. */

const TEXT = /^[A-Za-z0-9_-]*$/

/**
 * By how many characters the last group has: the ones whose unused trailing bits are zero. Any other last character
 * would be a second text for the same bytes.
 */
const LAST_CHARACTERS = ['', undefined, 'AQgw', 'AEIMQUYcgkosw048'] as const

/** Decodes, or returns `undefined` for anything that is not the one canonical text of some bytes. */
export function decodeBase64url(text: string): Buffer | undefined {
  const last = LAST_CHARACTERS[text.length % 4]
  if (last === undefined || !TEXT.test(text)) return undefined
  if (last !== '' && !last.includes(text.charAt(text.length - 1))) return undefined
  return Buffer.from(text, 'base64url')
}

export function encodeBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
