/** Certificates in a proxy's header, over real HTTP to guarded Express and Fastify servers: the test plays the proxy. */
import { createHash, X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request as httpRequest, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import express, { type Request, type Response } from 'express'
import fc from 'fast-check'
import Fastify, { type FastifyInstance } from 'fastify'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { decisionFor, expressGuard } from '../../src/adapters/express.ts'
import { decisionFor as fastifyDecisionFor, fastifyGuard } from '../../src/adapters/fastify.ts'
import { webGuard } from '../../src/adapters/web.ts'
import { readCertificateHeader } from '../../src/guard/certificate-header.ts'
import { createGuard, type Guard } from '../../src/guard.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import type { DecisionEvent } from '../../src/types.ts'
import { createClientAuthority } from '../support/client-authority.ts'
import { plugin } from '../support/fastify-plugin.ts'
import { API_KEY, AUDIENCE, makeRig, NOW, rigCard } from '../support/rig.ts'

const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`../vectors/${name}`, import.meta.url), 'utf8'))
const rfc9440 = read('client-cert-header/rfc9440.json') as {
  certificates: { pem: string }[]
  validationTime: string
  cases: { id: string; headers: Record<string, string>; expect: 'valid' | 'invalid' | 'valid-or-invalid' }[]
}
const { cases: paths } = read('x509/mtls-client.json') as {
  cases: {
    id: string
    expect: 'valid' | 'invalid' | 'either'
    now: number
    trustAnchors: string[]
    intermediates: string[]
    leaf: string
    identity?: { spiffeId?: string | null }
  }[]
}

const root = createClientAuthority()
const lower = root.intermediate('lower')
const ID = 'spiffe://example.org/agent/a'
const alice = root.issue([6, ID])
const victim = root.issue([6, 'spiffe://example.org/agent/victim'])
const below = lower.issue([6, ID])

type Format = 'rfc9440' | 'xfcc' | 'pem'
const bytes = (der: Uint8Array) => `:${Buffer.from(der).toString('base64')}:`
const escaped = (...pems: string[]) => encodeURIComponent(pems.join(''))
const HEADERS: Readonly<Record<Format, string>> = {
  rfc9440: 'Client-Cert',
  xfcc: 'X-Forwarded-Client-Cert',
  // A name that no list of identity headers has.
  pem: 'X-Amzn-Mtls-Clientcert',
}
const WRITTEN: Readonly<Record<Format, (pem: string) => string>> = {
  rfc9440: (pem) => bytes(new X509Certificate(pem).raw),
  xfcc: (pem) =>
    `By=spiffe://e/a;Hash=${sha256Hex(new X509Certificate(pem).raw)};Cert="${escaped(pem)}";URI=;Subject="CN=\\"x\\""`,
  pem: (pem) => escaped(pem),
}

interface GuardChanges {
  readonly format?: Format
  readonly trustedProxies?: readonly string[]
  readonly ca?: string
  readonly identities?: readonly string[]
  readonly now?: number
  readonly policy?: Record<string, unknown>
  readonly card?: Record<string, unknown>
}

let folder: string
let guard: Guard
const events: DecisionEvent[] = []
const seen: { adapter: string; rawHeaders: string[]; principal: string | undefined }[] = []
const closing: (() => unknown)[] = []
const ports: { express: number; fastify: number } = { express: 0, fastify: 0 }

