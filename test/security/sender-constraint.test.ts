/** Sender-constrained tokens through every adapter, on real connections; the URL of a proof is that of the card. */
import { createHash, X509Certificate } from 'node:crypto'
import { createServer as createHttpsServer, Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import express from 'express'
import Fastify from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import { fastifyGuard } from '../../src/adapters/fastify.ts'
import { optionalClientCertificates } from '../../src/guard/client-certificates.ts'
import type { Guard } from '../../src/guard.ts'
import { compileRequestUrls } from '../../src/protocol/request-urls.ts'
import { type Answer, columns } from '../contract/columns.ts'
import { type ContractRequest, contractRequests } from '../contract/operations.ts'
import { createDpopKey, type DpopKey } from '../support/dpop.ts'
import { API_KEY, AUDIENCE, ISSUER, makeRig, NOW, type Rig, type RigOptions, rigCard } from '../support/rig.ts'
import { createAuthority } from '../support/server-certificate.ts'

const open: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

const card = rigCard({
  supportedInterfaces: [
    { url: `${AUDIENCE}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
    { url: `${AUDIENCE}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
    { url: 'agent.example:50051', protocolBinding: 'GRPC', protocolVersion: '1.0' },
  ],
})

async function start(options: RigOptions = {}): Promise<Rig & { key(htu: string, htm?: string): Promise<DpopKey> }> {
  const rig = await makeRig({ card, login: { senderConstraint: 'optional' }, ...options })
  open.push(rig.close)
  return Object.assign(rig, {
    key: (htu: string, htm = 'POST') => createDpopKey({ htu, htm, now: () => rig.now }),
  })
}

const rows = contractRequests.filter(({ operation, version }) => operation === 'SendMessage' && version === '1.0')

/** Where a client that has read the card sends this. */
function urlOf({ binding, path }: ContractRequest): string {
  if (binding === 'JSONRPC') return `${AUDIENCE}/a2a`
  return binding === 'GRPC' ? `https://agent.example:50051${path}` : `${AUDIENCE}/rest${path}`
}

function challengesOf({ headers }: Answer): string {
  return String(headers['www-authenticate'] ?? '')
}

describe.each(Object.keys(columns))('over %s', (name) => {
  async function sender(guard: Guard) {
    const column = await (columns[name] as (typeof columns)[string])(guard)
    open.push(column.close)
    return {
      requests: rows.filter(({ binding }) => column.bindings.includes(binding)),
      send: (request: ContractRequest, ...lines: string[]) => column.send(request, lines),
    }
  }

  it('A39 A56 P116 a bound token and one proof are let through once, and refused in every other way', async () => {
    const rig = await start()
    const { requests, send } = await sender(rig.guard)
    expect(requests.length).toBeGreaterThan(0)
    const unauthenticated = name === 'grpc' ? 16 : 401
    for (const request of requests) {
      const key = await rig.key(urlOf(request), request.binding === 'HTTP+JSON' ? request.method : 'POST')
      const token = await rig.token({ cnf: { jkt: key.jkt } })
      const plain = await rig.token()
      const proof = await key.proof(token)
      const dpop = ['authorization', `DPoP ${token}`]

      expect(await send(request, ...dpop, 'dpop', proof)).toMatchObject({ ran: request.operation })

      const refused = async (code: string, challenge: RegExp, ...lines: string[]) => {
        const answer = await send(request, ...lines)
        expect(answer.ran, code).toBeUndefined()
        expect(answer.status, code).toBe(unauthenticated)
        expect(rig.events.at(-1)?.code).toBe(code)
        expect(challengesOf(answer)).toMatch(challenge)
        expect(challengesOf(answer)).toMatch(/(?:^|, )Bearer realm/)
        expect(challengesOf(answer)).toMatch(/, DPoP realm="a2a", algs="[A-Za-z0-9 ]*ES256[A-Za-z0-9 ]*"/)
        expect(challengesOf(answer).match(/error=/g)).toHaveLength(1)
      }
      const invalidProof = /DPoP realm="a2a", algs="[^"]*", error="invalid_dpop_proof"/
      const invalidToken = /DPoP realm="a2a", algs="[^"]*", error="invalid_token"/
      await refused('ERR_DPOP_REPLAY', invalidProof, ...dpop, 'dpop', proof)
      await refused('ERR_DPOP_PROOF', invalidProof, ...dpop)
      await refused('ERR_DPOP_PROOF', invalidProof, ...dpop, 'dpop', 'x')
      await refused('ERR_DPOP_PROOF', invalidProof, ...dpop, 'dpop', await key.proof(token, { htm: 'DELETE' }))
      await refused('ERR_DPOP_PROOF', invalidProof, ...dpop, 'dpop', await key.proof(plain))
      await refused('ERR_DPOP_PROOF', invalidProof, ...dpop, 'dpop', await key.proof(token, { iat: NOW - 61 }))
      await refused('ERR_TOKEN_UNBOUND', invalidToken, 'authorization', `DPoP ${plain}`, 'dpop', await key.proof(plain))
      await refused(
        'ERR_TOKEN_BOUND',
        /Bearer realm="a2a", error="invalid_token"/,
        'authorization',
        `Bearer ${token}`,
        'dpop',
        await key.proof(token),
      )
      const other = await rig.key(urlOf(request))
      await refused('ERR_DPOP_PROOF', invalidProof, ...dpop, 'dpop', await other.proof(token))

      const twice = await send(request, ...dpop, 'dpop', await key.proof(token), 'DPoP', await key.proof(token))
      expect(twice.ran).toBeUndefined()
      expect(twice.status).toBe(name === 'grpc' ? 3 : 400)
      expect(rig.events.at(-1)?.code).toBe('ERR_CREDENTIAL_MALFORMED')
    }
  })

  it('a nonce is asked for, given, and renewed before it ends', async () => {
    const rig = await start({ policy: { dpop: { nonce: 'required' }, limits: { failedAuthentication: '1/hour' } } })
    const { requests, send } = await sender(rig.guard)
    for (const request of requests) {
      const key = await rig.key(urlOf(request), request.binding === 'HTTP+JSON' ? request.method : 'POST')
      const token = await rig.token({ cnf: { jkt: key.jkt }, exp: NOW + 3600 })
      const call = async (claims = {}) =>
        send(request, 'authorization', `DPoP ${token}`, 'dpop', await key.proof(token, claims))
      // More often than failures are forgiven: asking is none.
      for (let i = 0; i < 3; i += 1) {
        const asked = await call()
        expect(asked.ran).toBeUndefined()
        expect(challengesOf(asked)).toMatch(/DPoP realm="a2a", algs="[^"]*", error="use_dpop_nonce"/)
        expect(rig.events.at(-1)?.code).toBe('ERR_DPOP_NONCE')
        const nonce = asked.headers['dpop-nonce']
        expect(nonce).toMatch(/^[\w-]{43}$/)
        const given = await call({ nonce })
        expect(given.ran).toBe(request.operation)
        expect(given.headers['dpop-nonce']).toBeUndefined()
        rig.now += 120
        const renewed = await call({ nonce })
        expect(renewed.ran).toBe(request.operation)
        expect(renewed.headers['dpop-nonce']).toMatch(/^[\w-]{43}$/)
        expect(renewed.headers['dpop-nonce']).not.toBe(nonce)
        expect((await call({ nonce: renewed.headers['dpop-nonce'] })).ran).toBe(request.operation)
      }
    }
  })
})

