/**
 * Card against policy: what the card promises must be what the policy enforces, neither more nor less. Each difference
 * is an error at start, because at run time it would be a hole or an unexplained refusal.
 */
import { didYouMean, nearest } from '../internal/suggest.ts'
import type { CardModel, CardScheme, Requirement } from '../protocol/card-model.ts'
import { step } from '../protocol/card-reader.ts'
import { interfacePlace, requirementPlace, requirementsPlace, schemePlace } from './card-places.ts'
import type { Report } from './report.ts'
import type { PolicyFile } from './schema.ts'
import { quote } from './source.ts'

export interface LoadedCard {
  readonly model: CardModel
  readonly json: Readonly<Record<string, unknown>>
  readonly report: Report
}

/** The sections of the policy file that are valid; a broken one is absent and has been reported. */
export type Sections = Partial<PolicyFile>

export interface Comparison {
  readonly card: LoadedCard
  readonly extended?: LoadedCard
  readonly sections: Sections
  /** Keys of `schemes`, whether or not their settings are valid; `undefined` when `schemes` cannot be read. */
  readonly configured: ReadonlySet<string> | undefined
  readonly policy: Report
}

/** Reports every difference between cards and policy. */
export function compareWithCard(comparison: Comparison): void {
  const { card, extended, sections } = comparison
  compareSchemes(comparison)
  for (const loaded of extended === undefined ? [card] : [card, extended]) {
    checkRequirements(loaded)
    checkInterfaces(loaded, sections.publicUrl)
  }
  checkAnonymous(comparison)
  checkExtended(comparison)
}

function compareSchemes({ card, extended, configured, policy }: Comparison): void {
  if (configured === undefined) return
  const declared = new Map([...(extended?.model.schemes ?? []), ...card.model.schemes])
  const missing = new Set([...declared.keys()].filter((name) => !configured.has(name)))
  for (const name of configured) {
    if (declared.has(name)) continue
    // A misspelt name is one mistake, not one hidden and one missing scheme.
    const meant = nearest(name, [...missing])
    if (meant !== undefined) missing.delete(meant)
    const hint =
      meant === undefined ? ': callers cannot know of it; add it to securitySchemes' : `; did you mean "${meant}"?`
    const message = `the card declares no scheme ${quote(name)}${hint}`
    policy.error('ERR_POLICY_SCHEME_HIDDEN', `/schemes${step(name)}`, message, 'key')
  }
  for (const name of missing) {
    const scheme = declared.get(name)!
    if (scheme.kind !== 'unknown') {
      const message = `the card declares the ${scheme.kind} scheme ${quote(name)}, which has no settings here: add them, or remove it from the card`
      policy.error('ERR_POLICY_SCHEME_UNCONFIGURED', '/schemes', message, 'key')
    } else if (scheme.member !== '') {
      const { report } = card.model.schemes.has(name) ? card : extended!
      const message = `${quote(name)} is of a kind this version does not know (${quote(scheme.member)}): remove it from the card`
      report.error('ERR_POLICY_UNSUPPORTED', schemePlace(name), message, 'key')
    }
  }
}

/** Every list of requirements of a card, with its place. */
export function requirementLists({ model }: LoadedCard) {
  const skills = [...model.skills.values()].map(({ id, requirements }, index) => ({
    owner: `the skill ${quote(id)}`,
    list: requirements ?? [],
    place: requirementsPlace(model, index),
  }))
  return [{ owner: 'the agent', list: model.requirements, place: requirementsPlace(model) }, ...skills]
}

function checkRequirements(loaded: LoadedCard): void {
  const { model, report } = loaded
  for (const { owner, list, place } of requirementLists(loaded)) {
    list.forEach((requirement, index) => {
      const kinds = new Set(requirement.schemes.flatMap(({ name }) => authorizationKind(model.schemes.get(name)) ?? []))
      if (kinds.size > 1) {
        const message = `${owner} requires ${[...kinds].join(' and ')} together, and a request has one Authorization header: make them alternatives`
        report.error('ERR_POLICY_REQUIREMENT_UNSATISFIABLE', requirementPlace(model, place, index), message)
      }
      for (const { name, scopes } of requirement.schemes) {
        const at = requirementPlace(model, place, index, name)
        const scheme = model.schemes.get(name)
        // An undeclared name, and whatever could not be read, `parseCard` has reported.
        if (scheme?.kind === 'unknown' && scheme.member !== '') {
          const message = `${owner} requires ${quote(name)}, a scheme of a kind that nobody here can check (${quote(scheme.member)})`
          report.error('ERR_POLICY_REQUIREMENT_UNSATISFIABLE', at, message, 'key')
        } else if (scheme?.kind === 'oauth2') {
          for (const scope of scopes.filter((wanted) => scheme.scopes.length > 0 && !scheme.scopes.includes(wanted))) {
            const hint = didYouMean(scope, scheme.scopes)
            const message = `${owner} requires the scope ${quote(scope)}, which no flow of ${quote(name)} offers${hint}`
            report.warning('ERR_POLICY_REQUIREMENT_UNSATISFIABLE', at, message, 'key')
          }
        }
      }
    })
  }
}

/** What a scheme reads in `Authorization`. A token is one, however it is sent. */
function authorizationKind(scheme: CardScheme | undefined): string | undefined {
  if (scheme?.kind === 'oauth2' || scheme?.kind === 'openIdConnect') return 'a token'
  if (scheme?.kind !== 'http') return undefined
  return /^(?:bearer|dpop)$/i.test(scheme.scheme) ? 'a token' : quote(scheme.scheme)
}

