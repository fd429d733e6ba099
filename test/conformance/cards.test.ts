/** Cards that the SDKs have really signed, attacks on them, and headers of every kind. */
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { CARD_V1 } from '../../src/card/field-table.ts'
import { canonicalizeCard, PROFILES, type Profile } from '../../src/card/profiles.ts'
import { verifyCard } from '../../src/card/verify.ts'
import { parseStrictJson } from '../../src/internal/json.ts'

interface Vector {
  readonly id: string
  readonly cardText: string
  readonly publicJwk: Record<string, unknown>
  readonly canonicalPayload: string
  readonly profilesVerifying: readonly string[]
}
const folder = new URL('../vectors/card-interop/', import.meta.url)
function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as T
}
const signers = readdirSync(folder).filter(
  (name) => !/^(?:attacks|special|keys|agent-card-schema)/.test(name) && name.endsWith('.json'),
)
const value = (text: string) => parseStrictJson(text, { unsafeIntegers: 'round' })

describe.each(signers)('card-interop %s', (name) => {
  const { vectors } = read<{ vectors: Vector[] }>(name)
  const cases = vectors.flatMap((vector) =>
    PROFILES.map((profile) => ({ ...vector, profile, verifies: vector.profilesVerifying.includes(profile) })),
  )

  it.each(cases)(
    '$id under $profile: $verifies',
    async ({ cardText, publicJwk, canonicalPayload, profile, verifies }) => {
      const result = await verifyCard(cardText, { jwks: { keys: [publicJwk] } }, { profiles: [profile] })
      expect(result.ok).toBe(verifies)
      if (!result.ok) return
      expect(result.card).toEqual(value(canonicalPayload))
      expect(canonicalizeCard(cardText, profile)).toBe(canonicalPayload)
    },
  )
})

describe('attacks', () => {
  interface Attack {
    readonly id: string
    readonly signedWith: string
    readonly attack: string
    readonly cardText: string
    readonly publicJwk: Record<string, unknown>
  }
  const { vectors } = read<{ vectors: Attack[] }>('attacks.json')
  /** The unchanged card of each signer: the attack on one digit, taken back. */
  const control = (signedWith: string) => {
    const changed = vectors.find((one) => one.signedWith === signedWith && one.attack.startsWith('A19')) as Attack
    return changed.cardText.replace('9007199254740993', '9007199254740992')
  }

  it('has all of them, and each control is accepted', async () => {
    expect(vectors).toHaveLength(104)
    for (const { signedWith, publicJwk } of vectors) {
      const result = await verifyCard(control(signedWith), { jwks: { keys: [publicJwk] } })
      expect(result.ok, signedWith).toBe(true)
    }
  })

  it.each(vectors)('$id: refused, or the result is what was signed', async ({ cardText, publicJwk, signedWith }) => {
    const trust = { jwks: { keys: [publicJwk] } }
    const result = await verifyCard(cardText, trust)
    if (result.ok) {
      const unchanged = await verifyCard(control(signedWith), trust)
      expect(result.card).toEqual(unchanged.ok && unchanged.card)
    } else expect(result.reason).toMatch(/^ERR_(?:CARD|JSON)_/)
    // Every attack leaves a trace where one asks for all of the card.
    expect((await verifyCard(cardText, trust, { strict: true })).ok).toBe(false)
    const rejecting = await verifyCard(cardText, trust, { onUncovered: 'reject' })
    if (rejecting.ok) expect(rejecting.uncovered).toEqual([])
  })
})

describe('headers and several signatures', () => {
  interface Special {
    readonly id: string
    readonly cardText: string
    readonly expected: { readonly strictVerifier: 'accept' | 'reject'; readonly why: string }
    readonly throwKids?: readonly string[]
  }
  const { vectors } = read<{ vectors: Special[] }>('special-headers-multisig.json')
  const keys = Object.values(read<{ public: Record<string, Record<string, unknown>> }>('keys.test-only.json').public)

  it.each(vectors)('A20 $id: $expected.strictVerifier', async ({ cardText, expected, throwKids = [] }) => {
    const jwks = { keys: keys.filter(({ kid }) => !throwKids.includes(kid as string)) }
    const result = await verifyCard(cardText, { jwks })
    expect(result.ok ? 'accept' : 'reject').toBe(expected.strictVerifier)
    if (!result.ok) expect(result.reason).toMatch(/^ERR_CARD_/)
    for (const entry of result.signatures) expect(entry.ok || entry.reason !== undefined).toBe(true)
  })

  it('A15 a key provider that throws counts against its own entry only', async () => {
    const one = vectors.find(({ id }) => id === 'special/multi-unknownkey-throws') as Special
    const { trustJwks } = await import('../../src/card/trusted-keys.ts')
    const inner = trustJwks({ keys })
    const trust = {
      ...inner,
      keysFor: (hint: Parameters<typeof inner.keysFor>[0], context: Parameters<typeof inner.keysFor>[1]) => {
        if (one.throwKids?.includes(hint.kid)) throw new Error('not in store')
        return inner.keysFor(hint, context)
      },
    }
    const result = await verifyCard(one.cardText, { trust })
    expect(result).toMatchObject({
      ok: true,
      signatures: [{ ok: false, reason: 'ERR_CARD_KEY_UNAVAILABLE' }, { ok: true }],
    })
  })
})