const send = (guard: Guard, rawHeaders: string[], target = '/') =>
  guard.check({
    method: 'POST',
    target,
    rawHeaders: ['a2a-version', '1.0', ...rawHeaders],
    body: { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } },
  })

describe('the URL of a proof', () => {
  it('P87 is that of the card, whatever Host and forwarding headers say', async () => {
    const rig = await start()
    const key = await rig.key(`${AUDIENCE}/a2a`)
    const token = await rig.token({ cnf: { jkt: key.jkt } })
    const with_ = async (claims: Record<string, unknown>, ...lines: string[]) =>
      send(rig.guard, ['authorization', `DPoP ${token}`, 'dpop', await key.proof(token, claims), ...lines])
    for (const host of ['a.test/x?', 'a.test', 'a.test:443/a2a#', 'agent.example@a.test', '']) {
      const forged = [
        'host',
        host,
        'x-forwarded-host',
        host,
        'forwarded',
        `host="${host}"`,
        'x-forwarded-proto',
        'http',
      ]
      expect(await with_({}, ...forged), host).toMatchObject({ allowed: true })
      for (const htu of [`https://${host}/a2a`, `http://${host}/a2a`, `https://${host}`]) {
        expect(await with_({ htu }, ...forged), htu).toMatchObject({ allowed: false, code: 'ERR_DPOP_PROOF' })
      }
    }
  })

  it('is told from the mount, the whole path, or the path behind a proxy', () => {
    const interfaces = [
      { url: 'https://Host.example:443/base/a2a', binding: 'JSONRPC', version: '1.0' },
      { url: 'https://host.example/base/rest/', binding: 'HTTP+JSON', version: '1.0' },
      { url: 'host.example:8443', binding: 'GRPC', version: '1.0' },
      { url: 'no url', binding: 'HTTP+JSON', version: '1.0' },
    ]
    const urls = compileRequestUrls({ interfaces }, 'https://host.example/base')
    const jsonRpc = 'https://host.example/base/a2a'
    for (const target of ['', '/', '/?x=1', '/#x', '/a2a', '/base/a2a', '/base/a2a?x=%2F']) {
      expect(urls({ target, binding: 'JSONRPC' }), target).toEqual([jsonRpc])
      expect(urls({ target }), target).toContain(jsonRpc)
    }
    for (const target of ['/tasks/1', '/rest/tasks/1', '/base/rest/tasks/1']) {
      expect(urls({ target, binding: 'HTTP+JSON' }), target).toEqual(['https://host.example/base/rest/tasks/1'])
    }
    expect(urls({ target: '/', binding: 'HTTP+JSON' })).toEqual(['https://host.example/base/rest/'])
    expect(urls({ target: '/lf.a2a.v1.A2AService/GetTask', binding: 'GRPC' })).toEqual([
      'https://host.example:8443/lf.a2a.v1.A2AService/GetTask',
    ])
    // What is no path of a URL has no proof.
    for (const target of ['/tasks/ä', '/tasks/a b', '/tasks/%', '/tasks/\\', 'https://evil.example/'])
      expect(urls({ target, binding: 'HTTP+JSON' }).every((url) => url.startsWith('https://host.example/'))).toBe(true)
    expect(urls({ target: '/tasks/ä', binding: 'HTTP+JSON' })).toEqual([])
    expect(urls({ target: '@evil.example/', binding: 'GRPC' })).toEqual([])
  })
})

