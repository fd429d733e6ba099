/** Delegation rules: where authority flows, as what, and everything that makes it flow nowhere. */
import { inspect } from 'node:util'
import { decodeJwt, exportJWK, generateKeyPair } from 'jose'
import { afterEach, describe, expect, it } from 'vitest'
import { type Caller, delegatedFetch, withCaller } from '../../src/delegation/index.ts'
import { TrustError } from '../../src/errors.ts'
import type { AllowedDecision, Decision } from '../../src/types.ts'
import { EXCHANGE, type FakeNetwork, fakeNetwork, TOKEN_ENDPOINT } from '../support/authorization-server.ts'
import { API_KEY, ISSUER, makeRig, NOW, paySkill, type Rig, rigCard } from '../support/rig.ts'

const BILLING = 'https://billing.example.com'
const SECRET = 'a-client-secret-for-tests-only-0001'
const CLIENT = { id: 'agent', secret: 'env:CLIENT_SECRET' }
const RULE = {
  to: BILLING,
  obtain: 'exchange',
  tokenEndpoint: TOKEN_ENDPOINT,
  client: CLIENT,
  scopes: ['invoice:pay', 'invoice:read'],
}

let rig: Rig
let network: FakeNetwork
afterEach(() => rig.close())

async function rigWith(
  rules: readonly object[],
  options: Parameters<typeof makeRig>[0] = {},
  agent?: FakeNetwork['agent'],
): Promise<void> {
  network = fakeNetwork()
  if (agent !== undefined) network.agent = agent
  rig = await makeRig({
    card: rigCard({ skills: [...(rigCard().skills as object[]), paySkill] }),
    ...options,
    policy: { delegation: rules, ...options.policy },
    guard: { fetch: network.fetch, env: { CLIENT_SECRET: SECRET }, ...options.guard },
  })
}

const bearer = async (claims: Record<string, unknown> = {}) => ['Authorization', `Bearer ${await rig.token(claims)}`]

async function request(rawHeaders: readonly string[], skill?: string): Promise<Decision> {
  const message = {
    messageId: 'm',
    role: 'ROLE_USER',
    parts: [{ text: 'x' }],
    ...(skill === undefined ? {} : { metadata: { skillId: skill } }),
  }
  return rig.guard.check({
    method: 'POST',
    target: '/a2a',
    rawHeaders: ['A2A-Version', '1.0', 'Content-Type', 'application/json', ...rawHeaders],
    body: { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } },
  })
}

async function callerOf(rawHeaders: readonly string[], skill = 'echo'): Promise<Caller> {
  const decision = (await request(rawHeaders, skill)) as AllowedDecision
  expect(decision.allowed).toBe(true)
  const { principal, operation } = decision
  return { ...(principal === undefined ? {} : { principal }), operation: operation.name }
}

const send = (
  caller: Caller,
  url: string | Request = `${BILLING}/invoices`,
  init?: RequestInit,
  to: string = BILLING,
) => withCaller(caller, () => delegatedFetch(to)(url, init))

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'sent',
    (fault: unknown) => (fault instanceof TrustError ? fault.code : String(fault)),
  )
}
/** The fault, with everything that could be printed of it. */
async function faultOf(
  work: Promise<unknown>,
): Promise<{ readonly code: string; readonly details: object; readonly text: string }> {
  const fault = (await work.catch((error: unknown) => error)) as TrustError
  return { code: fault.code, details: fault.details, text: inspect(fault, { depth: 9, showHidden: true }) }
}

