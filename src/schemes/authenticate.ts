/** Runs every declared scheme over one request's headers. */
import type { ErrorCode } from '../errors.ts'
import type { PrincipalPart } from '../types.ts'
import type { CredentialSource, Outcome, ResponseHeaders, Scheme } from './scheme.ts'

/** What the headers of a request prove. */
export interface Credentials {
  /** Per scheme, in card order. */
  readonly outcomes: ReadonlyMap<Scheme, Outcome>
  /** The satisfied ones by name. */
  readonly parts: ReadonlyMap<string, PrincipalPart>
  /**
   * A presented credential that settles the answer whatever else is met: *bad* never means anonymous, and never means
   * "the other key will do".
   */
  readonly refusal?: Refusal
  /** What the response carries besides. */
  readonly headers?: ResponseHeaders
}

export interface Refusal {
  readonly kind: 'invalid' | 'malformed' | 'unavailable'
  readonly code: ErrorCode
  readonly retryAfterSeconds?: number
}

/** Why a credential that its scheme found good does not hold after all; `undefined` when it does. */
export type RevocationCheck = (part: PrincipalPart) => Exclude<Outcome, { kind: 'satisfied' | 'absent' }> | undefined

/**
 * All schemes are asked, always, so that the result does not depend on which is listed first. What they find good is
 * then asked of `revoked`. The promise appears only when a scheme had to wait.
 */
export function authenticateAll(
  schemes: readonly Scheme[],
  source: CredentialSource,
  revoked: RevocationCheck,
): Credentials | Promise<Credentials> {
  const results = schemes.map((scheme) => scheme.authenticate(source))
  return results.some((result) => result instanceof Promise)
    ? Promise.all(results).then((outcomes) => combine(schemes, outcomes, revoked))
    : combine(schemes, results as Outcome[], revoked)
}

function combine(schemes: readonly Scheme[], results: readonly Outcome[], revoked: RevocationCheck): Credentials {
  const outcomes = new Map<Scheme, Outcome>()
  const parts = new Map<string, PrincipalPart>()
  const heldAt = new Set<string>()
  let headers: ResponseHeaders | undefined
  let withdrawn: Refusal | undefined
  schemes.forEach((scheme, index) => {
    const outcome = results[index] as Outcome
    const refused = outcome.kind === 'satisfied' ? revoked(outcome.part) : undefined
    outcomes.set(scheme, refused ?? outcome)
    withdrawn ??= refused
    if ('headers' in outcome && outcome.headers !== undefined) headers = { ...headers, ...outcome.headers }
    if (outcome.kind !== 'satisfied' || refused !== undefined) return
    parts.set(scheme.name, outcome.part)
    heldAt.add(scheme.location)
  })
  // That another scheme takes the same credential does not excuse it: one of its names is revoked.
  const refusal = weightier(withdrawn, refusalOf(outcomes, heldAt))
  return {
    outcomes,
    parts,
    ...(refusal === undefined ? {} : { refusal }),
    ...(headers === undefined ? {} : { headers: Object.freeze(headers) }),
  }
}

/** Malformed before unavailable before invalid; a place that holds a good credential for one scheme is not bad for another. */
function refusalOf(outcomes: ReadonlyMap<Scheme, Outcome>, heldAt: ReadonlySet<string>): Refusal | undefined {
  let found: Refusal | undefined
  let place: string | undefined
  for (const [scheme, outcome] of outcomes) {
    if (outcome.kind === 'satisfied' || outcome.kind === 'absent') continue
    if (outcome.kind !== 'malformed' && heldAt.has(scheme.location)) continue
    const more = found !== undefined && scheme.location === place && moreTelling(outcome, found)
    if (found !== undefined && WEIGHT[outcome.kind] <= WEIGHT[found.kind] && !more) continue
    found = outcome
    place = scheme.location
  }
  return found
}

function weightier(a: Refusal | undefined, b: Refusal | undefined): Refusal | undefined {
  return a !== undefined && b !== undefined && WEIGHT[b.kind] > WEIGHT[a.kind] ? b : (a ?? b)
}

const WEIGHT = { invalid: 0, unavailable: 1, malformed: 2 } as const

/** Of two schemes reading one token, the one that knows it says more than the one that does not. */
function moreTelling(outcome: Refusal, found: Refusal): boolean {
  return outcome.kind === found.kind && knowledge(outcome.code) > knowledge(found.code)
}

/** A token of somebody else's, or of another format, is none of the scheme's; one that lacks a scope is good. */
const NOT_MINE: ReadonlySet<ErrorCode> = new Set(['ERR_TOKEN_ISSUER', 'ERR_TOKEN_MALFORMED'])

function knowledge(code: ErrorCode): number {
  return NOT_MINE.has(code) ? 0 : code === 'ERR_SCOPE_INSUFFICIENT' ? 2 : 1
}