describe('a bound token beside other credentials', () => {
  it('is refused even where an API key would do: bad is not absent', async () => {
    const rig = await start()
    const key = await rig.key(`${AUDIENCE}/a2a`)
    const token = await rig.token({ cnf: { jkt: key.jkt } })
    const decision = await send(rig.guard, ['authorization', `Bearer ${token}`, 'x-api-key', API_KEY])
    expect(decision).toMatchObject({ allowed: false, code: 'ERR_TOKEN_BOUND' })
  })

  it('P98 a scope that lacks is told on the challenge that was answered too', async () => {
    const rig = await start()
    const key = await rig.key(`${AUDIENCE}/a2a`)
    const token = await rig.token({ cnf: { jkt: key.jkt }, scope: 'a2a:other' })
    const decision = await send(rig.guard, ['authorization', `DPoP ${token}`, 'dpop', await key.proof(token)])
    expect(decision).toMatchObject({ allowed: false, denial: { status: 403 } })
    const challenge = decision.allowed ? '' : decision.denial.headers['www-authenticate']
    expect(challenge).toMatch(/DPoP realm="a2a", algs="[^"]*", error="insufficient_scope", scope="a2a:use"/)
    // Whoever has the token alone does not learn what it lacks.
    expect(await send(rig.guard, ['authorization', `DPoP ${token}`])).toMatchObject({ denial: { status: 401 } })
  })

  it('is no reason to let in when the store is down', async () => {
    const replay = { claim: () => Promise.reject(new Error('redis://user:secret@host is down')) }
    const rig = await start({ guard: { stores: { replay } } })
    const key = await rig.key(`${AUDIENCE}/a2a`)
    const token = await rig.token({ cnf: { jkt: key.jkt } })
    const decision = await send(rig.guard, ['authorization', `DPoP ${token}`, 'dpop', await key.proof(token)])
    expect(decision).toMatchObject({ allowed: false, code: 'ERR_STORE_UNAVAILABLE', denial: { status: 503 } })
    expect(JSON.stringify([decision, rig.events])).not.toContain('secret')
  })

  it('is explained without being used up', async () => {
    const rig = await start()
    const key = await rig.key(`${AUDIENCE}/a2a`)
    const token = await rig.token({ cnf: { jkt: key.jkt } })
    const rawHeaders = ['authorization', `DPoP ${token}`, 'dpop', await key.proof(token), 'a2a-version', '1.0']
    const body = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } }
    const request = { method: 'POST', target: '/', rawHeaders, body }
    for (let i = 0; i < 3; i += 1) expect(await rig.guard.explain(request)).toMatchObject({ allowed: true })
    expect(await rig.guard.check(request)).toMatchObject({ allowed: true })
    expect(await rig.guard.check(request)).toMatchObject({ allowed: false, code: 'ERR_DPOP_REPLAY' })
  })

  it('satisfies two schemes of one issuer with one proof', async () => {
    const flows = { clientCredentials: { tokenUrl: `${ISSUER}/token`, scopes: { 'a2a:use': 'use' } } }
    const two = rigCard({
      securitySchemes: { login: { oauth2SecurityScheme: { flows } }, other: { oauth2SecurityScheme: { flows } } },
      securityRequirements: [{ schemes: { login: { list: ['a2a:use'] }, other: { list: ['a2a:use'] } } }],
    })
    const settings = { issuer: ISSUER, algorithms: ['ES256'], jwks: 'file:./jwks.json', senderConstraint: 'dpop' }
    const rig = await start({ card: two, policy: { schemes: { login: settings, other: settings } } })
    const key = await rig.key(`${AUDIENCE}/a2a`)
    const token = await rig.token({ cnf: { jkt: key.jkt } })
    const lines = ['authorization', `DPoP ${token}`, 'dpop', await key.proof(token)]
    expect(await send(rig.guard, lines)).toMatchObject({ allowed: true })
    expect(await send(rig.guard, lines)).toMatchObject({ allowed: false, code: 'ERR_DPOP_REPLAY' })
  })
})

