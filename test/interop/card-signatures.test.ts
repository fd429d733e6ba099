/** Cards signed here verify in `@a2a-js/sdk` 1.3 and the reverse, directly and as served over HTTP. */
import type { webcrypto } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import {
  AgentCard,
  type AgentCardSignatureGenerator,
  generateAgentCardSignature,
  verifyAgentCardSignature,
} from '@a2a-js/sdk'
import { DefaultAgentCardResolver } from '@a2a-js/sdk/client'
import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { agentCardHandler as sdkCardHandler } from '@a2a-js/sdk/server/express'
import express, { type Express } from 'express'
import { exportJWK, FlattenedSign, generateKeyPair, importJWK, type JWK } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import { cardSignatureGenerator } from '../../src/adapters/a2a-sdk.ts'
import { agentCardHandler, jwksHandler } from '../../src/adapters/express.ts'
import { createServedCard, type Profile, signCard, verifyCard } from '../../src/card/index.ts'
import { canonicalizeCard } from '../../src/card/profiles.ts'
import { DemoExecutor } from '../../src/cli/demo/agent.ts'
import { rigCard } from '../support/rig.ts'

let jwk: JWK
let publicJwk: JWK
beforeAll(async () => {
  const pair = await generateKeyPair('ES256', { extractable: true })
  jwk = { ...(await exportJWK(pair.privateKey)), kid: 'k1', alg: 'ES256' }
  publicJwk = { ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'ES256' }
})

const card = (changes: object = {}) => JSON.stringify(rigCard(changes as Record<string, unknown>))
const plain = rigCard({ securityRequirements: [{ schemes: { login: { list: ['a2a:use'] } } }] })

