/** What a verifier of cards is asked beyond the vectors: n of m, long canonical texts, times, keys, order of members. */
import { createPrivateKey } from 'node:crypto'
import fc from 'fast-check'
import { exportJWK, exportPKCS8, FlattenedSign, generateKeyPair, type JWK } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  canonicalizeCard,
  type Profile,
  type SignCardOptions,
  signCard,
  type Trust,
  verifyCard,
} from '../../src/card/index.ts'
import { trustJwks } from '../../src/card/trusted-keys.ts'
import { rigCard } from '../support/rig.ts'

const publicOf = ({ d: _, ...jwk }: JWK) => jwk
async function newKey(kid: string, alg = 'ES256'): Promise<JWK> {
  return { ...(await exportJWK((await generateKeyPair(alg, { extractable: true })).privateKey)), kid }
}
let a: JWK
let b: JWK
beforeAll(async () => {
  a = await newKey('a')
  b = await newKey('b')
})

/** A signature of one profile's form, as the SDK of that profile makes it. */
async function signatureOf(card: object, profile: Profile, key: JWK): Promise<object> {
  const { protected: header, signature } = await new FlattenedSign(
    Buffer.from(canonicalizeCard(JSON.stringify(card), profile)),
  )
    .setProtectedHeader({ alg: 'ES256', kid: key.kid as string })
    .sign(createPrivateKey({ key: key as never, format: 'jwk' }))
  return { protected: header, signature }
}

describe('n of m', () => {
  const both = (): Trust => ({ ...trustJwks({ keys: [publicOf(a), publicOf(b)] }), threshold: 2 })

  it('a member that one signer alone vouches for is not in the card', async () => {
    // Both forms hold, and only the first covers what the first signer added alone.
    const card = rigCard({ url: 'https://evil.example' })
    const signatures = [await signatureOf(card, 'raw', a), await signatureOf(card, 'clean', b)]
    const result = await verifyCard(JSON.stringify({ ...card, signatures }), { trust: both() })
    expect(result.signatures.map(({ ok }) => ok)).toEqual([true, true])
    if (result.ok) expect(result.card).not.toHaveProperty('url')
    else expect(result.reason).toBe('ERR_CARD_THRESHOLD')
  })

  it('two signers under two forms that say the same agree', async () => {
    const card = rigCard({ name: 'Café', securityRequirements: [{ schemes: { login: { list: ['a2a:use'] } } }] })
    const plain = JSON.parse(canonicalizeCard(JSON.stringify(card), 'clean')) as object
    const signatures = [await signatureOf(plain, 'raw', a), await signatureOf(plain, 'py-legacy', b)]
    const result = await verifyCard(JSON.stringify({ ...plain, signatures }), { trust: both() })
    expect(result).toMatchObject({ ok: true, profile: 'raw', card: plain })
  })
})

describe('n of m under different forms', () => {
  const both = (): Trust => ({ ...trustJwks({ keys: [publicOf(a), publicOf(b)] }), threshold: 2 })
  // An empty list, which `clean` leaves out of what it signs.
  const card = () => rigCard({ securityRequirements: [{ schemes: { key: { list: [] } } }] })

  it('the card is what both cover, and the rest is reported', async () => {
    const signatures = [await signatureOf(card(), 'raw', a), await signatureOf(card(), 'clean', b)]
    const result = await verifyCard(JSON.stringify({ ...card(), signatures }), { trust: both() })
    expect(result).toMatchObject({ ok: true, profile: 'js-asis-clean', signer: 'b' })
    if (!result.ok) return
    expect(result.card).toEqual(JSON.parse(canonicalizeCard(JSON.stringify(card()), 'clean')))
    expect(result.warnings).toContain('/securityRequirements')
  })

  it('one signer under both forms is still one signer', async () => {
    const signatures = [await signatureOf(card(), 'raw', a), await signatureOf(card(), 'clean', a)]
    expect(await verifyCard(JSON.stringify({ ...card(), signatures }), { trust: both() })).toMatchObject({
      ok: false,
      reason: 'ERR_CARD_THRESHOLD',
    })
  })
})