describe('RFC 9728 metadata and challenges', () => {
  it.each([
    ['off', undefined, undefined, undefined, ['Bearer']],
    ['optional', true, true, undefined, ['Bearer', 'DPoP']],
    ['dpop', undefined, true, true, ['DPoP']],
    ['mtls', true, undefined, undefined, ['Bearer']],
  ] as const)('say what senderConstraint: %s means', async (senderConstraint, tls, dpop, required, schemes) => {
    const rig = await start({ login: { senderConstraint } })
    const metadata = JSON.parse(rig.guard.resourceMetadata?.body ?? '') as Record<string, unknown>
    expect(metadata.tls_client_certificate_bound_access_tokens).toBe(tls)
    expect(Array.isArray(metadata.dpop_signing_alg_values_supported) || undefined).toBe(dpop)
    if (dpop) expect(metadata.dpop_signing_alg_values_supported).toContain('ES256')
    expect(metadata.dpop_bound_access_tokens_required).toBe(required)
    const decision = await send(rig.guard, [])
    const challenge = decision.allowed ? '' : (decision.denial.headers['www-authenticate'] ?? '')
    expect(challenge.match(/\b(?:Bearer|DPoP)(?= realm)/g)).toEqual(schemes)
    expect(challenge).not.toContain('error=')
  })
})

