/** Options of `verifyCard`, checked. */
import { assertKnownOptions } from '../internal/options.ts'
import { parseRfc3339 } from '../internal/rfc3339.ts'
import { coverageOf, DEFAULT_PROFILES, PROFILES, type Profile } from './profiles.ts'

export interface VerifyOptions {
  /** Profiles to try, in this order. Default: those of full coverage, then the four projecting ones that are common. */
  readonly profiles?: readonly Profile[]
  /** Only profiles of full coverage. Default false. */
  readonly strict?: boolean
  /** `reject`: a card with anything uncovered is refused. Default `report`. */
  readonly onUncovered?: 'report' | 'reject'
  /** Time to judge keys by: unix seconds, `Date` or RFC 3339. Default: now. */
  readonly at?: number | Date | string
}

const OPTIONS = ['profiles', 'strict', 'onUncovered', 'at'] satisfies (keyof VerifyOptions)[]

/** Throws `TypeError` quoting the option. */
export function verifySettings(options: VerifyOptions): {
  readonly profiles: readonly Profile[]
  readonly nowMs: number
  readonly rejectUncovered: boolean
} {
  assertKnownOptions('verifyCard', options, OPTIONS)
  const { profiles = DEFAULT_PROFILES, strict = false, onUncovered = 'report', at = Date.now() / 1000 } = options
  if (
    !Array.isArray(profiles) ||
    profiles.length === 0 ||
    profiles.some((profile) => !PROFILES.includes(profile as Profile))
  ) {
    throw new TypeError(`"profiles" must be a list of ${PROFILES.join(', ')}`)
  }
  if (typeof strict !== 'boolean') throw new TypeError('"strict" must be true or false')
  if (onUncovered !== 'report' && onUncovered !== 'reject')
    throw new TypeError('"onUncovered" must be report or reject')
  const nowMs = typeof at === 'number' ? at * 1000 : at instanceof Date ? at.getTime() : parseRfc3339(at)
  if (nowMs === undefined || !Number.isFinite(nowMs))
    throw new TypeError('"at" must be unix seconds, a Date or an RFC 3339 time')
  const chosen = strict
    ? (profiles as Profile[]).filter((profile) => coverageOf(profile) === 'full')
    : [...(profiles as Profile[])]
  return { profiles: chosen, nowMs, rejectUncovered: onUncovered === 'reject' }
}