describe('an exchange', () => {
  it('A87 asks for one resource and fewer scopes, as the agent, with the token of the caller', async () => {
    await rigWith([RULE])
    const headers = await bearer()
    const response = await send(await callerOf(headers))
    expect(await response.json()).toEqual({ ok: true })
    const [form] = network.forms(EXCHANGE)
    expect(Object.fromEntries(form as URLSearchParams)).toEqual({
      grant_type: EXCHANGE,
      scope: 'invoice:pay invoice:read',
      resource: BILLING,
      requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      subject_token: (headers[1] as string).slice('Bearer '.length),
      subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      actor_token: 'own-1',
      actor_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    })
    expect(network.requests[0]?.headers.get('authorization')).toMatch(/^Basic /)
    const [call] = network.calls()
    expect(call?.headers.get('authorization')).toBe('Bearer exchanged-2')
    // A102: neither the request for a token nor the one with it follows a redirect.
    expect(network.requests.map(({ redirect }) => redirect)).toEqual(['error', 'error', 'error'])
  })

  it('as the client alone, and by logical name, where the rule says so', async () => {
    await rigWith([{ ...RULE, actor: 'client', audience: 'billing' }])
    await send(await callerOf(await bearer()))
    expect(network.forms()).toHaveLength(1)
    const form = network.forms()[0] as URLSearchParams
    expect([form.get('audience'), form.get('resource'), form.get('actor_token')]).toEqual(['billing', null, null])
  })

  it('passes on no scope of this agent that the caller lacks', async () => {
    await rigWith([{ ...RULE, scopes: ['a2a:use', 'a2a:pay', 'invoice:read'] }])
    await send(await callerOf(await bearer({ scope: 'a2a:use' })))
    await send(await callerOf(await bearer({ scope: 'a2a:use a2a:pay' })))
    expect(network.forms(EXCHANGE).map((form) => form.get('scope'))).toEqual([
      'a2a:use invoice:read',
      'a2a:pay a2a:use invoice:read',
    ])
  })

  it('is not made for a caller who has none of the scopes', async () => {
    await rigWith([{ ...RULE, scopes: ['a2a:pay'] }])
    expect(await codeOf(send(await callerOf(await bearer())))).toBe('ERR_DELEGATION_SCOPE')
    expect(network.requests).toEqual([])
  })
})

