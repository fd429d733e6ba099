/**
 * What the A2A SDKs really sign: each profile maps a received card to the text its signers have put under the signature.
 * `docs/cards.md` has the table. A profile either covers the whole served card, or projects it.
 */
import { TrustError } from '../errors.ts'
import { parseStrictJson } from '../internal/json.ts'
import { type Dialect, GO, JCS, NumberLiteral, PYTHON, serialize } from './canonicalize.ts'
import { CARD_V1, CARD_V03, DEFAULTS_V03, type FieldTable } from './field-table.ts'

export type Profile =
  | 'raw'
  | 'spec-unknown-kept'
  | 'js-asis-clean'
  | 'clean'
  | 'spec'
  | 'py-legacy'
  | 'py-0.3'
  | 'py-0.3-falsy'
  | 'go-sample'

export type Coverage = 'full' | 'projected'
type Json = Record<string, unknown>

interface Recipe {
  readonly coverage: Coverage
  readonly dialect: Dialect
  readonly reduce: (card: Json) => Json
  /** Needs to know how numbers were written. */
  readonly literals?: true
}

const RECIPES: Readonly<Record<Profile, Recipe>> = {
  raw: { coverage: 'full', dialect: JCS, reduce: (card) => card },
  'spec-unknown-kept': { coverage: 'full', dialect: JCS, reduce: (card) => project(card, 'AgentCard', KEEP_UNKNOWN) },
  'js-asis-clean': { coverage: 'projected', dialect: JCS, reduce: cleaned },
  clean: { coverage: 'projected', dialect: JCS, reduce: (card) => cleaned(project(card, 'AgentCard', V1)) },
  spec: { coverage: 'projected', dialect: JCS, reduce: (card) => project(card, 'AgentCard', V1) },
  'py-legacy': { coverage: 'projected', dialect: PYTHON, reduce: (card) => cleaned(project(card, 'AgentCard', V1)) },
  'py-0.3': { coverage: 'projected', dialect: PYTHON, literals: true, reduce: (card) => cleaned(dumpV03(card)) },
  'py-0.3-falsy': {
    coverage: 'projected',
    dialect: PYTHON,
    literals: true,
    reduce: (card) => cleaned(dumpV03(card), true),
  },
  'go-sample': {
    coverage: 'projected',
    dialect: GO,
    reduce: (card) => cleaned(goCapabilities(project(card, 'AgentCard', V1))),
  },
}

/** In the order in which the verifier tries them: full coverage first. */
export const DEFAULT_PROFILES: readonly Profile[] = [
  'raw',
  'spec-unknown-kept',
  'js-asis-clean',
  'clean',
  'spec',
  'py-legacy',
]
export const PROFILES = Object.freeze(Object.keys(RECIPES)) as readonly Profile[]

export function coverageOf(profile: Profile): Coverage {
  return RECIPES[profile].coverage
}

/**
 * The exact text that signers of this profile sign, for a card given as text. `signatures` is left out of it.
 *
 * Throws `ERR_JSON_*` for a text that is not strict JSON, and `ERR_CARD_SHAPE` for a card that this profile cannot
 * express: a wrong JSON type, two members of one `oneof`, a name in both spellings.
 */
export function canonicalizeCard(text: string | Uint8Array, profile: Profile): string {
  if (!Object.hasOwn(RECIPES, profile)) throw new TypeError(`"profile" must be one of ${PROFILES.join(', ')}`)
  // RFC 8785 §3.2.2.3: a number is its double. What a caller gets back is read from the result, so nothing is lost on it.
  const card = parseStrictJson(text, { unsafeIntegers: 'round' })
  if (!isObject(card)) throw shape('the card is not an object')
  return canonicalFormOf({ text, card }, profile)
}

/** A card as it was received, with its text parsed once for every profile. A `bigint` stands for its double. */
export interface ReceivedCard {
  readonly text: string | Uint8Array
  readonly card: Json
}

/** As `canonicalizeCard`, and throws as it does. */
export function canonicalFormOf({ text, card }: ReceivedCard, profile: Profile): string {
  const { dialect, reduce, literals } = RECIPES[profile]
  const value = literals
    ? (parseStrictJson(text, { number: (written) => new NumberLiteral(written), unsafeIntegers: 'round' }) as Json)
    : card
  const { signatures: _, ...unsigned } = value
  return serialize(reduce(Object.assign(Object.create(null), unsigned) as Json), dialect)
}

interface Rules {
  readonly table: Table
  readonly unknown: 'keep' | 'drop'
}
const TABLE_V1 = readTable(CARD_V1)
const V1: Rules = { table: TABLE_V1, unknown: 'drop' }
const KEEP_UNKNOWN: Rules = { table: TABLE_V1, unknown: 'keep' }
const V03: Rules = { table: readTable(CARD_V03), unknown: 'drop' }

/**
 * Presence rules of A2A §8.4.1. REQUIRED and `optional` members stay when present, plain ones go when they equal their
 * default, messages stay even when empty, and `null` is the same as absence outside of a struct.
 */
function project(value: Json, message: string, rules: Rules): Json {
  const fields = rules.table.get(message) as ReadonlyMap<string, Field>
  const result: Json = Object.create(null)
  let chosen: string | undefined
  for (const written of Object.keys(value)) {
    const content = value[written]
    const field = fields.get(written)
    if (field === undefined) {
      if (rules.unknown === 'keep') result[written] = content
      continue
    }
    const { name } = field
    if (name !== written && Object.hasOwn(value, name)) throw shape(`both ${name} and ${written}`)
    if (content === null) continue
    if (field.oneof) {
      if (chosen !== undefined) throw shape(`both ${chosen} and ${name}`)
      chosen = name
    }
    const projected = projectField(content, field, rules)
    if (!(field.plain && isDefault(projected, field))) result[name] = projected
  }
  return result
}