async function use(changes: GuardChanges = {}): Promise<Guard> {
  const { format = 'rfc9440', trustedProxies = ['127.0.0.0/8'], ca = root.cert, identities = [ID], now = NOW } = changes
  writeFileSync(join(folder, 'ca.pem'), ca)
  writeFileSync(
    join(folder, 'keys.json'),
    JSON.stringify([{ id: 'partner-1', sha256: sha256Hex(API_KEY), owner: 'partner', scopes: [] }]),
  )
  guard = await createGuard({
    policy: {
      version: 1,
      card: rigCard({
        capabilities: {},
        securitySchemes: {
          mesh: { mtlsSecurityScheme: {} },
          key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
        },
        securityRequirements: [{ schemes: { mesh: { list: [] } } }, { schemes: { key: { list: [] } } }],
        ...changes.card,
      }),
      audience: AUDIENCE,
      publicUrl: AUDIENCE,
      schemes: {
        mesh: {
          ca: 'file:./ca.pem',
          identities,
          clientCertificate: { header: HEADERS[format], format, trustedProxies },
        },
        key: { keys: 'file:./keys.json' },
      },
      ...changes.policy,
    },
    baseDir: folder,
    clock: () => now * 1000,
    onDecision: (event) => events.push(event),
  })
  return guard
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'a2a-trust-proxy-'))
  const app = express()
  app.use(
    '/a2a',
    (req, res, next) => expressGuard(guard)(req, res, next),
    (req: Request, res: Response) => {
      const principal = decisionFor(guard, req)?.principal?.subject
      seen.push({ adapter: 'express', rawHeaders: [...req.rawHeaders], principal })
      res.json({ principal: principal ?? null })
    },
  )
  const server: Server = createServer({ maxHeaderSize: 128 * 1024 }, app).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  ports.express = (server.address() as AddressInfo).port
  closing.push(
    () => server.closeAllConnections(),
    () => new Promise((resolve) => server.close(resolve)),
  )

  // The guard of a plugin is fixed, and those of this test change: one that asks the present one.
  const current = new Proxy({} as Guard, { get: (_, name: keyof Guard) => guard[name] })
  const fastify: FastifyInstance = Fastify({ http: { maxHeaderSize: 128 * 1024 } })
  await fastify.register(
    plugin(async (agent) => {
      await agent.register(fastifyGuard, { guard: current, mount: '/a2a' })
      agent.post('/a2a', (request) => {
        const principal = fastifyDecisionFor(current, request)?.principal?.subject
        seen.push({ adapter: 'fastify', rawHeaders: [...request.raw.rawHeaders], principal })
        return { principal: principal ?? null }
      })
    }),
  )
  await fastify.listen({ port: 0, host: '127.0.0.1' })
  ports.fastify = (fastify.server.address() as AddressInfo).port
  closing.push(() => fastify.close())
})
afterAll(async () => {
  for (const close of closing) await close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  events.length = 0
  seen.length = 0
})

const BODY = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } })

function send(port: number, headers: readonly string[]): Promise<{ status: number; principal?: string | null }> {
  return new Promise((resolve, reject) => {
    const all = ['host', 'agent.example', 'content-type', 'application/json', 'a2a-version', '1.0', ...headers]
    const options = { host: '127.0.0.1', port, method: 'POST', path: '/a2a', headers: all, agent: false } as const
    const sent = httpRequest(options, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => {
        const status = response.statusCode ?? 0
        resolve(status === 200 ? { status, ...(JSON.parse(text) as { principal: string }) } : { status })
      })
    })
    sent.on('error', reject)
    sent.end(BODY)
  })
}

/** One header as it stands, line ends included, with a good API key beside it; gives the answer as text. */
function sendRaw(port: number, header: string): Promise<string> {
  const fixed = `host: a\r\na2a-version: 1.0\r\ncontent-type: application/json\r\nconnection: close\r\nx-api-key: ${API_KEY}`
  const text = `POST /a2a HTTP/1.1\r\n${fixed}\r\n${header}\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`
  return new Promise((resolve, reject) => {
    let found = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    socket.on('data', (chunk) => (found += chunk.toString())).on('error', reject)
    socket.on('close', () => resolve(found))
  })
}

/** The same answer from both, which is given back. */
async function call(...headers: string[]) {
  const [first, second] = [await send(ports.express, headers), await send(ports.fastify, headers)]
  expect(second).toEqual(first)
  return first
}

async function refused(status: number, ...headers: string[]): Promise<void> {
  const before = seen.length
  expect(await call(...headers)).toEqual({ status })
  expect(seen.length).toBe(before)
}

