/** Trust file, client, pins and serving, with real HTTP. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AgentCard } from '@a2a-js/sdk'
import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { agentCardHandler as sdkCardHandler } from '@a2a-js/sdk/server/express'
import express from 'express'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { cardSignatureGenerator } from '../../src/adapters/a2a-sdk.ts'
import { agentCardHandler, jwksHandler } from '../../src/adapters/express.ts'
import {
  createCardClient,
  createServedCard,
  driftOf,
  fetchCard,
  formatDrift,
  loadTrust,
  pinOf,
  readPins,
  signCard,
  verifyCard,
  writePins,
} from '../../src/card/index.ts'
import { DemoExecutor } from '../../src/cli/demo/agent.ts'
import { createEgress } from '../../src/egress/index.ts'
import { PolicyError } from '../../src/policy/index.ts'
import { formatProblem } from '../../src/policy/problem.ts'

const NOW = 1_800_000_000
let key: JWK
let other: JWK
let folder: string
let server: Server
let base: string
let requests: { url: string; headers: IncomingMessage['headers'] }[] = []
let answer: (request: IncomingMessage, response: ServerResponse) => void
const egress = createEgress({
  requireHttps: false,
  ports: Array.from({ length: 64_000 }, (_, index) => index + 1024),
  allowAddresses: ['127.0.0.0/8'],
})

const publicOf = ({ d: _, ...jwk }: JWK) => jwk
const newKey = async (kid: string): Promise<JWK> => ({
  ...(await exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey)),
  kid,
  alg: 'ES256',
})

beforeAll(async () => {
  key = await newKey('k1')
  other = await newKey('k2')
  folder = mkdtempSync(join(tmpdir(), 'a2a-trust-cards-'))
  server = createServer((request, response) => {
    requests.push({ url: request.url ?? '', headers: request.headers })
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await egress.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  requests = []
})

function cardOf(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    name: 'Agent',
    description: 'd',
    version: '1.2.0',
    supportedInterfaces: [{ url: `${base}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: { streaming: true },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 's', name: 'S', description: 'd', tags: ['t'] }],
    securitySchemes: { b: { httpAuthSecurityScheme: { scheme: 'bearer' } } },
    securityRequirements: [{ schemes: { b: { list: ['x'] } } }],
    ...changes,
  }
}
const signed = async (changes: Record<string, unknown> = {}, by = key) =>
  (await signCard(JSON.stringify(cardOf(changes)), { key: by })).text
const trustOf = (changes: Record<string, unknown> = {}, signer: Record<string, unknown> = {}) =>
  loadTrust({
    trust: { version: 1, signers: [{ name: 'acme', origins: [base], keys: [publicOf(key)], ...signer }], ...changes },
    clock: () => NOW * 1000,
    fetch: egress.fetch,
  })
const serve = (text: string, headers: Record<string, string> = {}) => {
  answer = (_, response) => response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(text)
}
const reasonOf = async (text: string, trust: Awaited<ReturnType<typeof trustOf>>, origin = base) => {
  const result = await verifyCard(text, { trust, origin }, { at: NOW })
  return result.ok ? 'ok' : result.reason
}

describe('trust file', () => {
  it('A19 P129 a key signs for its origins only: where the card came from, and every interface', async () => {
    const trust = await trustOf()
    const text = await signed()
    expect(await reasonOf(text, trust)).toBe('ok')
    expect(await reasonOf(text, trust, 'https://evil.example')).toBe('ERR_CARD_ORIGIN')
    const elsewhere = await signed({
      supportedInterfaces: [
        { url: `${base}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
        { url: 'https://a.example/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      ],
    })
    expect(await reasonOf(elsewhere, trust)).toBe('ERR_CARD_ORIGIN')
  })

  it('A18 P17 revoked, expired and not yet valid are told apart', async () => {
    const text = await signed()
    expect(await reasonOf(text, await trustOf({}, { revoked: ['k1'] }))).toBe('ERR_CARD_KEY_REVOKED')
    expect(await reasonOf(text, await trustOf({}, { notAfter: NOW - 1 }))).toBe('ERR_CARD_KEY_EXPIRED')
    expect(await reasonOf(text, await trustOf({}, { notBefore: '2030-01-01T00:00:00Z' }))).toBe('ERR_CARD_KEY_EXPIRED')
    expect(await reasonOf(text, await trustOf({}, { notBefore: NOW - 1, notAfter: NOW + 1 }))).toBe('ok')
  })

  it('n of m: two different signers, not one signer twice', async () => {
    const trust = await loadTrust({
      trust: {
        version: 1,
        threshold: 2,
        signers: [
          { name: 'a', origins: [base], keys: [publicOf(key)] },
          { name: 'b', origins: [base], keys: [publicOf(other)] },
        ],
      },
    })
    const one = await signed()
    const two = (await signCard(one, { key: other, signatures: 'add' })).text
    expect(await reasonOf(one, trust)).toBe('ERR_CARD_THRESHOLD')
    expect(await reasonOf(two, trust)).toBe('ok')
    const twice = JSON.parse(one) as { signatures: object[] }
    expect(
      await reasonOf(JSON.stringify({ ...twice, signatures: [...twice.signatures, ...twice.signatures] }), trust),
    ).toBe('ERR_CARD_THRESHOLD')
  })

  it('A06 A07 jku is off, and where it is allowed it speaks for its own origin alone', async () => {
    const jku = 'https://evil.example/jwks.json'
    const { text } = await signCard(JSON.stringify(cardOf()), { key: other, jku })
    expect(await reasonOf(text, await trustOf())).toBe('ERR_CARD_KEY_UNKNOWN')
    expect(requests).toEqual([])
    const fetched: string[] = []
    const allowing = await loadTrust({
      trust: { version: 1, jku: { allow: ['https://keys.example'] } },
      fetch: async (input) => {
        fetched.push(String(input))
        return new Response(JSON.stringify({ keys: [publicOf(other)] }), {
          headers: { 'content-type': 'application/json' },
        })
      },
    })
    expect(await reasonOf(text, allowing)).toBe('ERR_CARD_KEY_UNKNOWN')
    for (const trick of ['https://keys.example@evil.example/j', 'https://keys.example.evil.example/j']) {
      expect(
        await reasonOf((await signCard(JSON.stringify(cardOf()), { key: other, jku: trick })).text, allowing),
      ).toBe('ERR_CARD_KEY_UNKNOWN')
    }
    expect(fetched).toEqual([])
    const own = cardOf({
      supportedInterfaces: [{ url: 'https://keys.example/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    })
    const allowed = (await signCard(JSON.stringify(own), { key: other, jku: 'https://keys.example/jwks.json' })).text
    expect(await reasonOf(allowed, allowing, 'https://keys.example')).toBe('ok')
    expect(await reasonOf(allowed, allowing, 'https://other.example')).toBe('ERR_CARD_ORIGIN')
    expect(fetched).toEqual(['https://keys.example/jwks.json'])
  })

  it('A21 P48 200 cards with random kids in a second cause one request', async () => {
    let sets = 0
    const trust = await loadTrust({
      trust: { version: 1, signers: [{ name: 'acme', origins: [base], jwks: 'https://keys.example/jwks.json' }] },
      clock: () => NOW * 1000,
      fetch: async () => {
        sets += 1
        return new Response(JSON.stringify({ keys: [publicOf(key)] }), {
          headers: { 'content-type': 'application/json' },
        })
      },
    })
    const text = await signed()
    const card = JSON.parse(text) as { signatures: { protected: string; signature: string }[] }
    const reasons = new Set<string>()
    for (let index = 0; index < 200; index += 1) {
      const header = Buffer.from(JSON.stringify({ alg: 'ES256', kid: `random-${index}`, typ: 'JOSE' })).toString(
        'base64url',
      )
      reasons.add(
        await reasonOf(JSON.stringify({ ...card, signatures: [{ ...card.signatures[0], protected: header }] }), trust),
      )
    }
    expect([...reasons]).toEqual(['ERR_CARD_KEY_UNKNOWN'])
    expect(await reasonOf(text, trust)).toBe('ok')
    expect(sets).toBe(1)
  })

  it.each([
    [
      'P126 nobody',
      'version: 1\n',
      ['trust.yaml:1:1  ERR_TRUST_NOBODY trusts nobody: add "signers", or say "mode: off"'],
    ],
    [
      'everybody, and other mistakes, all at once',
      "version: 1\nthreshold: 3\nsigners:\n  - name: a\n    origins: ['https://*.com', '*', 'https://x.example/path']\n    jwks: http://x\n  - name: a\n    origins: [https://a.example]\n    keys: [{ kty: oct, k: AAAA, kid: k }]\n",
      [
        /^trust\.yaml:5:15 {2}ERR_POLICY_VALUE .*would trust everybody below a top-level domain/,
        /^trust\.yaml:5:32 {2}ERR_POLICY_VALUE .*would trust everybody: list the origins/,
        /^trust\.yaml:5:37 {2}ERR_POLICY_VALUE .*must be an origin such as https:\/\/x\.example, or/,
        /^trust\.yaml:6:11 {2}ERR_POLICY_VALUE .*must be file:PATH or an https:\/\/ URL/,
        /^trust\.yaml:2:12 {2}ERR_POLICY_VALUE .*more than there are signers/,
        /^trust\.yaml:7:11 {2}ERR_POLICY_VALUE .*is the name of another signer/,
        /^trust\.yaml:9:12 {2}ERR_POLICY_KEY_FILE .*symmetric key; a set holds public keys/,
      ],
    ],
    [
      'keys that cannot be, and a threshold nobody meets',
      'version: 1\nthreshold: 3\nsigners:\n  - name: a\n    origins: [https://a.example]\n    keys: [{ kty: oct, k: AAAA, kid: k }]\n  - name: a\n    origins: [https://a.example]\n',
      [
        /more than there are signers/,
        /the key cannot be here: symmetric key/,
        /is the name of another signer/,
        /needs either "jwks"/,
      ],
    ],
  ])('a file that trusts %s is refused, each mistake in its place', async (_, text, expected) => {
    writeFileSync(join(folder, 'trust.yaml'), text)
    const fault: unknown = await loadTrust({ trust: 'trust.yaml', baseDir: folder }).catch((reason: unknown) => reason)
    if (!(fault instanceof PolicyError)) throw fault
    const lines = fault.problems.map(formatProblem).join('\n')
    for (const one of expected) expect(lines).toMatch(typeof one === 'string' ? one : new RegExp(one.source, 'm'))
  })
})

describe('client', () => {
  it('A22 keyed by its trust: a card let through unverified satisfies nobody else', async () => {
    serve(JSON.stringify(cardOf()), { 'cache-control': 'max-age=600' })
    const off = await createCardClient({ trust: { version: 1, mode: 'off' }, fetch: egress.fetch })
    expect(await off.fetchCard(base)).toMatchObject({ verified: false, card: { name: 'Agent' } })
    const strict = await createCardClient({ trust: await trustOf(), fetch: egress.fetch })
    await expect(strict.fetchCard(base)).rejects.toMatchObject({ code: 'ERR_CARD_UNSIGNED' })
    expect(strict.current(base)).toBeUndefined()
  })

  it('the four modes', async () => {
    const unsigned = JSON.stringify(cardOf())
    const broken = (await signed()).replace('"name":"Agent"', '"name":"Evil!"')
    const outcome = async (mode: string, text: string) => {
      serve(text)
      return fetchCard(base, { trust: await trustOf({ mode }), fetch: egress.fetch, clock: () => NOW * 1000 }).then(
        ({ verified }) => (verified ? 'verified' : 'unverified'),
        (fault: { code: string }) => fault.code,
      )
    }
    expect(await outcome('require', unsigned)).toBe('ERR_CARD_UNSIGNED')
    expect(await outcome('prefer', unsigned)).toBe('unverified')
    expect(await outcome('prefer', broken)).toBe('ERR_CARD_SIGNATURE_INVALID')
    expect(await outcome('audit', broken)).toBe('unverified')
    expect(await outcome('off', broken)).toBe('unverified')
    for (const mode of ['require', 'prefer', 'audit']) expect(await outcome(mode, await signed())).toBe('verified')
  })

  it('max-age answers from memory, ETag asks again, and the keys are judged anew each time', async () => {
    let now = NOW
    const text = await signed()
    answer = (request, response) => {
      if (request.headers['if-none-match'] === '"v1"') response.writeHead(304, { 'cache-control': 'max-age=60' }).end()
      else response.writeHead(200, { 'cache-control': 'max-age=60', etag: '"v1"' }).end(text)
    }
    const client = await createCardClient({
      trust: await trustOf({}, { notAfter: NOW + 100 }),
      fetch: egress.fetch,
      clock: () => now * 1000,
    })
    for (let round = 0; round < 3; round += 1) await client.fetchCard(base)
    expect(requests).toHaveLength(1)
    now += 61
    await client.fetchCard(base)
    expect(requests.map(({ headers }) => headers['if-none-match'])).toEqual([undefined, '"v1"'])
    now += 40
    await expect(client.fetchCard(base)).rejects.toMatchObject({ code: 'ERR_CARD_KEY_EXPIRED' })
  })

  it('A10 P131 a bad card and a bad extended card leave the good one; the next call asks again', async () => {
    const client = await createCardClient({ trust: await trustOf(), fetch: egress.fetch, clock: () => NOW * 1000 })
    serve(await signed())
    await client.fetchCard(base)
    const evil = (await signed({ capabilities: { pushNotifications: true } })).replace(
      '"name":"Agent"',
      '"name":"UNVERIFIED"',
    )
    await expect(client.acceptExtendedCard(base, evil)).rejects.toMatchObject({ code: 'ERR_CARD_SIGNATURE_INVALID' })
    serve(evil)
    await expect(client.fetchCard(base)).rejects.toMatchObject({ code: 'ERR_CARD_SIGNATURE_INVALID' })
    await expect(client.fetchCard(base)).rejects.toMatchObject({ code: 'ERR_CARD_SIGNATURE_INVALID' })
    expect(requests).toHaveLength(3)
    expect(client.current(base)?.card).toMatchObject({ name: 'Agent' })
    const extended = await client.acceptExtendedCard(base, await signed({ name: 'Extended' }))
    expect(extended.card).toMatchObject({ name: 'Extended' })
    expect(client.current(base)?.card).toMatchObject({ name: 'Extended' })
  })

  it('A13 P125 a card whose URL a proxy rewrote is refused, and the reason says why', async () => {
    serve((await signed()).replace(`${base}/a2a`, `${base}/via-proxy`))
    const client = await createCardClient({ trust: await trustOf(), fetch: egress.fetch, clock: () => NOW * 1000 })
    await expect(client.fetchCard(base)).rejects.toMatchObject({ code: 'ERR_CARD_SIGNATURE_INVALID' })
  })

  it("P149 P169 card URLs on a private network are not reached by the client's own fetch", async () => {
    const client = await createCardClient({ trust: { version: 1, mode: 'off' } })
    for (const url of ['https://10.0.0.1/card.json', 'https://169.254.169.254/', base]) {
      await expect(client.fetchCard(url)).rejects.toMatchObject({
        code: expect.stringMatching(/^ERR_EGRESS_/) as string,
      })
    }
    expect(requests).toEqual([])
    await client.close()
  })
})

describe('pins', () => {
  const pin = (changes: Record<string, unknown> = {}, signer: string | null = 'acme') => pinOf(cardOf(changes), signer)

  it('A23 text may change in silence; host, requirement, key and version may not', () => {
    const before = pin()
    expect(driftOf(before, pin({ description: 'other', name: 'Other', version: '1.3.0' }))).toEqual([])
    const kinds = (after: ReturnType<typeof pin>) =>
      driftOf(before, after).map(({ kind, change, weaker }) => `${kind} ${change}${weaker ? ' weaker' : ''}`)
    const interfaces = cardOf().supportedInterfaces as object[]
    expect(
      kinds(
        pin({
          supportedInterfaces: [
            ...interfaces,
            { url: 'https://evil.example', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
          ],
        }),
      ),
    ).toEqual(['host added weaker'])
    expect(kinds(pin({ securityRequirements: [] }))).toEqual(['requirement removed weaker'])
    expect(kinds(pin({}, 'mallory'))).toEqual(['signer changed weaker'])
    expect(kinds(pin({ version: '1.0.0' }))).toEqual(['version changed weaker'])
    expect(kinds(pin({ securityRequirements: [{ schemes: { b: { list: [] } } }, { schemes: {} }] }))).toContain(
      'requirement added weaker',
    )
    expect(kinds(pin({ skills: [] }))).toEqual(['skill removed'])
    expect(formatDrift(driftOf(before, pin({ version: '1.0.0' })))).toBe('! version changed version: 1.2.0 -> 1.0.0\n')
  })

  it('a drifted card is refused, and told in audit', async () => {
    const url = `${base}/.well-known/agent-card.json`
    const file = join(folder, 'pins.json')
    await writePins(file, { [url]: pin() })
    const pins = await readPins(file)
    serve(await signed({ version: '1.0.0' }))
    await expect(
      fetchCard(base, { trust: await trustOf(), fetch: egress.fetch, pins, clock: () => NOW * 1000 }),
    ).rejects.toMatchObject({
      code: 'ERR_CARD_DRIFT',
      details: { drift: ['version changed version'] },
    })
    const audit = await fetchCard(base, {
      trust: await trustOf({ mode: 'audit' }),
      fetch: egress.fetch,
      pins,
      clock: () => NOW * 1000,
    })
    expect(audit.drift).toMatchObject([{ kind: 'version' }])
    expect(readFileSync(file, 'utf8')).toContain('"version": 1')
    writeFileSync(file, '{}')
    await expect(readPins(file)).rejects.toMatchObject({ code: 'ERR_TRUST_PINS' })
  })
})

describe('serving', () => {
  it('A15 A16 signed once, the same bytes each time, ETag, HEAD, 304, CORS, rotation', async () => {
    const served = await createServedCard({ card: cardOf(), keys: [{ key }, { key: other }], maxAgeSeconds: 60 })
    const app = express()
    app.use('/.well-known/agent-card.json', agentCardHandler(served, { cors: '*' }))
    app.use('/.well-known/jwks.json', jwksHandler(served))
    const listening = app.listen(0, '127.0.0.1')
    await new Promise((resolve) => listening.once('listening', resolve))
    const at = `http://127.0.0.1:${(listening.address() as AddressInfo).port}/.well-known`
    const texts = new Set<string>()
    for (let round = 0; round < 5; round += 1)
      texts.add(await (await fetch(`${at}/agent-card.json`, { headers: { host: 'evil.example' } })).text())
    const [text] = [...texts] as [string]
    expect(texts.size).toBe(1)
    expect(text).not.toContain('evil')
    expect((JSON.parse(text) as { signatures: unknown[] }).signatures).toHaveLength(2)
    const jwks = (await (await fetch(`${at}/jwks.json`)).json()) as { keys: JWK[] }
    expect(jwks.keys.map(({ kid, d }) => [kid, d])).toEqual([
      ['k1', undefined],
      ['k2', undefined],
    ])
    for (const one of jwks.keys)
      expect((await verifyCard(text, { jwks: { keys: [one] } }, { strict: true })).ok).toBe(true)

    const head = await fetch(`${at}/agent-card.json`, { method: 'HEAD' })
    expect([
      head.status,
      await head.text(),
      head.headers.get('cache-control'),
      head.headers.get('access-control-allow-origin'),
    ]).toEqual([200, '', 'public, max-age=60', '*'])
    const etag = head.headers.get('etag') as string
    expect((await fetch(`${at}/agent-card.json`, { headers: { 'if-none-match': `W/${etag}, "x"` } })).status).toBe(304)
    expect((await fetch(`${at}/agent-card.json`, { headers: { 'if-none-match': '"x"' } })).status).toBe(200)
    expect((await fetch(`${at}/agent-card.json`, { method: 'POST' })).status).toBe(405)
    listening.closeAllConnections()
    await new Promise((resolve) => listening.close(resolve))
  })

  it('P120 the generator makes the SDK serve a card whose schemes are signed', async () => {
    const typed = AgentCard.fromJSON(cardOf({ capabilities: { streaming: true } }))
    const handler = new DefaultRequestHandler(
      typed,
      new InMemoryTaskStore(),
      new DemoExecutor(),
      undefined,
      undefined,
      undefined,
      undefined,
      cardSignatureGenerator({ key }),
    )
    const app = express()
    app.use('/card', sdkCardHandler({ agentCardProvider: handler }))
    const listening = app.listen(0, '127.0.0.1')
    await new Promise((resolve) => listening.once('listening', resolve))
    const at = `http://127.0.0.1:${(listening.address() as AddressInfo).port}/card`
    const first = await (await fetch(at)).text()
    expect(await (await fetch(at)).text()).toBe(first)
    const result = await verifyCard(first, { jwks: { keys: [publicOf(key)] } })
    expect(result).toMatchObject({ ok: true, warnings: [] })
    const changed = first.replace('"bearer"', '"basic"')
    expect(changed).not.toBe(first)
    expect((await verifyCard(changed, { jwks: { keys: [publicOf(key)] } })).ok).toBe(false)
    listening.closeAllConnections()
    await new Promise((resolve) => listening.close(resolve))
  })
})
