/** Random cards by the field table, random edits in transit: what is handed back is what was signed. */
import { createPrivateKey } from 'node:crypto'
import fc from 'fast-check'
import { exportJWK, FlattenedSign, generateKeyPair, type JWK } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import { CARD_V1 } from '../../src/card/field-table.ts'
import { canonicalizeCard, DEFAULT_PROFILES, parseStrictJson, signCard, verifyCard } from '../../src/card/index.ts'
import { isSecurityMember } from '../../src/card/uncovered.ts'

type Json = Record<string, unknown>

let key: JWK
let jwks: { keys: JWK[] }
beforeAll(async () => {
  key = { ...(await exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey)), kid: 'k' }
  const { d: _, ...shown } = key
  jwks = { keys: [shown] }
})

const text = fc.oneof(
  fc.constantFrom('a', 'b', 'https://agent.example', 'Café', '😀！', '\u007f\u2028<&>'),
  fc.string({ unit: 'binary', maxLength: 5 }),
)
const name = fc.oneof(fc.constantFrom('a', 'login', '__proto__', 'constructor', '😀', '！'), text)
const free = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' })

/** Any content of a field, empty ones included, as the protobuf definition allows it. */
function contentOf(field: string): fc.Arbitrary<unknown> {
  const [, type = '', container] = /^(\w+)(\[\]|\{\})?/.exec(field) ?? []
  const one: fc.Arbitrary<unknown> =
    type === 'string'
      ? fc.oneof(text, fc.constant(''))
      : type === 'bool'
        ? fc.boolean()
        : type === 'struct'
          ? fc.dictionary(name, free, { maxKeys: 3 })
          : message(type)
  if (container === '[]') return fc.array(one, { maxLength: 2 })
  if (container === '{}') return fc.dictionary(name, one, { maxKeys: 2 })
  return one
}

function message(type: string): fc.Arbitrary<Json> {
  const fields = Object.entries(CARD_V1[type] as Record<string, string>)
  const alternatives = fields.filter(([, field]) => field.endsWith('|'))
  if (alternatives.length > 0)
    return fc.oneof(...alternatives.map(([key, field]) => contentOf(field).map((content) => ({ [key]: content }))))
  return fc.record(Object.fromEntries(fields.map(([key, field]) => [key, contentOf(field)])), { requiredKeys: [] })
}
const card = fc
  .tuple(message('AgentCard'), fc.dictionary(fc.constantFrom('url', 'security', 'x-unknown'), free, { maxKeys: 2 }))
  .map(([known, unknown]) => ({ ...known, ...unknown }))

/** Members in another order, at every depth. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, content]) => [key, reversed(content)]),
  )
}

interface Edit {
  readonly place: number
  readonly kind: 'delete' | 'replace' | 'add'
  readonly name: string
  readonly value: unknown
}
const edit: fc.Arbitrary<Edit> = fc.record({
  place: fc.nat(),
  kind: fc.constantFrom('delete', 'replace', 'add'),
  name: fc.oneof(
    fc.constantFrom(
      'url',
      'security',
      'securityRequirements',
      'security_requirements',
      'supported_interfaces',
      '__proto__',
    ),
    text,
  ),
  value: fc.oneof(fc.constantFrom('', null, {}, [], false, 0, 'https://evil.example', [{ schemes: {} }]), free),
})

/** The edit, at one of all the places that the card has. */
function edited(value: unknown, { place, kind, name, value: content }: Edit): unknown {
  const copy = structuredClone(value) as Json
  const places: [Json, string][] = []
  const walk = (at: unknown): void => {
    if (typeof at !== 'object' || at === null) return
    for (const step of Object.keys(at)) {
      places.push([at as Json, step])
      walk((at as Json)[step])
    }
  }
  walk(copy)
  const [parent, step] = places[place % Math.max(1, places.length)] ?? [copy, name]
  const define = (target: Json, member: string) =>
    Object.defineProperty(target, member, { value: content, enumerable: true, configurable: true, writable: true })
  if (kind === 'add') {
    const target = parent[step]
    const into = typeof target === 'object' && target !== null ? (target as Json) : copy
    if (Array.isArray(into)) into.push(content)
    else define(into, name)
  } else if (kind === 'replace') define(parent, step)
  else if (Array.isArray(parent)) parent.splice(Number(step), 1)
  else delete parent[step]
  return copy
}

