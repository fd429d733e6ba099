/** Strict base64 (RFC 4648 §4, padded): exactly one text for each byte string. */
export function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}
