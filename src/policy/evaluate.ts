/**
 * The decision: requirements (OR of AND) of agent and skill, then access rules. Pure and deterministic: the same
 * policy, satisfied schemes and operation always give the same verdict, in card order.
 */
import type { ErrorCode } from '../errors.ts'
import type { Requirement } from '../protocol/card-model.ts'
import type { Operation, PrincipalPart } from '../types.ts'
import { actorNames } from './actors.ts'
import type { CompiledPolicy } from './compiled.ts'
import type { AccessRule, ChainMatch, PrincipalMatch } from './compiled-rules.ts'
import { type Parts, principalId } from './principal.ts'

/** Why one alternative of a requirement list is not met: every scheme in it that falls short, in card order. */
export interface Shortfall {
  readonly requirement: Requirement
  readonly missing: readonly {
    readonly scheme: string
    /** What the requirement lists, for the challenge. */
    readonly scopes: readonly string[]
    /** `undefined`: the scheme was not satisfied. Else the scopes its credential lacks. */
    readonly lacking: readonly string[] | undefined
  }[]
}

export type Verdict =
  | { readonly allowed: true; readonly skills: readonly string[]; readonly rule?: number }
  | {
      readonly allowed: false
      /** Whether a better credential (`unauthenticated`) or more authority (`forbidden`) is what is needed. */
      readonly because: 'unauthenticated' | 'forbidden'
      readonly code: ErrorCode
      readonly shortfalls: readonly Shortfall[]
      readonly rule?: number
    }

const NO_SHORTFALLS: readonly Shortfall[] = Object.freeze([])

/** `undefined` when some alternative is met, else why each is not. An empty list is met by nobody. */
export function shortfallsOf(list: readonly Requirement[], parts: Parts): readonly Shortfall[] | undefined {
  const shortfalls: Shortfall[] = []
  for (const requirement of list) {
    const missing = []
    for (const { name, scopes } of requirement.schemes) {
      const part = parts.get(name)
      const lacking = part === undefined ? undefined : scopes.filter((scope) => !part.scopes.has(scope))
      if (lacking === undefined || lacking.length > 0) missing.push({ scheme: name, scopes, lacking })
    }
    if (missing.length === 0) return undefined
    shortfalls.push({ requirement, missing })
  }
  return shortfalls
}

/** The agent's own list; a card that requires nothing is open only where the policy says `anonymous: true`. */
function agentList(policy: CompiledPolicy): readonly Requirement[] {
  return policy.card.requirements.length === 0 && policy.anonymous ? OPEN : policy.card.requirements
}
const OPEN: readonly Requirement[] = Object.freeze([{ schemes: [] }])

/**
 * Whether no operation and no skill can be allowed with these credentials, so that the request may be refused before
 * its body is read.
 */
export function refusedAtTheDoor(policy: CompiledPolicy, parts: Parts): Verdict | undefined {
  const agent = shortfallsOf(agentList(policy), parts)
  if (agent === undefined) return undefined
  if (policy.skills.combine === 'override') {
    for (const { requirements } of policy.card.skills.values()) {
      if (requirements !== undefined && shortfallsOf(requirements, parts) === undefined) return undefined
    }
  }
  return unmet(agent)
}

/** The verdict on an identified operation. */
export function evaluate(policy: CompiledPolicy, parts: Parts, operation: Operation): Verdict {
  const declared = operation.declaredSkill
  const skill = declared === undefined ? undefined : policy.card.skills.get(declared)
  const agent = shortfallsOf(agentList(policy), parts)
  // Only what runs a skill may trade the agent's list for the skill's: elsewhere a name would be all that it takes.
  const replaced = policy.skills.combine === 'override' && runsASkill(operation) && skill?.requirements !== undefined
  if (agent !== undefined && !replaced) return unmet(agent)

  if (operation.tenant !== undefined && !mayNameTenant(policy, parts, operation, operation.tenant))
    return forbidden('ERR_TENANT_FORBIDDEN')
  if (declared !== undefined && skill === undefined) return forbidden('ERR_SKILL_UNKNOWN')
  if (skill?.requirements !== undefined) {
    const shortfalls = shortfallsOf(skill.requirements, parts)
    // The agent's own bar is met, so the caller is known: what is missing is authority for this skill (RFC 6750 §3.1).
    if (shortfalls !== undefined && skill.hidden === true) return forbidden('ERR_SKILL_FORBIDDEN')
    if (shortfalls !== undefined) {
      return replaced && parts.size === 0
        ? unmet(shortfalls)
        : forbidden(lacksOnlyScopes(shortfalls) ? 'ERR_SCOPE_INSUFFICIENT' : 'ERR_SKILL_FORBIDDEN', shortfalls)
    }
  }
  if (declared === undefined && runsASkill(operation) && policy.skills.undeclared === 'deny') {
    return forbidden('ERR_SKILL_UNDECLARED')
  }

  const skills = skillsFor(policy, parts, operation)
  const access = ruleOn(policy, parts, operation, declared, skills)
  if (!access.allowed) return { ...forbidden('ERR_ACCESS_DENIED'), ...ruleMember(access.rule) }
  return { allowed: true, skills, ...ruleMember(access.rule) }
}

/** Ids of the skills these credentials may run by `operation`, in card order. */
function skillsFor(policy: CompiledPolicy, parts: Parts, operation: Operation): string[] {
  const skills: string[] = []
  for (const [id, { requirements }] of policy.card.skills) {
    const bar = policy.skills.combine === 'override' ? (requirements ?? agentList(policy)) : requirements
    if (bar !== undefined && shortfallsOf(bar, parts) !== undefined) continue
    if (ruleOn(policy, parts, operation, id).allowed) skills.push(id)
  }
  return skills
}

