/** The guard with opaque tokens: which issuer sees what, what callers and operators are told, and that no handler runs. */

import type { AddressInfo } from 'node:net'
import express from 'express'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import type { Guard } from '../../src/guard.ts'
import { CLIENT_SECRET, goodAnswer, type IntrospectionEndpoint, startIntrospection } from '../support/introspection.ts'
import { sendJson } from '../support/loopback.ts'
import { AUDIENCE, makeRig, NOW, type Rig, rigCard } from '../support/rig.ts'

const LEGACY = 'https://legacy.example'
let endpoint: IntrospectionEndpoint
let rig: Rig | undefined
const logged: unknown[] = []

beforeAll(async () => {
  endpoint = await startIntrospection()
})
afterAll(() => endpoint.close())
beforeEach(() => {
  logged.length = 0
  endpoint.questions.length = 0
  endpoint.answer = ({ form }, response) =>
    sendJson(response, answers.get(form.get('token') ?? '') ?? { active: false })
})
afterEach(async () => {
  await rig?.close()
  rig = undefined
})

const answer = (changes: Record<string, unknown> = {}) =>
  goodAnswer({ iss: LEGACY, aud: AUDIENCE, iat: NOW - 60, exp: NOW + 600, scope: 'a2a:use', ...changes })
const answers = new Map<string, unknown>([
  ['opaque-1', answer()],
  ['opaque-narrow', answer({ scope: 'other' })],
])

const card = rigCard({
  securitySchemes: {
    login: {
      oauth2SecurityScheme: {
        flows: { clientCredentials: { tokenUrl: 'https://issuer.example/t', scopes: { 'a2a:use': 'u' } } },
      },
    },
    legacy: {
      oauth2SecurityScheme: { flows: { clientCredentials: { tokenUrl: `${LEGACY}/t`, scopes: { 'a2a:use': 'u' } } } },
    },
  },
  securityRequirements: [{ schemes: { login: { list: ['a2a:use'] } } }, { schemes: { legacy: { list: ['a2a:use'] } } }],
})
const log = (...args: unknown[]) => void logged.push(args)

async function start(change: Record<string, unknown> = {}): Promise<Rig> {
  const legacy = {
    token: 'opaque',
    issuer: LEGACY,
    introspection: {
      endpoint: `${endpoint.origin}/introspect`,
      client: { id: 'agent', auth: 'post', secret: 'env:SECRET' },
    },
    ...change,
  }
  const login = { issuer: 'https://issuer.example', algorithms: ['ES256'], jwks: 'file:./jwks.json' }
  rig = await makeRig({
    card,
    policy: { schemes: { login, legacy } },
    guard: {
      env: { SECRET: CLIENT_SECRET },
      fetch: globalThis.fetch,
      logger: { warn: log, error: log, info: log, debug: log } as never,
    },
  })
  endpoint.questions.length = 0
  return rig
}

const call = (guard: Guard, token: string) =>
  guard.check({
    method: 'GET',
    target: '/rest/tasks',
    rawHeaders: ['Authorization', `Bearer ${token}`, 'A2A-Version', '1.0'],
  })

describe('two schemes that read Authorization', () => {
  it('a JWT of the one is not shown to the issuer of the other, good or bad', async () => {
    const { guard, token } = await start()
    expect(await call(guard, await token())).toMatchObject({ allowed: true, principal: { subject: 'alice' } })
    expect(await call(guard, await token({ exp: NOW - 600 }))).toMatchObject({
      allowed: false,
      code: 'ERR_TOKEN_EXPIRED',
    })
    expect(await call(guard, await token({ aud: 'https://other.example' }))).toMatchObject({ allowed: false })
    expect(endpoint.questions).toEqual([])
  })

  it('an opaque token is known by its issuer, and by it alone', async () => {
    const { guard } = await start()
    expect(await call(guard, 'opaque-1')).toMatchObject({
      allowed: true,
      principal: { issuer: LEGACY, subject: 'alice', schemes: ['legacy'] },
    })
    expect(await call(guard, 'guess')).toMatchObject({ allowed: false, denial: { status: 401 } })
  })

  it('of two opaque ones each sees every token, and the policy loader says so', async () => {
    const other = { endpoint: `${endpoint.origin}/other`, client: { id: 'agent', auth: 'post', secret: 'env:SECRET' } }
    const schemes = {
      login: { token: 'opaque', issuer: 'https://issuer.example', introspection: other },
      legacy: { token: 'opaque', issuer: LEGACY, introspection: other },
    }
    rig = await makeRig({
      card,
      policy: { schemes },
      guard: { env: { SECRET: CLIENT_SECRET }, fetch: globalThis.fetch },
    })
    expect(rig.guard.health().warnings).toContainEqual(
      expect.stringContaining(
        'an opaque token names no issuer, so each one is shown to those of "login" and of "legacy"',
      ),
    )
  })
})

