/**
 * What was seen of a card, and what is different now. Wording may change; where, who and how safely may not.
 *
 * Taken from the card as it is written and not from what this package understands of it: a token endpoint or an
 * authorization page that nobody here reads is still where a client would go.
 */
import { parseCard } from '../protocol/card.ts'
import type { Requirement } from '../protocol/card-model.ts'
import { isObject, own as member } from '../protocol/json-object.ts'
import { JCS, serialize } from './canonicalize.ts'
import type { VerifyResult } from './verify.ts'

/** The structure of a card that matters to trust. Plain data, for a lock file. */
export interface Pin {
  /** Name and key thumbprint of each signature that verified; empty for an unsigned card. */
  readonly signers: readonly string[]
  readonly version: string
  /** URL, binding, protocol version and tenant of each interface. */
  readonly hosts: readonly string[]
  /** Scheme name to its definition without descriptions, as JSON. */
  readonly schemes: Readonly<Record<string, string>>
  readonly requirements: readonly string[]
  /** Flags, and the URI of each extension, to their value as JSON. */
  readonly capabilities: Readonly<Record<string, string>>
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

/** The pin of a card as `verifyCard` returns it, with that result; without it, of a card whose signer nobody checked. */
export function pinOf(card: Readonly<Record<string, unknown>>, verification?: VerifyResult): Pin {
  const { model } = parseCard(card)
  const signatures = verification?.ok === true ? verification.signatures.filter(({ ok }) => ok) : []
  const written = member(card, 'securitySchemes')
  const capabilities = member(card, 'capabilities')
  const extensions = isObject(capabilities) ? member(capabilities, 'extensions') : undefined
  return {
    signers: sorted(signatures.map(({ signer = '', thumbprint = '' }) => `${signer} ${thumbprint}`)),
    version: model.version,
    hosts: sorted(
      model.interfaces.map(({ url, binding, version, tenant }) =>
        [hrefOf(url), binding, version, tenant].filter(Boolean).join(' '),
      ),
    ),
    schemes: Object.fromEntries(
      Object.entries(isObject(written) ? written : {}).map(([name, scheme]) => [name, structure(scheme)]),
    ),
    requirements: requirementTexts(model.requirements),
    capabilities: Object.fromEntries([
      ...Object.entries(model.capabilities).map(([name, value]) => [name, String(value)] as const),
      ...(Array.isArray(extensions) ? extensions : [])
        .filter(isObject)
        .map((extension) => [String(member(extension, 'uri')), structure(extension)] as const),
    ]),
    skills: Object.fromEntries(
      [...model.skills.values()].map(({ id, requirements }) => [id, requirementTexts(requirements ?? [])]),
    ),
  }
}

/** Every structural difference, in a fixed order; empty when only text changed. */
export function driftOf(before: Pin, after: Pin): readonly Drift[] {
  const found: Drift[] = []
  // While one key follows another, cards are signed with both: one that is known is enough.
  const known = before.signers.length === 0 && after.signers.length === 0
  if (!known && !after.signers.some((signer) => before.signers.includes(signer))) {
    const text = (signers: readonly string[]) => signers.join(', ') || 'unsigned'
    found.push(changed('signer', 'signature', text(before.signers), text(after.signers), before.signers.length > 0))
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
    ...maps('capability', before.capabilities, after.capabilities, {
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

/** As a URL parser has it, so that spelling is no drift. */
function hrefOf(url: string): string {
  return URL.canParse(url) ? new URL(url).href : url
}

/** JSON of a scheme or an extension without its prose: descriptions, and what each scope is said to be for. */
function structure(value: unknown): string {
  return serialize(withoutProse(value), JCS)
}

function withoutProse(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutProse)
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => name !== 'description')
      .map(([name, one]) => [name, name === 'scopes' && isObject(one) ? Object.keys(one).sort() : withoutProse(one)]),
  )
}

/** Semantic versioning §11, leniently: numbers as numbers, a pre-release below its release. Other versions say nothing. */
function isLower(version: string, than: string): boolean {
  const read = (text: string) => /^v?(\d+(?:\.\d+)*)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?$/.exec(text)
  const [a, b] = [read(version), read(than)]
  if (a === null || b === null) return false
  const [x, y] = [a, b].map(([, numbers = '']) => numbers.split('.').map(Number)) as [number[], number[]]
  for (let index = 0; index < Math.max(x.length, y.length); index += 1) {
    const difference = (x[index] ?? 0) - (y[index] ?? 0)
    if (difference !== 0) return difference < 0
  }
  const [early, late] = [a[2], b[2]]
  if (early === undefined || late === undefined) return early !== undefined && late === undefined
  return early.localeCompare(late, 'en', { numeric: true }) < 0
}
