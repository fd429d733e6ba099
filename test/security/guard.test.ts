/** What the guard decides beyond one credential: combinations, skills, rules, limits, modes, and its life cycle. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { Guard } from '../../src/guard.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import { evaluate } from '../../src/policy/evaluate.ts'
import { loadPolicy } from '../../src/policy/load.ts'
import type { Decision, GuardRequest, Operation, PrincipalPart } from '../../src/types.ts'
import { API_KEY, makeRig, paySkill, type Rig, type RigOptions, rigCard } from '../support/rig.ts'

let rig: Rig | undefined
afterEach(async () => {
  await rig?.close()
  rig = undefined
})

async function start(options: RigOptions = {}): Promise<Rig> {
  rig = await makeRig(options)
  return rig
}

const KEY = ['x-api-key', API_KEY]
const bearer = (token: string) => ['authorization', `Bearer ${token}`]

function send(
  guard: Guard,
  headers: readonly string[],
  message: Record<string, unknown> = {},
  more: Partial<GuardRequest> = {},
): Promise<Decision> {
  return guard.check({
    method: 'POST',
    target: '/',
    rawHeaders: ['a2a-version', '1.0', ...headers],
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 7,
      method: 'SendMessage',
      params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }], ...message } },
    }),
    ...more,
  })
}

function get(guard: Guard, headers: readonly string[], target = '/tasks/t-1'): Promise<Decision> {
  return guard.check({ method: 'GET', target, rawHeaders: ['a2a-version', '1.0', ...headers] })
}

/** `allowed`, or status and the operator's code. */
function told(decision: Decision): string {
  return decision.allowed ? 'allowed' : `${decision.denial.status} ${decision.code}`
}
const naming = (skillId: string) => ({ metadata: { skillId } })