it('P149 the question goes through egress: an endpoint that may not be reached stops the start, and sees nothing', async () => {
  const endpointUrl = `${endpoint.origin}/introspect`
  const introspection = { endpoint: endpointUrl, client: { id: 'agent', auth: 'post', secret: 'env:SECRET' } }
  const { login } = card.securitySchemes as Record<string, object>
  const started = makeRig({
    card: { ...card, securitySchemes: { login }, securityRequirements: [{ schemes: { login: { list: [] } } }] },
    policy: {
      schemes: { login: { token: 'opaque', issuer: LEGACY, introspection } },
      egress: { requireHttps: false, ports: [Number(new URL(endpointUrl).port)] },
    },
    guard: { env: { SECRET: CLIENT_SECRET } },
  })
  await expect(started).rejects.toMatchObject({
    code: 'ERR_INTROSPECTION_UNAVAILABLE',
    cause: { code: 'ERR_EGRESS_ADDRESS' },
  })
  expect(endpoint.questions).toEqual([])
})

describe('what a caller is told', () => {
  it('a narrow token: 403 with the scope; an unknown one: 401 with a challenge', async () => {
    const { guard } = await start({ requiredScopes: ['a2a:use'] })
    const narrow = await call(guard, 'opaque-narrow')
    expect(narrow).toMatchObject({ allowed: false, code: 'ERR_SCOPE_INSUFFICIENT', denial: { status: 403 } })
    expect(JSON.stringify(narrow)).toContain('insufficient_scope')
    const unknown = await call(guard, 'guess')
    expect(unknown).toMatchObject({ allowed: false, code: 'ERR_TOKEN_INACTIVE', denial: { status: 401 } })
    expect(JSON.stringify(unknown)).toContain('invalid_token')
  })

  it('an issuer that is down: 503 with Retry-After through express, and no handler runs', async () => {
    const { guard, events } = await start()
    let ran = 0
    const app = express()
    app.use(expressGuard(guard), (_request, response) => {
      ran += 1
      response.json({})
    })
    const server = app.listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/rest/tasks`
      const ask = (token: string) => fetch(url, { headers: { authorization: `Bearer ${token}`, 'a2a-version': '1.0' } })
      expect((await ask('opaque-1')).status).toBe(200)
      endpoint.answer = (_question, response) => void response.socket?.destroy()
      const denied = await ask('opaque-narrow')
      expect([denied.status, denied.headers.get('retry-after')]).toEqual([503, '1'])
      expect((await ask('another')).headers.get('retry-after')).toBe('1')
      expect(await (await ask('another')).text()).not.toContain('ntrospection')
      expect(ran).toBe(1)
      expect(events.at(-1)?.failures).toContainEqual({
        scheme: 'legacy',
        code: 'ERR_INTROSPECTION_UNAVAILABLE',
        detail: `ERR_INTROSPECTION_UNAVAILABLE, url ${endpoint.origin}/introspect, reason no answer`,
      })
    } finally {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  })
})

it('no token, secret, answer or query is in any log, event, health or denial', async () => {
  const { guard, events } = await start({
    introspection: {
      endpoint: `${endpoint.origin}/introspect?key=query-secret`,
      client: { id: 'agent', auth: 'post', secret: 'env:SECRET' },
    },
  })
  const said: unknown[] = []
  answers.set('recognisable-good-token', answer({ note: 'recognisable-claim' }))
  said.push(JSON.stringify((await call(guard, 'recognisable-bad-token')).allowed))
  await call(guard, 'recognisable-good-token')
  for (const status of [400, 401, 500]) {
    endpoint.answer = (_question, response) => sendJson(response, { error: 'recognisable-answer' }, status)
    said.push(await call(guard, `recognisable-token-${status}`), guard.health())
  }
  const all = JSON.stringify([said, logged, events, guard.health()])
  expect(all).toContain('/introspect')
  for (const secret of ['recognisable', 'query-secret', CLIENT_SECRET]) expect(all).not.toContain(secret)
})