function checkAnonymous({ card, sections, policy }: Comparison): void {
  const { model, report } = card
  const { anonymous = false } = sections
  const combine = sections.skills?.combine ?? 'add'
  const open = openings(card, combine)
  if (anonymous) {
    if (open.length === 0) {
      const message =
        'anonymous: true has no effect, since every requirement of the card asks for a credential: remove it'
      policy.warning('ERR_POLICY_WEAK', '/anonymous', message)
    } else {
      policy.warning('ERR_POLICY_WEAK', '/anonymous', 'callers without a credential are let in where the card says so')
    }
    return
  }
  if (model.schemes.size === 0 && model.requirements.length === 0) {
    const message =
      'the card declares no security, so anybody may call: declare securitySchemes and securityRequirements, or write anonymous: true in the policy'
    report.error('ERR_POLICY_ANONYMOUS', '', message)
    return
  }
  for (const { place, why } of open) {
    report.error('ERR_POLICY_ANONYMOUS', place, `${why}: name a scheme, or write anonymous: true in the policy`, 'key')
  }
}

/** Where the card lets a caller in without a credential. */
function openings(card: LoadedCard, combine: 'add' | 'override'): { place: string; why: string }[] {
  const found: { place: string; why: string }[] = []
  requirementLists(card).forEach(({ owner, list, place }, position) => {
    if (position === 0 && list.length === 0) {
      found.push({ place: '', why: 'the card declares schemes and requires none (no securityRequirements)' })
    }
    // With `add` a skill's empty alternative opens nothing: the agent's requirements stand.
    if (position > 0 && combine === 'add') return
    list.forEach(({ schemes }, index) => {
      if (schemes.length > 0) return
      const why = `this alternative of ${owner} names no scheme, so it is met by anybody`
      found.push({ place: requirementPlace(card.model, place, index), why })
    })
  })
  return found
}

function checkInterfaces({ model, json, report }: LoadedCard, publicUrl: string | undefined): void {
  if (publicUrl === undefined) return
  model.interfaces.forEach(({ url, binding }, index) => {
    if (liesUnder(url, publicUrl, binding === 'GRPC')) return
    const message = `the interface is not under the publicUrl of the policy, ${publicUrl}: credentials would go elsewhere`
    report.error('ERR_POLICY_PUBLIC_URL', interfacePlace(model, json, index), message)
  })
}

/** gRPC listens on its own port, and is often written without a scheme. */
function liesUnder(text: string, publicUrl: string, grpc: boolean): boolean {
  const base = new URL(publicUrl)
  const full = grpc && !/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? `${base.protocol}//${text}` : text
  if (!URL.canParse(full)) return false
  const url = new URL(full)
  if (grpc) return url.hostname === base.hostname
  const prefix = base.pathname.replace(/\/$/, '')
  return url.origin === base.origin && (url.pathname === prefix || url.pathname.startsWith(`${prefix}/`))
}

function checkExtended({ card, extended, sections, policy }: Comparison): void {
  const declared = card.model.capabilities.extendedAgentCard
  const key = sections.extendedCardAdditions === undefined ? 'extendedCard' : 'extendedCardAdditions'
  if (sections[key] !== undefined && !declared) {
    const message =
      'there is an extended card and the public card does not announce it: set its capability extendedAgentCard'
    policy.error('ERR_POLICY_EXTENDED_CARD', `/${key}`, message, 'key')
  }
  if (sections[key] === undefined && declared) {
    const message = 'the card announces an extended card and the policy names none (extendedCard): callers get an error'
    policy.warning('ERR_POLICY_EXTENDED_CARD', '', message)
  }
  if (extended === undefined) return
  if (extended.model.name !== card.model.name) {
    const message = `the extended card is of another agent: its name is not ${quote(card.model.name)}`
    extended.report.error('ERR_POLICY_EXTENDED_CARD', '/name', message)
  }
  for (const [name, scheme] of extended.model.schemes) {
    const own = card.model.schemes.get(name)
    if (own === undefined || JSON.stringify(own) === JSON.stringify(scheme)) continue
    const message = `${quote(name)} is not the same scheme as in the public card`
    extended.report.error('ERR_POLICY_EXTENDED_CARD', schemePlace(name), message, 'key')
  }
}

/** Skills with a requirement the agent itself does not make. */
export function strictSkills({ model }: LoadedCard): string[] {
  return [...model.skills.values()].flatMap(({ id, requirements }) =>
    requirements !== undefined &&
    requirements.length > 0 &&
    !model.requirements.every((own) => meets(own, requirements))
      ? [id]
      : [],
  )
}

/** Skills that can be reached with less than the agent asks for, where their list replaces the agent's. */
export function weakenedSkills({ model }: LoadedCard): string[] {
  return [...model.skills.values()].flatMap(({ id, requirements }) =>
    requirements?.some((alternative) => !meets(alternative, model.requirements)) === true ? [id] : [],
  )
}

/** Whether whoever satisfies `held` satisfies one alternative of `list`. An empty list asks for nothing. */
function meets(held: Requirement, list: readonly Requirement[]): boolean {
  if (list.length === 0) return true
  const scopesOf = new Map(held.schemes.map(({ name, scopes }) => [name, new Set(scopes)]))
  return list.some(({ schemes }) =>
    schemes.every(({ name, scopes }) => scopes.every((scope) => scopesOf.get(name)?.has(scope)) && scopesOf.has(name)),
  )
}