describe('one bad entry', () => {
  it('A15 a key that crypto cannot work with is a signature that does not hold', async () => {
    const { text } = await signCard(JSON.stringify(rigCard()), { key: a })
    const inner = trustJwks({ keys: [publicOf(a)] })
    const [good] = await inner.keysFor({ kid: 'a', alg: 'ES256' }, { nowMs: 0 })
    if (good === undefined) throw new Error('no key')
    const [ed] = await trustJwks({ keys: [publicOf(await newKey('e', 'EdDSA'))] }).keysFor(
      { kid: 'e', alg: 'EdDSA' },
      { nowMs: 0 },
    )
    if (ed === undefined) throw new Error('no key')
    // Says ES256 and holds another kind of key.
    const wrong = { ...good, key: { ...good.key, keyObject: ed.key.keyObject } }
    const trust = (keys: (typeof good)[]): Trust => ({ ...inner, keysFor: () => keys })
    expect(await verifyCard(text, { trust: trust([wrong]) })).toMatchObject({
      ok: false,
      reason: 'ERR_CARD_SIGNATURE_INVALID',
    })
    expect((await verifyCard(text, { trust: trust([wrong, good]) })).ok).toBe(true)
  })
})

describe('hostile sizes', () => {
  it('a card whose canonical text is several times as long is a result, not an exception', async () => {
    const card = rigCard({
      capabilities: { streaming: true, extensions: [{ uri: 'urn:x', params: { n: Array(260_000).fill(0) } }] },
    })
    const { signatures } = JSON.parse((await signCard(JSON.stringify(rigCard()), { key: a })).text) as {
      signatures: unknown
    }
    const text = JSON.stringify({ ...card, signatures }).replace(/0(?=[,\]])/g, '1e20')
    expect(Buffer.byteLength(text)).toBeLessThan(2 * 1024 * 1024)
    expect(await verifyCard(text, { jwks: { keys: [publicOf(a)] } })).toMatchObject({
      ok: false,
      reason: 'ERR_CARD_SIGNATURE_INVALID',
    })
  })

  it.each([
    ['over the size limit', '{"a":1}'.padEnd(2 * 1024 * 1024 + 1), 'ERR_JSON_SIZE'],
    ['too deep', `${'{"a":'.repeat(200)}1${'}'.repeat(200)}`, 'ERR_JSON_DEPTH'],
    ['no object', '[]', 'ERR_CARD_SHAPE'],
    ['no text', '', 'ERR_JSON_SYNTAX'],
    ['without signatures', '{"name":"a"}', 'ERR_CARD_UNSIGNED'],
    ['with signatures that are no list', '{"signatures":{}}', 'ERR_CARD_SIGNATURE_MALFORMED'],
  ])('a card %s has a reason', async (_, text, reason) => {
    expect(await verifyCard(text, { jwks: { keys: [publicOf(a)] } })).toEqual({ ok: false, reason, signatures: [] })
  })
})

describe('what is not the received text', () => {
  it.each([[rigCard()], [undefined], [null], [5], [[]]])('P120 %j is a mistake of the caller', async (given) => {
    const jwks = { keys: [publicOf(a)] }
    await expect(verifyCard(given as never, { jwks })).rejects.toThrow(/as received/)
    await expect(signCard(given as never, { key: a })).rejects.toThrow(TypeError)
    expect(() => canonicalizeCard(given as never, 'raw')).toThrow(TypeError)
  })
})