describe('nothing flows', () => {
  it('P189 without a caller, for strangers, and for callers without a token', async () => {
    await rigWith([RULE], { policy: { anonymous: true }, card: rigCard({ securityRequirements: [{ schemes: {} }] }) })
    const anonymous = await callerOf([])
    expect(anonymous.principal).toBeUndefined()
    expect(await codeOf(delegatedFetch(BILLING)(BILLING))).toBe('ERR_DELEGATION_CALLER')
    expect(await codeOf(send(anonymous))).toBe('ERR_DELEGATION_CALLER')
    expect(await codeOf(send(await callerOf(['X-API-Key', API_KEY])))).toBe('ERR_DELEGATION_DENIED')
    expect(network.requests).toEqual([])
  })

  it('for a principal that the guard has not made', async () => {
    await rigWith([RULE])
    const { principal } = await callerOf(await bearer())
    expect(await codeOf(send({ principal: { ...principal } as never }))).toBe('ERR_DELEGATION_CALLER')
    expect(network.requests).toEqual([])
  })

  it.each([
    ['another host', 'https://billing.example.org/'],
    ['a sub-domain', 'https://a.billing.example.com/'],
    ['another port', 'https://billing.example.com:8443/'],
    ['plain http', 'http://billing.example.com/'],
    ['a user name that looks like the host', 'https://billing.example.com@evil.example/'],
    ['a user name', 'https://user:pw@billing.example.com/v1/'],
    ['a host that begins the same', 'https://billing.example.com.evil.example/v1/'],
    ['a path beside', 'https://billing.example.com/v11'],
    ['a path above', 'https://billing.example.com/'],
    ['dots that leave', 'https://billing.example.com/v1/../admin'],
    ['dots in disguise', 'https://billing.example.com/v1/%2e%2e/admin'],
    ['a slash in disguise', 'https://billing.example.com/v1/..%2fadmin'],
    ['a backslash in disguise', 'https://billing.example.com/v1/..%5Cadmin'],
  ])('P190 to %s', async (_name, url) => {
    await rigWith([{ ...RULE, to: `${BILLING}/v1` }])
    const caller = await callerOf(await bearer())
    for (const to of [`${BILLING}/v1`, url])
      expect(await codeOf(send(caller, url, {}, to))).toBe('ERR_DELEGATION_DENIED')
    expect(network.requests).toEqual([])
    expect(await codeOf(send(caller, `${BILLING}/v1/x?y=%2f`))).toBe('sent')
  })

  it('outside the destination that the code named', async () => {
    await rigWith([RULE, { ...RULE, to: 'https://other.example.com' }])
    const caller = await callerOf(await bearer())
    expect(await codeOf(send(caller, 'https://other.example.com/'))).toBe('ERR_DELEGATION_DENIED')
    expect(network.requests).toEqual([])
  })

  it('for another skill, operation or caller than the rule says', async () => {
    const payers = { skills: ['pay'], operations: ['SendMessage'], principals: { subject: 'alice' } }
    await rigWith([{ ...RULE, for: payers }])
    const pay = { scope: 'a2a:use a2a:pay' }
    expect(await codeOf(send(await callerOf(await bearer(pay), 'echo')))).toBe('ERR_DELEGATION_DENIED')
    expect(await codeOf(send(await callerOf(await bearer({ ...pay, sub: 'bob' }), 'pay')))).toBe(
      'ERR_DELEGATION_DENIED',
    )
    const alice = await callerOf(await bearer(pay), 'echo')
    // A skill that the caller may not run is none that the code can be running for them.
    const poor = await callerOf(await bearer(), 'echo')
    expect(await codeOf(send({ ...poor, skill: 'pay' }))).toBe('ERR_DELEGATION_DENIED')
    expect(network.requests).toEqual([])
    expect(await codeOf(send({ ...alice, skill: 'pay' }))).toBe('sent')
  })

  it('with a credential of the code', async () => {
    await rigWith([RULE])
    const caller = await callerOf(await bearer())
    for (const name of [
      'Authorization',
      'authorization',
      'Cookie',
      'Proxy-Authorization',
      'DPoP',
      'X-API-Key',
      'Host',
    ]) {
      const forms = [{ [name]: 'x' }, new Headers({ [name]: 'x' }), [[name, 'x']] as [string, string][]]
      for (const headers of forms)
        expect(await codeOf(send(caller, undefined, { headers }))).toBe('ERR_DELEGATION_CREDENTIAL')
      expect(await codeOf(send(caller, new Request(BILLING, { headers: { [name]: 'x' } })))).toBe(
        // A Request of the platform drops what a browser would not let scripts set.
        new Request(BILLING, { headers: { [name]: 'x' } }).headers.has(name) ? 'ERR_DELEGATION_CREDENTIAL' : 'sent',
      )
    }
    expect(network.calls()).toHaveLength(0)
  })

  it('what report mode let through has no authority', async () => {
    await rigWith([{ ...RULE, scopes: ['invoice:read'] }], {
      policy: { mode: 'report', access: [{ deny: { principals: { subject: 'mallory' } } }] },
    })
    const decision = (await request(await bearer({ sub: 'mallory' }), 'echo')) as AllowedDecision
    expect(decision.reported?.code).toBe('ERR_ACCESS_DENIED')
    expect(await codeOf(send({ principal: decision.principal as never }))).toBe('ERR_DELEGATION_CALLER')
    expect(network.requests).toEqual([])
  })

  it.each([
    ['a token of another actor', { may_act: { sub: 'somebody' } }, 'names another actor'],
    ['may_act of another issuer', { may_act: { sub: 'agent', iss: 'https://other.example' } }, 'names another actor'],
    ['may_act that names nobody', { may_act: {} }, 'names another actor'],
    ['may_act that is none', { may_act: 'agent' }, 'names another actor'],
    ['a chain that is long enough', { act: { sub: 'x', act: { sub: 'y' } } }, 'too long'],
  ])('for %s', async (_name, claims, reason) => {
    await rigWith([{ ...RULE, maxActors: 2 }])
    const fault = await faultOf(send(await callerOf(await bearer(claims))))
    expect(fault.code).toBe('ERR_DELEGATION_SUBJECT')
    expect(JSON.stringify(fault.details)).toContain(reason)
    expect(network.requests).toEqual([])
  })

  it('may_act that names this agent lets it act', async () => {
    await rigWith([RULE])
    const claims = { may_act: { sub: 'agent', iss: ISSUER }, act: { sub: 'x' } }
    expect(await codeOf(send(await callerOf(await bearer(claims))))).toBe('sent')
  })

  it("after the caller's token has ended, was revoked, or the guard has gone", async () => {
    await rigWith([RULE])
    const caller = await callerOf(await bearer())
    await send(caller)
    rig.now = NOW + 600
    expect(await codeOf(send(caller))).toBe('ERR_DELEGATION_SUBJECT')
    rig.now = NOW
    await rig.guard.revoke({ principal: caller.principal?.id as string })
    expect(await codeOf(send(caller))).toBe('ERR_CREDENTIAL_REVOKED')
    await rig.guard.close()
    expect(await codeOf(send(caller))).toBe('ERR_GUARD_CLOSED')
    expect(network.calls()).toHaveLength(1)
  })

  it('a token is shown to nobody but the issuer who made it', async () => {
    const { publicKey } = await generateKeyPair('ES256')
    const jwk = { ...(await exportJWK(publicKey)), kid: 'second', alg: 'ES256' }
    const second = { issuer: 'https://second.example', jwks: 'https://second.example/jwks' }
    await rigWith(
      [{ ...RULE, issuer: second.issuer }],
      {
        login: { issuer: undefined, jwks: undefined, issuers: [{ issuer: ISSUER, jwks: 'file:./jwks.json' }, second] },
      },
      () => Response.json({ keys: [jwk] }),
    )
    network.requests.length = 0
    const fault = await faultOf(send(await callerOf(await bearer())))
    expect([fault.code, JSON.stringify(fault.details)]).toEqual([
      'ERR_DELEGATION_SUBJECT',
      '{"rule":1,"reason":"the token is from another issuer than the rule"}',
    ])
    expect(network.requests).toEqual([])
  })
})

