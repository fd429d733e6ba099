/** Which rule says how a caller's authority flows on. Pure: no token is looked at here. */
import type { Operation, PrincipalPart } from '../types.ts'
import type { DelegationRule } from './compiled.ts'
import { matchesPart } from './evaluate.ts'
import type { Parts } from './principal.ts'

/** On whose behalf, and while doing what. */
export interface Delegator {
  readonly parts: Parts
  /** The credential that names the caller, if it is a token that could be exchanged. */
  readonly subject: PrincipalPart | undefined
  readonly operation: Operation
  /** Skills that may be running: one, where it is known which. */
  readonly skills: readonly string[]
}

/** Whether the rule is about this caller and request, wherever it goes. */
export function isFor(rule: DelegationRule, { parts, subject, operation, skills }: Delegator): boolean {
  const { operations, skills: named, principals } = rule.match
  if (operations !== undefined && !operations.has(operation.name)) return false
  if (named !== undefined && !skills.some((skill) => named.has(skill))) return false
  // What is exchanged has to be what the rule speaks of: another credential of the caller does not answer for it.
  const credentials = rule.obtain === 'exchange' ? (subject === undefined ? [] : [subject]) : [...parts.values()]
  return credentials.some((part) => principals === undefined || matchesPart(principals, part))
}

/** Spellings of a path that a server may read as another one. */
const AMBIGUOUS = /%(?:2e|2f|5c)|\/\//i

/** Whether `url` is under `prefix`, segment by segment. Both as `URL` writes them. */
export function isUnder(url: URL, prefix: string): boolean {
  const { origin, pathname } = new URL(prefix)
  if (url.origin !== origin || url.username !== '' || url.password !== '') return false
  if (pathname === '/') return true
  const path = pathname.replace(/\/$/, '')
  return (url.pathname === path || url.pathname.startsWith(`${path}/`)) && !AMBIGUOUS.test(url.pathname)
}

/** The first rule that fits; `undefined`: nothing flows. */
export function ruleFor(rules: readonly DelegationRule[], delegator: Delegator, url: URL): DelegationRule | undefined {
  return rules.find((rule) => isUnder(url, rule.to) && isFor(rule, delegator))
}