describe('integers beyond 2^53-1', () => {
  const served = async (literal: string) => {
    const card = rigCard({ capabilities: { extensions: [{ uri: 'urn:x', params: { n: Number(literal) } }] } })
    const text = JSON.stringify({ ...card, signatures: [await signatureOf(card, 'raw', a)] })
    return text.replace(/"n":[^}]+/, `"n":${literal}`)
  }

  it.each([
    ['9007199254740992', 'is a double'],
    ['36393550434614010', 'is how RFC 8785 writes its double'],
    ['36393550434614008', 'is that double in other digits'],
    ['-9007199254740992', 'is a double'],
    ['1e300', 'is no integer literal'],
  ])('A04 %s %s: it was signed', async (literal) => {
    const result = await verifyCard(await served(literal), { jwks: { keys: [publicOf(a)] } }, { strict: true })
    expect(result).toMatchObject({ ok: true, uncovered: [] })
  })

  it.each(['9007199254740993', '36393550434614009', '-9007199254740993'])(
    'A04 %s is not what was signed: reported, and refused where all must be',
    async (literal) => {
      const text = await served(literal)
      const jwks = { keys: [publicOf(a)] }
      expect(await verifyCard(text, { jwks })).toMatchObject({
        ok: true,
        uncovered: ['/capabilities/extensions/0/params/n'],
      })
      expect(await verifyCard(text, { jwks }, { strict: true })).toMatchObject({ reason: 'ERR_JSON_UNSAFE_NUMBER' })
      expect(await verifyCard(text, { jwks }, { onUncovered: 'reject' })).toMatchObject({
        reason: 'ERR_CARD_UNCOVERED',
      })
    },
  )
})

describe('whom to trust', () => {
  it.each([
    ['nothing', {}],
    ['both', { jwks: { keys: [] }, trust: {} }],
    ['undefined', undefined],
    ['null', null],
    ['a key set in the wrong place', { keys: [] }],
  ])('P126 %s is a mistake of the caller', async (_, by) => {
    await expect(verifyCard('{}', by as never)).rejects.toThrow('"jwks" or "trust"')
  })

  it('P126 an empty key set trusts nobody, and is a mistake', async () => {
    await expect(verifyCard('{}', { jwks: { keys: [] } })).rejects.toThrow('"jwks" must hold')
  })
})

describe('time', () => {
  const nowOf = async (at: unknown): Promise<number> => {
    let seen = Number.NaN
    const trust: Trust = {
      ...trustJwks({ keys: [publicOf(a)] }),
      keysFor: (_, { nowMs }) => {
        seen = nowMs
        return []
      },
    }
    const { text } = await signCard(JSON.stringify(rigCard()), { key: a })
    await verifyCard(text, { trust }, { at: at as number })
    return seen
  }

  it.each([
    ['unix seconds', 1_800_000_000],
    ['a Date', new Date(1_800_000_000_000)],
    ['RFC 3339', '2027-01-15T08:00:00Z'],
    ['RFC 3339 with an offset', '2027-01-15T09:00:00+01:00'],
  ])('%s', async (_, at) => expect(await nowOf(at)).toBe(1_800_000_000_000))

  it.each([['2027-01-15T08:00:00'], ['2027-01-15'], ['1800000000'], ['soon'], [Number.NaN], [new Date('x')], [null]])(
    '%s is no time',
    async (at) => expect(nowOf(at)).rejects.toThrow('"at"'),
  )
})

describe('scope', () => {
  it.each(['supportedInterfaces', 'supported_interfaces', 'additionalInterfaces', 'additional_interfaces'])(
    'A11 A19 P129 the URLs of %s are judged',
    async (name) => {
      const card = { ...rigCard(), [name]: [{ url: 'https://elsewhere.example' }] }
      const text = JSON.stringify({ ...card, signatures: [await signatureOf(card, 'raw', a)] })
      let judged: readonly string[] = []
      const trust: Trust = {
        ...trustJwks({ keys: [publicOf(a)] }),
        refusalOf: (_, { urls }) => {
          judged = urls
          return 'ERR_CARD_ORIGIN'
        },
      }
      expect(await verifyCard(text, { trust })).toMatchObject({ ok: false, reason: 'ERR_CARD_ORIGIN' })
      expect(judged).toContain('https://elsewhere.example')
    },
  )
})