/** Runs `use` with the address of the listening app. */
async function overHttp<T>(app: Express, use: (base: string) => Promise<T>): Promise<T> {
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

/** The SDK's own verifier, over the card as an SDK client gets it. */
async function sdkAccepts(text: string): Promise<boolean> {
  const key = (await importJWK(publicJwk, 'ES256')) as webcrypto.CryptoKey
  const verify = verifyAgentCardSignature(async () => key)
  return verify(JSON.parse(text) as AgentCard).then(
    () => true,
    () => false,
  )
}

describe('signed here', () => {
  it.each([
    ['an ordinary card', plain, false, 1],
    ['a card with an empty scope list, compat', rigCard(), true, 2],
    ['a card with accents, compat', { ...plain, name: 'Café 😀' }, true, 2],
    [
      'a card with numbers, compat',
      { ...plain, capabilities: { streaming: true, extensions: [{ uri: 'urn:x', params: { n: 3, f: 0.5 } }] } },
      true,
      2,
    ],
    [
      'a card with mTLS',
      { ...plain, securitySchemes: { ...(plain.securitySchemes as object), m: { mtlsSecurityScheme: {} } } },
      false,
      1,
    ],
    ['A01 a card with empty capabilities', { ...plain, capabilities: {} }, false, 1],
  ])('%s verifies here and in the SDK', async (_, given, compat, signatures) => {
    const { text, card: signed } = await signCard(JSON.stringify(given), { key: jwk, compat })
    expect((signed.signatures as unknown[]).length).toBe(signatures)
    const strict = await verifyCard(text, { jwks: { keys: [publicJwk] } }, { strict: true })
    expect(strict).toMatchObject({ ok: true, profile: 'raw', coverage: 'full', uncovered: [], warnings: [] })
    expect(await sdkAccepts(text)).toBe(true)
  })

  it('over HTTP: the SDK verifies the served card with the served key set', async () => {
    const served = await createServedCard({ card: JSON.stringify(plain), keys: [{ key: jwk, compat: true }] })
    const app = express()
      .use('/.well-known/agent-card.json', agentCardHandler(served))
      .use('/.well-known/jwks.json', jwksHandler(served))
    await overHttp(app, async (base) => {
      const received = (await (await fetch(`${base}/.well-known/agent-card.json`)).json()) as AgentCard
      const asked: string[] = []
      const verify = verifyAgentCardSignature(async (kid) => {
        asked.push(kid)
        const { keys } = (await (await fetch(`${base}/.well-known/jwks.json`)).json()) as { keys: JWK[] }
        return (await importJWK(keys.find((one) => one.kid === kid) as JWK, 'ES256')) as webcrypto.CryptoKey
      })
      await verify(received)
      expect(asked).toEqual(['k1'])
      await expect(verify({ ...received, name: 'Evil' })).rejects.toThrow('No valid signatures')
      // Its resolver hands out the typed object, of which its verifier leaves the security schemes out (issue 663): what
      // it then checks is not the card. To sign that as well would be to sign a card whose schemes anybody may change.
      await expect(verify(await new DefaultAgentCardResolver().resolve(base))).rejects.toThrow('No valid signatures')
    })
    const { securitySchemes: _, ...open } = plain
    const withoutSchemes = await createServedCard({ card: JSON.stringify(open), keys: [{ key: jwk }] })
    await overHttp(express().use('/.well-known/agent-card.json', agentCardHandler(withoutSchemes)), async (base) => {
      const key = (await importJWK(publicJwk, 'ES256')) as webcrypto.CryptoKey
      await verifyAgentCardSignature(async () => key)(await new DefaultAgentCardResolver().resolve(base))
    })
  })

  it('compat: some signature holds under py-legacy and under raw', async () => {
    const { text } = await signCard(card({ name: 'Café' }), { key: jwk, compat: true })
    for (const profile of ['raw', 'py-legacy', 'clean', 'spec'] as Profile[]) {
      expect((await verifyCard(text, { jwks: { keys: [publicJwk] } }, { profiles: [profile] })).ok, profile).toBe(true)
    }
  })

  it('A03 what the card requires is bound by the signature, in every way of removing it', async () => {
    const { text } = await signCard(card({ skills: [{ id: 's', name: 'S', description: 'd', tags: ['t'] }] }), {
      key: jwk,
    })
    const edits: ((one: Record<string, unknown>) => void)[] = [
      (one) => delete one.securityRequirements,
      (one) => Object.assign(one, { securityRequirements: [{ schemes: {} }] }),
      (one) => delete (one.securitySchemes as Record<string, unknown>).key,
      (one) =>
        Object.assign((one.skills as object[])[0] as object, {
          securityRequirements: [{ schemes: { key: { list: [] } } }],
        }),
    ]
    for (const edit of edits) {
      const changed = JSON.parse(text) as Record<string, unknown>
      edit(changed)
      const result = await verifyCard(JSON.stringify(changed), { jwks: { keys: [publicJwk] } })
      expect(result).toMatchObject({ ok: false, reason: 'ERR_CARD_SIGNATURE_INVALID' })
    }
  })

  it('A15 signing again does not grow the card; another key is added; a changed card drops what no longer holds', async () => {
    const other = {
      ...(await exportJWK((await generateKeyPair('EdDSA', { extractable: true })).privateKey)),
      kid: 'k2',
    }
    const first = await signCard(card(), { key: jwk })
    const again = await signCard(first.text, { key: jwk })
    expect((again.card.signatures as unknown[]).length).toBe(1)
    const both = await signCard(first.text, { key: other, signatures: 'add' })
    expect((both.card.signatures as unknown[]).length).toBe(2)
    const { d: _, ...otherPublic } = other
    for (const keys of [[publicJwk], [otherPublic]])
      expect((await verifyCard(both.text, { jwks: { keys } })).ok).toBe(true)
    const changed = await signCard(JSON.stringify({ ...JSON.parse(both.text), version: '2.0.0' }), { key: other })
    expect((changed.card.signatures as unknown[]).length).toBe(1)
  })

  it('A05 P123 what another key has signed is served as it was signed', async () => {
    const text = JSON.stringify({
      ...plain,
      capabilities: { streaming: true, extensions: [{ uri: 'urn:x', required: false }] },
    })
    const other = {
      ...(await exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey)),
      kid: 'k2',
    }
    const { d: _, ...otherPublic } = other
    const { protected: header, signature } = await new FlattenedSign(Buffer.from(canonicalizeCard(text, 'raw')))
      .setProtectedHeader({ alg: 'ES256', kid: 'k2' })
      .sign(await importJWK(other, 'ES256'))
    const theirs = JSON.stringify({ ...JSON.parse(text), signatures: [{ protected: header, signature }] })
    const { text: both } = await signCard(theirs, { key: jwk, signatures: 'add' })
    for (const keys of [[publicJwk], [otherPublic]])
      expect(await verifyCard(both, { jwks: { keys } }, { strict: true })).toMatchObject({ ok: true, profile: 'raw' })
    // Alone, it is brought into the form that needs one signature only.
    const { text: alone } = await signCard(text, { key: jwk })
    expect(alone).not.toContain('required')
    expect(await sdkAccepts(alone)).toBe(true)
    // The SDK leaves the default out of what it checks, whether it is served or not.
    const deleted = alone.replace('{"uri":"urn:x"}', '{"required":false,"uri":"urn:x"}')
    expect(deleted).not.toBe(alone)
    expect((await verifyCard(deleted, { jwks: { keys: [publicJwk] } })).ok).toBe(true)
  })

  it('A01 a REQUIRED member that must be empty is signed in each form, with compat', async () => {
    const given = card({ description: '', skills: [] })
    await expect(signCard(given, { key: jwk })).rejects.toMatchObject({
      code: 'ERR_CARD_REQUIRED_EMPTY',
      details: { members: expect.arrayContaining(['/description', '/skills']) },
    })
    const { text } = await signCard(given, { key: jwk, compat: true })
    expect(await sdkAccepts(text)).toBe(true)
    for (const profile of ['raw', 'spec', 'clean', 'py-legacy'] as Profile[])
      expect((await verifyCard(text, { jwks: { keys: [publicJwk] } }, { profiles: [profile] })).ok, profile).toBe(true)
  })

  it.each([
    ['ERR_CARD_REQUIRED_EMPTY', () => card({ description: '' })],
    ['ERR_CARD_REQUIRED_EMPTY', () => card({ defaultInputModes: undefined, default_input_modes: [] })],
    ['ERR_CARD_SHAPE', () => card({ skills: {} })],
    ['ERR_JSON_DUPLICATE_NAME', () => '{"name":"a","name":"b"}'],
  ])('%s is not signed', async (code, text) => {
    await expect(signCard(text(), { key: jwk })).rejects.toMatchObject({ code })
  })

  it.each([
    ['a public key', () => publicJwk],
    ['a symmetric key', () => ({ kty: 'oct', k: 'AAAA', kid: 'x' })],
    ['P01 text that is no key', () => '-----BEGIN NOTHING-----'],
    ['an algorithm that does not fit', () => ({ ...jwk, alg: 'RS256' })],
  ])('%s does not sign', async (_, key) => {
    await expect(signCard(card(), { key: key() as JWK })).rejects.toMatchObject({ code: 'ERR_CARD_SIGNING_KEY' })
  })

  it('example keys do not sign in production', async () => {
    const before = process.env.NODE_ENV
    process.env.NODE_ENV = 'production'
    try {
      await expect(signCard(card(), { key: { ...jwk, kid: 'example-1' } })).rejects.toMatchObject({
        code: 'ERR_POLICY_EXAMPLE_KEY',
      })
    } finally {
      process.env.NODE_ENV = before
    }
  })
})