async function signatureOf(payload: string): Promise<object> {
  const { protected: header, signature } = await new FlattenedSign(Buffer.from(payload))
    .setProtectedHeader({ alg: 'ES256', kid: 'k' })
    .sign(createPrivateKey({ key: key as never, format: 'jwk' }))
  return { protected: header, signature }
}
const withSignatures = (value: unknown, ...signatures: object[]) => {
  const written = JSON.stringify(value)
  return `${written.slice(0, -1)}${written === '{}' ? '' : ','}"signatures":${JSON.stringify(signatures)}}`
}
const limits = { interruptAfterTimeLimit: 15_000, markInterruptAsFailure: false }

describe.each(DEFAULT_PROFILES)('%s', (profile) => {
  it('is stable, and blind to the order of members', () => {
    fc.assert(
      fc.property(card, (given) => {
        const form = canonicalizeCard(JSON.stringify(given), profile)
        expect(canonicalizeCard(JSON.stringify(reversed(given)), profile)).toBe(form)
        expect(canonicalizeCard(form, profile)).toBe(form)
      }),
      { ...limits, numRuns: 100 },
    )
  })

  it('whatever is changed in transit, the result is what was signed, or there is none', async () => {
    await fc.assert(
      fc.asyncProperty(card, fc.array(edit, { minLength: 0, maxLength: 3 }), async (given, edits) => {
        const payload = canonicalizeCard(JSON.stringify(given), profile)
        const changed = edits.reduce<unknown>(edited, given)
        const served = withSignatures(changed, await signatureOf(payload))
        const result = await verifyCard(served, { jwks })
        if (edits.length === 0) expect(result.ok).toBe(true)
        if (!result.ok) return
        const signed = parseStrictJson(payload, { unsafeIntegers: 'round' })
        expect(result.card).toEqual(signed)
        // What differs at the top is named, and where it matters warned of.
        for (const [member, content] of Object.entries(changed as Json)) {
          const same =
            Object.hasOwn(result.card, member) &&
            canonicalizeCard(JSON.stringify({ x: content }), 'raw') ===
              canonicalizeCard(JSON.stringify({ x: result.card[member] }), 'raw')
          const pointer = `/${member.replaceAll('~', '~0').replaceAll('/', '~1')}`
          const named = (list: readonly string[]) =>
            list.some((one) => one === pointer || one.startsWith(`${pointer}/`))
          expect(named(result.uncovered)).toBe(!same)
          if (!same && isSecurityMember(pointer) && member !== 'skills') expect(named(result.warnings)).toBe(true)
        }
        if (result.coverage === 'full' && result.profile === 'raw') expect(result.uncovered).toEqual([])
        expect((await verifyCard(served, { jwks }, { onUncovered: 'reject' })).ok).toBe(result.uncovered.length === 0)
      }),
      { ...limits, numRuns: 150 },
    )
  })
})

describe('signCard', () => {
  it('signs every card so that it verifies in full, and with compat in the form of every SDK', async () => {
    await fc.assert(
      fc.asyncProperty(card, async (given) => {
        // Integers beyond 2^53-1 are refused, because signing would change some of them.
        fc.pre(!/\d{16}/.test(JSON.stringify(given)))
        const { text: signed, card: shown } = await signCard(JSON.stringify(given), { key, compat: true })
        expect(await verifyCard(signed, { jwks }, { strict: true })).toMatchObject({ ok: true, uncovered: [] })
        expect(parseStrictJson(signed)).toEqual(parseStrictJson(JSON.stringify(shown)))
        for (const profile of ['raw', 'spec', 'clean', 'py-legacy'] as const)
          expect((await verifyCard(signed, { jwks }, { profiles: [profile] })).ok).toBe(true)
      }),
      { ...limits, numRuns: 60 },
    )
  })
})
