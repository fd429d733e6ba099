/** What was seen of a card, and what is different now. Wording may change; where, who and how safely may not. */

import { parseCard } from '../protocol/card.ts'
import type { Requirement } from '../protocol/card-model.ts'

/** The structure of a card that matters to trust. Plain data, for a lock file. */
export interface Pin {
  readonly signer: string | null
  readonly version: string
  readonly hosts: readonly string[]
  readonly schemes: Readonly<Record<string, string>>
  readonly requirements: readonly string[]
  readonly capabilities: Readonly<Record<string, boolean>>
  /** Skill id to its requirements. */
  readonly skills: Readonly<Record<string, readonly string[]>>
}

export type DriftKind = 'signer' | 'host' | 'scheme' | 'requirement' | 'capability' | 'skill' | 'version'

export interface Drift {
  readonly kind: DriftKind
  readonly change: 'added' | 'removed' | 'changed'
  /** Name of what changed: a host, a scheme, a skill … */
  readonly subject: string
  readonly before?: string
  readonly after?: string
  /** Whether the change makes a client less safe or may send it somewhere else. */
  readonly weaker: boolean
}

/** The pin of a card (as `verifyCard` returns it) signed by `signer`; `null` for an unsigned one. */
export function pinOf(card: Readonly<Record<string, unknown>>, signer: string | null): Pin {
  const { model } = parseCard(card)
  return {
    signer,
    version: model.version,
    hosts: sorted(
      model.interfaces.map(({ url, binding, tenant }) => [originOf(url), binding, tenant ?? ''].join(' ').trim()),
    ),
    schemes: Object.fromEntries([...model.schemes].map(([name, scheme]) => [name, JSON.stringify(scheme)])),
    requirements: requirementTexts(model.requirements),
    capabilities: { ...model.capabilities },
    skills: Object.fromEntries(
      [...model.skills.values()].map(({ id, requirements }) => [id, requirementTexts(requirements ?? [])]),
    ),
  }
}

/** Every structural difference, in a fixed order; empty when only text changed. */
export function driftOf(before: Pin, after: Pin): readonly Drift[] {
  const found: Drift[] = []
  if (before.signer !== after.signer) {
    found.push(changed('signer', 'signature', before.signer ?? 'unsigned', after.signer ?? 'unsigned', true))
  }
  found.push(...lists('host', before.hosts, after.hosts, { added: true, removed: false }))
  found.push(...maps('scheme', before.schemes, after.schemes, { added: false, removed: true, changed: true }))
  // A further alternative is one more way in; one alternative less is one way fewer.
  found.push(
    ...lists('requirement', before.requirements, after.requirements, {
      added: true,
      removed: after.requirements.length === 0,
    }),
  )
  found.push(
    ...maps('capability', textOf(before.capabilities), textOf(after.capabilities), {
      added: false,
      removed: false,
      changed: false,
    }),
  )
  found.push(
    ...maps('skill', textOf(before.skills), textOf(after.skills), { added: false, removed: false, changed: true }),
  )
  if (isLower(after.version, before.version))
    found.push(changed('version', 'version', before.version, after.version, true))
  return found
}

/** One line for each difference, those that weaken first. */
export function formatDrift(drift: readonly Drift[]): string {
  return [...drift]
    .sort((a, b) => Number(b.weaker) - Number(a.weaker))
    .map(({ kind, change, subject, before, after, weaker }) => {
      const values =
        before === undefined && after === undefined ? '' : `: ${before ?? 'nothing'} -> ${after ?? 'nothing'}`
      return `${weaker ? '!' : ' '} ${kind} ${change} ${subject}${values}\n`
    })
    .join('')
}

function changed(kind: DriftKind, subject: string, before: string, after: string, weaker: boolean): Drift {
  return { kind, change: 'changed', subject, before, after, weaker }
}

function lists(
  kind: DriftKind,
  before: readonly string[],
  after: readonly string[],
  weaker: { added: boolean; removed: boolean },
): Drift[] {
  return [
    ...after
      .filter((one) => !before.includes(one))
      .map((subject) => ({ kind, change: 'added', subject, weaker: weaker.added }) as const),
    ...before
      .filter((one) => !after.includes(one))
      .map((subject) => ({ kind, change: 'removed', subject, weaker: weaker.removed }) as const),
  ]
}

type Texts = Readonly<Record<string, string>>

function maps(
  kind: DriftKind,
  before: Texts,
  after: Texts,
  weaker: { added: boolean; removed: boolean; changed: boolean },
): Drift[] {
  const names = sorted([...Object.keys(before), ...Object.keys(after)])
  return names.flatMap((subject): Drift[] => {
    const [old, now] = [own(before, subject), own(after, subject)]
    if (old === now) return []
    if (old === undefined)
      return [{ kind, change: 'added', subject, ...(now === undefined ? {} : { after: now }), weaker: weaker.added }]
    if (now === undefined) return [{ kind, change: 'removed', subject, before: old, weaker: weaker.removed }]
    return [changed(kind, subject, old, now, weaker.changed)]
  })
}

function own(texts: Texts, name: string): string | undefined {
  return Object.hasOwn(texts, name) ? texts[name] : undefined
}

function textOf(values: Readonly<Record<string, unknown>>): Texts {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, JSON.stringify(value)]))
}

function requirementTexts(list: readonly Requirement[]): string[] {
  return list.map(({ schemes }) =>
    schemes.length === 0
      ? 'anonymous'
      : sorted(schemes.map(({ name, scopes }) => `${name}(${sorted(scopes).join(' ')})`)).join(' and '),
  )
}

function sorted(list: readonly string[]): string[] {
  return [...new Set(list)].sort()
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url
}

/** Numbers compared as numbers, part by part; a version that is no list of numbers says nothing. */
function isLower(version: string, than: string): boolean {
  const parts = (text: string) => (/^\d+(?:\.\d+)*$/.test(text) ? text.split('.').map(Number) : undefined)
  const [a, b] = [parts(version), parts(than)]
  if (a === undefined || b === undefined) return false
  for (let index = 0; index < Math.max(a.length, b.length); index += 1) {
    const difference = (a[index] ?? 0) - (b[index] ?? 0)
    if (difference !== 0) return difference < 0
  }
  return false
}