describe('what the authorization server says', () => {
  it.each<[string, Record<string, unknown> | (() => Response), string]>([
    ['more scopes than were asked for', { scope: 'invoice:pay admin' }, 'ERR_TOKEN_ANSWER'],
    ['a refresh token', { issued_token_type: 'urn:ietf:params:oauth:token-type:refresh_token' }, 'ERR_TOKEN_ANSWER'],
    ['a token that needs a proof', { token_type: 'DPoP' }, 'ERR_TOKEN_ANSWER'],
    ['no token type', { token_type: null }, 'ERR_TOKEN_ANSWER'],
    ['N_A', { token_type: 'N_A' }, 'ERR_TOKEN_ANSWER'],
    ['no token', { access_token: '' }, 'ERR_TOKEN_ANSWER'],
    ['a token that ends the header', { access_token: 'x\r\nx-admin: 1' }, 'ERR_TOKEN_ANSWER'],
    ['scopes in a list', { scope: ['invoice:read'] }, 'ERR_TOKEN_ANSWER'],
    ['no JSON', () => new Response('<html>'), 'ERR_TOKEN_ANSWER'],
    ['a list', () => Response.json([]), 'ERR_TOKEN_ANSWER'],
    [
      'two tokens',
      () => new Response('{"access_token":"a","access_token":"b","token_type":"Bearer"}'),
      'ERR_TOKEN_ANSWER',
    ],
    ['no', () => Response.json({ error: 'invalid_target' }, { status: 400 }), 'ERR_TOKEN_REQUEST'],
    ['a fault', () => new Response('', { status: 500 }), 'ERR_TOKEN_REQUEST'],
    [
      'another place',
      () => new Response(null, { status: 307, headers: { location: 'https://evil.example' } }),
      'ERR_TOKEN_REQUEST',
    ],
    ['far too much', () => new Response('x'.repeat(1024 * 1024)), 'ERR_TOKEN_REQUEST'],
  ])('P190 %s: nothing is sent', async (_name, answer, code) => {
    await rigWith([RULE])
    network.answer = (form) =>
      form.get('grant_type') !== EXCHANGE ? {} : typeof answer === 'function' ? answer() : answer
    expect(await codeOf(send(await callerOf(await bearer())))).toBe(code)
    expect(network.calls()).toEqual([])
  })

  it("the caller's token, or the agent's own, comes back: it does not leave", async () => {
    await rigWith([RULE])
    const caller = await callerOf(await bearer())
    for (const name of ['subject_token', 'actor_token']) {
      network.answer = (form) => (form.get('grant_type') === EXCHANGE ? { access_token: form.get(name) } : {})
      expect(await codeOf(send(caller))).toBe('ERR_TOKEN_ANSWER')
    }
    expect(network.calls()).toEqual([])
  })

  it('P195 its texts stand in no error, and neither do tokens or secrets', async () => {
    await rigWith([RULE])
    const headers = await bearer()
    const caller = await callerOf(headers)
    network.answer = (form) =>
      Response.json(
        { error: 'invalid\n{"level":"info"}', error_description: `forged\n${form.get('subject_token')}` },
        { status: 400 },
      )
    const refused = await faultOf(send(caller))
    const token = (headers[1] as string).slice('Bearer '.length)
    network.answer = () => {
      throw new Error(`cannot send ${token} ${SECRET}`)
    }
    const failed = await faultOf(send(caller))
    expect([refused.code, failed.code]).toEqual(['ERR_TOKEN_REQUEST', 'ERR_TOKEN_REQUEST'])
    for (const { text } of [refused, failed])
      for (const secret of ['forged', 'level', token, token.split('.')[2] as string, SECRET])
        expect(text).not.toContain(secret)
  })

  it('the token of the caller is nowhere to be printed', async () => {
    await rigWith([RULE])
    const headers = await bearer()
    const caller = await callerOf(headers)
    const printed = inspect([caller, rig.guard, rig.events], { depth: 12, showHidden: true, getters: true })
    expect(printed).not.toContain((headers[1] as string).split('.')[2])
  })
})

