/**
 * The whole guard against a real authorization server over real connections: its discovery, keys, tokens of every kind
 * and grant, introspection, key rotation, and its absence.
 */
import { writeFileSync } from 'node:fs'
import { createServer, get } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import express from 'express'
import { exportJWK, generateKeyPair } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import { optionalClientCertificates } from '../../src/guard/client-certificates.ts'
import { createGuard, type Guard } from '../../src/guard.ts'
import type { Decision, DecisionEvent } from '../../src/types.ts'
import { createClientChain } from '../support/client-chain.ts'
import { createDpopKey } from '../support/dpop.ts'
import { CLIENT_SECRET, startOidcProvider, type TestOidcProvider } from '../support/oidc-provider.ts'
import { AUDIENCE, makeRig, type Rig, rigCard } from '../support/rig.ts'
import { createAuthority } from '../support/server-certificate.ts'

const OPAQUE = AUDIENCE
const JWT = `${AUDIENCE}/jwt`
const OTHER = 'https://other-agent.example'

let provider: TestOidcProvider
let rig: Rig
let guard: Guard | undefined
const events: DecisionEvent[] = []
/** Milliseconds that the guard is ahead of the provider. */
let ahead = 0

beforeAll(async () => {
  rig = await makeRig()
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  writeFileSync(join(rig.folder, 'client-key.json'), JSON.stringify({ ...(await exportJWK(privateKey)), kid: 'c1' }))
  provider = await startOidcProvider({
    resources: { [OPAQUE]: 'opaque', [JWT]: 'jwt', [OTHER]: 'opaque' },
    clients: [
      { client_id: 'agent-basic' },
      { client_id: 'agent-post', token_endpoint_auth_method: 'client_secret_post' },
      {
        client_id: 'agent-assertion',
        token_endpoint_auth_method: 'private_key_jwt',
        jwks: { keys: [{ ...(await exportJWK(publicKey)), kid: 'c1', alg: 'ES256', use: 'sig' }] },
      },
    ],
  })
})
afterAll(async () => {
  await provider.close()
  await rig.close()
})
afterEach(async () => {
  await guard?.close()
  guard = undefined
  events.length = 0
  ahead = 0
})

const card = rigCard()

/** A guard whose schemes have these settings. */
async function guardWith(login: Record<string, unknown>, second?: Record<string, unknown>): Promise<Guard> {
  const openIdConnectUrl = `${provider.issuer}/.well-known/openid-configuration`
  const names = second === undefined ? ['login'] : ['login', 'second']
  guard = await createGuard({
    policy: {
      version: 1,
      card: {
        ...card,
        securitySchemes: Object.fromEntries(
          names.map((name) => [name, { openIdConnectSecurityScheme: { openIdConnectUrl } }]),
        ),
        securityRequirements: names.map((name) => ({ schemes: { [name]: { list: ['agent:read'] } } })),
      },
      audience: [OPAQUE, JWT],
      publicUrl: AUDIENCE,
      schemes: Object.fromEntries(
        [login, second]
          .slice(0, names.length)
          .map((each, index) => [names[index], { issuer: provider.issuer, ...each }]),
      ),
      // The provider is on this machine, and speaks http.
      egress: { requireHttps: false, ports: [Number(new URL(provider.issuer).port)], allowAddresses: ['127.0.0.1'] },
    },
    baseDir: rig.folder,
    env: { SECRET: CLIENT_SECRET, WRONG: 'another-secret-of-a-test-0000001' },
    clock: () => Date.now() + ahead,
    onDecision: (event) => events.push(event),
  })
  return guard
}
const introspecting = (client: Record<string, unknown>, more = {}) => ({
  token: 'opaque',
  introspection: { client, ...more },
})
const basic = { id: 'agent-basic', auth: 'basic', secret: 'env:SECRET' }

