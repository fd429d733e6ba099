/** Strict base64url (RFC 4648 §5, no padding): exactly one text for each byte string. */

const TEXT = /^[A-Za-z0-9_-]*$/

/** Decodes, or returns `undefined` for anything that is not the one canonical text of some bytes. */
export function decodeBase64url(text: string): Buffer | undefined {
  if (text.length % 4 === 1 || !TEXT.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64url')
  // Unused trailing bits must be zero, or two texts would carry the same bytes.
  return bytes.toString('base64url') === text ? bytes : undefined
}

export function encodeBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