describe('requirements', () => {
  const both = rigCard({
    securitySchemes: {
      key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
      user: { apiKeySecurityScheme: { location: 'header', name: 'X-User-Key' } },
      login: rigCard().securitySchemes === undefined ? {} : (rigCard().securitySchemes as Record<string, object>).login,
    },
    securityRequirements: [
      { schemes: { key: { list: [] }, user: { list: [] } } },
      { schemes: { login: { list: ['a2a:use'] } } },
    ],
  })
  const USER_KEY = 'a-user-key-for-tests-only-00000002'

  async function startBoth(): Promise<Rig> {
    const keys = [{ id: 'user-1', sha256: sha256Hex(USER_KEY), owner: 'bob' }]
    const file = join((await import('node:os')).tmpdir(), `a2a-trust-user-keys-${process.pid}.json`)
    writeFileSync(file, JSON.stringify(keys))
    return start({
      card: both,
      policy: {
        schemes: {
          key: { keys: 'file:./keys.json' },
          user: { keys: `file:${file}` },
          login: { issuer: 'https://issuer.example', algorithms: ['ES256'], jwks: 'file:./jwks.json' },
        },
      },
    })
  }

  it('A33 AND inside, OR between, and the same answer forty times', async () => {
    const { guard, token } = await startBoth()
    const answers = new Set<string>()
    for (let round = 0; round < 40; round += 1) {
      const decisions = [
        await get(guard, KEY),
        await get(guard, ['x-user-key', USER_KEY]),
        await get(guard, [...KEY, 'x-user-key', USER_KEY]),
        await get(guard, bearer(await token())),
        await get(guard, ['x-api-key', USER_KEY, 'x-user-key', API_KEY]),
      ]
      answers.add(JSON.stringify(decisions.map(told)))
    }
    expect([...answers].map((text) => JSON.parse(text) as string[])).toEqual([
      [
        '401 ERR_CREDENTIAL_INCOMPLETE',
        '401 ERR_CREDENTIAL_INCOMPLETE',
        'allowed',
        'allowed',
        '401 ERR_API_KEY_UNKNOWN',
      ],
    ])
  })

  it('A33 the challenge names what each alternative still lacks', async () => {
    const { guard } = await startBoth()
    const decision = await get(guard, KEY)
    expect(decision.allowed ? '' : decision.denial.headers['www-authenticate']).toBe(
      'ApiKey realm="a2a", in="header", name="x-user-key", ' +
        'Bearer realm="a2a", scope="a2a:use", resource_metadata="https://agent.example/.well-known/oauth-protected-resource"',
    )
  })

  it('P75 a bad credential anywhere is refused, even where another alternative is met; an absent one is not', async () => {
    const { guard, token } = await start()
    expect(told(await get(guard, [...KEY, ...bearer('junk')]))).toBe('401 ERR_TOKEN_MALFORMED')
    expect(told(await get(guard, ['x-api-key', 'an-unknown-key-000000000000', ...bearer(await token())]))).toBe(
      '401 ERR_API_KEY_UNKNOWN',
    )
    expect(told(await get(guard, [...KEY, ...bearer(await token())]))).toBe('allowed')
    // P69: a credential of a kind the card does not declare hides nothing.
    expect(told(await get(guard, [...KEY, 'authorization', 'Basic dXNlcjpwYXNz']))).toBe('allowed')
    expect(told(await get(guard, ['authorization', 'Basic dXNlcjpwYXNz']))).toBe('401 ERR_CREDENTIAL_MISSING')
  })

  it('P33 A45 two issuers, one subject: two principals; a key and a token of one name too', async () => {
    const { guard, token } = await start()
    const ids = [await get(guard, bearer(await token({ sub: 'partner' }))), await get(guard, KEY)].map((decision) =>
      decision.allowed ? decision.principal?.id : told(decision),
    )
    expect(new Set(ids).size).toBe(2)
    const a = await get(guard, bearer(await token({ sub: 'a:b' })))
    expect(a.allowed && a.principal?.id).toBe('oauth2:https%3A%2F%2Fissuer.example:a%3Ab')
  })

  it('A45 rotation keeps the principal', async () => {
    const { guard, token } = await start()
    const first = await get(guard, bearer(await token({ jti: '1' })))
    const second = await get(guard, bearer(await token({ jti: '2', iat: 1_799_999_990 })))
    expect(first.allowed && first.principal?.id).toBe(second.allowed && second.principal?.id)
  })

  it('A52 P86 two credentials from one address are two principals, and forwarded headers change nothing', async () => {
    const { guard, token, events } = await start()
    const peer = { address: '192.0.2.7' }
    const ask = (headers: readonly string[]) =>
      guard.check({
        method: 'GET',
        target: '/tasks',
        rawHeaders: ['a2a-version', '1.0', 'x-forwarded-for', '10.9.9.9', ...headers],
        peer,
      })
    await ask(KEY)
    await ask(bearer(await token()))
    expect(events.map(({ peerAddress }) => peerAddress)).toEqual(['192.0.2.7', '192.0.2.7'])
    expect(new Set(events.map(({ principal }) => principal)).size).toBe(2)
  })

  it('A51 P80 P88 identity headers are not credentials', async () => {
    const { guard } = await start()
    for (const header of [
      ['x-user-id', 'admin'],
      ['x-a2a-agent-subject', 'spiffe://x/admin'],
      ['x-forwarded-client-cert', 'Subject="CN=admin"'],
      ['x-forwarded-uri', '/.well-known/agent-card.json'],
      ['x-original-url', '/.well-known/agent-card.json'],
    ]) {
      expect(told(await get(guard, header)), header[0]).toBe('401 ERR_CREDENTIAL_MISSING')
    }
  })

  it('A46 a credential that speaks for a tenant speaks for no other', async () => {
    const { guard, token } = await start({ login: { tenantClaim: 'tid' } })
    const headers = bearer(await token({ tid: 'a' }))
    expect(told(await get(guard, headers, '/a/tasks/t-1'))).toBe('allowed')
    expect(told(await get(guard, headers))).toBe('allowed')
    expect(told(await get(guard, headers, '/b/tasks/t-1'))).toBe('403 ERR_TENANT_FORBIDDEN')
    // Once tenants are spoken of, a credential without one names none.
    expect(told(await get(guard, bearer(await token()), '/b/tasks/t-1'))).toBe('403 ERR_TENANT_FORBIDDEN')
    expect(told(await get(guard, KEY, '/a/tasks/t-1'))).toBe('403 ERR_TENANT_FORBIDDEN')
    expect(told(await get(guard, KEY))).toBe('allowed')
    const rpc = (tenant: string) => ({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't', tenant } })
    const ask = (tenant: string) =>
      guard.check({ method: 'POST', target: '/', rawHeaders: ['a2a-version', '1.0', ...headers], body: rpc(tenant) })
    expect(told(await ask('b'))).toBe('403 ERR_TENANT_FORBIDDEN')
    expect(told(await ask('../a'))).toMatch(/^40[03] /)
    expect(told(await ask('a'))).toBe('allowed')
  })
})