function call(token: string, headers: readonly string[] = [], scheme = 'Bearer'): Promise<Decision> {
  return (guard as Guard).check({
    method: 'GET',
    target: '/rest/tasks',
    rawHeaders: ['Authorization', `${scheme} ${token}`, 'A2A-Version', '1.0', ...headers],
  })
}
async function statusOf(token: string): Promise<number | 'allowed'> {
  const decision = await call(token)
  return decision.allowed ? 'allowed' : decision.denial.status
}
const lastCode = () => events.at(-1)?.failures[0]?.code

describe('opaque tokens', () => {
  it.each([
    ['basic', introspecting(basic)],
    ['post', introspecting({ id: 'agent-post', auth: 'post', secret: 'env:SECRET' })],
    [
      'P47 private_key_jwt',
      introspecting({ id: 'agent-assertion', auth: 'private_key_jwt', key: 'file:./client-key.json' }),
    ],
    ['basic, with signed answers', { ...introspecting(basic, { response: 'jwt' }), algorithms: ['ES256'] }],
  ])('by client credentials and by authorization code, asked about with %s', async (_name, login) => {
    await guardWith(login)
    const machine = await call(await provider.clientCredentials(OPAQUE))
    expect(machine).toMatchObject({
      allowed: true,
      principal: { issuer: provider.issuer, subject: 'agent-b', clientId: 'agent-b', scopes: ['agent:read'] },
    })
    const { access_token, refresh_token } = await provider.authorizationCode(OPAQUE)
    expect(await call(access_token)).toMatchObject({
      allowed: true,
      principal: { subject: 'alice', clientId: 'agent-b', scopes: ['agent:read'] },
    })
    // The provider calls it active; it is for nobody but the provider.
    expect(await statusOf(refresh_token as string)).toBe(401)
    expect(lastCode()).toBe('ERR_TOKEN_CLAIMS')
    expect(await statusOf(await provider.clientCredentials(OTHER))).toBe(401)
    expect(lastCode()).toBe('ERR_TOKEN_AUDIENCE')
    expect(await statusOf('a-guess')).toBe(401)
    expect(lastCode()).toBe('ERR_TOKEN_INACTIVE')
  })

  it('a refresh token stays out where answers may lack an audience', async () => {
    await guardWith(introspecting(basic, { dangerouslyAcceptMissingAudience: true }))
    const { access_token, refresh_token } = await provider.authorizationCode(OPAQUE)
    expect(await statusOf(access_token)).toBe('allowed')
    expect(await statusOf(refresh_token as string)).toBe(401)
    expect(lastCode()).toBe('ERR_TOKEN_TYPE')
  })

  it('a revoked one is refused when the answer is old', async () => {
    await guardWith(introspecting(basic))
    const token = await provider.clientCredentials(OPAQUE)
    expect(await statusOf(token)).toBe('allowed')
    await provider.revoke(token)
    expect(await statusOf(token)).toBe('allowed')
    ahead = 30_000
    expect(await statusOf(token)).toBe(401)
    expect(lastCode()).toBe('ERR_TOKEN_INACTIVE')
  })

  it('answers signed with a key that is not the issuer’s say nothing', async () => {
    const login = { ...introspecting(basic, { response: 'jwt' }), algorithms: ['ES256'], jwks: 'file:./jwks.json' }
    await expect(guardWith(login)).rejects.toMatchObject({ code: 'ERR_INTROSPECTION_INVALID' })
  })

  it('A54 a wrong secret stops the start', async () => {
    await expect(guardWith(introspecting({ ...basic, secret: 'env:WRONG' }))).rejects.toMatchObject({
      code: 'ERR_INTROSPECTION_UNAVAILABLE',
      details: { reason: 'status 401' },
    })
  })

  it('while the provider is away: 503; and it is asked again when it is back', async () => {
    await guardWith(introspecting(basic))
    const [known, token] = [await provider.clientCredentials(OPAQUE), await provider.clientCredentials(OPAQUE)]
    expect(await statusOf(known)).toBe('allowed')
    await provider.stop()
    try {
      const denied = await call(token)
      expect(denied).toMatchObject({ allowed: false, code: 'ERR_INTROSPECTION_UNAVAILABLE', denial: { status: 503 } })
      expect(Number(!denied.allowed && denied.denial.headers['retry-after'])).toBeGreaterThan(0)
      expect(guard?.health()).toMatchObject({ ok: false, schemes: [{ name: 'login', ok: false }] })
      expect(guard?.health().schemes[0]?.detail).toContain('introspection last failed at ')
      expect(await statusOf(known)).toBe('allowed')
      ahead = 31_000
      expect(await statusOf(known)).toBe(503)
    } finally {
      await provider.start()
    }
    ahead += 31_000
    expect(await statusOf(known)).toBe('allowed')
    expect(await statusOf(token)).toBe('allowed')
    expect(guard?.health()).toMatchObject({ ok: true })
  })
})