describe('what is kept', () => {
  const granted = () => network.forms(EXCHANGE).length

  it('P190 P199 A109 for one caller, token, place and scope; asked for once by all who wait', async () => {
    await rigWith([RULE, { ...RULE, to: 'https://other.example.com' }])
    const alice = await callerOf(await bearer())
    await Promise.all(Array.from({ length: 50 }, () => send(alice)))
    expect([granted(), network.calls().length]).toEqual([1, 50])
    await send(alice, 'https://other.example.com/', {}, 'https://other.example.com')
    expect(granted()).toBe(2)
    // The same session, as two users or with two tokens.
    await send(await callerOf(await bearer({ sub: 'bob', sid: 's' })))
    await send(await callerOf(await bearer({ sid: 's' })))
    expect(granted()).toBe(4)
    const tokens = new Set(network.calls().map(({ headers }) => headers.get('authorization')))
    expect(tokens.size).toBe(4)
    // The agent's own token is its own whoever calls.
    expect(network.forms('client_credentials')).toHaveLength(1)
  })

  it.each<[unknown, number]>([
    ['3600', 3],
    [undefined, 1],
    [null, 1],
    ['soon', 1],
    [{}, 1],
    [0, 0],
    ['0', 0],
    [-5, 0],
    [5, 0],
    [1e12, 3],
    ['1e12', 1],
    [Number.MAX_VALUE, 3],
  ])('P196 P190 expires_in %j: kept for a sane time', async (expiresIn, kept) => {
    await rigWith([RULE])
    network.answer = () => ({ expires_in: expiresIn })
    const caller = await callerOf(await bearer({ exp: NOW + 100_000 }))
    let last = 0
    const asked = async (seconds: number) => {
      rig.now = NOW + seconds
      await send(caller)
      const fresh = granted() > last
      last = granted()
      return fresh
    }
    await asked(0)
    const times = [20, 3000, 3569]
    const reused: boolean[] = []
    for (const seconds of times) reused.push(!(await asked(seconds)))
    expect(reused.filter(Boolean)).toHaveLength(kept)
    // Nothing is kept for longer than an hour.
    expect(await asked(3700)).toBe(true)
  })

  it("never past the end of the caller's token", async () => {
    await rigWith([RULE])
    const caller = await callerOf(await bearer({ exp: NOW + 100 }))
    await send(caller)
    rig.now = NOW + 69
    await send(caller)
    expect(granted()).toBe(1)
    rig.now = NOW + 71
    await send(caller)
    expect(granted()).toBe(2)
  })

  it('a reload forgets it all, and a rule that it removes gives nothing to requests that had begun', async () => {
    const rules = [RULE]
    await rigWith(rules)
    const caller = await callerOf(await bearer())
    await send(caller)
    await rig.guard.reload()
    await send(caller)
    expect(granted()).toBe(2)
    rules[0] = { ...RULE, to: 'https://other.example.com' }
    await rig.guard.reload()
    expect(await codeOf(send(caller))).toBe('ERR_DELEGATION_DENIED')
    expect(network.calls()).toHaveLength(2)
  })
})