describe('the field table', () => {
  interface SchemaField {
    readonly proto: string
    readonly type: string
    readonly repeated: boolean
    readonly optional: boolean
    readonly map: boolean
    readonly required: boolean
    readonly oneof?: string
  }
  const { AgentCardSignature: _, ...schema } =
    read<Record<string, Record<string, SchemaField>>>('agent-card-schema.json')
  const fields = Object.entries(schema).flatMap(([message, members]) =>
    Object.entries(members)
      .filter(([name]) => !(message === 'AgentCard' && name === 'signatures'))
      .map(([name, field]) => ({ message, name, field })),
  )

  it('has every field of the protobuf definition as it stands there, and no other', () => {
    const written = ({ type, repeated, optional, map, required, oneof }: SchemaField) =>
      `${type === 'google.protobuf.Struct' ? 'struct' : type}${map ? '{}' : repeated ? '[]' : ''}${required ? '!' : optional ? '?' : ''}${oneof === undefined ? '' : '|'}`
    const expected: Record<string, Record<string, string>> = {}
    for (const { message, name, field } of fields) expected[message] = { ...expected[message], [name]: written(field) }
    expect(CARD_V1).toEqual(expected)
  })

  it.each(fields.filter(({ message, name, field }) => message === 'AgentCard' && name !== field.proto))(
    'P132 $field.proto is read as $name, and no other spelling is',
    ({ name, field }) => {
      const value = field.repeated ? [] : field.map ? {} : field.type === 'string' ? 'x' : {}
      const form = (key: string) => canonicalizeCard(JSON.stringify({ [key]: value }), 'spec')
      expect(form(field.proto)).toBe(form(name))
      expect(form(`${field.proto}_`)).toBe('{}')
      expect(form(name.toLowerCase())).toBe('{}')
    },
  )

  it('P132 one field has no third spelling that could meet the other two', () => {
    const scheme = {
      flows: {},
      oauth2_metadata_url: 'https://right.example',
      oauth_2_metadata_url: 'https://evil.example',
    }
    const text = JSON.stringify({ securitySchemes: { a: { oauth2SecurityScheme: scheme } } })
    expect(canonicalizeCard(text, 'spec')).toBe(
      '{"securitySchemes":{"a":{"oauth2SecurityScheme":{"flows":{},"oauth2MetadataUrl":"https://right.example"}}}}',
    )
  })
})

describe('canonical form of one card', () => {
  const fragment =
    '{"name":"Example Agent","description":"","capabilities":{"streaming":false,"pushNotifications":false,"extensions":[]},"skills":[]}'
  it.each([
    [
      'A01 A02',
      'spec',
      fragment,
      '{"capabilities":{"pushNotifications":false,"streaming":false},"description":"","name":"Example Agent","skills":[]}',
    ],
    ['A01', 'clean', fragment, '{"capabilities":{"pushNotifications":false,"streaming":false},"name":"Example Agent"}'],
    [
      'A04 P121',
      'py-legacy',
      '{"name":"Café","capabilities":{"extensions":[{"uri":"u","params":{"😀":1,"！":2,"x":0.000001,"y":1e-7,"z":1.0}}]}}',
      '{"capabilities":{"extensions":[{"params":{"x":1e-06,"y":1e-07,"z":1.0,"\\uff01":2.0,"\\ud83d\\ude00":1.0},"uri":"u"}]},"name":"Caf\\u00e9"}',
    ],
    [
      'A04 P121',
      'raw',
      '{"name":"Café","p":{"！":2,"😀":1,"x":1e-6,"z":1.0,"n":-0,"big":1e21}}',
      '{"name":"Café","p":{"big":1e+21,"n":0,"x":0.000001,"z":1,"😀":1,"！":2}}',
    ],
    [
      'A05 P123',
      'clean',
      '{"capabilities":{"extensions":[{"uri":"u","required":false}]}}',
      '{"capabilities":{"extensions":[{"uri":"u"}]}}',
    ],
    [
      'P132',
      'spec',
      '{"supported_interfaces":[{"url":"https://a","protocol_binding":"JSONRPC","protocolVersion":"1.0"}]}',
      '{"supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":"https://a"}]}',
    ],
  ] as [string, Profile, string, string][])('%s %s', (_, profile, text, expected) => {
    expect(canonicalizeCard(text, profile)).toBe(expected)
  })

  it.each([
    ['A26 a duplicated member', '{"name":"Evil","name":"Café"}', 'ERR_JSON_DUPLICATE_NAME'],
    ['P121 a lone surrogate', '{"name":"\\ud800"}', 'ERR_JSON_LONE_SURROGATE'],
    [
      'A34 two members of one oneof',
      '{"securitySchemes":{"a":{"apiKeySecurityScheme":{},"mtlsSecurityScheme":{}}}}',
      'ERR_CARD_SHAPE',
    ],
    ['A11 a name in both spellings', '{"supportedInterfaces":[],"supported_interfaces":[]}', 'ERR_CARD_SHAPE'],
    ['a field in both spellings, one of them null', '{"iconUrl":null,"icon_url":"b"}', 'ERR_CARD_SHAPE'],
    ['a wrong type', '{"skills":{}}', 'ERR_CARD_SHAPE'],
    ['no object', '[]', 'ERR_CARD_SHAPE'],
  ])('%s is an error', (_, text, code) => {
    expect(() => canonicalizeCard(text, 'spec')).toThrow(expect.objectContaining({ code }) as Error)
  })
})