describe('JWT access tokens', () => {
  const settings = { algorithms: ['ES256'] }

  it('by client credentials and by authorization code', async () => {
    await guardWith(settings)
    const principal = { issuer: provider.issuer, clientId: 'agent-b', scopes: ['agent:read'] }
    const machine = await call(await provider.clientCredentials(JWT))
    expect(machine).toMatchObject({ allowed: true, principal: { ...principal, subject: 'agent-b' } })
    const { access_token } = await provider.authorizationCode(JWT)
    expect(await call(access_token)).toMatchObject({ allowed: true, principal: { ...principal, subject: 'alice' } })
    expect(await statusOf(await provider.clientCredentials(OPAQUE))).toBe(401)
  })

  it('end with their key, and the next key is found within the budget of unknown ones', async () => {
    await guardWith(settings)
    const before = await provider.clientCredentials(JWT)
    expect(await statusOf(before)).toBe('allowed')
    await provider.rotate('second')
    const after = await provider.clientCredentials(JWT)
    const asked = () => provider.requests.filter((path) => path === '/jwks').length
    const first = asked()
    // Less than 30 seconds since the last fetch: refused without one.
    expect(await statusOf(after)).toBe(401)
    expect(asked()).toBe(first)
    ahead = 31_000
    expect(await statusOf(after)).toBe('allowed')
    expect(await statusOf(before)).toBe(401)
    expect(lastCode()).toBe('ERR_TOKEN_KEY_UNKNOWN')
    expect(asked()).toBe(first + 1)
  })

  it('go on without the provider for as long as its keys count', async () => {
    await guardWith({ ...settings, clockToleranceSeconds: 300 })
    const token = await provider.clientCredentials(JWT)
    expect(await statusOf(token)).toBe('allowed')
    await provider.stop()
    try {
      ahead = 9 * 60_000
      expect(await statusOf(token)).toBe('allowed')
      ahead = 61 * 60_000
      expect([401, 503]).toContain(await statusOf(token))
    } finally {
      await provider.start()
    }
  })
})

it('JWT and opaque tokens of one issuer side by side, though it answers 400 when asked about a JWT', async () => {
  await guardWith({ algorithms: ['ES256'] }, introspecting(basic))
  const jwt = await provider.clientCredentials(JWT)
  expect(await call(jwt)).toMatchObject({ allowed: true, principal: { schemes: ['login'] } })
  expect(await call(await provider.clientCredentials(OPAQUE))).toMatchObject({
    allowed: true,
    principal: { schemes: ['second'] },
  })
  ahead = 400_000
  // Not 503: the client has to learn that it needs a new one.
  expect(await call(jwt)).toMatchObject({ allowed: false, code: 'ERR_TOKEN_EXPIRED', denial: { status: 401 } })
  expect(guard?.health()).toMatchObject({ ok: true })
})