describe('RFC 9440 vectors', () => {
  const [leaf, intermediate, anchor] = rfc9440.certificates.map(({ pem }) => pem) as [string, string, string]
  const pin = `sha256/${Buffer.from(
    sha256Hex(new X509Certificate(leaf).publicKey.export({ type: 'spki', format: 'der' })),
    'hex',
  ).toString('base64')}`
  const now = Date.parse(rfc9440.validationTime) / 1000

  it.each(rfc9440.cases)('$id is $expect', async ({ headers, expect: verdict }) => {
    const ca = 'Client-Cert-Chain' in headers ? anchor : intermediate
    await use({ ca, identities: [pin], now })
    const lines = Object.entries(headers).flat()
    const folded = Object.entries(headers).find(([, value]) => /[\r\n]/.test(value))
    if (folded !== undefined) {
      // No client library sends it.
      for (const port of Object.values(ports)) {
        expect(await sendRaw(port, folded.join(': '))).toMatch(/^HTTP\/1\.1 400 /)
      }
      return expect(seen).toEqual([])
    }
    // An API key does not make good what a proxy has spoilt.
    if (verdict === 'valid') expect(await call(...lines)).toEqual({ status: 200, principal: pin })
    else await refused(400, ...lines, 'x-api-key', API_KEY)
    return undefined
  })
})

describe('x509 vectors through the header', () => {
  const usable = paths.filter(({ trustAnchors }) => trustAnchors.length > 0)
  const der = (pem: string) => new X509Certificate(pem).raw
  const identities = ['spiffe://example.org/*', 'spiffe://example.org/*/*', '*.example.org']
  const lines = ({ leaf, intermediates }: (typeof paths)[number]) => [
    'client-cert',
    bytes(der(leaf)),
    ...(intermediates.length === 0 ? [] : ['client-cert-chain', intermediates.map(der).map(bytes).join(', ')]),
  ]

  it.each(usable.filter((each) => each.expect === 'invalid'))('$id is denied', async (each) => {
    const started = use({ ca: each.trustAnchors.join(''), identities, now: each.now })
    // Some anchors are none, and the policy says so.
    const fault = await started.then(
      () => undefined,
      (error: { code?: string }) => error.code,
    )
    if (fault !== undefined) return expect(fault).toBe('ERR_POLICY_INVALID')
    const { status } = await call(...lines(each))
    expect([400, 401]).toContain(status)
    expect(seen).toEqual([])
    return undefined
  })

  it.each(usable.filter((each) => each.expect === 'valid' && typeof each.identity?.spiffeId === 'string'))(
    '$id names its caller',
    async (each) => {
      await use({ ca: each.trustAnchors.join(''), identities: [each.identity?.spiffeId as string], now: each.now })
      expect(await call(...lines(each))).toEqual({ status: 200, principal: each.identity?.spiffeId })
    },
  )

  it('are many', () => {
    expect(usable.filter((each) => each.expect === 'invalid').length).toBeGreaterThan(25)
  })
})

