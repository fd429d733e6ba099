/** Times on the command line: unix seconds or RFC 3339. */
import { parseRfc3339 } from '../internal/rfc3339.ts'
import type { Clock } from '../types.ts'

/** `--at` as a clock; without it that of the machine. Throws `TypeError` for anything that is no time. */
export function clockAt(text: string | undefined): Clock {
  const ms = millisecondsOf('--at', text)
  return ms === undefined ? Date.now : () => ms
}

/** Whole unix seconds; `undefined` when the option is not there. Throws `TypeError` naming the option. */
export function secondsOf(option: string, text: string | undefined): number | undefined {
  const ms = millisecondsOf(option, text)
  return ms === undefined ? undefined : Math.floor(ms / 1000)
}

function millisecondsOf(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const ms = /^\d{1,12}$/.test(text) ? Number(text) * 1000 : parseRfc3339(text)
  if (ms === undefined) throw new TypeError(`"${option}" must be unix seconds or an RFC 3339 time`)
  return ms
}
