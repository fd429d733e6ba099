/** Approvals without a task around them: what is bound, the pages, and authorization codes. */
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { fastifyApprovals } from '../../src/adapters/fastify.ts'
import { webApprovals } from '../../src/adapters/web.ts'
import {
  type ApprovalEvent,
  type ApprovalRequest,
  type ApprovalStore,
  type ApprovalsOptions,
  type AuthorizationCodeAnswer,
  createApprovals,
  createMemoryApprovalStore,
  type LoginResult,
} from '../../src/delegation/index.ts'
import { openPage, press } from '../support/approving-agent.ts'

const URL_OF_PAGES = 'https://agent.example/approvals'
const REQUEST: ApprovalRequest = {
  taskId: 't-1',
  operation: 'invoice.pay',
  parameters: { invoice: 'I-7', amount: 100 },
  summary: 'Pay invoice I-7',
  actor: 'bob',
  requester: 'alice',
  expiresInSeconds: 60,
}

function makeApprovals(options: Partial<ApprovalsOptions> = {}) {
  const time = { now: 1_800_000_000 }
  const events: ApprovalEvent[] = []
  const approvals = createApprovals({
    url: URL_OF_PAGES,
    clock: () => time.now * 1000,
    onApproval: (event) => events.push(event),
    ...options,
  })
  return { approvals, events, time }
}

/** A browser on the pages, logged in as whoever the header `x-user` says. */
function browse(approvals: ReturnType<typeof createApprovals>, login?: () => LoginResult) {
  const handle = webApprovals(approvals, {
    login: login ?? ((request) => ({ id: request.headers.get('x-user') ?? '' })),
  })
  const post = async (
    link: string,
    body: string | Record<string, string>,
    headers: Record<string, string> = {},
    user = 'bob',
  ) =>
    handle(
      new Request(link, {
        method: 'POST',
        headers: { 'x-user': user, 'content-type': 'application/x-www-form-urlencoded', ...headers },
        body: typeof body === 'string' ? body : new URLSearchParams(body).toString(),
      }),
    )
  const get = async (link: string, user = 'bob', method = 'GET') => {
    const response = await handle(new Request(link, { method, headers: { 'x-user': user } }))
    const text = await response.text()
    return { response, status: response.status, text, form: /name="form" value="([^"]*)"/.exec(text)?.[1] ?? '' }
  }
  return { handle, post, get }
}

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'granted',
    (fault: { code?: string }) => fault.code,
  )

describe('what cannot be meant is refused where it is written', () => {
  it.each<[string, unknown]>([
    ['url', 'http://agent.example/approvals'],
    ['url', '/approvals'],
    ['url', 'https://user@agent.example/a'],
    ['url', 'https://agent.example/a?x=1'],
    ['url', 'https://agent.example/a/'],
    ['maxPerTask', 0],
    ['maxPerRequester', 1.5],
    ['store', {}],
    ['clock', 7],
    ['onApproval', 'x'],
    ['ttl', 60],
  ])('createApprovals: %s %j', (name, value) => {
    expect(() => createApprovals({ url: URL_OF_PAGES, [name]: value })).toThrow(new RegExp(`"${name}"`))
  })

  it.each<[string, unknown]>([
    ['operation', ''],
    ['operation', 'pay\n'],
    ['operation', 'x'.repeat(129)],
    ['summary', ''],
    ['summary', '\ud800'],
    ['actor', ''],
    ['actor', undefined],
    ['expiresInSeconds', 0],
    ['expiresInSeconds', 86_401],
    ['expiresInSeconds', Number.NaN],
    ['approve', true],
    ['parameters', undefined],
    ['parameters', { amount: Number.NaN }],
    ['parameters', { amount: undefined }],
    ['parameters', new Array(2)],
    ['parameters', { when: new Date(0) }],
    ['parameters', { amount: { toJSON: () => 1 } }],
    ['parameters', new Map([['amount', 1]])],
    ['parameters', { amount: () => 1 }],
    ['parameters', 'x'.repeat(16_384)],
  ])('request: %s %j', async (name, value) => {
    const { approvals, events } = makeApprovals()
    await expect(approvals.request({ ...REQUEST, [name]: value } as ApprovalRequest)).rejects.toThrow(
      new RegExp(`"${name}"`),
    )
    expect(events).toEqual([])
  })

  it('half a surrogate pair in the parameters, and what is no JSON at all', async () => {
    const { approvals } = makeApprovals()
    const asked = (parameters: unknown) => approvals.request({ ...REQUEST, parameters })
    await expect(asked({ name: '\udc00' })).rejects.toThrow(
      expect.objectContaining({ code: 'ERR_JSON_LONE_SURROGATE' }),
    )
    await expect(asked({ amount: 1n })).rejects.toThrow(TypeError)
    const ring: Record<string, unknown> = {}
    ring.ring = ring
    await expect(asked(ring)).rejects.toThrow(TypeError)
  })
})