/** Ids of the skills these credentials could run by a message, in card order. */
export function usableSkills(policy: CompiledPolicy, parts: Parts, operation: Operation): string[] {
  const sent = skillsFor(policy, parts, { ...operation, name: 'SendMessage' })
  const streamed = new Set(skillsFor(policy, parts, { ...operation, name: 'SendStreamingMessage' }))
  return [...policy.card.skills.keys()].filter((id) => sent.includes(id) || streamed.has(id))
}

/**
 * A tenant is a routing value until some scheme of the policy speaks of tenants; from then on every credential must speak
 * for the one that is named (A46).
 */
function mayNameTenant(policy: CompiledPolicy, parts: Parts, { binding }: Operation, tenant: string): boolean {
  // A2A §4.4.6: where each interface of the binding names its tenant, clients send one of those.
  const offered = policy.card.interfaces.filter((one) => one.binding === binding).map((one) => one.tenant)
  if (offered.length > 0 && offered.every((one) => one !== undefined) && !offered.includes(tenant)) return false
  return !policy.speaksOfTenants || (parts.size > 0 && [...parts.values()].every((part) => part.tenant === tenant))
}

/** Only these start work; the others look at work already begun. */
export function runsASkill(operation: Operation): boolean {
  return operation.name === 'SendMessage' || operation.name === 'SendStreamingMessage'
}

function unmet(shortfalls: readonly Shortfall[]): Verdict {
  if (lacksOnlyScopes(shortfalls)) return forbidden('ERR_SCOPE_INSUFFICIENT', shortfalls)
  const incomplete = shortfalls.some(({ requirement, missing }) => missing.length < requirement.schemes.length)
  return {
    allowed: false,
    because: 'unauthenticated',
    code: incomplete ? 'ERR_CREDENTIAL_INCOMPLETE' : 'ERR_CREDENTIAL_MISSING',
    shortfalls,
  }
}

/** Some alternative has every credential it asks for and lacks nothing but scopes. */
function lacksOnlyScopes(shortfalls: readonly Shortfall[]): boolean {
  return shortfalls.some(({ missing }) => missing.every(({ lacking }) => lacking !== undefined))
}

function forbidden(code: ErrorCode, shortfalls: readonly Shortfall[] = NO_SHORTFALLS) {
  return { allowed: false, because: 'forbidden', code, shortfalls } as const
}

function ruleMember(rule: number | undefined): { rule?: number } {
  return rule === undefined ? {} : { rule }
}

/**
 * Access rules on one skill, or on the request as a whole (`skill` undefined). For the whole request a rule limited to
 * skills denies nothing, and allows if it leaves a skill that is allowed (`remaining`).
 */
function ruleOn(
  policy: CompiledPolicy,
  parts: Parts,
  operation: Operation,
  skill: string | undefined,
  remaining: readonly string[] = [],
): { allowed: boolean; rule?: number } {
  if (policy.access === undefined) return { allowed: true }
  let granted: number | undefined
  for (const rule of policy.access) {
    if (!appliesTo(rule, operation, skill, remaining) || !matchesCaller(rule, parts)) continue
    if (rule.effect === 'deny') return { allowed: false, rule: rule.index }
    granted ??= rule.index
  }
  // Deny rules alone leave open what they do not name; one allow rule closes the rest.
  if (granted !== undefined) return { allowed: true, rule: granted }
  return { allowed: policy.access.every(({ effect }) => effect === 'deny') }
}

function appliesTo(rule: AccessRule, operation: Operation, skill: string | undefined, remaining: readonly string[]) {
  if (rule.operations !== undefined && !rule.operations.has(operation.name)) return false
  const { skills } = rule
  if (skills === undefined) return true
  if (skill !== undefined) return skills.has(skill)
  return rule.effect === 'allow' && remaining.some((id) => skills.has(id))
}

/** One credential must match every member, so that one issuer's scopes never speak for another's subject. */
function matchesCaller(rule: AccessRule, parts: Parts): boolean {
  const match = rule.principals
  if (match === undefined) return true
  for (const part of parts.values()) if (matchesPart(match, part)) return true
  return false
}

/** Whether one credential is that of a caller the rule is about. */
export function matchesPart(match: PrincipalMatch, part: PrincipalPart): boolean {
  const one = (list: readonly string[] | undefined, value: string | undefined) =>
    list === undefined || (value !== undefined && list.includes(value))
  return (
    one(match.ids, principalId(part)) &&
    one(match.issuers, part.issuer) &&
    one(match.subjects, part.subject) &&
    one(match.clientIds, part.clientId) &&
    one(match.tenants, part.tenant) &&
    (match.actors === undefined || one(match.actors, actorNames(part)[0])) &&
    (match.chain === undefined || matchesChain(match.chain, actorNames(part))) &&
    one(match.schemes, part.scheme) &&
    (match.scopes === undefined || match.scopes.every((scope) => part.scopes.has(scope)))
  )
}

function matchesChain({ atLeast, atMost, among, through }: ChainMatch, names: readonly string[]): boolean {
  return (
    names.length >= atLeast &&
    names.length <= atMost &&
    (among === undefined || names.every((name) => among.includes(name))) &&
    (through === undefined || names.some((name) => through.includes(name)))
  )
}
