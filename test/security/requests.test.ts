/** What a caller can try on a request, at the core: the answer is the same on every adapter, which change nothing. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { principalId } from '../../src/policy/principal.ts'
import { formatChallenges } from '../../src/protocol/challenge.ts'
import type { Decision, GuardRequest, PrincipalPart } from '../../src/types.ts'
import { API_KEY, AUDIENCE, makeRig, NOW, paySkill, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
beforeAll(async () => {
  rig = await makeRig({ card: rigCard({ skills: [...(rigCard().skills as object[]), paySkill] }) })
})
afterAll(() => rig.close())

const bearer = async (claims: Record<string, unknown> = {}) => ['authorization', `Bearer ${await rig.token(claims)}`]
const get = (target: string, ...lines: string[]): GuardRequest => ({
  method: 'GET',
  target,
  rawHeaders: ['a2a-version', '1.0', ...lines],
})
const rpc = (method: string, params: object, ...lines: string[]): GuardRequest => ({
  method: 'POST',
  target: '/',
  binding: 'JSONRPC',
  rawHeaders: ['a2a-version', '1.0', 'content-type', 'application/json', ...lines],
  body: Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 7, method, params })),
})

/** Status, or who was let in. */
function told(decision: Decision): string {
  return decision.allowed ? `200 ${decision.principal?.subject ?? 'anonymous'}` : `${decision.denial.status}`
}
const ask = async (request: GuardRequest, of: Rig = rig) => told(await of.guard.check(request))
async function refused(request: GuardRequest, of: Rig = rig) {
  const decision = await of.guard.check(request)
  if (decision.allowed) throw new Error('let in')
  return decision
}

describe('who the caller is', () => {
  it.each([
    ['x-user-id', 'admin'],
    ['x-a2a-agent-subject', 'spiffe://example.org/admin'],
    ['x-forwarded-user', 'admin'],
    ['x-forwarded-client-cert', 'Subject="CN=admin"'],
    ['client-cert', ':AAAA:'],
    ['x-forwarded-access-token', 'x'],
    ['cookie', 'X-API-Key=a-partner-key-for-tests-only-0001'],
    ['proxy-authorization', 'Bearer x'],
  ])('A51 P86 %s names nobody', async (name, value) => {
    expect(await ask(get('/tasks', name, value))).toBe('401')
    expect(await ask(get('/tasks', name, value, ...(await bearer())))).toBe('200 alice')
  })

  it('A45 P107 two callers never share an id, whatever their names are made of', () => {
    const text = fc.oneof(fc.string({ unit: 'binary-ascii' }), fc.constantFrom('', 'a', 'A', 'a:b', 'unknown', '%3A'))
    const caller = fc.record({
      kind: fc.constantFrom('apiKey', 'oauth2', 'openIdConnect', 'http', 'mtls'),
      issuer: text,
      subject: text,
      tenant: fc.option(text, { nil: undefined }),
    })
    const id = (who: object) =>
      principalId({ scheme: 's', scopes: new Set(), claims: {}, ...who } as unknown as PrincipalPart)
    fc.assert(
      fc.property(caller, caller, (one, two) => {
        const same = (['kind', 'issuer', 'subject', 'tenant'] as const).every((name) => one[name] === two[name])
        expect(id(one) === id(two)).toBe(same)
      }),
    )
  })

  it('A52 two keys from one address are two principals, each with its own limit', async () => {
    const limited = await makeRig({ policy: { limits: { perPrincipal: '1/min' } } })
    try {
      const peer = { address: '192.0.2.1' }
      const token = ['authorization', `Bearer ${await limited.token()}`]
      expect(await ask({ ...get('/tasks', 'x-api-key', API_KEY), peer }, limited)).toBe('200 partner')
      expect(await ask({ ...get('/tasks', ...token), peer }, limited)).toBe('200 alice')
      expect(await ask({ ...get('/tasks', ...token), peer }, limited)).toBe('429')
    } finally {
      await limited.close()
    }
  })

  it('A30 a wrong key is one answer, whatever its length and however much of it is right', async () => {
    const wrong = ['x', API_KEY.slice(0, -1), `${API_KEY.slice(0, -1)}2`, `${API_KEY}1`, API_KEY.toUpperCase()]
    const answers = await Promise.all(wrong.map(async (key) => (await refused(get('/tasks', 'x-api-key', key))).denial))
    expect(new Set(answers.map((denial) => JSON.stringify(denial))).size).toBe(1)
    expect(answers[0]?.status).toBe(401)
    expect(await ask(get('/tasks', 'x-api-key', API_KEY, 'X-Api-Key', API_KEY))).toBe('400')
  })

  it('A87 P100 a token for another agent is refused on every binding', async () => {
    const other = await bearer({ aud: 'https://other.example' })
    expect(await ask(get('/tasks', ...other))).toBe('401')
    expect(await ask(rpc('ListTasks', {}, ...other))).toBe('401')
    expect(await ask(get('/tasks', ...(await bearer({ aud: ['https://other.example', AUDIENCE] }))))).toBe('200 alice')
  })
})