describe('the page', () => {
  it('shows the actor all that is bound, and says so that nothing can hide', async () => {
    const { approvals } = makeApprovals()
    const hostile = '<script>alert(1)</script>"\'&\u202e\u200b\u0000'
    const { url } = await approvals.request({ ...REQUEST, summary: hostile, parameters: { [hostile]: hostile } })
    const { response, text } = await browse(approvals).get(url)
    expect(response.status).toBe(200)
    for (const part of ['invoice.pay', 'alice', 't-1', '2027-01-15T08:01:00.000Z']) expect(text).toContain(part)
    expect(text).not.toMatch(/<script|\u202e|\u200b|\0/)
    expect(text).toContain('&#60;script&#62;alert(1)&#60;/script&#62;&#34;&#39;&#38;\\u{202e}\\u{200b}\\u{0}')
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'cache-control': 'no-store',
      'x-frame-options': 'DENY',
      'referrer-policy': 'same-origin',
      'content-security-policy': expect.stringMatching(/default-src 'none'.*frame-ancestors 'none'/) as string,
    })
  })

  it('a GET or HEAD changes nothing, whatever its query says, and nothing else is answered', async () => {
    const { approvals, events } = makeApprovals()
    const { url } = await approvals.request(REQUEST)
    const { get, handle } = browse(approvals)
    const { form } = await get(url)
    for (const method of ['GET', 'HEAD'])
      expect((await get(`${url}?decision=approve&form=${form}`, 'bob', method)).status).toBe(200)
    for (const method of ['PUT', 'DELETE', 'OPTIONS', 'PATCH'])
      expect((await handle(new Request(url, { method, headers: { 'x-user': 'bob' } }))).status).toBe(405)
    expect(events.map(({ kind }) => kind)).toEqual(['requested'])
  })

  it('a form of another site, page, shape or size is no answer', async () => {
    const { approvals, events } = makeApprovals()
    const { url, granted } = await approvals.request(REQUEST)
    const other = await approvals.request({ ...REQUEST, operation: 'goods.ship' })
    const { post, get } = browse(approvals)
    const { form } = await get(url)
    const good = { form, decision: 'approve' }
    const attacks: [number, string | Record<string, string>, Record<string, string>?][] = [
      [403, good, { origin: 'https://evil.example' }],
      [403, good, { origin: 'https://agent.example.evil.example' }],
      [403, good, { origin: 'http://agent.example' }],
      [403, good, { origin: 'null' }],
      [403, good, { 'sec-fetch-site': 'cross-site' }],
      [403, good, { 'sec-fetch-site': 'same-site', origin: 'https://agent.example' }],
      [403, good, { 'sec-fetch-site': 'none' }],
      [403, { ...good, form: (await get(other.url)).form }],
      [403, { ...good, form: '' }],
      [403, { ...good, form: `${form} ` }],
      [400, { decision: 'approve' }],
      [400, { form }],
      [400, { form, decision: 'Approve' }],
      [400, `form=${form}&decision=deny&decision=approve`],
      [400, `form=x&form=${form}&decision=approve`],
      [415, JSON.stringify(good), { 'content-type': 'application/json' }],
      [415, `form=${form}&decision=approve`, { 'content-type': 'text/plain' }],
      [413, `form=${form}&decision=approve&x=${'x'.repeat(5000)}`],
    ]
    for (const [status, body, headers] of attacks)
      expect([body, headers, (await post(url, body, headers)).status]).toEqual([body, headers, status])
    for (const link of [`${url}x`, url.slice(0, -1), `${url}/`, `${URL_OF_PAGES}/`, `${URL_OF_PAGES}/__proto__`])
      expect((await post(link, good)).status).toBe(404)
    expect(events.filter(({ kind }) => kind === 'approved')).toEqual([])
    expect((await post(url, good, { 'sec-fetch-site': 'same-origin', origin: 'https://agent.example' })).status).toBe(
      200,
    )
    await expect(granted).resolves.toMatchObject({ operation: 'invoice.pay' })
  })

  it('who is there is the login, never empty, never the form; what it throws lets nobody in', async () => {
    const { approvals, events } = makeApprovals()
    const { url } = await approvals.request(REQUEST)
    const { form } = await browse(approvals).get(url)
    const good = { form, decision: 'approve', actor: 'bob', user: 'bob' }
    const redirect = { status: 303, headers: { location: '/login' }, body: '' }
    const logins: [() => LoginResult, number][] = [
      [() => undefined, 401],
      [() => ({ id: '' }), 401],
      [() => ({}) as LoginResult, 401],
      [() => ({ id: ['bob'] }) as unknown as LoginResult, 401],
      [() => redirect, 303],
      [() => ({ id: 'BOB' }), 404],
      [
        () => {
          throw new Error('no session store')
        },
        503,
      ],
    ]
    for (const [login, status] of logins) {
      const { get, post } = browse(approvals, login)
      expect([(await get(url)).status, (await post(url, good)).status]).toEqual([status, status])
    }
    expect(events.filter(({ kind }) => kind === 'approved')).toEqual([])
  })

  it('Fastify serves the same, with a limit on the form', async () => {
    const app = fastify()
    const { approvals } = makeApprovals({ url: 'http://127.0.0.1:1/approvals' })
    await app.register(fastifyApprovals, { prefix: '/approvals', approvals, login: () => ({ id: 'bob' }) })
    await app.listen({ port: 0, host: '127.0.0.1' })
    try {
      const { port } = app.server.address() as AddressInfo
      const { url, granted } = await approvals.request(REQUEST)
      const link = url.replace(':1/', `:${port}/`)
      const { form } = await openPage(link)
      expect((await press(link, undefined, { form, decision: 'approve', x: 'x'.repeat(5000) })).status).toBe(413)
      expect((await press(link, undefined, { form: 'x', decision: 'approve' })).status).toBe(403)
      const clicks = await Promise.all(
        Array.from({ length: 50 }, () => press(link, undefined, { form, decision: 'approve' })),
      )
      expect(clicks.filter(({ status }) => status === 200)).toHaveLength(1)
      expect((await granted).use('invoice.pay', { amount: 100, invoice: 'I-7' })).toEqual({
        parameters: REQUEST.parameters,
      })
    } finally {
      await app.close()
    }
  })
})

