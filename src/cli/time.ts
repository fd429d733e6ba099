/** `--at`: unix seconds or RFC 3339, as a clock. */
import type { Clock } from '../types.ts'

const RFC3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/

/** Throws `TypeError` for anything else, naming the option. */
export function clockAt(text: string | undefined): Clock {
  if (text === undefined) return Date.now
  const ms = /^\d{1,12}$/.test(text) ? Number(text) * 1000 : RFC3339.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(ms)) throw new TypeError('"--at" must be unix seconds or an RFC 3339 time')
  return () => ms
}
