/** `--at`: unix seconds or RFC 3339, as a clock. */
import { parseRfc3339 } from '../internal/rfc3339.ts'
import type { Clock } from '../types.ts'

/** Throws `TypeError` for anything else, naming the option. */
export function clockAt(text: string | undefined): Clock {
  if (text === undefined) return Date.now
  const ms = /^\d{1,12}$/.test(text) ? Number(text) * 1000 : parseRfc3339(text)
  if (ms === undefined) throw new TypeError('"--at" must be unix seconds or an RFC 3339 time')
  return () => ms
}