describe.each<Format>(['rfc9440', 'xfcc', 'pem'])('%s', (format) => {
  const header = HEADERS[format]
  const good = WRITTEN[format](alice.cert)

  it('names the caller, and no handler sees the header in any spelling', async () => {
    await use({ format })
    const spelt = [header.toUpperCase(), header.replaceAll('-', '_')].flatMap((name) => [name, good])
    expect(await call(header, good, ...spelt.slice(2))).toEqual({ status: 200, principal: ID })
    for (const { rawHeaders } of seen) expect(rawHeaders.join().toLowerCase()).not.toMatch(/cert/)
  })

  it('P88 from a peer that is no proxy it is ignored, stripped, and the event says so', async () => {
    await use({ format, trustedProxies: ['10.0.0.0/8', '::1'] })
    await refused(401, header, good)
    expect(events[0]).toMatchObject({
      allowed: false,
      ignoredHeaders: [header.toLowerCase()],
      peerAddress: '127.0.0.1',
    })
    expect((await call(header, good, 'x-api-key', API_KEY)).principal).toBe('partner')
    expect(events.at(-1)).toMatchObject({ allowed: true, ignoredHeaders: [header.toLowerCase()] })
    for (const { rawHeaders } of seen) expect(rawHeaders.join().toLowerCase()).not.toMatch(/cert/)
  })

  it('P89 absent is absent, and a hop-by-hop header of that name is refused', async () => {
    await use({ format })
    await refused(401)
    expect((await call('x-api-key', API_KEY)).principal).toBe('partner')
    await refused(400, 'connection', `close, ${header}`)
    await refused(400, 'connection', header.toLowerCase(), header, good)
    await refused(400, 'connection', header.toUpperCase(), 'x-api-key', API_KEY)
    expect(events.at(-1)?.unreadableCertificate).toMatch(/Connection/)
  })

  it('P89 absent is never anonymous where a certificate is asked for', async () => {
    await use({ format, card: { securityRequirements: [{ schemes: { mesh: { list: [] } } }] } })
    await refused(401)
  })

  it.each<[string, (value: string) => string[]]>([
    ['empty', () => ['']],
    ['twice', (value) => [value, value]],
    ['two with a comma', (value) => [`${value}, ${value}`]],
    ['something after it', (value) => [`${value}x`]],
    ['something before it', (value) => [`x${value}`]],
    ['cut off', (value) => [value.slice(0, -20)]],
    ['a space inside', (value) => [`${value.slice(0, 300)} ${value.slice(300)}`]],
    ['a tab inside', (value) => [`${value.slice(0, 300)}\t${value.slice(300)}`]],
    ['a character of another alphabet', (value) => [`${value.slice(0, 300)}-${value.slice(301)}`]],
    ['null', () => ['(null)']],
    ['40 000 characters', (value) => [value.replace('MII', `${'MIIA'.repeat(10_000)}MII`)]],
  ])('%s is refused, not absent', async (_, values) => {
    await use({ format })
    await refused(400, ...values(good).flatMap((value) => [header, value]), 'x-api-key', API_KEY)
    expect(events.every(({ unreadableCertificate = '' }) => unreadableCertificate.length > 10)).toBe(true)
  })

  it('a folded line is refused', async () => {
    await use({ format })
    for (const port of Object.values(ports)) {
      expect(await sendRaw(port, 'x-other: 1')).toMatch(/^HTTP\/1\.1 200 /)
      seen.length = 0
      expect(await sendRaw(port, `${header}: ${good.slice(0, 300)}\r\n ${good.slice(300)}`)).toMatch(/^HTTP\/1\.1 400 /)
    }
    expect(seen).toEqual([])
  })

  it('a certificate of another authority, another name or another time is invalid', async () => {
    await use({ format })
    await refused(401, header, WRITTEN[format](victim.cert), 'x-api-key', API_KEY)
    await refused(401, header, WRITTEN[format](createClientAuthority('test root').issue([6, ID]).cert))
    await use({ format, now: NOW + 40 * 86_400 })
    await refused(401, header, good)
    expect(events.at(-1)?.failures).toMatchObject([{ code: 'ERR_CERTIFICATE_EXPIRED' }])
  })
})

describe('intermediates', () => {
  it('come in Client-Cert-Chain, on one line or several', async () => {
    await use()
    await refused(401, 'client-cert', bytes(below.der))
    const chain = [bytes(lower.der), bytes(root.der)]
    for (const lines of [[chain.join(', ')], [chain.join(' ,\t')], chain]) {
      const headers = lines.flatMap((line) => ['client-cert-chain', line])
      expect(await call('client-cert', bytes(below.der), ...headers)).toEqual({ status: 200, principal: ID })
    }
  })

  it.each<[string, string[]]>([
    ['without a leaf', [bytes(lower.der)]],
    ['empty', ['']],
    ['trailing comma', [`${bytes(lower.der)},`]],
    ['not base64', [`${bytes(lower.der)}, :!:`]],
    ['with a parameter', [`${bytes(lower.der)};a=1`]],
    ['17', [new Array(17).fill(':MAA=:').join(', ')]],
  ])('a chain is refused: %s', async (what, lines) => {
    await use()
    const leaf = what === 'without a leaf' ? [] : ['client-cert', bytes(below.der)]
    await refused(400, ...leaf, ...lines.flatMap((line) => ['client-cert-chain', line]), 'x-api-key', API_KEY)
  })

  it('a chain from somebody who is no proxy is told and stripped too', async () => {
    await use({ trustedProxies: ['10.0.0.0/8'] })
    await call('x-api-key', API_KEY, 'Client-Cert-Chain', bytes(lower.der))
    expect(events[0]?.ignoredHeaders).toEqual(['client-cert-chain'])
    expect(seen[0]?.rawHeaders.join()).not.toMatch(/client-cert/i)
  })

  it('come in Chain of Envoy and after the leaf in PEM', async () => {
    await use({ format: 'xfcc' })
    const chain = escaped(below.cert, lower.cert)
    expect((await call(HEADERS.xfcc, `Cert="${escaped(below.cert)}";Chain="${chain}"`)).principal).toBe(ID)
    await refused(400, HEADERS.xfcc, `Cert="${escaped(below.cert)}";Chain="${chain}x"`)
    await refused(400, HEADERS.xfcc, `Cert="${chain}"`)
    await use({ format: 'pem' })
    expect((await call(HEADERS.pem, chain)).principal).toBe(ID)
    // AWS leaves + / = as they are, and ends lines in its own way.
    expect(
      (await call(HEADERS.pem, chain.replace(/%2B/g, '+').replace(/%2F/g, '/').replace(/%3D/g, '='))).principal,
    ).toBe(ID)
    expect((await call(HEADERS.pem, chain.replace(/%0D%0A/g, '%0A'))).principal).toBe(ID)
  })
})