describe('time, room and faults', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  it('who waits is told when the time is over, and not before, however the clock moves', async () => {
    vi.useFakeTimers()
    const approvals = createApprovals({ url: URL_OF_PAGES })
    const { granted, expiresAt } = await approvals.request(REQUEST)
    let code: string | undefined = 'waiting'
    void codeOf(granted).then((found) => (code = found))
    await vi.advanceTimersByTimeAsync(30_000)
    vi.setSystemTime(Date.now() - 10_000)
    await vi.advanceTimersByTimeAsync(30_000)
    expect(code).toBe('waiting')
    await vi.advanceTimersByTimeAsync(expiresAt * 1000 - Date.now())
    expect(code).toBe('ERR_APPROVAL_EXPIRED')
    expect(vi.getTimerCount()).toBe(0)
  })

  it('a task and a caller wait for so many and no more; an answer makes room', async () => {
    const { approvals } = makeApprovals({ maxPerTask: 2, maxPerRequester: 3 })
    const asked = (taskId: string) => approvals.request({ ...REQUEST, taskId })
    const full = expect.objectContaining({ code: 'ERR_APPROVAL_LIMIT' }) as Error
    const [first] = await Promise.all([asked('a'), asked('a')])
    await expect(asked('a')).rejects.toThrow(full)
    await asked('b')
    await expect(asked('c')).rejects.toThrow(full)
    first.cancel()
    expect(await codeOf(first.granted)).toBe('ERR_APPROVAL_CANCELLED')
    await asked('c')
  })

  it('a full store refuses and forgets nothing', async () => {
    const time = { now: 0 }
    const store = createMemoryApprovalStore({ clock: () => time.now * 1000, maxRecords: 1 })
    const { approvals } = makeApprovals({ store, clock: () => time.now * 1000 })
    const { url } = await approvals.request(REQUEST)
    await expect(approvals.request(REQUEST)).rejects.toThrow(expect.objectContaining({ code: 'ERR_STORE_UNAVAILABLE' }))
    expect((await browse(approvals).get(url)).status).toBe(200)
    time.now = 60
    await expect(approvals.request(REQUEST)).resolves.toBeDefined()
  })

  it.each(['find', 'take', 'announce'] as const)('a store that fails at %s approves nothing', async (method) => {
    const store: ApprovalStore = createMemoryApprovalStore({ clock: () => 1_800_000_000_000 })
    const { approvals, events } = makeApprovals({ store })
    const { url, granted } = await approvals.request(REQUEST)
    const { get, post } = browse(approvals)
    const { form } = await get(url)
    const failing = vi.spyOn(store, method).mockRejectedValue(new Error('down'))
    expect((await post(url, { form, decision: 'approve' })).status).toBe(503)
    failing.mockRestore()
    expect(events.map(({ kind }) => kind)).toEqual(['requested'])
    approvals.close()
    expect(await codeOf(granted)).toBe('ERR_APPROVAL_CANCELLED')
  })

  it('a store that cannot remember lets nobody wait', async () => {
    const store: ApprovalStore = createMemoryApprovalStore()
    vi.spyOn(store, 'put').mockRejectedValue(new Error('down'))
    const { approvals, events } = makeApprovals({ store, maxPerTask: 1 })
    for (const _ of [1, 2]) await expect(approvals.request(REQUEST)).rejects.toThrow('down')
    expect(events).toEqual([])
  })

  it('what is kept and what is told hold neither the link nor, in events, the parameters', async () => {
    const kept: unknown[] = []
    const store = createMemoryApprovalStore({ clock: () => 1_800_000_000_000 })
    const put = vi.spyOn(store, 'put').mockImplementation((key, record) => void kept.push(key, record))
    const { approvals, events } = makeApprovals({ store })
    const { url } = await approvals.request(REQUEST)
    put.mockRestore()
    const token = url.slice(-43)
    expect(JSON.stringify(kept)).not.toContain(token)
    expect(JSON.stringify(events)).not.toMatch(new RegExp(`${token}|I-7`))
    expect(events).toMatchObject([
      { kind: 'requested', actor: 'bob', digest: expect.stringMatching(/^[0-9a-f]{64}$/) as string },
    ])
  })

  it('a listener that throws changes nothing', async () => {
    const { approvals } = makeApprovals({
      onApproval: () => {
        throw new Error('audit is down')
      },
    })
    const { url, granted } = await approvals.request(REQUEST)
    const { get, post } = browse(approvals)
    await post(url, { form: (await get(url)).form, decision: 'approve' })
    expect(await codeOf(granted)).toBe('granted')
  })
})