describe('tenants', () => {
  it('whether the policy speaks of them is settled at load, and no request goes over the keys', async () => {
    const { folder } = await start()
    const key = { sha256: sha256Hex(API_KEY), owner: 'partner' }
    const policyOf = async (file: object[]) => {
      writeFileSync(join(folder, 'keys.json'), JSON.stringify(file))
      const schemes = { key: { keys: 'file:./keys.json' } }
      const { login: _, ...securitySchemes } = rigCard().securitySchemes as Record<string, object>
      const card = rigCard({ securitySchemes, securityRequirements: [{ schemes: { key: { list: [] } } }] })
      const policy = { version: 1, card, audience: 'https://agent.example', schemes }
      const loaded = await loadPolicy({ policy, baseDir: folder })
      const untouched = new Proxy(loaded.schemes, { get: () => expect.fail('the schemes were gone over') })
      return { ...loaded, schemes: untouched }
    }
    const part = {
      kind: 'apiKey',
      scheme: 'key',
      issuer: '',
      subject: 'partner',
      claims: {},
      credential: {},
      scopes: new Set<string>(),
    }
    const parts = (tenant?: string) =>
      new Map([['key', { ...part, ...(tenant === undefined ? {} : { tenant }) } as PrincipalPart]])
    const operation: Operation = { name: 'GetTask', version: '1.0', binding: 'HTTP+JSON', tenant: 'b' }
    const speaking = await policyOf([{ ...key, id: 'partner-1', tenant: 'a' }])
    expect(evaluate(speaking, parts('a'), operation)).toMatchObject({ allowed: false, code: 'ERR_TENANT_FORBIDDEN' })
    expect(evaluate(speaking, parts('b'), operation)).toMatchObject({ allowed: true })
    expect(evaluate(await policyOf([{ ...key, id: 'partner-1' }]), parts(), operation)).toMatchObject({ allowed: true })
  })
})