describe('a 401 of the other agent', () => {
  it('A109 P190 a new token once, and the same request with it', async () => {
    await rigWith([RULE])
    network.agent = (_request, count) => new Response('{}', { status: count === 1 ? 401 : 200 })
    const response = await send(await callerOf(await bearer()), undefined, { method: 'POST', body: 'x' })
    expect(response.status).toBe(200)
    const calls = network.calls()
    expect(calls.map(({ body }) => body)).toEqual(['x', 'x'])
    expect(new Set(calls.map(({ headers }) => headers.get('authorization'))).size).toBe(2)
    await send(await callerOf(await bearer()))
  })

  it('A106 for ever: two requests and no more', async () => {
    await rigWith([RULE])
    network.agent = () => new Response('{}', { status: 401 })
    expect((await send(await callerOf(await bearer()))).status).toBe(401)
    expect([network.calls().length, network.forms(EXCHANGE).length]).toEqual([2, 2])
  })

  it('50 at once: one new token', async () => {
    await rigWith([RULE])
    const caller = await callerOf(await bearer())
    await send(caller)
    const stale = network.calls()[0]?.headers.get('authorization')
    network.agent = ({ headers }) => new Response('{}', { status: headers.get('authorization') === stale ? 401 : 200 })
    const statuses = await Promise.all(Array.from({ length: 50 }, async () => (await send(caller)).status))
    expect(statuses.filter((status) => status === 200)).toHaveLength(50)
    expect(network.forms(EXCHANGE)).toHaveLength(2)
  })

  it.each<[string, () => [string | Request, RequestInit?]]>([
    ['text', () => [BILLING, { method: 'POST', body: 'body' }]],
    ['bytes', () => [BILLING, { method: 'POST', body: new TextEncoder().encode('body') }]],
    [
      'a stream',
      () => [BILLING, { method: 'POST', body: new Response('body').body as never, duplex: 'half' } as RequestInit],
    ],
    ['a Request', () => [new Request(BILLING, { method: 'POST', body: 'body' })]],
    ['a Request and init', () => [new Request(BILLING, { method: 'POST', body: 'other' }), { body: 'body' }]],
    ['a Blob', () => [BILLING, { method: 'POST', body: new Blob(['body']) }]],
  ])('A106 %s can be sent again, with its headers', async (_name, made) => {
    await rigWith([RULE])
    network.agent = (_request, count) => new Response('{}', { status: count === 1 ? 401 : 200 })
    const [input, init = {}] = made()
    const forms = [[['A2A-Version', '1.0']], new Headers({ 'A2A-Version': '1.0' }), { 'a2a-version': '1.0' }]
    const headers = forms[_name.length % 3] as RequestInit['headers']
    const given = input instanceof Request ? new Request(input, { headers: headers as Headers }) : input
    await send(await callerOf(await bearer()), given, given === input ? { ...init, headers: headers as Headers } : init)
    const calls = network.calls()
    expect(calls.map(({ body, method }) => [method, body])).toEqual([
      ['POST', 'body'],
      ['POST', 'body'],
    ])
    expect(calls.map((call) => call.headers.get('a2a-version'))).toEqual(['1.0', '1.0'])
  })

  it('a body without end is not read to its end', async () => {
    await rigWith([RULE])
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1024 * 1024)) })
    const init = { method: 'POST', body: endless, duplex: 'half' } as RequestInit
    expect(await codeOf(send(await callerOf(await bearer()), undefined, init))).toBe('ERR_REQUEST_TOO_LARGE')
    expect(network.requests).toEqual([])
  })
})