describe('what Envoy forwards', () => {
  const hash = (pem: string) => `Hash=${sha256Hex(new X509Certificate(pem).raw)}`
  const cert = (pem: string) => `Cert="${escaped(pem)}"`
  const header = HEADERS.xfcc

  it.each<[string, string]>([
    ['several names', `${hash(alice.cert)};${cert(alice.cert)};URI=a;URI=b;DNS=c;DNS=d;By=e;By=f`],
    ['keys in lower case, no quotes', `hash=${sha256Hex(alice.der)};cert=${escaped(alice.cert)}`],
    ['a quoted name that looks like more', `Subject="a\\";Cert=\\"x, By=\\\\";${cert(alice.cert)}`],
  ])('%s', async (_, value) => {
    await use({ format: 'xfcc' })
    expect((await call(header, value)).principal).toBe(ID)
  })

  it.each<[string, string]>([
    ['A51 a subject alone', 'Subject="CN=admin"'],
    ['a URI alone', `By=x;${hash(alice.cert)};URI=${ID}`],
    ['two certificates', `${cert(alice.cert)};${cert(victim.cert)}`],
    ['a certificate that is not the one of Hash', `${hash(victim.cert)};${cert(alice.cert)}`],
    // A URI name of a caller's certificate may hold anything, and Envoy does not quote it.
    ['P90 a name that brings a certificate', `${hash(victim.cert)};URI=x;${cert(alice.cert)}`],
    ['P90 a name that brings a hash too', `${hash(victim.cert)};URI=x;${hash(alice.cert)};${cert(alice.cert)}`],
    ['P90 a name that brings an element', `${hash(victim.cert)};URI=x,${hash(alice.cert)};${cert(alice.cert)}`],
    ['two elements, the good one last', `${cert(victim.cert)},${hash(alice.cert)};${cert(alice.cert)}`],
    ['the good one first', `${cert(alice.cert)},${cert(victim.cert)}`],
    ['a trailing comma', `${cert(alice.cert)},`],
    ['an unknown key', `X=1;${cert(alice.cert)}`],
    ['an open quote', `${cert(alice.cert)};Subject="`],
    ['text after a quote', `Subject="a"b;${cert(alice.cert)}`],
    ['an empty Cert', 'Cert='],
    ['a Cert of %', 'Cert="%"'],
    ['no pairs', 'Cert'],
  ])('%s is refused', async (_, value) => {
    await use({ format: 'xfcc', identities: [ID, 'spiffe://example.org/agent/victim'] })
    await refused(400, header, value, 'x-api-key', API_KEY)
  })
})