/** JSON Pointers of REQUIRED members that are present and empty: the SDKs disagree about how these are signed. */
export function emptyRequired(card: Json, message = 'AgentCard', at = ''): string[] {
  return Object.entries(card).flatMap(([name, content]) => {
    const field = TABLE_V1.get(message)?.get(name)
    if (field === undefined || content === null) return []
    const { type, container } = field
    const pointer = `${at}/${name}`
    // `capabilities: {}` is given an explicit flag by the signer.
    if (field.required && field.name !== 'capabilities' && clean(content, false) === undefined) return [pointer]
    if (!TABLE_V1.has(type)) return []
    const inner =
      container === ''
        ? [['', content] as const]
        : Object.entries(content as object).map(([key, one]) => [`/${key}`, one] as const)
    return inner.flatMap(([key, one]) => (isObject(one) ? emptyRequired(one, type, pointer + key) : []))
  })
}

interface Field {
  readonly name: string
  readonly type: string
  readonly container: '' | '[]' | '{}'
  readonly required: boolean
  /** Absent and equal to its default are the same. */
  readonly plain: boolean
  readonly oneof: boolean
}
/** By message, and then by either spelling of the field. */
type Table = ReadonlyMap<string, ReadonlyMap<string, Field>>

function readTable(table: FieldTable): Table {
  return new Map(
    Object.entries(table).map(([message, fields]) => [
      message,
      new Map(
        Object.entries(fields).flatMap(([name, text]) => {
          const field = fieldOf(name, text)
          return [name, snakeCase(name)].map((written) => [written, field] as const)
        }),
      ),
    ]),
  )
}

function fieldOf(name: string, text: string): Field {
  const [, type = '', container = '', mark = '', oneof = ''] = /^(\w+)(\[\]|\{\})?([!?])?(\|)?$/.exec(text) ?? []
  return {
    name,
    type,
    container: container as Field['container'],
    required: mark === '!',
    plain: mark === '',
    oneof: oneof === '|',
  }
}

function projectField(content: unknown, { type, container }: Field, rules: Rules): unknown {
  if (container === '[]') {
    if (!Array.isArray(content)) throw shape('a list is something else')
    return content.map((item) => projectOne(item, type, rules))
  }
  if (container === '{}') {
    if (!isObject(content)) throw shape('a map is something else')
    const map: Json = Object.create(null)
    for (const [key, item] of Object.entries(content)) map[key] = projectOne(item, type, rules)
    return map
  }
  return projectOne(content, type, rules)
}

function projectOne(content: unknown, type: string, rules: Rules): unknown {
  if (type === 'any') return content
  if (type === 'string' || type === 'bool') {
    if (typeof content !== (type === 'bool' ? 'boolean' : 'string')) throw shape(`a ${type} is something else`)
    return content
  }
  if (!isObject(content)) throw shape('a message is something else')
  return type === 'struct' ? content : project(content, type, rules)
}

/** Proto3 default of a plain field. A message has none: present is present. */
function isDefault(value: unknown, { type, container }: Field): boolean {
  if (container === '[]') return (value as unknown[]).length === 0
  if (container === '{}') return Object.keys(value as object).length === 0
  return (type === 'string' && value === '') || (type === 'bool' && value === false)
}

/** `""`, `null`, `[]` and `{}` vanish at every depth, from the inside out. With `falsy`, `false` and `0` too. */
function cleaned(card: Json, falsy = false): Json {
  return (clean(card, falsy) ?? Object.create(null)) as Json
}

function clean(value: unknown, falsy: boolean): unknown {
  if (value === '' || value === null || (falsy && (value === false || value === 0))) return undefined
  if (value instanceof NumberLiteral) return falsy && Number(value.text) === 0 ? undefined : value
  if (Array.isArray(value)) {
    const items: unknown[] = []
    for (const item of value) {
      const inner = clean(item, falsy)
      if (inner !== undefined) items.push(inner)
    }
    return items.length === 0 ? undefined : items
  }
  if (!isObject(value)) return value
  const kept: Json = Object.create(null)
  let any = false
  for (const name of Object.keys(value)) {
    const inner = clean(value[name], falsy)
    if (inner === undefined) continue
    kept[name] = inner
    any = true
  }
  return any ? kept : undefined
}

function dumpV03(card: Json): Json {
  if (clean(card.supportedInterfaces, false) !== undefined) throw shape('a v1.0 card')
  const dumped = project(card, 'AgentCard', V03)
  for (const [name, usual] of Object.entries(DEFAULTS_V03)) if (dumped[name] === usual) delete dumped[name]
  return dumped
}

/** Go's `omitempty` on the flags of `capabilities`. */
function goCapabilities(card: Json): Json {
  const { capabilities } = card
  if (!isObject(capabilities)) return card
  const kept = Object.fromEntries(Object.entries(capabilities).filter(([, value]) => value !== false))
  return Object.assign(Object.create(null), card, { capabilities: kept }) as Json
}

/** The name in the protobuf definition, which ProtoJSON readers take as well. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof NumberLiteral)
}

function shape(what: string): TrustError {
  return new TrustError('ERR_CARD_SHAPE', { details: { found: what } })
}