describe.each([
  ['opaque', OPAQUE, introspecting(basic)],
  ['JWT', JWT, { algorithms: ['ES256'] }],
] as const)('%s tokens bound to a DPoP key', (_name, resource, login) => {
  it('need the proof of that key, and never pass as plain', async () => {
    await guardWith({ ...login, senderConstraint: 'optional' })
    const now = () => Math.floor(Date.now() / 1000)
    const atProvider = await createDpopKey({ htu: `${provider.issuer}/token`, now })
    const dpop = await atProvider.proof('', { ath: undefined })
    const token = await provider.clientCredentials(resource, { dpop })
    const htu = `${AUDIENCE}/rest/tasks`
    const proof = () => atProvider.proof(token, { htu, htm: 'GET' })

    expect(await call(token, ['DPoP', await proof()], 'DPoP')).toMatchObject({ allowed: true })
    const used = await proof()
    expect(await call(token, ['DPoP', used], 'DPoP')).toMatchObject({ allowed: true })
    expect(await call(token, ['DPoP', used], 'DPoP')).toMatchObject({ allowed: false, code: 'ERR_DPOP_REPLAY' })
    expect(await call(token)).toMatchObject({ allowed: false, code: 'ERR_TOKEN_BOUND' })
    expect(await call(token, [], 'DPoP')).toMatchObject({ allowed: false, code: 'ERR_DPOP_PROOF' })
    const other = await (await createDpopKey({ htu, htm: 'GET', now })).proof(token)
    expect(await call(token, ['DPoP', other], 'DPoP')).toMatchObject({ allowed: false, code: 'ERR_DPOP_PROOF' })
    const plain = await provider.clientCredentials(resource)
    expect(await call(plain, ['DPoP', await proof()], 'DPoP')).toMatchObject({
      allowed: false,
      code: 'ERR_TOKEN_UNBOUND',
    })
  })

  it('are refused with senderConstraint: off, and plain ones with dpop', async () => {
    await guardWith(login)
    const key = await createDpopKey({ htu: `${provider.issuer}/token`, now: () => Math.floor(Date.now() / 1000) })
    const token = await provider.clientCredentials(resource, { dpop: await key.proof('', { ath: undefined }) })
    expect(await call(token)).toMatchObject({ allowed: false, code: 'ERR_TOKEN_BOUND' })
    await guard?.close()
    await guardWith({ ...login, senderConstraint: 'dpop' })
    expect(await call(await provider.clientCredentials(resource))).toMatchObject({
      allowed: false,
      code: 'ERR_TOKEN_UNBOUND',
    })
  })
})

describe('tokens bound to a certificate', () => {
  const [own, other] = [createClientChain('spiffe://test/own'), createClientChain('spiffe://test/other')]
  const authority = createAuthority()

  it.each([
    ['opaque', OPAQUE, introspecting(basic)],
    ['JWT', JWT, { algorithms: ['ES256'] }],
  ] as const)('need a connection with that certificate, through real TLS: %s', async (_name, resource, login) => {
    const client = { cert: own.leaf + own.intermediate, key: own.key }
    await guardWith({ ...login, senderConstraint: 'mtls' })
    const token = await provider.certificateBound(resource, client)
    let ran = 0
    const app = express()
    app.use(expressGuard(guard as Guard), (_request, response) => {
      ran += 1
      response.json({})
    })
    const server = createServer(optionalClientCertificates(authority.issue('localhost')), app)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      const { port } = server.address() as AddressInfo
      const ask = (presented: string, certificate: { cert?: string; key?: string } = {}) =>
        new Promise<number | undefined>((resolve, reject) => {
          const headers = { authorization: `Bearer ${presented}`, 'a2a-version': '1.0' }
          const options = { headers, ...certificate, rejectUnauthorized: false, agent: false }
          get(`https://127.0.0.1:${port}/rest/tasks`, options, (response) => {
            response.resume()
            resolve(response.statusCode)
          }).on('error', reject)
        })
      expect(await ask(token, client)).toBe(200)
      expect(ran).toBe(1)
      expect(await ask(token)).toBe(401)
      expect(lastCode()).toBe('ERR_TOKEN_CERTIFICATE')
      expect(await ask(token, { cert: other.leaf + other.intermediate, key: other.key })).toBe(401)
      expect(lastCode()).toBe('ERR_TOKEN_CERTIFICATE')
      expect(await ask(await provider.clientCredentials(resource), client)).toBe(401)
      expect(lastCode()).toBe('ERR_TOKEN_UNBOUND')
      expect(ran).toBe(1)
    } finally {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  })
})