describe('skills', () => {
  const card = rigCard({ skills: [...(rigCard().skills as object[]), paySkill] })

  it("A53 a skill adds its requirement to the agent's; a hint never lowers the bar", async () => {
    const { guard, token } = await start({ card })
    const user = bearer(await token())
    const payer = bearer(await token({ scope: 'a2a:use a2a:pay' }))
    const onlyPay = bearer(await token({ scope: 'a2a:pay' }))
    expect(told(await send(guard, user, naming('echo')))).toBe('allowed')
    expect(told(await send(guard, user, naming('pay')))).toBe('403 ERR_SCOPE_INSUFFICIENT')
    expect(told(await send(guard, payer, naming('pay')))).toBe('allowed')
    expect(told(await send(guard, onlyPay, naming('pay')))).toBe('403 ERR_SCOPE_INSUFFICIENT')
    expect(told(await send(guard, KEY, naming('pay')))).toBe('403 ERR_SKILL_FORBIDDEN')
    expect(told(await send(guard, payer, naming('nope')))).toBe('403 ERR_SKILL_UNKNOWN')
    // Undeclared is denied, because a skill is stricter than the agent.
    expect(told(await send(guard, payer))).toBe('403 ERR_SKILL_UNDECLARED')
    expect(told(await send(guard, payer, { metadata: { skillId: 7 } }))).toBe('400 ERR_REQUEST_MALFORMED')
  })

  it('the decision carries the skills that the credentials satisfy', async () => {
    const { guard, token } = await start({
      card,
      policy: { skills: { select: { metadata: 'skillId' }, undeclared: 'agent' } },
    })
    const allowedFor = async (headers: readonly string[]) => {
      const decision = await send(guard, headers)
      return decision.allowed ? decision.skills : told(decision)
    }
    expect(await allowedFor(KEY)).toEqual({ allowed: ['echo'] })
    expect(await allowedFor(bearer(await token({ scope: 'a2a:use a2a:pay' })))).toEqual({ allowed: ['echo', 'pay'] })
  })

  it("override replaces the agent's list, for the skill that has its own and for no other", async () => {
    const { guard, token } = await start({
      card,
      policy: { skills: { select: { metadata: 'skillId' }, combine: 'override' } },
    })
    const onlyPay = bearer(await token({ scope: 'a2a:pay' }))
    expect(told(await send(guard, onlyPay, naming('pay')))).toBe('allowed')
    expect(told(await send(guard, onlyPay, naming('echo')))).toBe('403 ERR_SCOPE_INSUFFICIENT')
    expect(told(await get(guard, onlyPay))).toBe('403 ERR_SCOPE_INSUFFICIENT')
    expect(told(await send(guard, [], naming('pay')))).toBe('401 ERR_CREDENTIAL_MISSING')
  })

  it("A53 override: naming a skill on what runs none leaves the agent's list standing", async () => {
    const { guard, token } = await start({
      card,
      policy: { skills: { select: { metadata: 'skillId', extension: true, tenant: true }, combine: 'override' } },
    })
    const onlyPay = bearer(await token({ scope: 'a2a:pay' }))
    const user = bearer(await token())
    const both = bearer(await token({ scope: 'a2a:use a2a:pay' }))
    const ask = (headers: readonly string[], method: string, params: Record<string, unknown>) =>
      send(guard, headers, {}, { body: { jsonrpc: '2.0', id: 1, method, params } })
    for (const [method, params] of [
      ['GetTask', { id: 't' }],
      ['ListTasks', {}],
      ['CancelTask', { id: 't' }],
      ['SubscribeToTask', { id: 't' }],
      ['GetExtendedAgentCard', {}],
      ['CreateTaskPushNotificationConfig', { taskId: 't', url: 'https://hook.example.com/' }],
      ['ListTaskPushNotificationConfigs', { taskId: 't' }],
    ] as const) {
      for (const named of [{ metadata: { skillId: 'pay' } }, { metadata: { 'urn:a2a-trust:skill:v1': 'pay' } }]) {
        expect(told(await ask(onlyPay, method, { ...params, ...named })), method).toBe('403 ERR_SCOPE_INSUFFICIENT')
        // To name a skill adds its requirements still.
        expect(told(await ask(user, method, { ...params, ...named })), method).toBe('403 ERR_SCOPE_INSUFFICIENT')
        expect(told(await ask(both, method, { ...params, ...named })), method).toBe('allowed')
      }
      expect(told(await ask(onlyPay, method, { ...params, tenant: 'pay' })), method).toBe('403 ERR_SCOPE_INSUFFICIENT')
    }
    for (const target of ['/pay/tasks/t', '/pay/tasks', '/pay/extendedAgentCard'])
      expect(told(await get(guard, onlyPay, target)), target).toBe('403 ERR_SCOPE_INSUFFICIENT')
    expect(told(await send(guard, onlyPay, naming('pay')))).toBe('allowed')
  })

  it('P97 a missing scope is named in the challenge', async () => {
    const { guard, token } = await start({ card })
    const decision = await send(guard, bearer(await token()), naming('pay'))
    expect(decision.allowed ? '' : decision.denial.headers['www-authenticate']).toBe(
      'Bearer realm="a2a", error="insufficient_scope", scope="a2a:use a2a:pay", resource_metadata="https://agent.example/.well-known/oauth-protected-resource"',
    )
  })
})

describe('scopes', () => {
  it.each([
    ['P105 exact members', { scope: 'a2a:user' }, '403 ERR_SCOPE_INSUFFICIENT'],
    ['P105 a list in scp', { scope: undefined, scp: 'x a2a:use' }, 'allowed'],
    ['P106 no scope claim at all', { scope: undefined }, '403 ERR_SCOPE_INSUFFICIENT'],
    ['P107 case counts', { scope: 'A2A:USE' }, '403 ERR_SCOPE_INSUFFICIENT'],
    ['P41 P100 another audience', { aud: 'https://other.example' }, '401 ERR_TOKEN_AUDIENCE'],
    ['A87 a token for another agent', { aud: ['https://agent.example.evil'] }, '401 ERR_TOKEN_AUDIENCE'],
    ['P98 expired', { exp: 1_799_990_000 }, '401 ERR_TOKEN_EXPIRED'],
  ])('%s', async (_, claims, answer) => {
    const { guard, token } = await start()
    expect(told(await get(guard, bearer(await token(claims))))).toBe(answer)
  })

  it('requiredScopes of the scheme: a valid token that lacks one is 403 with its name', async () => {
    const { guard, token } = await start({ login: { requiredScopes: ['a2a:all'] } })
    const decision = await get(guard, bearer(await token()))
    expect(told(decision)).toBe('403 ERR_SCOPE_INSUFFICIENT')
    expect(decision.allowed ? '' : decision.denial.headers['www-authenticate']).toContain(
      'error="insufficient_scope", scope="a2a:use a2a:all"',
    )
  })
})