describe('what is asked', () => {
  it.each([
    '/%74asks',
    '//tasks',
    '/./tasks',
    '/tasks/',
    '/TASKS',
    '/tasks;a=b',
    '/tasks%2Ft-1',
    '/public/../tasks/t-1',
    '/tasks/t-1%2Fcancel',
    '/tasks/%2e%2e/extendedAgentCard',
    '/message%3Asend',
    '/tasks?x=/.well-known/agent-card.json',
    '/.well-known/agent-card.json/../../tasks',
    '/%65xtendedAgentCard',
    '//extendedAgentCard',
    '/extendedAgentCard/',
    '/tasks/%',
    '/tasks\\t-1',
    'https://agent.example/tasks',
    '*',
    '',
  ])('P76 P77 P78 the target %j opens nothing to a stranger', async (target) => {
    for (const method of ['GET', 'POST', 'HEAD', 'OPTIONS', 'PUT', 'get']) {
      const { denial } = await refused({ ...get(target), method })
      expect([400, 401, 403]).toContain(denial.status)
    }
  })

  it.each(['x-forwarded-uri', 'x-original-url', 'x-rewrite-url', 'x-forwarded-host', 'forwarded', 'host'])(
    'P80 P86 %s changes no byte of the answer',
    async (name) => {
      const plain = await refused(get('/tasks'))
      for (const value of ['/.well-known/agent-card.json', 'evil.example', 'for=127.0.0.1;host=evil.example']) {
        expect((await refused(get('/tasks', name, value))).denial).toEqual(plain.denial)
      }
    },
  )

  it.each(['POST', 'GET', 'PUT'])('P80 x-http-method-override: %s is not read', async (method) => {
    const decision = await rig.guard.check(get('/tasks', 'x-http-method-override', method, ...(await bearer())))
    expect(decision).toMatchObject({ allowed: true, operation: { name: 'ListTasks' } })
  })

  it('P136 v0.3 REST has the same door', async () => {
    const send = { ...get('/v1/message:send'), method: 'POST', rawHeaders: ['content-type', 'application/json'] }
    expect(await ask({ ...send, body: '{}' })).toBe('401')
    expect(await ask({ ...send, rawHeaders: ['authorization', 'Bearer x'], body: '{}' })).toBe('401')
  })

  it('tenants of path, query and body that disagree are refused', async () => {
    const token = await bearer()
    const send = (target: string, body: object): GuardRequest => ({
      ...get(target, 'content-type', 'application/json', ...token),
      method: 'POST',
      body: Buffer.from(JSON.stringify(body)),
    })
    const message = { messageId: '1', role: 'ROLE_USER', parts: [], metadata: { skillId: 'echo' } }
    expect(await ask(send('/a/message:send', { message, tenant: 'a' }))).toBe('200 alice')
    expect(await ask(send('/a/message:send', { message, tenant: 'b' }))).toBe('400')
    expect(await ask(get('/a/tasks?tenant=b', ...token))).toBe('400')
  })

  it('A32 an operation that no rule allows is refused, and so is what is no operation', async () => {
    const ruled = await makeRig({
      policy: { access: [{ allow: { operations: ['SendMessage'], principals: { scopes: ['a2a:use'] } } }] },
    })
    try {
      const token = ['authorization', `Bearer ${await ruled.token()}`]
      const message = { messageId: '1', role: 'ROLE_USER', parts: [], metadata: { skillId: 'echo' } }
      expect(await ask(rpc('SendMessage', { message }, ...token), ruled)).toBe('200 alice')
      for (const method of ['GetTask', 'CancelTask', 'ListTasks', 'GetExtendedAgentCard']) {
        expect(await ask(rpc(method, { id: 't-1' }, ...token), ruled)).toBe('403')
      }
      expect(await ask(rpc('Shutdown', {}, ...token), ruled)).toBe('403')
      expect(await ask(get('/admin', ...token), ruled)).toBe('403')
    } finally {
      await ruled.close()
    }
  })

  it('A58 nothing of an anonymous body is parsed: not its text, and of an object nothing but id and method', async () => {
    for (const body of ['{', '\ufeff{}', '[]', '{"id":7,"id":8}', Buffer.from([0xff])]) {
      const { denial } = await refused({ ...rpc('SendMessage', {}), body })
      expect(denial.status).toBe(401)
      expect(JSON.parse(denial.body)).toMatchObject({ id: null })
    }
    const touched: PropertyKey[] = []
    const body = new Proxy(
      { jsonrpc: '2.0', id: 0, method: 'SendMessage' },
      {
        get(target, name) {
          touched.push(name)
          return Reflect.get(target, name) as unknown
        },
      },
    )
    expect(JSON.parse((await refused({ ...rpc('SendMessage', {}), body })).denial.body)).toMatchObject({ id: 0 })
    // The method, because an agent without an extended card says so to everybody (DESIGN section 4).
    expect(touched).toEqual(['id', 'method'])
  })

  it.each(['enforce', 'report'])(
    'A60 P140 the extended card is for callers with a good credential, in mode %s',
    async (mode) => {
      const moded = await makeRig({ policy: { mode } })
      try {
        const token = async (claims: Record<string, unknown>) => [
          'authorization',
          `Bearer ${await moded.token(claims)}`,
        ]
        const bad = [[], ['authorization', 'Bearer x'], ['x-api-key', 'x'], await token({ exp: NOW - 3600 })]
        for (const request of [
          (lines: string[]) => get('/extendedAgentCard', ...lines),
          (lines: string[]) => get('/tenant-1/extendedAgentCard', ...lines),
          (lines: string[]) => rpc('GetExtendedAgentCard', {}, ...lines),
        ]) {
          for (const lines of bad) expect(await ask(request(lines), moded)).toBe('401')
          expect(await ask(request(await token({ scope: 'a2a:other' })), moded)).toBe('403')
          expect(await ask(request(await token({})), moded)).toBe('200 alice')
        }
      } finally {
        await moded.close()
      }
    },
  )
})