describe('the address of the caller', () => {
  const forwarded = (header: string, trustedProxies = ['127.0.0.0/8', '10.0.0.0/8']) => ({
    limits: { failedAuthentication: '2/min' },
    clientAddress: { header, trustedProxies },
  })

  it('A52 is what trusted proxies say, for limits and in events', async () => {
    await use({ policy: forwarded('x-forwarded-for') })
    const attempt = async (from: string) =>
      (await send(ports.express, ['x-forwarded-for', from, 'x-api-key', 'wrong-key-wrong-key'])).status
    expect([await attempt('203.0.113.5'), await attempt('9.9.9.9, 203.0.113.5, 10.1.1.1')]).toEqual([401, 401])
    expect(await attempt('203.0.113.5')).toBe(429)
    expect(await attempt('203.0.113.6')).toBe(401)
    expect(await attempt('203.0.113.5, 203.0.113.7')).toBe(401)
    expect(events[1]).toMatchObject({ peerAddress: '127.0.0.1', clientAddress: '203.0.113.5' })
    expect(seen).toEqual([])
  })

  it('A52 P86 is the peer where nobody is trusted, and then the header goes no further', async () => {
    await use({ policy: forwarded('forwarded', ['10.0.0.0/8']) })
    expect((await call('forwarded', 'for=203.0.113.5', 'x-api-key', API_KEY)).principal).toBe('partner')
    expect(events[0]).toMatchObject({ peerAddress: '127.0.0.1', ignoredHeaders: ['forwarded'] })
    expect(events[0]).not.toHaveProperty('clientAddress')
    for (const { rawHeaders } of seen) expect(rawHeaders.join()).not.toContain('203.0.113.5')
  })

  it('a trusted header stays for the handler', async () => {
    await use({ policy: forwarded('forwarded') })
    await call('forwarded', 'for=203.0.113.5', 'x-api-key', API_KEY)
    expect(seen[0]?.rawHeaders).toContain('for=203.0.113.5')
    expect(events[0]).not.toHaveProperty('ignoredHeaders')
  })
})

describe("a host of the web's Request", () => {
  const ask = (address: string, headers: [string, string][]) => {
    const request = new Request(`${AUDIENCE}/a2a`, {
      method: 'POST',
      headers: [['content-type', 'application/json'], ['a2a-version', '1.0'], ...headers],
      body: BODY,
    })
    return webGuard(guard)(request, (passed) => Response.json([...passed.headers.keys()]), { address })
  }

  it('believes the same proxies, and a header that was there twice is refused', async () => {
    await use({ format: 'pem' })
    const good: [string, string] = [HEADERS.pem, escaped(alice.cert)]
    const allowed = await ask('127.0.0.1', [good])
    expect(allowed.status).toBe(200)
    expect(await allowed.json()).toEqual(['a2a-version', 'content-type'])
    expect((await ask('192.0.2.1', [good])).status).toBe(401)
    expect((await ask('127.0.0.1', [good, good])).status).toBe(400)
    const other = await ask('192.0.2.1', [good, ['x-api-key', API_KEY]])
    expect(await other.json()).toEqual(['a2a-version', 'content-type'])
  })
})

describe('the connection', () => {
  const request = (peer: object, ...headers: string[]) => ({
    method: 'POST',
    target: '/a2a',
    rawHeaders: ['content-type', 'application/json', 'a2a-version', '1.0', ...headers],
    body: BODY,
    peer,
  })
  const own = { raw: alice.der, authorized: true, chain: [] }

  it("a proxy's own certificate is never the caller's", async () => {
    await use()
    const denied = await guard.check(request({ address: '127.0.0.1', certificate: own }))
    expect(denied).toMatchObject({ allowed: false, code: 'ERR_CREDENTIAL_MISSING' })
    expect(await guard.explain(request({ address: '127.0.0.1', certificate: own }))).toMatchObject({ allowed: false })
  })

  it('a caller who connects directly has that of the connection, whatever the header says', async () => {
    await use({ identities: [ID, 'spiffe://example.org/agent/victim'] })
    const direct = request({ address: '192.0.2.1', certificate: own }, 'client-cert', bytes(victim.der))
    expect(await guard.check(direct)).toMatchObject({ allowed: true, principal: { subject: ID } })
    expect(await guard.check(request({ certificate: own }))).toMatchObject({ allowed: true })
  })

  it('P92 an IPv4 proxy is one on a dual-stack socket too, and a peer without address is none', async () => {
    await use()
    const line = ['client-cert', bytes(alice.der)]
    expect(await guard.check(request({ address: '::ffff:127.0.0.1' }, ...line))).toMatchObject({ allowed: true })
    for (const address of [undefined, '', '127.0.0.1%lo', '127.1', 'localhost', '::1']) {
      const peer = address === undefined ? {} : { address }
      expect(await guard.check(request(peer, ...line))).toMatchObject({ code: 'ERR_CREDENTIAL_MISSING' })
    }
  })

  it('the same header is judged once, and its time at every request', async () => {
    await use()
    const line = ['client-cert', bytes(alice.der)]
    const peer = { address: '127.0.0.1' }
    await guard.check(request(peer, ...line))
    const start = performance.now()
    for (let round = 0; round < 200; round += 1) await guard.check(request(peer, ...line))
    expect((performance.now() - start) / 200).toBeLessThan(5)
  })
})