describe('access rules', () => {
  it('A32 with allow rules, what none allows is denied; deny wins; the event names neither rule nor secret', async () => {
    const { guard, token } = await start({
      policy: {
        access: [
          { allow: { operations: ['GetTask', 'SendMessage'], principals: { scopes: ['a2a:use'] } } },
          { allow: { operations: ['CancelTask'], principals: { subject: 'admin' } } },
          { deny: { principals: { subject: 'mallory' } } },
        ],
      },
    })
    const alice = bearer(await token())
    expect(told(await get(guard, alice))).toBe('allowed')
    expect(told(await get(guard, alice, '/tasks'))).toBe('403 ERR_ACCESS_DENIED')
    const cancel = (headers: readonly string[]) =>
      guard.check({ method: 'POST', target: '/tasks/t:cancel', rawHeaders: ['a2a-version', '1.0', ...headers] })
    expect(told(await cancel(alice))).toBe('403 ERR_ACCESS_DENIED')
    expect(told(await cancel(bearer(await token({ sub: 'admin' }))))).toBe('allowed')
    expect(told(await get(guard, bearer(await token({ sub: 'mallory' }))))).toBe('403 ERR_ACCESS_DENIED')
  })

  it('a rule on a skill binds that skill', async () => {
    const { guard, token } = await start({
      policy: {
        skills: { select: { metadata: 'skillId' } },
        access: [{ allow: { skills: ['echo'], principals: { issuer: 'https://issuer.example' } } }],
      },
    })
    expect(told(await send(guard, bearer(await token()), naming('echo')))).toBe('allowed')
    expect(told(await send(guard, KEY, naming('echo')))).toBe('403 ERR_ACCESS_DENIED')
  })

  it('one credential must match the whole rule: scopes of one do not speak for the subject of another', async () => {
    const { guard, token } = await start({
      policy: { access: [{ allow: { principals: { subject: 'partner', scopes: ['a2a:admin'] } } }] },
    })
    const admin = bearer(await token({ scope: 'a2a:use a2a:admin' }))
    expect(told(await get(guard, [...KEY, ...admin]))).toBe('403 ERR_ACCESS_DENIED')
  })
})

describe('anonymous', () => {
  const open = rigCard({ securitySchemes: undefined, securityRequirements: undefined })
  const publicCard = Object.fromEntries(Object.entries(open).filter(([, value]) => value !== undefined))

  it('A29 A28 is refused at start unless the policy says so', async () => {
    await expect(start({ card: publicCard })).rejects.toMatchObject({ code: 'ERR_POLICY_INVALID' })
  })

  it('A60 never gets the extended card', async () => {
    const card = rigCard({ securityRequirements: [{ schemes: {} }, { schemes: { key: { list: [] } } }] })
    const { guard } = await start({ card, policy: { anonymous: true } })
    expect(told(await get(guard, []))).toBe('allowed')
    expect(told(await get(guard, [], '/%65xtendedAgentCard'))).toBe('403 ERR_OPERATION_UNKNOWN')
    for (const target of ['/extendedAgentCard', '/tenant/extendedAgentCard']) {
      expect(told(await get(guard, [], target)), target).toBe('401 ERR_CREDENTIAL_MISSING')
      expect(told(await get(guard, KEY, target)), target).toBe('allowed')
    }
    // Bad is not anonymous.
    expect(told(await get(guard, ['x-api-key', 'an-unknown-key-000000000000']))).toBe('401 ERR_API_KEY_UNKNOWN')
    expect(told(await get(guard, bearer('junk')))).toBe('401 ERR_TOKEN_MALFORMED')
    for (const value of ['garbage', 'DPoP x.y.z', 'Basic eDp5', API_KEY]) {
      expect(told(await get(guard, ['authorization', value])), value).toMatch(/^40[01] /)
    }
    const decision = await get(guard, [])
    expect(decision.allowed && decision.principal).toBeUndefined()
  })
})

