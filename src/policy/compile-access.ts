/** Access rules: names checked against card and policy, lists turned into sets. */
import { didYouMean } from '../internal/suggest.ts'
import { step } from '../protocol/card-reader.ts'
import type { OperationName } from '../types.ts'
import type { LoadedCard, Sections } from './compare-card.ts'
import type { AccessRule, ChainMatch, PrincipalMatch, RequestMatch } from './compiled-rules.ts'
import type { Report } from './report.ts'
import type { AccessMatch } from './schema-match.ts'
import { quote } from './source.ts'

export interface KnownNames {
  readonly skills: ReadonlySet<string>
  readonly schemes: ReadonlySet<string>
  readonly issuers: ReadonlySet<string>
}

/** Compiles the rules. A rule with a name that nothing bears is reported: a misspelt deny would deny nobody. */
export function compileAccess(
  access: NonNullable<Sections['access']>,
  known: KnownNames,
  report: Report,
): AccessRule[] {
  return access.map((rule, index) => {
    const effect = rule.deny === undefined ? 'allow' : 'deny'
    const match = (rule.allow ?? rule.deny)!
    return { effect, index, ...compileMatch(match, `/access${step(index)}/${effect}`, known, report) }
  })
}

/** What a rule is about, and whether everything it names is there. */
export function compileMatch(match: AccessMatch, at: string, known: KnownNames, report: Report): RequestMatch {
  checkNames(match, at, known, report)
  const operations = restriction(match.operations)
  const skills = restriction(match.skills)
  const principals = compilePrincipals(match.principals)
  return {
    ...(operations === undefined ? {} : { operations: new Set(operations as OperationName[]) }),
    ...(skills === undefined ? {} : { skills: new Set(skills) }),
    ...(principals === undefined ? {} : { principals }),
  }
}

/** Ids of every skill a rule may name: those of the public and of the extended card. */
export function skillIds(...cards: (LoadedCard | undefined)[]): Set<string> {
  return new Set(cards.flatMap((card) => [...(card?.model.skills.keys() ?? [])]))
}

function checkNames(match: AccessMatch, at: string, known: KnownNames, report: Report): void {
  match.skills?.forEach((skill, i) => {
    if (skill === '*' || known.skills.has(skill)) return
    const hint = didYouMean(skill, known.skills)
    report.error('ERR_POLICY_SKILL_UNKNOWN', `${at}/skills${step(i)}`, `the card has no skill ${quote(skill)}${hint}`)
  })
  const { scheme, issuer } = match.principals ?? {}
  for (const [value, place] of entriesOf(scheme, `${at}/principals/scheme`)) {
    if (known.schemes.has(value)) continue
    const hint = didYouMean(value, known.schemes)
    report.error('ERR_POLICY_VALUE', place, `the card has no scheme ${quote(value)}${hint}`)
  }
  for (const [value, place] of entriesOf(issuer, `${at}/principals/issuer`)) {
    if (!/^https?:/.test(value) || known.issuers.has(value)) continue
    const near = [...known.issuers].find((other) => other.replace(/\/$/, '') === value.replace(/\/$/, ''))
    const hint = near === undefined ? '' : `; did you mean ${quote(near)}? Issuers are compared byte by byte`
    report.warning(
      'ERR_POLICY_WEAK',
      place,
      `no scheme accepts tokens of this issuer, so the rule never applies${hint}`,
    )
  }
}

/** Value and place of each entry of a text or list. */
function entriesOf(value: string | string[] | undefined, at: string): [string, string][] {
  if (value === undefined) return []
  return typeof value === 'string' ? [[value, at]] : value.map((entry, i) => [entry, at + step(i)])
}

function restriction(names: readonly string[] | undefined): readonly string[] | undefined {
  return names === undefined || names.includes('*') ? undefined : names
}

function compilePrincipals(match: AccessMatch['principals']): PrincipalMatch | undefined {
  if (match === undefined) return undefined
  return {
    ...(match.id === undefined ? {} : { ids: list(match.id) }),
    ...(match.issuer === undefined ? {} : { issuers: list(match.issuer) }),
    ...(match.subject === undefined ? {} : { subjects: list(match.subject) }),
    ...(match.clientId === undefined ? {} : { clientIds: list(match.clientId) }),
    ...(match.tenant === undefined ? {} : { tenants: list(match.tenant) }),
    ...(match.actor === undefined ? {} : { actors: list(match.actor) }),
    ...(match.actors === undefined ? {} : { chain: compileChain(match.actors) }),
    ...(match.scheme === undefined ? {} : { schemes: list(match.scheme) }),
    ...(match.scopes === undefined ? {} : { scopes: match.scopes }),
  }
}

function compileChain({ atLeast = 0, atMost = 8, among, through }: NonNullable<Principals['actors']>): ChainMatch {
  return {
    atLeast,
    atMost,
    ...(among === undefined ? {} : { among: list(among) }),
    ...(through === undefined ? {} : { through: list(through) }),
  }
}

type Principals = NonNullable<AccessMatch['principals']>
const list = (value: string | string[]): string[] => (typeof value === 'string' ? [value] : value)