describe('tokens that are bound to a certificate', () => {
  const clientCertificate = { header: 'Client-Cert', format: 'rfc9440', trustedProxies: ['127.0.0.1'] }
  const bound = (der: Uint8Array) => ({ cnf: { 'x5t#S256': createHash('sha256').update(der).digest('base64url') } })

  it('are bound to that of the header, and to nothing else', async () => {
    const rig = await makeRig({ login: { senderConstraint: 'mtls', clientCertificate } })
    try {
      const ask = async (address: string, lines: readonly string[], own?: Uint8Array) => {
        const decision = await rig.guard.check({
          method: 'POST',
          target: '/a2a',
          rawHeaders: ['a2a-version', '1.0', 'authorization', `Bearer ${await rig.token(bound(alice.der))}`, ...lines],
          body: BODY,
          peer: { address, ...(own === undefined ? {} : { certificate: { raw: own, authorized: true } }) },
        })
        return decision.allowed ? 200 : decision.denial.status
      }
      expect(await ask('127.0.0.1', ['client-cert', bytes(alice.der)])).toBe(200)
      expect(await ask('127.0.0.1', ['client-cert', bytes(victim.der)])).toBe(401)
      expect(await ask('127.0.0.1', [])).toBe(401)
      expect(await ask('127.0.0.1', [], alice.der)).toBe(401)
      expect(await ask('127.0.0.1', ['client-cert', `${bytes(alice.der)}x`])).toBe(400)
      expect(await ask('127.0.0.1', ['client-cert', `${bytes(alice.der)}x`, 'x-api-key', API_KEY])).toBe(400)
      expect(rig.events.at(-1)?.unreadableCertificate).toMatch(/byte sequence/)
      expect(await ask('192.0.2.1', ['client-cert', bytes(alice.der)])).toBe(401)
      expect(await ask('192.0.2.1', ['client-cert', bytes(victim.der)], alice.der)).toBe(200)
    } finally {
      await rig.close()
    }
  })
})

describe('whatever the header holds', () => {
  const parts = [
    escaped(alice.cert),
    alice.der.toString('base64'),
    'Cert=',
    'Hash=',
    'Chain=',
    '"',
    '\\',
    ';',
    ',',
    ':',
    '%',
    '%0A',
    '-----BEGIN%20CERTIFICATE-----',
    ' ',
    '=',
    'é',
  ]
  it.each<Format>(['rfc9440', 'xfcc', 'pem'])('%s: it is that certificate or unreadable', (format) => {
    const one = fc.oneof(fc.constantFrom(...parts), fc.string({ maxLength: 4 }))
    const text = fc.array(one, { maxLength: 8 }).map((list) => list.join(''))
    fc.assert(
      fc.property(text, fc.array(text, { maxLength: 2 }), (value, chain) => {
        const found = readCertificateHeader(format, value, chain)
        if ('unreadable' in found) return found.unreadable.length > 10
        return Buffer.from(found.raw).equals(alice.der) && !found.authorized
      }),
      { numRuns: 500 },
    )
  })

  it('a good one with one character changed, put in or taken out is never read as another', () => {
    for (const format of ['rfc9440', 'xfcc', 'pem'] as const) {
      const good = WRITTEN[format](alice.cert)
      fc.assert(
        fc.property(
          fc.nat(good.length - 1),
          fc.constantFrom(...'A:;,"%=\\ x\u0000'),
          fc.nat(2),
          (at, character, kind) => {
            const put = kind === 2 ? '' : character
            const changed = good.slice(0, at) + put + good.slice(kind === 0 ? at : at + 1)
            const found = readCertificateHeader(format, changed, [])
            // A bit of the certificate itself may change: then it is another one, whose signature does not hold.
            return 'unreadable' in found || found.raw.length === alice.der.length
          },
        ),
        { numRuns: 500 },
      )
    }
  })
})
