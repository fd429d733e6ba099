/** Trust file, client, pins and serving, with real HTTP. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AgentCard } from '@a2a-js/sdk'
import { DefaultRequestHandler, InMemoryTaskStore, ServerCallContext } from '@a2a-js/sdk/server'
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
  lintTrust,
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
/** Key sets are behind https: URLs; the server here answers for all of them. */
const toServer: typeof globalThis.fetch = (input, init) =>
  egress.fetch(`${base}${new URL(input instanceof Request ? input.url : input).pathname}`, init)
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
    serve(JSON.stringify({ keys: [publicOf(key)] }))
    const trust = await loadTrust({
      trust: { version: 1, signers: [{ name: 'acme', origins: [base], jwks: 'https://keys.example/jwks.json' }] },
      clock: () => NOW * 1000,
      fetch: toServer,
    })
    const text = await signed()
    const card = JSON.parse(text) as { signatures: { protected: string; signature: string }[] }
    const reasons = new Set<string>()
    const judged = Array.from({ length: 200 }, async (_, index) => {
      const header = Buffer.from(JSON.stringify({ alg: 'ES256', kid: `random-${index}`, typ: 'JOSE' })).toString(
        'base64url',
      )
      reasons.add(
        await reasonOf(JSON.stringify({ ...card, signatures: [{ ...card.signatures[0], protected: header }] }), trust),
      )
    })
    await Promise.all(judged)
    expect([...reasons]).toEqual(['ERR_CARD_KEY_UNKNOWN'])
    expect(await reasonOf(text, trust)).toBe('ok')
    expect(requests.map(({ url }) => url)).toEqual(['/jwks.json'])
  })

  it('A21 however many jku URLs cards name, requests are bounded', async () => {
    serve(JSON.stringify({ keys: [publicOf(other)] }))
    const trust = await loadTrust({
      trust: { version: 1, jku: { allow: ['https://keys.example'] } },
      clock: () => NOW * 1000,
      fetch: toServer,
    })
    const reasons = new Set<string>()
    for (let index = 0; index < 130; index += 1) {
      const jku = `https://keys.example/${index}`
      const { text } = await signCard(JSON.stringify(cardOf()), { key: other, jku })
      const result = await verifyCard(text, { trust }, { at: NOW })
      reasons.add(result.ok ? 'ok' : result.reason)
    }
    expect([...reasons]).toEqual(['ERR_CARD_ORIGIN', 'ERR_CARD_KEY_UNAVAILABLE'])
    expect(requests).toHaveLength(100)
  })

  it('A18 a revoked key and a signer whose time is over do not come back through jku', async () => {
    serve(JSON.stringify({ keys: [publicOf(key)] }))
    const jku = 'https://keys.example/jwks.json'
    const own = {
      supportedInterfaces: [{ url: 'https://keys.example/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    }
    const { text } = await signCard(JSON.stringify(cardOf(own)), { key, jku })
    const by = (signer: Record<string, unknown>) =>
      loadTrust({
        trust: {
          version: 1,
          jku: { allow: ['https://keys.example'] },
          signers: [{ name: 'acme', origins: ['https://keys.example'], keys: [publicOf(key)], ...signer }],
        },
        fetch: toServer,
        clock: () => NOW * 1000,
      })
    const at = 'https://keys.example'
    expect(await reasonOf(text, await by({ revoked: ['k1'] }), at)).toBe('ERR_CARD_KEY_REVOKED')
    expect(await reasonOf(text, await by({ keys: [publicOf(other)], revoked: ['k1'] }), at)).toBe(
      'ERR_CARD_KEY_REVOKED',
    )
    expect(await reasonOf(text, await by({ notAfter: NOW - 1 }), at)).toBe('ERR_CARD_KEY_EXPIRED')
    expect(requests).toEqual([])
    expect(await reasonOf(text, await by({ keys: [publicOf(other)] }), at)).toBe('ok')
  })

  it('A19 P129 signers of other origins are neither asked nor in the way, under one kid', async () => {
    const fetched: string[] = []
    const many = Array.from({ length: 8 }, (_, index) => ({
      name: `other-${index}`,
      origins: [`https://o${index}.example`],
      ...(index % 2 === 0
        ? { jwks: `https://o${index}.example/jwks.json` }
        : { keys: [{ ...publicOf(other), kid: 'k1' }] }),
    }))
    const trust = await loadTrust({
      trust: { version: 1, signers: [...many, { name: 'acme', origins: [base], keys: [publicOf(key)] }] },
      fetch: (input) => {
        fetched.push(String(input))
        return Promise.reject(new Error('down'))
      },
    })
    expect(await verifyCard(await signed(), { trust, origin: base }, { at: NOW })).toMatchObject({
      ok: true,
      signer: 'acme',
    })
    expect(await reasonOf(await signed({}, { ...other, kid: 'k1' }), trust)).toBe('ERR_CARD_SIGNATURE_INVALID')
    expect(fetched).toEqual([])
  })

  it('A97 interfaces written as gRPC targets are held to the scope like URLs', async () => {
    const trust = await trustOf({}, { origins: [base, 'https://grpc.acme.example:50051'] })
    const grpc = (url: string) =>
      signed({ supportedInterfaces: [{ url, protocolBinding: 'GRPC', protocolVersion: '1.0' }] })
    expect(await reasonOf(await grpc('grpc.acme.example:50051'), trust)).toBe('ok')
    for (const url of [
      'evil:443',
      'grpc.acme.example:443',
      'http://grpc.acme.example:50051',
      'dns:///grpc.acme.example',
      '//evil.example',
      '/a2a',
    ])
      expect(await reasonOf(await grpc(url), trust), url).toBe('ERR_CARD_ORIGIN')
  })

  it.each([
    ['*', /everybody/],
    ['https://*', /everybody/],
    ['https://*.com', /everybody below a top-level domain/],
    ['https://*.co.uk', /everybody below co\.uk/],
    ['https://*.vercel.app', /everybody below vercel\.app/],
    ['https://agent.example/', /such as https:\/\/agent\.example,/],
    ['Agent.Example', /such as https:\/\/agent\.example,/],
    ['https://a.example:99999', /must be an origin/],
    ['https://[::::]', /must be an origin/],
    ['https://*.*.example.com', /must be an origin/],
    ['ftp://a.example', /must be an origin/],
  ])('P60 %s is no scope, and the message says what to write', async (pattern, message) => {
    const [problem, ...more] = await lintTrust({
      trust: { version: 1, signers: [{ name: 'a', origins: [pattern], keys: [publicOf(key)] }] },
    })
    expect(problem).toMatchObject({
      code: 'ERR_POLICY_VALUE',
      severity: 'error',
      message: expect.stringMatching(message) as string,
    })
    expect(more).toEqual([])
  })

  it('P60 a wildcard ends at a label, and scheme and port are part of it', async () => {
    const trust = await trustOf({}, { origins: [base, 'https://*.acme.example'] })
    const at = async (url: string) =>
      reasonOf(
        await signed({ supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }] }),
        trust,
      )
    expect(await at('https://a.acme.example/x')).toBe('ok')
    for (const url of [
      'https://evilacme.example',
      'https://acme.example',
      'https://a.acme.example.evil.test',
      'http://a.acme.example',
      'https://a.acme.example:8443',
      'https://a.acme.example@evil.test',
    ])
      expect(await at(url), url).toBe('ERR_CARD_ORIGIN')
  })

  it('what is valid and weak is said, and does not stop the start', async () => {
    const lint = async (file: Record<string, unknown>, signer: Record<string, unknown> = {}) =>
      (
        await lintTrust({
          trust: { version: 1, signers: [{ name: 'a', origins: [base], keys: [publicOf(key)], ...signer }], ...file },
          clock: () => NOW * 1000,
        })
      ).map(({ severity, pointer }) => `${severity} ${pointer}`)
    expect(await lint({})).toEqual([])
    expect(await lint({ mode: 'off' })).toEqual(['warning /mode'])
    expect(await lint({}, { notAfter: NOW - 1 })).toEqual(['warning /signers/0/notAfter'])
    expect(await lint({}, { revoked: ['k1'] })).toEqual(['warning /signers/0/keys'])
    expect(
      await lint({}, { keys: [publicOf(key), { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA', kid: 'bad' }] }),
    ).toEqual(['warning /signers/0/keys/1'])
    expect(await lint({}, { keys: [key] })).toEqual(['error /signers/0/keys/0'])
    expect(await lint({}, { keys: [{ ...publicOf(key), kid: undefined }] })).not.toEqual([])
    expect(await lint({}, { keys: [publicOf(key), { ...publicOf(other), kid: 'k1' }] })).toEqual([
      'error /signers/0/keys/1/kid',
    ])
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

  it('asks once for all who ask at the same time, and hands out what nobody can change', async () => {
    serve(await signed())
    const client = await createCardClient({ trust: await trustOf(), fetch: egress.fetch, clock: () => NOW * 1000 })
    const cards = await Promise.all(Array.from({ length: 50 }, () => client.fetchCard(base)))
    expect(requests).toHaveLength(1)
    expect(() => ((cards[0]?.card.capabilities as Record<string, unknown>).streaming = false)).toThrow(TypeError)
    expect(client.current(base)?.card).toMatchObject({ capabilities: { streaming: true } })
  })

  it('prefer: once a signed card was seen, taking the signature off gains nothing', async () => {
    const client = await createCardClient({
      trust: await trustOf({ mode: 'prefer' }),
      fetch: egress.fetch,
      clock: () => NOW * 1000,
    })
    const unsigned = JSON.stringify(cardOf({ name: 'Stripped' }))
    serve(unsigned)
    expect(await client.fetchCard(base)).toMatchObject({ verified: false })
    serve(await signed())
    expect(await client.fetchCard(base)).toMatchObject({ verified: true })
    serve(unsigned)
    await expect(client.fetchCard(base)).rejects.toMatchObject({ code: 'ERR_CARD_UNSIGNED' })
    await expect(client.acceptExtendedCard(base, unsigned)).rejects.toMatchObject({ code: 'ERR_CARD_UNSIGNED' })
    expect(client.current(base)).toMatchObject({ verified: true, card: { name: 'Agent' } })
  })

  it.each([
    ['max-age=60', {}, 1],
    ['max-age=60', { age: '60' }, 2],
    ['no-store, max-age=60', {}, 2],
    ['max-age=60, no-cache', {}, 2],
    ['s-maxage=60', {}, 2],
    ['', {}, 2],
  ])('RFC 9111: two calls under Cache-Control "%s" %j cause %i requests', async (control, headers, count) => {
    serve(await signed(), { ...(control === '' ? {} : { 'cache-control': control }), ...headers })
    const client = await createCardClient({ trust: await trustOf(), fetch: egress.fetch, clock: () => NOW * 1000 })
    for (let round = 0; round < 2; round += 1) await client.fetchCard(base)
    expect(requests).toHaveLength(count)
  })

  it('A99 A100 only http and https, bounded whatever fetches, and no query in an error', async () => {
    const client = await createCardClient({ trust: { version: 1, mode: 'off' }, fetch: globalThis.fetch })
    for (const [url, code] of [
      ['data:application/json,{}', 'ERR_EGRESS_SCHEME'],
      ['file:///etc/passwd', 'ERR_EGRESS_SCHEME'],
      ['htp://h/card.json', 'ERR_EGRESS_SCHEME'],
      ['//h/card.json', 'ERR_EGRESS_URL'],
      ['/etc/passwd', 'ERR_EGRESS_URL'],
    ] as const) {
      await expect(client.fetchCard(url)).rejects.toMatchObject({ code })
      await expect(client.acceptExtendedCard(url, '{}')).rejects.toMatchObject({ code })
    }
    serve(' '.repeat(3 * 1024 * 1024))
    await expect(client.fetchCard(base)).rejects.toMatchObject({ code: 'ERR_EGRESS_RESPONSE_SIZE' })
    answer = (_, response) => response.writeHead(404).end()
    const fault: unknown = await client.fetchCard(`${base}/card?token=secret`).catch((reason: unknown) => reason)
    expect(fault).toMatchObject({ code: 'ERR_CARD_FETCH', details: { url: `${base}/card`, status: 404 } })
    answer = ({ url }, response) =>
      url === '/elsewhere' ? response.end('{}') : response.writeHead(302, { location: '/elsewhere' }).end()
    await expect(client.fetchCard(base)).rejects.toMatchObject({ code: 'ERR_CARD_FETCH' })
    expect(requests.map(({ url }) => url)).not.toContain('/elsewhere')
    answer = (request) => request.socket.destroy()
    await expect(client.fetchCard(`${base}/card?token=secret`)).rejects.toMatchObject({
      code: 'ERR_CARD_FETCH',
      details: { url: `${base}/card` },
    })
    await expect(createCardClient({ trust: { version: 1, mode: 'off' }, maxEntries: 0 })).rejects.toThrow(
      '"maxEntries"',
    )
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
  const pin = async (changes: Record<string, unknown> = {}, by = key) => {
    const { text } = await signCard(JSON.stringify(cardOf(changes)), { key: by })
    const result = await verifyCard(text, { jwks: { keys: [publicOf(key), publicOf(other), publicOf(by)] } })
    if (!result.ok) throw new Error(result.reason)
    return pinOf(result.card, result)
  }
  const kinds = async (after: ReturnType<typeof pin>, before = pin()) =>
    driftOf(await before, await after).map(({ kind, change, weaker }) => `${kind} ${change}${weaker ? ' weaker' : ''}`)
  const at = (url: string, more: Record<string, unknown> = {}) => ({
    supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0', ...more }],
  })
  const oauth = (flow: Record<string, unknown>, description = 'x') => ({
    securitySchemes: {
      b: {
        oauth2SecurityScheme: {
          description,
          flows: {
            authorizationCode: {
              authorizationUrl: 'https://i.example/a',
              tokenUrl: 'https://i.example/t',
              scopes: { x: description },
              ...flow,
            },
          },
        },
      },
    },
  })

  it('A23 text may change in silence; where, how and who may not', async () => {
    expect(await kinds(pin({ description: 'other', name: 'Other', version: '1.3.0' }))).toEqual([])
    expect(await kinds(pin(oauth({}, 'other words')), pin(oauth({})))).toEqual([])
    const [first] = cardOf().supportedInterfaces as object[]
    expect(
      await kinds(pin({ supportedInterfaces: [first, ...at('https://evil.example').supportedInterfaces] })),
    ).toEqual(['host added weaker'])
    expect(await kinds(pin(at(`${base}/elsewhere`)))).toEqual(['host added weaker', 'host removed'])
    expect(await kinds(pin(at(`${base}/a2a`, { tenant: 't' })))).toEqual(['host added weaker', 'host removed'])
    expect(await kinds(pin({ securityRequirements: [] }))).toEqual(['requirement removed weaker'])
    expect(await kinds(pin({ securityRequirements: [{ schemes: { b: { list: [] } } }, { schemes: {} }] }))).toContain(
      'requirement added weaker',
    )
    expect(
      await kinds(
        pin({
          skills: [
            { id: 's', name: 'S', description: 'd', tags: ['t'] },
            { id: 'n', name: 'N', description: 'd', tags: ['t'] },
          ],
        }),
      ),
    ).toEqual(['skill added'])
    expect(
      await kinds(pin({ capabilities: { streaming: true, extensions: [{ uri: 'urn:x', required: true }] } })),
    ).toEqual(['capability added'])
  })

  it('A23 where a client would log in is pinned, whether or not it is read here', async () => {
    for (const flow of [
      { authorizationUrl: 'https://evil.example/a' },
      { tokenUrl: 'https://evil.example/t' },
      { refreshUrl: 'https://evil.example/r' },
    ])
      expect(await kinds(pin(oauth(flow)), pin(oauth({})))).toEqual(['scheme changed weaker'])
  })

  it('A23 a new key is drift, under a new kid and under the old one; a known key beside it is none', async () => {
    expect(await kinds(pin({}, other))).toEqual(['signer changed weaker'])
    const swapped = async () => {
      const { text } = await signCard(JSON.stringify(cardOf()), { key: { ...other, kid: 'k1' } })
      const result = await verifyCard(text, {
        trust: await trustOf({}, { keys: [{ ...publicOf(other), kid: 'k1' }] }),
        origin: base,
      })
      return pinOf(result.ok ? result.card : {}, result)
    }
    const genuine = async () => {
      const result = await verifyCard(await signed(), { trust: await trustOf(), origin: base })
      return pinOf(result.ok ? result.card : {}, result)
    }
    expect(await kinds(swapped(), genuine())).toEqual(['signer changed weaker'])
    const both = async () => {
      const { text } = await signCard(await signed(), { key: other, signatures: 'add' })
      const result = await verifyCard(text, { jwks: { keys: [publicOf(key), publicOf(other)] } })
      return pinOf(result.ok ? result.card : {}, result)
    }
    expect(await kinds(both())).toEqual([])
    expect(await kinds(pin({}, other), both())).toEqual([])
    const unsigned = Promise.resolve(pinOf(cardOf()))
    expect(await kinds(unsigned)).toEqual(['signer changed weaker'])
    expect(await kinds(pin(), unsigned)).toEqual(['signer changed'])
  })

  it.each([
    ['1.2.0', '1.0.0', true],
    ['1.2.0', '1.2', false],
    ['1.10.0', '1.9.0', true],
    ['1.2.0', '1.2.0-rc.1', true],
    ['1.2.0-rc.10', '1.2.0-rc.9', true],
    ['1.2.0-rc.1', '1.2.0', false],
    ['v1.2.0', '1.1.0', true],
    ['1.2.0+b2', '1.2.0+b1', false],
    ['2026-spring', '2025-winter', true],
    ['winter-b', 'winter-a', false],
  ])('A18 version %s, then %s: going down is %s', async (before, after, lower) => {
    expect(await kinds(pin({ version: after }), pin({ version: before }))).toEqual(
      lower ? ['version changed weaker'] : [],
    )
  })

  it('as text, what weakens first', async () => {
    const skills = [{ id: 'n', name: 'N', description: 'd', tags: ['t'] }]
    expect(formatDrift(driftOf(await pin(), await pin({ version: '1.0.0', skills })))).toBe(
      '! version changed version: 1.2.0 -> 1.0.0\n  skill added n: nothing -> []\n  skill removed s: [] -> nothing\n',
    )
  })

  it('a drifted card is refused, and told in audit; an extended card may show more, and not weaken', async () => {
    const url = `${base}/.well-known/agent-card.json`
    const file = join(folder, 'pins.json')
    const options = { fetch: egress.fetch, clock: () => NOW * 1000 }
    serve(await signed())
    const { card, verification } = await fetchCard(base, { trust: await trustOf(), ...options })
    await writePins(file, { [url]: pinOf(card, verification) })
    const pins = await readPins(file)
    const client = await createCardClient({ trust: await trustOf(), pins, ...options })
    expect((await client.fetchCard(base)).drift).toEqual([])
    const skills = [...(cardOf().skills as object[]), { id: 'more', name: 'M', description: 'd', tags: ['t'] }]
    expect((await client.acceptExtendedCard(base, await signed({ skills }))).card.skills).toHaveLength(2)
    await expect(
      client.acceptExtendedCard(base, await signed({ skills, securityRequirements: [] })),
    ).rejects.toMatchObject({ code: 'ERR_CARD_DRIFT' })
    serve(await signed({ version: '1.0.0' }))
    await expect(client.fetchCard(base)).rejects.toMatchObject({
      code: 'ERR_CARD_DRIFT',
      details: { drift: ['version changed version'] },
    })
    expect(client.current(base)?.card).toMatchObject({ version: '1.2.0' })
    const audit = await fetchCard(base, { trust: await trustOf({ mode: 'audit' }), pins, ...options })
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
    app.get('/.well-known/as-a-route.json', agentCardHandler(served))
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
    const preflight = await fetch(`${at}/agent-card.json`, { method: 'OPTIONS' })
    expect([preflight.status, preflight.headers.get('access-control-allow-headers')]).toEqual([204, '*'])
    expect((await fetch(`${at}/jwks.json`, { method: 'OPTIONS' })).status).toBe(405)
    expect((await fetch(`${at}/agent-card.json/more`)).status).toBe(404)
    expect(await (await fetch(`${at}/as-a-route.json`)).text()).toBe(text)
    listening.closeAllConnections()
    await new Promise((resolve) => listening.close(resolve))
  })

  it('A13 re-signs a card that others have signed, or leaves their signature as it is', async () => {
    const theirs = await signed({}, other)
    const mine = await createServedCard({ card: theirs, keys: [{ key }] })
    expect((JSON.parse(mine.card.body) as { signatures: unknown[] }).signatures).toHaveLength(1)
    expect(await verifyCard(mine.card.body, { jwks: { keys: [publicOf(key)] } })).toMatchObject({ ok: true })
    const passed = await createServedCard({ card: theirs })
    expect(await verifyCard(passed.card.body, { jwks: { keys: [publicOf(other)] } }, { strict: true })).toMatchObject({
      ok: true,
    })
  })

  it('publishes no private key, and no two keys under one kid', async () => {
    const card = cardOf()
    await expect(createServedCard({ card, keys: [{ key }], retiredKeys: [other] })).rejects.toThrow(
      'private key material',
    )
    await expect(createServedCard({ card, retiredKeys: [{ kty: 'oct', k: 'AAAA', kid: 'x' }] })).rejects.toThrow(
      'symmetric',
    )
    await expect(
      createServedCard({ card, keys: [{ key }], retiredKeys: [{ ...publicOf(other), kid: 'k1' }] }),
    ).rejects.toThrow('kid of its own')
    const { jwks } = await createServedCard({ card, keys: [{ key }], retiredKeys: [publicOf(other)] })
    expect((JSON.parse(jwks.body) as { keys: JWK[] }).keys.map(({ kid }) => kid)).toEqual(['k1', 'k2'])
  })

  it('A15 A16 public and extended cards, in turn, are each signed once, the one from a callback too', async () => {
    const capabilities = { streaming: true, extendedAgentCard: true }
    const handler = new DefaultRequestHandler(
      AgentCard.fromJSON(cardOf({ capabilities })),
      new InMemoryTaskStore(),
      new DemoExecutor(),
      undefined,
      undefined,
      undefined,
      () => Promise.resolve(AgentCard.fromJSON(cardOf({ capabilities, name: 'Extended' }))),
      cardSignatureGenerator({ key }),
    )
    const texts = new Set<string>()
    for (let round = 0; round < 3; round += 1) {
      texts.add(JSON.stringify(await handler.getAgentCard()))
      const context = new ServerCallContext()
      texts.add(JSON.stringify(await handler.getAuthenticatedExtendedAgentCard({ tenant: '' }, context)))
    }
    expect(texts.size).toBe(2)
    for (const text of texts)
      expect(await verifyCard(text, { jwks: { keys: [publicOf(key)] } })).toMatchObject({
        ok: true,
        warnings: [],
        signatures: [{ ok: true }],
      })
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