describe('report mode', () => {
  it('lets through what would be denied, says so, and never the extended card or what is no operation', async () => {
    const { guard, token, events } = await start({ policy: { mode: 'report' } })
    const decision = await send(guard, [])
    expect(decision).toMatchObject({ allowed: true, reported: { code: 'ERR_CREDENTIAL_MISSING', status: 401 } })
    // The door alone reports: `guardExecutor` still refuses whom it would have denied.
    expect(decision).toMatchObject({ skills: { allowed: [] } })
    expect(events.at(-1)).toMatchObject({ allowed: true, code: 'ERR_CREDENTIAL_MISSING', status: 401, mode: 'report' })
    expect(told(await get(guard, [], '/extendedAgentCard'))).toBe('401 ERR_CREDENTIAL_MISSING')
    const extended = { jsonrpc: '2.0', id: 1, method: 'GetExtendedAgentCard', params: {} }
    expect(told(await send(guard, bearer('junk'), {}, { body: extended }))).toBe('401 ERR_TOKEN_MALFORMED')
    expect(told(await get(guard, bearer(await token()), '/admin'))).toBe('403 ERR_OPERATION_UNKNOWN')
    expect(told(await get(guard, [], '/admin'))).toMatch(/^40[13] /)
    const good = await get(guard, bearer(await token()))
    expect(good).toMatchObject({ allowed: true })
    expect(good).not.toHaveProperty('reported')
  })
})

describe('limits', () => {
  it('P101 perPrincipal: 429 with Retry-After for that principal alone, until the window ends', async () => {
    const made = await start({ policy: { limits: { perPrincipal: '2/min' } } })
    const { guard, token } = made
    const alice = bearer(await token())
    expect([told(await get(guard, alice)), told(await get(guard, alice)), told(await get(guard, alice))]).toEqual([
      'allowed',
      'allowed',
      '429 ERR_RATE_LIMITED',
    ])
    const limited = await get(guard, alice)
    expect(limited.allowed ? '' : limited.denial.headers['retry-after']).toBe('60')
    expect(told(await get(guard, KEY))).toBe('allowed')
    made.now += 61
    expect(told(await get(guard, bearer(await token({ iat: made.now, exp: made.now + 60 }))))).toBe('allowed')
  })

  it('P93 failedAuthentication: counted by network, checked before any credential', async () => {
    const { guard, token } = await start({ policy: { limits: { failedAuthentication: '2/min' } } })
    const from = async (address: string, headers: readonly string[]) =>
      told(
        await guard.check({
          method: 'GET',
          target: '/tasks',
          rawHeaders: ['a2a-version', '1.0', ...headers],
          peer: { address },
        }),
      )
    const good = bearer(await token())
    // Nothing presented is no failed attempt.
    for (let round = 0; round < 5; round += 1) expect(await from('2001:db8::1', [])).toBe('401 ERR_CREDENTIAL_MISSING')
    expect(await from('2001:db8::1', bearer('a'))).toBe('401 ERR_TOKEN_MALFORMED')
    expect(await from('2001:db8::ffff:2', bearer('b'))).toBe('401 ERR_TOKEN_MALFORMED')
    expect(await from('2001:db8::3', good)).toBe('429 ERR_RATE_LIMITED')
    expect(await from('2001:db8:0:1::3', good)).toBe('allowed')
    expect(await from('192.0.2.1', good)).toBe('allowed')
    expect(await from('::ffff:192.0.2.1', good)).toBe('allowed')
  })
})

