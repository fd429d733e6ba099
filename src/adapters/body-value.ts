/** A body as adapters hand it to the guard, and, once allowed, to the handler. */
import { parseStrictJson } from '../internal/json.ts'

/** The JSON value, or the bytes themselves where they are none: the guard says what is wrong with them. */
export function bodyValue<Bytes extends Uint8Array>(bytes: Bytes | undefined): unknown {
  if (bytes === undefined) return undefined
  try {
    const value = parseStrictJson(bytes)
    // The guard takes a string for JSON text; one that came as JSON is no operation, and must not be read a second time.
    return typeof value === 'string' ? bytes : value
  } catch {
    return bytes
  }
}