describe('what a refusal says', () => {
  const METADATA = `resource_metadata="${AUDIENCE}/.well-known/oauth-protected-resource"`
  const API_KEY_CHALLENGE = 'ApiKey realm="a2a", in="header", name="x-api-key"'
  const challenge = async (request: GuardRequest) => (await refused(request)).denial.headers['www-authenticate']

  it('A37 A38 A39 P95 P96 without a credential: 401 and how to get one, and no error', async () => {
    expect(await challenge(rpc('GetTask', { id: 't-1' }))).toBe(
      `Bearer realm="a2a", scope="a2a:use", ${METADATA}, ${API_KEY_CHALLENGE}`,
    )
  })

  it('P97 P98 expired and insufficient are told apart, each with a challenge', async () => {
    const expired = await challenge(get('/tasks', ...(await bearer({ exp: NOW - 3600 }))))
    const insufficient = await challenge(get('/tasks', ...(await bearer({ scope: 'a2a:other' }))))
    expect(expired).toContain('error="invalid_token"')
    expect(insufficient).toMatch(/error="insufficient_scope", scope="a2a:use"/)
  })

  it('P106 a token without a scope claim is 403, not 401', async () => {
    expect(await ask(get('/tasks', ...(await bearer({ scope: undefined }))))).toBe('403')
  })

  it('P75 a failed alternative leaves neither its status nor its challenge behind', async () => {
    const insufficient = await bearer({ scope: 'a2a:other' })
    expect(await ask(get('/tasks', ...insufficient, 'x-api-key', API_KEY))).toMatch(/^200 /)
  })

  it('P94 no value breaks out of a challenge', () => {
    const parameter = fc.tuple(
      fc.constantFrom('realm', 'error', 'error_description', 'scope', 'x'),
      fc.string({ unit: 'binary' }),
    )
    fc.assert(
      fc.property(fc.array(fc.record({ scheme: fc.string(), params: fc.array(parameter) })), (challenges) => {
        const text = formatChallenges(challenges)
        expect(text).toMatch(/^[\t\x20-\x7e]*$/)
        // With quoted strings gone, nothing is left but schemes, names and delimiters.
        expect(text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '')).toMatch(/^[!#$%&'*+\-.^_`|~0-9A-Za-z=, ]*$/)
      }),
    )
  })

  it('P101 too many is 429 with Retry-After, and never 401', async () => {
    const limited = await makeRig({ policy: { limits: { perPrincipal: '2/min' } } })
    try {
      const request = () => get('/tasks', 'x-api-key', API_KEY)
      expect([await ask(request(), limited), await ask(request(), limited)]).toEqual(['200 partner', '200 partner'])
      const { denial } = await refused(request(), limited)
      expect(denial).toMatchObject({ status: 429, reason: 'RATE_LIMITED', headers: { 'retry-after': '60' } })
      limited.now += 60
      expect(await ask(request(), limited)).toBe('200 partner')
    } finally {
      await limited.close()
    }
  })

  it('P93 one IPv6 network is one caller to the limit on failed authentication', async () => {
    const limited = await makeRig({ policy: { limits: { failedAuthentication: '3/min' } } })
    try {
      const from = (address: string) => ({ ...get('/tasks', 'x-api-key', 'wrong-key'), peer: { address } })
      for (const last of ['1', '2', 'ffff:1:2:3'])
        expect(await ask(from(`2001:db8:1:2:${last.includes(':') ? last : `:${last}`}`), limited)).toBe('401')
      expect(await ask(from('2001:db8:1:2:aaaa::1'), limited)).toBe('429')
      expect(await ask(from('2001:db8:1:3::1'), limited)).toBe('401')
    } finally {
      await limited.close()
    }
  })
})