describe('life cycle', () => {
  it('authenticate answers headers alone, synchronously for a credential seen before; authorize once', async () => {
    const { guard, token } = await start()
    const head = { method: 'POST', target: '/', rawHeaders: ['a2a-version', '1.0', ...bearer(await token())] }
    await guard.authenticate(head)
    const authentication = guard.authenticate(head)
    if (authentication instanceof Promise) throw new Error('a repeated token must not cost a turn of the event loop')
    expect(authentication.denied).toBeUndefined()
    const body = '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
    expect(guard.authorize(authentication, body)).toMatchObject({
      allowed: true,
      operation: { name: 'GetTask', taskId: 't' },
    })
    expect(() => guard.authorize(authentication, body)).toThrow(TypeError)
    expect(() => guard.authorize({ hiddenHeaders: [] }, body)).toThrow(TypeError)
  })

  it('A58 an anonymous body is not read: not even one that would throw', async () => {
    const { guard } = await start()
    const trap = new Proxy(
      {},
      { get: () => expect.fail('the body was read'), ownKeys: () => expect.fail('the body was read') },
    )
    expect(
      told(await guard.check({ method: 'POST', target: '/', rawHeaders: [], body: Buffer.from('not json') })),
    ).toBe('401 ERR_CREDENTIAL_MISSING')
    expect(told(await guard.check({ method: 'GET', target: '/tasks', rawHeaders: [], body: trap }))).toBe(
      '401 ERR_CREDENTIAL_MISSING',
    )
  })

  it('A37 the id of a body that is parsed already is echoed; of raw bytes it is not', async () => {
    const { guard } = await start()
    const idOf = async (body: unknown) => {
      const decision = await guard.check({ method: 'POST', target: '/', rawHeaders: [], body })
      return decision.allowed ? 'allowed' : (JSON.parse(decision.denial.body) as { id: unknown }).id
    }
    for (const id of [7, 0, '', 'x']) expect(await idOf({ jsonrpc: '2.0', id, method: 'GetTask' })).toBe(id)
    for (const id of [1.5, {}, true, null, undefined])
      expect(await idOf({ jsonrpc: '2.0', id, method: 'GetTask' })).toBeNull()
    expect(await idOf('{"jsonrpc":"2.0","id":7,"method":"GetTask"}')).toBeNull()
  })

  it('P96 P39 without a credential the challenge has no error', async () => {
    const { guard } = await start()
    const decision = await get(guard, [])
    expect(decision.allowed ? '' : decision.denial.headers['www-authenticate']).not.toContain('error=')
  })

  it('explain says per scheme what happened, and spends no limit', async () => {
    const { guard, token, events } = await start({ policy: { limits: { perPrincipal: '1/min' } } })
    const request = {
      method: 'GET',
      target: '/tasks/t',
      rawHeaders: ['a2a-version', '1.0', ...bearer(await token({ scope: 'x' }))],
    }
    for (let round = 0; round < 3; round += 1) {
      expect(await guard.explain(request)).toMatchObject({
        allowed: false,
        code: 'ERR_SCOPE_INSUFFICIENT',
        operation: { name: 'GetTask' },
        schemes: [
          { scheme: 'login', outcome: 'satisfied' },
          { scheme: 'key', outcome: 'absent' },
        ],
        shortfalls: [{ missing: [{ scheme: 'login', lacking: ['a2a:use'] }] }, { missing: [{ scheme: 'key' }] }],
      })
    }
    expect(events).toEqual([])
  })

  it('explain never disagrees with check', async () => {
    const { guard, token } = await start({ card: rigCard({ skills: [...(rigCard().skills as object[]), paySkill] }) })
    const open = await makeRig({
      card: rigCard({ securityRequirements: [{ schemes: {} }, { schemes: { key: { list: [] } } }] }),
      policy: { anonymous: true },
    })
    const heads = [
      [],
      KEY,
      bearer(await token()),
      bearer(await token({ scope: 'x' })),
      bearer(await token({ exp: 1 })),
      ['authorization', 'Basic dTpw'],
      ['authorization', ''],
      [...KEY, 'authorization', 'Basic dTpw'],
      ['x-api-key', 'an-unknown-key-000000000000'],
      [...KEY, ...KEY],
    ]
    const asked = [
      { method: 'GET', target: '/tasks/t' },
      { method: 'GET', target: '/extendedAgentCard' },
      { method: 'GET', target: '/admin' },
      { method: 'POST', target: '/', body: 'not json' },
      { method: 'POST', target: '/', body: '{"jsonrpc":"2.0","id":1,"method":"Nope"}' },
      { method: 'POST', target: '/', body: '{"jsonrpc":"2.0","id":1,"method":"ListTasks"}' },
    ]
    try {
      for (const each of [guard, open.guard]) {
        for (const head of heads) {
          for (const one of asked) {
            const request = { ...one, rawHeaders: ['a2a-version', '1.0', ...head] }
            const decision = await each.check(request)
            const { allowed, code } = await each.explain(request)
            const code_ = decision.allowed ? undefined : decision.code
            expect({ allowed, code }, JSON.stringify(request)).toEqual({ allowed: decision.allowed, code: code_ })
          }
        }
      }
    } finally {
      await open.close()
    }
  })

  it('reload swaps the policy in whole, or keeps what was there', async () => {
    const { guard, folder } = await start()
    expect(told(await get(guard, KEY))).toBe('allowed')
    writeFileSync(join(folder, 'keys.json'), '[{')
    await expect(guard.reload()).rejects.toMatchObject({ code: 'ERR_POLICY_INVALID' })
    expect(told(await get(guard, KEY))).toBe('allowed')
    writeFileSync(
      join(folder, 'keys.json'),
      JSON.stringify([{ id: 'new', sha256: sha256Hex('another-key-for-tests-000000003'), owner: 'x' }]),
    )
    await guard.reload()
    expect(told(await get(guard, KEY))).toBe('401 ERR_API_KEY_UNKNOWN')
    expect(told(await get(guard, ['x-api-key', 'another-key-for-tests-000000003']))).toBe('allowed')
  })

  it('health names schemes and warnings; after close every request is 503', async () => {
    const { guard } = await start()
    expect(guard.health()).toMatchObject({
      ok: true,
      mode: 'enforce',
      schemes: [
        { name: 'login', ok: true },
        { name: 'key', ok: true },
      ],
    })
    await guard.close()
    expect(told(await get(guard, KEY))).toBe('503 ERR_GUARD_CLOSED')
    expect(guard.health().ok).toBe(false)
  })

  it('a sink that throws changes no decision, and is reported', async () => {
    const errors: string[] = []
    const quiet = () => {}
    const logger = {
      debug: quiet,
      info: quiet,
      warn: quiet,
      error: (_: object, message: string) => errors.push(message),
    }
    const { guard } = await start({
      guard: {
        logger,
        onDecision: () => {
          throw new Error('sink')
        },
      },
    })
    expect(told(await get(guard, KEY))).toBe('allowed')
    expect(told(await get(guard, []))).toBe('401 ERR_CREDENTIAL_MISSING')
    expect(errors).toEqual(['onDecision threw', 'onDecision threw'])
  })

  it('an async sink that rejects is reported, and the process goes on', async () => {
    const errors: string[] = []
    const quiet = () => {}
    const logger = {
      debug: quiet,
      info: quiet,
      warn: quiet,
      error: (_: object, message: string) => errors.push(message),
    }
    const onDecision = (async () => {
      throw new Error('audit store down')
    }) as unknown as () => void
    const { guard } = await start({ guard: { logger, onDecision } })
    expect(told(await get(guard, []))).toBe('401 ERR_CREDENTIAL_MISSING')
    await new Promise((resolve) => setImmediate(resolve))
    expect(errors).toEqual(['onDecision threw'])
  })

  it('one event for each decision, with reason and schemes and without a credential', async () => {
    const { guard, token, events } = await start()
    const secret = await token()
    await get(guard, [...bearer(secret)], '/tasks/t-1?trace=secret-in-query')
    await get(guard, bearer(`${secret}x`))
    expect(events).toMatchObject([
      {
        allowed: true,
        status: 200,
        operation: 'GetTask',
        binding: 'HTTP+JSON',
        version: '1.0',
        taskId: 't-1',
        schemes: ['login'],
        failures: [],
      },
      {
        allowed: false,
        status: 401,
        schemes: [],
        failures: [{ scheme: 'login', code: expect.stringMatching(/^ERR_TOKEN_/) as string }],
      },
    ])
    for (const part of [...secret.split('.'), 'secret-in-query']) expect(JSON.stringify(events)).not.toContain(part)
  })

  it('frozen: nobody downstream edits a decision', async () => {
    const { guard, token } = await start()
    const decision = await get(guard, bearer(await token()))
    if (!decision.allowed) throw new Error(told(decision))
    expect(() => (decision.skills.allowed as string[]).push('pay')).toThrow(TypeError)
    expect(() => (decision.principal as unknown as { scopes: string[] }).scopes.push('admin')).toThrow(TypeError)
    expect(() => Object.assign(decision, { allowed: false })).toThrow(TypeError)
  })
})