describe('signed by the SDK', () => {
  async function sdkSigned(given: unknown): Promise<string> {
    const sign = generateAgentCardSignature((await importJWK(jwk, 'ES256')) as webcrypto.CryptoKey, {
      alg: 'ES256',
      kid: 'k1',
      typ: 'JOSE',
    })
    return JSON.stringify(await sign(given as AgentCard))
  }

  it('ProtoJSON: verifies, over HTTP too, and the result holds what was signed', async () => {
    const text = await sdkSigned(plain)
    const app = express().get('/', (_, response) => void response.end(text))
    const received = await overHttp(app, async (base) => (await fetch(base)).text())
    const result = await verifyCard(received, { jwks: { keys: [publicJwk] } })
    expect(result.ok).toBe(true)
    if (result.ok) expect(result.card).toEqual(JSON.parse(canonicalizeCard(received, result.profile)))
  })

  it('P120 its own server, with its own generator: over HTTP the schemes are reported and not in the result; with ours they are', async () => {
    const ownGenerator = generateAgentCardSignature((await importJWK(jwk, 'ES256')) as webcrypto.CryptoKey, {
      alg: 'ES256',
      kid: 'k1',
      typ: 'JOSE',
    })
    const received = async (generator: AgentCardSignatureGenerator) => {
      const handler = new DefaultRequestHandler(
        AgentCard.fromJSON(plain),
        new InMemoryTaskStore(),
        new DemoExecutor(),
        undefined,
        undefined,
        undefined,
        undefined,
        generator,
      )
      const app = express().use('/.well-known/agent-card.json', sdkCardHandler({ agentCardProvider: handler }))
      return overHttp(app, async (base) => (await fetch(`${base}/.well-known/agent-card.json`)).text())
    }
    const jwks = { keys: [publicJwk] }
    const theirs = await received(ownGenerator)
    expect(JSON.parse(theirs)).toHaveProperty('signatures.0.protected')
    const result = await verifyCard(theirs, { jwks })
    if (!result.ok) throw new Error(result.reason)
    expect(result.card).not.toHaveProperty('securitySchemes')
    expect(result.warnings).toContain('/securitySchemes')
    expect((await verifyCard(theirs, { jwks }, { onUncovered: 'reject' })).ok).toBe(false)
    expect((await verifyCard(theirs, { jwks }, { strict: true })).ok).toBe(false)
    expect(await verifyCard(await received(cardSignatureGenerator({ key: jwk })), { jwks })).toMatchObject({
      ok: true,
      warnings: [],
      card: { securitySchemes: { login: { oauth2SecurityScheme: {} } } },
    })
  })

  it("P120 its typed object: the honest card is refused with the defect's name, and so is a card with another tokenUrl", async () => {
    const typed = await sdkSigned(AgentCard.fromJSON(plain))
    const { signatures } = JSON.parse(typed) as { signatures: unknown }
    const honest = JSON.stringify({ ...plain, signatures })
    const evil = honest.replace('https://issuer.example/token', 'https://evil.test/token')
    expect(evil).not.toBe(honest)
    for (const text of [honest, evil]) {
      expect(await verifyCard(text, { jwks: { keys: [publicJwk] } })).toMatchObject({
        ok: false,
        reason: 'ERR_CARD_SIGNATURE_OMITS_SECURITY_SCHEMES',
      })
    }
  })
})