describe('one key of two signers', () => {
  it.each([
    ['the first may not sign here', 0],
    ['the second may not sign here', 1],
  ])('P129 %s, the other may', async (_, out) => {
    const [key] = await trustJwks({ keys: [publicOf(a)] }).keysFor({ kid: 'a', alg: 'ES256' }, { nowMs: 0 })
    if (key === undefined) throw new Error('no key')
    const trust: Trust = {
      threshold: 1,
      keysFor: () => ['x', 'y'].map((signer) => ({ ...key, signer })),
      refusalOf: ({ signer }) => (signer === ['x', 'y'][out] ? 'ERR_CARD_ORIGIN' : undefined),
    }
    const { text } = await signCard(JSON.stringify(rigCard()), { key: a })
    expect(await verifyCard(text, { trust })).toMatchObject({ ok: true, signer: ['y', 'x'][out] })
    expect(await verifyCard(text, { trust: { ...trust, refusalOf: () => 'ERR_CARD_ORIGIN' } })).toMatchObject({
      ok: false,
      reason: 'ERR_CARD_ORIGIN',
      signatures: [{ ok: false, reason: 'ERR_CARD_ORIGIN', signer: 'x' }],
    })
  })
})

describe('keys that sign', () => {
  it.each(['ES256', 'ES384', 'ES512', 'EdDSA', 'RS256', 'PS256'])('%s', async (alg) => {
    const key = { ...(await newKey('k', alg)), alg }
    const jwks = {
      keys: [Object.fromEntries(Object.entries(key).filter(([name]) => !/^(?:d|p|q|dp|dq|qi)$/.test(name)))],
    }
    const { text } = await signCard(JSON.stringify(rigCard()), { key })
    expect(await verifyCard(text, { jwks })).toMatchObject({ ok: true, signatures: [{ ok: true, alg, kid: 'k' }] })
  })

  it('as JWK, KeyObject, CryptoKey and PEM: one kid, one signer', async () => {
    const { privateKey } = await generateKeyPair('ES256', { extractable: true })
    const jwk = await exportJWK(privateKey)
    const kinds: SignCardOptions['key'][] = [
      jwk,
      createPrivateKey({ key: jwk as never, format: 'jwk' }),
      privateKey,
      await exportPKCS8(privateKey),
    ]
    const kids = new Set<unknown>()
    for (const key of kinds) {
      const { card } = await signCard(JSON.stringify(rigCard()), { key })
      const [{ protected: header }] = card.signatures as [{ protected: string }]
      const { kid, alg, typ } = JSON.parse(Buffer.from(header, 'base64url').toString()) as Record<string, unknown>
      expect([alg, typ]).toEqual(['ES256', 'JOSE'])
      kids.add(kid)
    }
    expect(kids.size).toBe(1)
  })
})

describe('the form of a signed card', () => {
  it('P124 what was verified, written again with its signatures, verifies again', async () => {
    const { text } = await signCard(JSON.stringify(rigCard({ name: 'Café 😀' })), { key: a })
    const jwks = { keys: [publicOf(a)] }
    const first = await verifyCard(text, { jwks })
    if (!first.ok) throw new Error(first.reason)
    const { signatures } = JSON.parse(text) as { signatures: unknown }
    const again = await verifyCard(JSON.stringify({ ...first.card, signatures }), { jwks }, { strict: true })
    expect(again).toMatchObject({ ok: true, uncovered: [], card: first.card })
  })

  it('the order of members and white space do not matter', async () => {
    const { text } = await signCard(JSON.stringify(rigCard()), { key: a })
    const jwks = { keys: [publicOf(a)] }
    const signed = JSON.parse(text) as Record<string, unknown>
    await fc.assert(
      fc.asyncProperty(fc.infiniteStream(fc.nat()), fc.constantFrom(0, 1, 4), async (seeds, indent) => {
        const shuffled = JSON.stringify(shuffle(signed, seeds), null, indent)
        expect((await verifyCard(shuffled, { jwks }, { strict: true })).ok).toBe(true)
      }),
      { numRuns: 40, interruptAfterTimeLimit: 10_000 },
    )
  })
})

function shuffle(value: unknown, seeds: { next(): { value: number } }): unknown {
  if (Array.isArray(value)) return value.map((item) => shuffle(item, seeds))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .map(([name, content]) => [seeds.next().value, [name, shuffle(content, seeds)]] as const)
      .toSorted(([x], [y]) => x - y)
      .map(([, member]) => member),
  )
}
