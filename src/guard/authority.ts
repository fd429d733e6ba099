/**
 * What an allowed caller's authority could flow on with. Kept apart from the decision, so that no handler, log or event
 * can come across a token: it is reached by the principal object alone, and only from within this package.
 */
import { isFor } from '../policy/delegate.ts'
import { type Parts, principalId } from '../policy/principal.ts'
import { isTokenScheme } from '../policy/token-schemes.ts'
import { readAccessToken } from '../schemes/access-token.ts'
import type { CredentialSource } from '../schemes/scheme.ts'
import type { AllowedDecision, Operation, Principal, PrincipalPart } from '../types.ts'
import type { Loaded } from './load.ts'

export interface Authority {
  readonly principal: Principal
  readonly parts: Parts
  readonly operation: Operation
  /** Skills that the credentials satisfy. */
  readonly skills: readonly string[]
  /** What the guard enforces now: a rule that a reload has removed gives nothing. Throws `ERR_GUARD_CLOSED`. */
  inForce(): Loaded
  /** The credential that names the principal, where it is an access token. */
  readonly subject?: PrincipalPart
  /** Its text. Absent unless a rule of the policy might have it exchanged. A function, so that nothing prints it. */
  readonly subjectToken?: () => string
}

const held = new WeakMap<Principal, Authority>()

/** Only an object that the guard itself has made leads to anything: a copy of a principal has no authority. */
export function authorityOf(principal: Principal): Authority | undefined {
  return held.get(principal)
}

export function holdAuthority(request: {
  readonly loaded: Loaded
  readonly inForce: () => Loaded
  readonly source: CredentialSource
  readonly parts: Parts
  readonly decision: AllowedDecision
}): void {
  const { loaded, inForce, source, parts, decision } = request
  const { principal, operation } = decision
  const { policy } = loaded
  if (principal === undefined || policy.delegation.length === 0) return
  const skills = decision.skills.allowed
  const subject = [...parts.values()].find((part) => {
    const config = policy.schemes.get(part.scheme)
    return config !== undefined && isTokenScheme(config) && principalId(part) === principal.id
  })
  const exchangeable =
    subject !== undefined &&
    policy.delegation.some((rule) => rule.obtain === 'exchange' && isFor(rule, { parts, subject, operation, skills }))
  const token = exchangeable ? tokenIn(source) : undefined
  held.set(principal, {
    principal,
    parts,
    operation,
    skills,
    inForce,
    ...(subject === undefined ? {} : { subject }),
    ...(token === undefined ? {} : { subjectToken: () => token }),
  })
}

function tokenIn(source: CredentialSource): string | undefined {
  const presented = readAccessToken(source.headers, Number.MAX_SAFE_INTEGER)
  return presented.kind === 'token' ? presented.token : undefined
}