describe('limits', () => {
  it('a card of 1 MB with 16 signatures is judged within its limit, and one signature more is not looked at', async () => {
    const big = card({
      skills: Array.from({ length: 6000 }, (_, index) => ({
        id: `s${index}`,
        name: 'Skill',
        description: 'd'.repeat(120),
        tags: ['t'],
      })),
    })
    expect(big.length).toBeGreaterThan(1_000_000)
    const { text } = await signCard(big, { key: jwk })
    const signed = JSON.parse(text) as { signatures: object[] }
    const [good] = signed.signatures as [object]
    const bad = Array.from({ length: 15 }, () => ({ ...good, signature: Buffer.alloc(64, 1).toString('base64url') }))
    const started = performance.now()
    const result = await verifyCard(JSON.stringify({ ...signed, signatures: [...bad, good] }), {
      jwks: { keys: [publicJwk] },
    })
    expect(result.ok).toBe(true)
    expect(performance.now() - started).toBeLessThan(10_000)
    const tooMany = await verifyCard(JSON.stringify({ ...signed, signatures: [...bad, good, good] }), {
      jwks: { keys: [publicJwk] },
    })
    expect(tooMany).toEqual({ ok: false, reason: 'ERR_CARD_SIGNATURE_COUNT', signatures: [] })
  })

  it('A07 P11 P128 a key that comes with the signature is not looked at', async () => {
    const attacker = await generateKeyPair('ES256', { extractable: true })
    const payload = canonicalizeCard(card(), 'raw')
    const { protected: header, signature } = await new FlattenedSign(Buffer.from(payload))
      .setProtectedHeader({ alg: 'ES256', kid: 'k1', jwk: await exportJWK(attacker.publicKey) })
      .sign(attacker.privateKey)
    const text = JSON.stringify({ ...rigCard(), signatures: [{ protected: header, signature }] })
    expect(await verifyCard(text, { jwks: { keys: [publicJwk] } })).toMatchObject({
      ok: false,
      reason: 'ERR_CARD_SIGNATURE_INVALID',
    })
  })

  it('A11 P122 added members are not in the result, and are named', async () => {
    const { text } = await signCard(card(), { key: jwk, compat: true })
    const changed = JSON.stringify({
      ...(JSON.parse(text) as object),
      url: 'https://evil.example',
      additionalInterfaces: [{ url: 'https://evil.example', transport: 'JSONRPC' }],
    })
    const result = await verifyCard(changed, { jwks: { keys: [publicJwk] } })
    if (!result.ok) throw new Error(result.reason)
    expect(result.card).not.toHaveProperty('url')
    expect(result.uncovered).toEqual(expect.arrayContaining(['/url', '/additionalInterfaces']))
    expect(result.warnings).toEqual(expect.arrayContaining(['/url', '/additionalInterfaces']))
    expect(await verifyCard(changed, { jwks: { keys: [publicJwk] } }, { onUncovered: 'reject' })).toMatchObject({
      ok: false,
      reason: 'ERR_CARD_UNCOVERED',
    })
    expect((await verifyCard(changed, { jwks: { keys: [publicJwk] } }, { strict: true })).ok).toBe(false)
  })
})