describe('the other ways', () => {
  it("client_credentials: the agent's own token, for callers whom the rule lets", async () => {
    const own = { ...RULE, obtain: 'client_credentials', scopes: ['a2a:use', 'ledger:read'] }
    await rigWith([{ ...own, for: { principals: { scheme: 'key' } } }])
    expect(await codeOf(send(await callerOf(await bearer())))).toBe('ERR_DELEGATION_DENIED')
    expect(network.requests).toEqual([])
    await send(await callerOf(['X-API-Key', API_KEY]))
    const forms = network.forms()
    expect(forms.map((form) => Object.fromEntries(form))).toEqual([
      { grant_type: 'client_credentials', scope: 'a2a:use ledger:read', resource: BILLING },
    ])
    expect(network.calls()[0]?.headers.get('authorization')).toBe('Bearer own-1')
  })

  it('none: the request as it is', async () => {
    await rigWith([{ to: BILLING, obtain: 'none' }])
    await send(await callerOf(await bearer()), undefined, { headers: { 'a2a-version': '1.0' } })
    expect(network.requests).toHaveLength(1)
    expect([...(network.calls()[0]?.headers ?? [])]).toEqual([['a2a-version', '1.0']])
    expect(network.calls()[0]?.redirect).toBe('error')
  })

  it('the first rule that fits counts', async () => {
    await rigWith([{ to: BILLING, obtain: 'none', for: { skills: ['echo'] } }, RULE])
    await send(await callerOf(await bearer(), 'echo'))
    expect(network.forms()).toEqual([])
    await send(await callerOf(await bearer({ scope: 'a2a:use a2a:pay' }), 'pay'))
    expect(network.forms(EXCHANGE)).toHaveLength(1)
  })
})

it('A88 10,000 interleaved calls of 100 users: each with the token of its own user', async () => {
  await rigWith([RULE])
  const owners = new Map<string, string>()
  network.answer = (form) => {
    const subject = form.get('subject_token')
    if (subject === null) return {}
    const { sub } = decodeJwt(subject)
    const token = `for-${sub}-${owners.size}`
    owners.set(token, sub as string)
    return { access_token: token }
  }
  let wrong = 0
  network.agent = async ({ headers, url }) => {
    await new Promise((resolve) => setImmediate(resolve))
    const token = (headers.get('authorization') as string).slice('Bearer '.length)
    if (owners.get(token) !== new URL(url).searchParams.get('user')) wrong += 1
    return new Response('{}', { status: Math.random() < 0.01 ? 401 : 200 })
  }
  const users = Array.from({ length: 100 }, (_, index) => `user-${index}`)
  const callers = await Promise.all(users.map(async (sub) => callerOf(await bearer({ sub }))))
  const fetchBilling = delegatedFetch(BILLING)
  await Promise.all(
    Array.from({ length: 10_000 }, (_, index) =>
      withCaller(callers[index % 100] as Caller, async () => {
        for (let turn = index % 3; turn > 0; turn -= 1) await new Promise((resolve) => setImmediate(resolve))
        return fetchBilling(`${BILLING}/?user=${users[index % 100]}`)
      }),
    ),
  )
  expect(network.calls().length).toBeGreaterThanOrEqual(10_000)
  expect(wrong).toBe(0)
}, 60_000)