describe('certificate-bound tokens over TLS', () => {
  const authority = createAuthority()
  const own = authority.issue('client.example')
  const other = createAuthority().issue('client.example')
  const x5t = (pem: string) => createHash('sha256').update(new X509Certificate(pem).raw).digest('base64url')

  async function serve(framework: 'express' | 'fastify', guard: Guard): Promise<{ port: number; ran(): number }> {
    let ran = 0
    const https = optionalClientCertificates(authority.issue('localhost'))
    if (framework === 'fastify') {
      const app = Fastify({ https })
      await app.register(fastifyGuard, { guard, mount: '/a2a' })
      app.post('/a2a', async () => {
        ran += 1
        return {}
      })
      await app.listen({ port: 0, host: '127.0.0.1' })
      open.push(() => app.close())
      return { port: (app.server.address() as AddressInfo).port, ran: () => ran }
    }
    const app = express().use('/a2a', expressGuard(guard), (_, res) => {
      ran += 1
      res.json({})
    })
    const server = createHttpsServer(https, app).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    open.push(async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
    return { port: (server.address() as AddressInfo).port, ran: () => ran }
  }

  function call(port: number, client: object, headers: Record<string, string>): Promise<number> {
    const agent = new HttpsAgent({ rejectUnauthorized: false, ...client })
    return new Promise<number>((resolve, reject) => {
      const type = { 'content-type': 'application/json', 'a2a-version': '1.0' }
      const sent = httpsRequest(
        { port, host: '127.0.0.1', method: 'POST', path: '/a2a', agent, headers: { ...type, ...headers } },
        (response) => response.resume().on('end', () => resolve(response.statusCode ?? 0)),
      )
      sent.on('error', reject).end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } }))
    }).finally(() => agent.destroy())
  }

  it("hold with the certificate that a trusted proxy hands on, and not with anybody else's header", async () => {
    const clientCertificate = { header: 'client-cert', format: 'rfc9440', trustedProxies: ['10.0.0.0/8'] }
    const rig = await start({ login: { senderConstraint: 'mtls', clientCertificate } })
    const token = await rig.token({ cnf: { 'x5t#S256': x5t(own.cert) } })
    const header = (pem: string) => `:${new X509Certificate(pem).raw.toString('base64')}:`
    const from = (address: string, ...certificates: string[]) =>
      rig.guard.check({
        method: 'POST',
        target: '/',
        rawHeaders: [
          'authorization',
          `Bearer ${token}`,
          ...certificates.flatMap((pem) => ['client-cert', header(pem)]),
        ],
        peer: { address },
        body: { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } },
      })
    expect(await from('10.1.2.3', own.cert)).toMatchObject({ allowed: true })
    const refused = { allowed: false, code: 'ERR_TOKEN_CERTIFICATE' }
    expect(await from('10.1.2.3', other.cert)).toMatchObject(refused)
    expect(await from('10.1.2.3')).toMatchObject(refused)
    expect(await from('192.0.2.1', own.cert)).toMatchObject(refused)
    expect(await from('10.1.2.3', own.cert, own.cert)).toMatchObject({ allowed: false })
  })

  it.each(['express', 'fastify'] as const)(
    'hold with the very certificate of the connection: %s',
    async (framework) => {
      const rig = await start({ login: { senderConstraint: 'mtls' } })
      const { port, ran } = await serve(framework, rig.guard)
      const bound = { authorization: `Bearer ${await rig.token({ cnf: { 'x5t#S256': x5t(own.cert) } })}` }
      expect(await call(port, own, bound)).toBe(200)
      expect(ran()).toBe(1)
      const refused = async (code: string, client: object, headers: Record<string, string>) => {
        expect(await call(port, client, headers)).toBe(401)
        expect(rig.events.at(-1)?.code).toBe(code)
        expect(ran()).toBe(1)
      }
      await refused('ERR_TOKEN_CERTIFICATE', {}, bound)
      await refused('ERR_TOKEN_CERTIFICATE', other, bound)
      await refused('ERR_TOKEN_UNBOUND', own, { authorization: `Bearer ${await rig.token()}` })
      const forged = { 'client-cert': `:${new X509Certificate(own.cert).raw.toString('base64')}:` }
      await refused('ERR_TOKEN_CERTIFICATE', {}, { ...bound, ...forged })

      const key = await rig.key(`${AUDIENCE}/a2a`)
      const both = await rig.token({ cnf: { 'x5t#S256': x5t(own.cert), jkt: key.jkt } })
      const proved = async () => ({ authorization: `DPoP ${both}`, dpop: await key.proof(both) })
      await refused('ERR_TOKEN_BOUND', own, { authorization: `Bearer ${both}` })
      await refused('ERR_TOKEN_CERTIFICATE', other, await proved())
      await refused('ERR_DPOP_PROOF', own, { authorization: `DPoP ${both}` })
      expect(await call(port, own, await proved())).toBe(200)
      expect(ran()).toBe(2)
    },
  )
})