describe('A92 an authorization code: everything but the code comes from the stored request', () => {
  const ISSUER = 'https://login.example'

  async function begin(changes: Partial<NonNullable<ApprovalRequest['authorizationCode']>> = {}) {
    const made = makeApprovals()
    const obtained: AuthorizationCodeAnswer[] = []
    const pending = await made.approvals.request({
      ...REQUEST,
      authorizationCode: {
        issuer: ISSUER,
        authorizationEndpoint: `${ISSUER}/authorize?audience=x`,
        clientId: 'agent',
        scope: 'calendar.read',
        resource: 'https://calendar.example',
        obtain: (answer) => {
          obtained.push(answer)
          return `credential for ${answer.code}`
        },
        ...changes,
      },
    })
    const browser = browse(made.approvals)
    const go = async () => {
      const { form } = await browser.get(pending.url)
      const answer = await browser.post(pending.url, { form, decision: 'approve' })
      expect(answer.status).toBe(303)
      return new URL(answer.headers.get('location') as string)
    }
    const back = (parameters: Record<string, string> | string, user = 'bob') =>
      browser.get(`${URL_OF_PAGES}/callback?${new URLSearchParams(parameters)}`, user)
    return { ...made, ...browser, pending, obtained, go, back }
  }

  it('the actor is sent with PKCE and a state, comes back once, and the grant holds the credential', async () => {
    const { go, back, pending, obtained } = await begin()
    const sent = await go()
    expect(sent.origin + sent.pathname).toBe(`${ISSUER}/authorize`)
    const asked = Object.fromEntries(sent.searchParams)
    expect(asked).toMatchObject({
      audience: 'x',
      response_type: 'code',
      client_id: 'agent',
      redirect_uri: `${URL_OF_PAGES}/callback`,
      scope: 'calendar.read',
      resource: 'https://calendar.example',
      code_challenge_method: 'S256',
    })
    // Turning back is no answer.
    expect((await go()).href).toBe(sent.href)
    const answer = { code: 'c-1', state: asked.state as string, iss: ISSUER }
    const statuses = (await Promise.all(Array.from({ length: 50 }, () => back(answer)))).map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    const grant = await pending.granted
    expect(grant.use('invoice.pay', REQUEST.parameters)).toEqual({
      parameters: REQUEST.parameters,
      credential: 'credential for c-1',
    })
    expect(obtained).toHaveLength(1)
    const [{ codeVerifier, callbackUrl }] = obtained as [AuthorizationCodeAnswer]
    const { createHash } = await import('node:crypto')
    expect(createHash('sha256').update(codeVerifier).digest('base64url')).toBe(asked.code_challenge)
    expect(Object.fromEntries(callbackUrl.searchParams)).toEqual(answer)
  })

  it('a resume with other terms, from others, without the state or the issuer obtains nothing', async () => {
    const { go, back, pending, obtained, events } = await begin()
    const asked = (await go()).searchParams
    const state = asked.get('state') as string
    const good = { code: 'c-1', state, iss: ISSUER }
    const evil = 'https://evil.example'
    const attacks: [string, Record<string, string> | string, string, number][] = [
      ['another user', good, 'alice', 404],
      ['no state', { code: 'c-1', iss: ISSUER }, 'bob', 404],
      ['the link as state', { ...good, state: pending.url.slice(-43) }, 'bob', 403],
      ['another secret', { ...good, state: `${pending.url.slice(-43)}.${'A'.repeat(43)}` }, 'bob', 403],
      ['more state', { ...good, state: `${state}.x` }, 'bob', 404],
      ['another issuer', { ...good, iss: evil }, 'bob', 403],
      ['no issuer', { code: 'c-1', state }, 'bob', 403],
      ['no code', { state, iss: ISSUER }, 'bob', 403],
      ['code and error', { ...good, error: 'access_denied' }, 'bob', 403],
      ['a fault there', { state, iss: ISSUER, error: 'temporarily_unavailable' }, 'bob', 403],
      ['two codes', `${new URLSearchParams(good)}&code=c-2`, 'bob', 403],
      ['two issuers', `${new URLSearchParams(good)}&iss=${evil}`, 'bob', 403],
    ]
    for (const [name, parameters, user, status] of attacks)
      expect([name, (await back(parameters, user)).status]).toEqual([name, status])
    expect([obtained, events.filter(({ kind }) => kind !== 'requested' && kind !== 'refused')]).toEqual([[], []])
    // Terms that come along are read by nobody.
    const terms = {
      tokenUrl: evil,
      token_endpoint: evil,
      scheme: 'basic',
      credentialKey: 'x',
      client_id: 'evil',
      redirect_uri: evil,
    }
    expect((await back({ ...terms, ...good })).status).toBe(200)
    await pending.granted
    expect(JSON.stringify(obtained)).not.toContain('evil')
    expect((await back(good)).status).toBe(404)
    expect(obtained).toHaveLength(1)
  })

  it('no there is no here; a trade that fails grants nothing and says nothing', async () => {
    const first = await begin()
    const state = (await first.go()).searchParams.get('state') as string
    expect((await first.back({ state, iss: ISSUER, error: 'access_denied' })).status).toBe(200)
    expect(await codeOf(first.pending.granted)).toBe('ERR_APPROVAL_DENIED')

    const second = await begin({
      obtain: () => {
        throw new Error('invalid_grant c-1')
      },
    })
    const other = (await second.go()).searchParams.get('state') as string
    expect((await second.back({ state: other, iss: ISSUER, code: 'c-1' })).status).toBe(200)
    const fault = (await second.pending.granted.catch((error: unknown) => error)) as { code: string; message: string }
    expect([fault.code, fault.message.includes('c-1')]).toEqual(['ERR_APPROVAL_CREDENTIAL', false])
  })

  it('a plain approval has no callback, and an answer without iss counts only where that was said', async () => {
    const { approvals } = makeApprovals()
    const { url } = await approvals.request(REQUEST)
    const { get } = browse(approvals)
    const state = `${url.slice(-43)}.${'A'.repeat(43)}`
    expect((await get(`${URL_OF_PAGES}/callback?code=c&state=${state}`)).status).toBe(404)

    const silent = await begin({ namesIssuer: false })
    const given = (await silent.go()).searchParams.get('state') as string
    expect((await silent.back({ state: given, code: 'c', iss: 'https://evil.example' })).status).toBe(403)
    expect((await silent.back({ state: given, code: 'c' })).status).toBe(200)
  })

  it.each<[string, unknown]>([
    ['issuer', ''],
    ['authorizationEndpoint', 'http://login.example/authorize'],
    ['authorizationEndpoint', 'https://login.example/#x'],
    ['authorizationEndpoint', 'javascript:alert(1)'],
    ['clientId', undefined],
    ['namesIssuer', 'yes'],
    ['obtain', undefined],
    ['tokenEndpoint', 'https://login.example/token'],
  ])('%s %j is refused when it is asked', async (name, value) => {
    await expect(begin({ [name]: value })).rejects.toThrow(new RegExp(`"${name}"`))
  })
})
