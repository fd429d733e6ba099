/** Credentials for an agent: what a card can make of them (nothing), and where they go (to one place). */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { authenticationHandler } from '../../src/adapters/a2a-sdk.ts'
import { createCardClient } from '../../src/card/index.ts'
import {
  type Credentials,
  type CredentialsOptions,
  createCredentials,
  type Provider,
} from '../../src/delegation/index.ts'
import { TrustError } from '../../src/errors.ts'
import { fakeNetwork, TOKEN_ENDPOINT } from '../support/authorization-server.ts'

const SECRET = 'a-secret-of-the-user-0123456789'

interface Listener {
  readonly url: string
  readonly port: number
  /** Everything that arrived, as text. */
  readonly received: string[]
  answer: (request: { readonly url: string; readonly count: number }) => {
    status: number
    headers?: Record<string, string>
    body?: string
  }
  close(): Promise<void>
}
async function listen(): Promise<Listener> {
  const received: string[] = []
  let count = 0
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      count += 1
      received.push(`${request.method} ${request.url} ${request.rawHeaders.join(' ')} ${Buffer.concat(chunks)}`)
      const { status, headers = {}, body = '{}' } = listener.answer({ url: request.url ?? '', count })
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const listener: Listener = {
    url: `http://127.0.0.1:${port}`,
    port,
    received,
    answer: () => ({ status: 200 }),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
  return listener
}

let good: Listener
let evil: Listener
const opened: Credentials[] = []
beforeAll(async () => {
  good = await listen()
  evil = await listen()
})
afterAll(() => Promise.all([good.close(), evil.close()]))
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()))
  for (const listener of [good, evil]) {
    listener.received.length = 0
    listener.answer = () => ({ status: 200 })
  }
})

type Card = Record<string, unknown>
const cardOf = (schemes: Record<string, unknown>, changes: Card = {}): Card => ({
  name: 'Agent',
  description: 'd',
  version: '1',
  supportedInterfaces: [{ url: `${good.url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  capabilities: {},
  skills: [],
  securitySchemes: schemes,
  securityRequirements: Object.keys(schemes).map((name) => ({ schemes: { [name]: { list: [] } } })),
  ...changes,
})
const BEARER = { httpAuthSecurityScheme: { scheme: 'Bearer' } }
const keyIn = (location: string, name: string) => ({ apiKeySecurityScheme: { location, name } })
const oauth = (tokenUrl: string, scopes: Record<string, string> = {}) => ({
  oauth2SecurityScheme: { flows: { clientCredentials: { tokenUrl, scopes } } },
})
const bearer: Provider = { type: 'bearer', token: SECRET }
const apiKey: Provider = { type: 'apiKey', in: 'header', name: 'X-API-Key', key: SECRET }
const client = (): Provider => ({
  type: 'clientCredentials',
  issuer: good.url,
  tokenEndpoint: `${good.url}/token`,
  client: { id: 'me', secret: SECRET },
  scopes: ['read', 'write'],
})
const local = () => ({ requireHttps: false, ports: [good.port, evil.port], allowAddresses: ['127.0.0.1'] })

function make(card: object, providers: Record<string, Provider>, more: Partial<CredentialsOptions> = {}): Credentials {
  const made = createCredentials({ card, providers, to: good.url, egress: local(), ...more })
  opened.push(made)
  return made
}
function codeOf(fault: unknown): string {
  return fault instanceof TrustError ? fault.code : String(fault)
}
function reasonsOf(work: () => unknown): string {
  try {
    work()
  } catch (fault) {
    return `${codeOf(fault)} ${JSON.stringify((fault as TrustError).details.reasons ?? '')}`
  }
  return 'made'
}
const tokens = (changes: Record<string, unknown> = {}) => {
  good.answer = ({ url, count }) =>
    url === '/token'
      ? {
          status: 200,
          body: JSON.stringify({
            access_token: `${SECRET}-${count}`,
            token_type: 'Bearer',
            expires_in: 300,
            ...changes,
          }),
        }
      : { status: 200 }
}

/** What an SDK does with a card: calls every interface of it, and whatever else it names. */
function urlsIn(value: unknown): string[] {
  if (typeof value === 'string') return /^[a-z]+:|^\/\//i.test(value) ? [value] : []
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(urlsIn) : []
}

describe('A97 A103 P192 a hostile card collects nothing', () => {
  const face = (url: string, protocolBinding = 'JSONRPC') => ({ url, protocolBinding, protocolVersion: '1.0' })
  const interfaces = (...urls: string[]) => ({ supportedInterfaces: urls.map((url) => face(url)) })
  const evilToken = () => `${evil.url}/token`
  const variants: [string, () => Card, (() => Record<string, Provider>)?][] = [
    ['another host', () => cardOf({ login: BEARER }, interfaces(`http://localhost:${evil.port}/`))],
    ['another port', () => cardOf({ login: BEARER }, interfaces(evil.url))],
    ['another port beside the good one', () => cardOf({ login: BEARER }, interfaces(evil.url, `${good.url}/a2a`))],
    ['a second interface', () => cardOf({ login: BEARER }, interfaces(`${good.url}/a2a`, `${evil.url}/a2a`))],
    [
      'a second binding',
      () =>
        cardOf(
          { login: BEARER },
          { supportedInterfaces: [face(`${good.url}/a2a`), face(`${evil.url}/rest`, 'HTTP+JSON')] },
        ),
    ],
    [
      'gRPC elsewhere',
      () =>
        cardOf(
          { login: BEARER },
          { supportedInterfaces: [face(`${good.url}/a2a`), face(`127.0.0.1:${evil.port}`, 'GRPC')] },
        ),
    ],
    ['https of the same', () => cardOf({ login: BEARER }, interfaces(`https://127.0.0.1:${evil.port}/`))],
    ['a sub-domain', () => cardOf({ login: BEARER }, interfaces(`http://good.localhost:${evil.port}/`))],
    [
      'a user name that is the host',
      () => cardOf({ login: BEARER }, interfaces(`http://127.0.0.1:${good.port}@127.0.0.1:${evil.port}/`)),
    ],
    [
      'a backslash',
      () => cardOf({ login: BEARER }, interfaces(`http://127.0.0.1:${evil.port}\\@127.0.0.1:${good.port}/`)),
    ],
    ['no scheme', () => cardOf({ login: BEARER }, interfaces(`//127.0.0.1:${evil.port}/`))],
    ['a file', () => cardOf({ login: BEARER }, interfaces('file:///etc/passwd'))],
    ['data', () => cardOf({ login: BEARER }, interfaces('data:application/json,{}'))],
    ['another spelling of the address', () => cardOf({ login: BEARER }, interfaces(`http://2130706433:${evil.port}/`))],
    [
      'a v0.3 card with a url elsewhere',
      () => ({
        ...cardOf({}),
        protocolVersion: '0.3.0',
        url: evil.url,
        supportedInterfaces: undefined,
        securitySchemes: { login: { type: 'http', scheme: 'bearer' } },
        security: [{ login: [] }],
        securityRequirements: undefined,
      }),
    ],
    [
      'additional interfaces elsewhere',
      () => ({
        ...cardOf({}),
        protocolVersion: '0.3.0',
        url: `${good.url}/a2a`,
        additionalInterfaces: [{ url: evil.url, transport: 'JSONRPC' }],
        supportedInterfaces: undefined,
        securitySchemes: { login: { type: 'http', scheme: 'bearer' } },
        security: [{ login: [] }],
        securityRequirements: undefined,
      }),
    ],
    ['a tokenUrl elsewhere', () => cardOf({ login: oauth(evilToken()) }), () => ({ login: client() })],
    [
      'tokenUrls here and elsewhere',
      () =>
        cardOf({
          login: {
            oauth2SecurityScheme: {
              flows: {
                clientCredentials: { tokenUrl: evilToken(), scopes: {} },
                authorizationCode: { tokenUrl: `${good.url}/token`, authorizationUrl: evil.url, scopes: {} },
              },
            },
          },
        }),
      () => ({ login: client() }),
    ],
    [
      'a refreshUrl elsewhere',
      () =>
        cardOf({
          login: {
            oauth2SecurityScheme: {
              flows: { clientCredentials: { tokenUrl: `${good.url}/token`, refreshUrl: evilToken(), scopes: {} } },
            },
          },
        }),
      () => ({ login: client() }),
    ],
    [
      'metadata elsewhere',
      () =>
        cardOf({
          login: {
            oauth2SecurityScheme: {
              oauth2MetadataUrl: `${evil.url}/.well-known/oauth-authorization-server`,
              flows: { clientCredentials: { tokenUrl: `${good.url}/token`, scopes: {} } },
            },
          },
        }),
      () => ({ login: client() }),
    ],
    [
      'OpenID Connect elsewhere',
      () =>
        cardOf({
          login: { openIdConnectSecurityScheme: { openIdConnectUrl: `${evil.url}/.well-known/openid-configuration` } },
        }),
      () => ({ login: client() }),
    ],
    [
      'more scopes',
      () =>
        cardOf(
          { login: oauth(`${good.url}/token`) },
          { securityRequirements: [{ schemes: { login: { list: ['admin'] } } }] },
        ),
      () => ({ login: client() }),
    ],
    ['an API key where the provider has a token', () => cardOf({ login: keyIn('query', 'q') })],
    ['an API key in another header', () => cardOf({ key: keyIn('header', 'X-Forwarded-Host') })],
    ['an API key as Host', () => cardOf({ key: keyIn('header', 'Host') })],
    ['an API key as Authorization', () => cardOf({ key: keyIn('header', 'Authorization') })],
    ['an API key in a header of two lines', () => cardOf({ key: keyIn('header', 'X-API-Key\r\nX-Evil') })],
    ['an API key in the query, to be logged', () => cardOf({ key: keyIn('query', 'X-API-Key') })],
    ['A104 a location of another case', () => cardOf({ key: keyIn('Cookie', 'X-API-Key') })],
    ['Basic where the provider has a token', () => cardOf({ login: { httpAuthSecurityScheme: { scheme: 'Basic' } } })],
    [
      'everything at once',
      () =>
        cardOf(
          { login: BEARER, key: keyIn('header', 'X-API-Key') },
          {
            securityRequirements: [{ schemes: { login: { list: [] }, key: { list: [] } } }],
            ...interfaces(`${good.url}/a2a`, evil.url),
          },
        ),
    ],
    [
      'a card in a card',
      () => ({ card: cardOf({ login: BEARER }, interfaces(evil.url)), url: evil.url, verified: true, drift: [] }),
    ],
    ['no security at all, elsewhere', () => cardOf({}, interfaces(`${good.url}/a2a`, evil.url))],
    [
      'a prototype',
      () =>
        JSON.parse(
          `{"__proto__":{"securitySchemes":{"login":{}}},"supportedInterfaces":[{"url":"${evil.url}","protocolBinding":"JSONRPC"}]}`,
        ),
    ],
  ]

  it.each(variants)('%s', async (_name, made, providers) => {
    tokens()
    const card = made()
    const given = providers?.() ?? { login: bearer, key: apiKey }
    let credentials: Credentials | undefined
    try {
      credentials = make(card, given)
    } catch (fault) {
      expect(['ERR_CREDENTIALS_UNSATISFIABLE', 'ERR_CREDENTIALS_DESTINATION']).toContain(codeOf(fault))
    }
    // A redirect is the last hope of a hostile card.
    good.answer = ({ url, count }) =>
      url === '/token'
        ? { status: 200, body: JSON.stringify({ access_token: `${SECRET}-${count}`, token_type: 'Bearer' }) }
        : { status: 307, headers: { location: `${evil.url}/moved` } }
    for (const url of credentials === undefined ? [] : [...urlsIn(card), `${good.url}/a2a`])
      await credentials?.fetch(url, { method: 'POST', body: '{}' }).catch(() => undefined)
    if (credentials !== undefined) {
      const headers = await authenticationHandler(credentials)
        .headers()
        .catch((fault: unknown) => fault)
      const { supportedInterfaces = [], additionalInterfaces = [] } = card as Record<string, unknown>
      const strays = JSON.stringify([supportedInterfaces, additionalInterfaces]).includes(`:${evil.port}`)
      if (strays && credentials.requirement.length > 0) expect(codeOf(headers)).toBe('ERR_CREDENTIALS_DESTINATION')
    }
    expect(evil.received.join()).not.toContain(SECRET)
    expect(evil.received).toEqual([])
  })

  it('there are enough of them', () => expect(variants.length).toBeGreaterThanOrEqual(30))

  it('a card that the card client has fetched has a default: where it was fetched from, whatever it says', async () => {
    const card = cardOf({ login: BEARER }, { url: evil.url })
    const fetchIt = () => Promise.resolve(Response.json(card))
    const cards = await createCardClient({ trust: { version: 1, mode: 'off' }, fetch: fetchIt })
    const fetched = await cards.fetchCard(good.url)
    const credentials = createCredentials({ card: fetched, providers: { login: bearer }, egress: local() })
    opened.push(credentials)
    expect(credentials.to).toBe(`${good.url}/`)
    expect(() => createCredentials({ card: { ...fetched }, providers: { login: bearer } })).toThrow('"to"')
    await cards.close()
  })

  it('to comes from where the card was fetched, or from the operator, and never from the card', () => {
    const card = cardOf({ login: BEARER })
    for (const given of [card, { card, url: evil.url, verified: true }])
      expect(() => createCredentials({ card: given, providers: { login: bearer } })).toThrow('"to"')
    expect(() => createCredentials({ card: { ok: false, card }, providers: {}, to: good.url })).toThrow(
      'did not verify',
    )
  })
})

describe('the requirement that is chosen', () => {
  it.each<[string, Record<string, unknown>, unknown[], Record<string, Provider>, string]>([
    [
      'the first that can be met',
      { login: BEARER, key: keyIn('header', 'X-API-Key') },
      [['login'], ['key']],
      { key: apiKey },
      'key',
    ],
    [
      'all of one alternative',
      { login: BEARER, key: keyIn('header', 'x-api-key') },
      [['login', 'key']],
      { key: apiKey, login: bearer },
      'login,key',
    ],
    [
      'A104 not one of a kind that is not known',
      { new: { quantumSecurityScheme: {} }, key: keyIn('header', 'X-API-Key') },
      [['new'], ['key']],
      { key: apiKey },
      'key',
    ],
    ['none', {}, [], {}, ''],
  ])('%s', (_name, schemes, alternatives, providers, expected) => {
    const securityRequirements = alternatives.map((names) => ({
      schemes: Object.fromEntries((names as string[]).map((name) => [name, { list: [] }])),
    }))
    const { requirement } = make(cardOf(schemes, { securityRequirements }), providers)
    expect(requirement.map(({ name }) => name).join()).toBe(expected)
  })

  it('A104 says of each alternative why not', () => {
    const schemes = {
      a: BEARER,
      b: { mtlsSecurityScheme: {} },
      c: keyIn('query', 'k'),
      d: oauth(`${good.url}/token`),
      e: BEARER,
    }
    const securityRequirements = [
      { schemes: { a: { list: [] } } },
      { schemes: { b: { list: [] } } },
      { schemes: { c: { list: [] } } },
      { schemes: { d: { list: ['admin\nlevel=info'] } } },
      { schemes: { e: { list: [] }, f: { list: [] } } },
    ]
    const card = cardOf(schemes, { securityRequirements })
    const text = reasonsOf(() =>
      make(card, { a: apiKey, c: { ...apiKey, in: 'header' } as Provider, d: client(), e: bearer }),
    )
    for (const part of [
      'provider is for an API key',
      'no provider is configured',
      'in another place',
      'is not among those',
      'does not declare it',
    ])
      expect(text).toContain(part)
    expect(text).not.toContain('\n')
    expect(text).not.toContain(SECRET)
  })

  it("a skill's requirements come on top", () => {
    const skills = [
      { id: 'pay', name: 'Pay', description: '', tags: [], securityRequirements: [{ schemes: { key: { list: [] } } }] },
    ]
    const card = cardOf(
      { login: BEARER, key: keyIn('header', 'X-API-Key') },
      { skills, securityRequirements: [{ schemes: { login: { list: [] } } }] },
    )
    const names = (skill?: string) =>
      make(card, { login: bearer, key: apiKey }, skill === undefined ? {} : { skill }).requirement.map(
        ({ name }) => name,
      )
    expect([names(), names('pay')]).toEqual([['login'], ['login', 'key']])
    expect(() => names('other')).toThrow('"skill"')
  })

  it('two credentials in one header cannot both be sent', () => {
    const both = [{ schemes: { a: { list: [] }, b: { list: [] } } }]
    const card = cardOf(
      { a: BEARER, b: { httpAuthSecurityScheme: { scheme: 'Basic' } } },
      { securityRequirements: both },
    )
    expect(reasonsOf(() => make(card, { a: bearer, b: { type: 'basic', user: 'u', password: SECRET } }))).toContain(
      'same place',
    )
  })
})

describe('what is sent', () => {
  it.each<[string, unknown, Provider, string]>([
    ['bearer', BEARER, { type: 'bearer', token: () => Promise.resolve(SECRET) }, `authorization Bearer ${SECRET}`],
    [
      'Basic',
      { httpAuthSecurityScheme: { scheme: 'BASIC' } },
      { type: 'basic', user: 'ü', password: SECRET },
      `authorization Basic ${Buffer.from(`ü:${SECRET}`).toString('base64')}`,
    ],
    [
      'an API key in a header',
      keyIn('header', 'x-api-key'),
      { type: 'apiKey', in: 'header', name: 'X-API-Key', key: SECRET },
      `X-API-Key ${SECRET}`,
    ],
    [
      'A104 an API key in a cookie',
      keyIn('cookie', 'sid'),
      { type: 'apiKey', in: 'cookie', name: 'sid', key: SECRET },
      `cookie sid=${SECRET}`,
    ],
    [
      'A104 an API key in the query',
      keyIn('query', 'k'),
      { type: 'apiKey', in: 'query', name: 'k', key: SECRET },
      `/a2a?x=1&k=${SECRET}`,
    ],
  ])('%s', async (_name, scheme, provider, expected) => {
    const credentials = make(cardOf({ s: scheme }), { s: provider })
    const response = await credentials.fetch(`${good.url}/a2a?x=1`, {
      method: 'POST',
      body: '{}',
      headers: { 'A2A-Version': '1.0' },
    })
    expect(good.received[0]?.toLowerCase()).toContain(expected.toLowerCase())
    expect(good.received[0]?.toLowerCase()).toContain('a2a-version 1.0')
    expect(inspect(response)).not.toContain(SECRET)
    expect(inspect(credentials, { depth: 9, showHidden: true })).not.toContain(SECRET)
  })

  it('A89 a credential of the code is refused, wherever it stands', async () => {
    const credentials = make(cardOf({ k: keyIn('query', 'k') }), {
      k: { type: 'apiKey', in: 'query', name: 'k', key: SECRET },
    })
    for (const [url, headers] of [
      [`${good.url}/?k=1`, {}],
      [good.url, { Authorization: 'x' }],
      [good.url, { cookie: 'x' }],
      [good.url, { Host: 'other.example' }],
    ] as const)
      expect(codeOf(await credentials.fetch(url, { headers }).catch((fault: unknown) => fault))).toBe(
        'ERR_DELEGATION_CREDENTIAL',
      )
    expect(good.received).toEqual([])
  })

  it('P195 a function that fails quotes nothing', async () => {
    const token = () => Promise.reject(new Error(`vault said ${SECRET}`))
    const fault = await make(cardOf({ a: BEARER }), { a: { type: 'bearer', token } })
      .fetch(good.url)
      .catch((error: unknown) => error)
    expect(codeOf(fault)).toBe('ERR_CREDENTIALS_UNAVAILABLE')
    expect(inspect(fault, { depth: 9, showHidden: true })).not.toContain(SECRET)
    for (const value of ['', ' ', 'a\r\nb', undefined, 7])
      expect(
        codeOf(
          await make(cardOf({ a: BEARER }), { a: { type: 'bearer', token: () => value as string } })
            .fetch(good.url)
            .catch((error: unknown) => error),
        ),
      ).toBe('ERR_CREDENTIALS_UNAVAILABLE')
    expect(good.received).toEqual([])
  })
})

describe('tokens', () => {
  const card = () =>
    cardOf(
      { login: oauth(`${good.url}/token`) },
      { securityRequirements: [{ schemes: { login: { list: ['read'] } } }] },
    )
  const asked = () => good.received.filter((each) => each.startsWith('POST /token'))

  it('A109 50 calls at once ask once, and two instances share nothing', async () => {
    tokens()
    const credentials = make(card(), { login: client() })
    await Promise.all(Array.from({ length: 50 }, () => credentials.fetch(`${good.url}/a2a`)))
    expect(asked()).toHaveLength(1)
    expect(asked()[0]).toContain('scope=read')
    expect(asked()[0]).toContain(`resource=${encodeURIComponent(good.url)}`)
    await make(card(), { login: client() }).fetch(`${good.url}/a2a`)
    expect(asked()).toHaveLength(2)
  })

  it('A109 P196 a token that ends at once is used once', async () => {
    tokens({ expires_in: 5 })
    const credentials = make(card(), { login: client() })
    await credentials.fetch(good.url)
    await credentials.fetch(good.url)
    expect(asked()).toHaveLength(2)
  })

  it('A106 401 for ever: two requests', async () => {
    good.answer = ({ url, count }) =>
      url === '/token'
        ? { status: 200, body: JSON.stringify({ access_token: `t${count}`, token_type: 'Bearer', expires_in: 300 }) }
        : { status: 401 }
    const request = new Request(`${good.url}/a2a`, { method: 'POST', body: 'body', headers: { 'a2a-version': '1.0' } })
    expect((await make(card(), { login: client() }).fetch(request)).status).toBe(401)
    const sent = good.received.filter((each) => each.includes(' /a2a '))
    expect([sent.length, asked().length]).toEqual([2, 2])
    for (const each of sent) expect(each).toMatch(/a2a-version 1\.0.* body$/)
  })

  it('P201 403 for ever: scopes that are configured are asked for once, others never', async () => {
    const demand = (scope: string) => ({
      status: 403,
      headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
    })
    let scope = 'read write'
    good.answer = ({ url, count }) =>
      url === '/token'
        ? { status: 200, body: JSON.stringify({ access_token: `t${count}`, token_type: 'Bearer', expires_in: 300 }) }
        : demand(scope)
    const credentials = make(card(), { login: client() })
    for (let turn = 0; turn < 3; turn += 1) expect((await credentials.fetch(good.url)).status).toBe(403)
    scope = 'admin'
    await credentials.fetch(good.url)
    // The union, and no more.
    expect(asked().map((each) => /scope=([^&\s]*)/.exec(each)?.[1])).toEqual(['read', 'read+write'])
  })

  it('A102 a token endpoint that has moved gets nothing, and nor does the place it names', async () => {
    good.answer = () => ({ status: 308, headers: { location: `${evil.url}/token` } })
    expect(
      codeOf(
        await make(card(), { login: client() })
          .fetch(good.url)
          .catch((fault: unknown) => fault),
      ),
    ).toBe('ERR_TOKEN_REQUEST')
    expect(evil.received).toEqual([])
    expect(good.received).toHaveLength(1)
  })

  it('authenticationHandler: one retry, here only', async () => {
    tokens()
    const handler = authenticationHandler(make(card(), { login: client() }))
    const first = await handler.headers()
    const answer = (url: string, status: number) =>
      Object.defineProperty(new Response(null, { status }), 'url', { value: url })
    expect(await handler.shouldRetryWithHeaders({}, answer(evil.url, 401))).toBeUndefined()
    expect(await handler.shouldRetryWithHeaders({}, answer(`${good.url}/a2a`, 200))).toBeUndefined()
    const second = await handler.shouldRetryWithHeaders({}, answer(`${good.url}/a2a`, 401))
    expect([Object.keys(first), second?.authorization === first.authorization]).toEqual([['authorization'], false])
    expect(() => authenticationHandler({} as Credentials)).toThrow('"credentials"')
  })
})

describe('providers are checked at once', () => {
  it.each<[string, unknown, string]>([
    ['P198 an empty client secret', { client: { id: 'me', secret: '' } }, 'client.secret'],
    ['P198 none at all', { client: { id: 'me' } }, 'client.secret'],
    ['P198 a public client as itself', { client: { id: 'me', auth: 'none' } }, 'client.auth'],
    ['P193 a token endpoint over http', { tokenEndpoint: 'http://as.test/token' }, 'tokenEndpoint'],
    ['P193 an issuer over http', { issuer: 'http://as.test' }, 'issuer'],
    ['a user name in a URL', { tokenEndpoint: 'https://a:b@as.test/token' }, 'tokenEndpoint'],
    ['a misspelt member', { scope: ['x'] }, 'scope'],
    ['scopes as text', { scopes: 'a b' }, 'scopes'],
    ['another auth', { client: { id: 'me', auth: 'client_secret_basic', secret: SECRET } }, 'client.auth'],
  ])('%s', (_name, changes, member) => {
    const provider = { ...client(), ...(changes as object) } as Provider
    expect(() => make(cardOf({ login: oauth(`${good.url}/token`) }), { login: provider })).toThrow(TypeError)
    expect(() => make(cardOf({ login: oauth(`${good.url}/token`) }), { login: provider })).toThrow(member)
  })

  it.each([
    'Host',
    'authorization',
    'Cookie',
    'Proxy-Authorization',
    'DPoP',
    'Content-Length',
    'Transfer-Encoding',
    'A2A-Version',
    'X-Forwarded-For',
    'Sec-Fetch-Mode',
    'X Key',
    'X-Key\r\nX-Evil',
    '',
  ])('an API key as %j', (name) => {
    expect(() => make(cardOf({}), { key: { ...apiKey, name } as Provider })).toThrow('"providers.key.name"')
  })

  it('http only to this machine', () => {
    expect(() => make(cardOf({}), {}, { to: 'http://agent.example' })).toThrow('"to"')
    expect(() => make(cardOf({}), {}, { to: 'https://agent.example/?a=b' })).toThrow('"to"')
  })
})

describe('a device code', () => {
  const device: Provider = {
    type: 'deviceCode',
    issuer: 'https://issuer.example',
    tokenEndpoint: TOKEN_ENDPOINT,
    deviceAuthorizationEndpoint: 'https://issuer.example/device',
    client: { id: 'tv', auth: 'none' },
    scopes: ['read'],
    prompt: () => undefined,
  }
  const started = (changes: Record<string, unknown> = {}) =>
    Response.json({
      device_code: 'code',
      user_code: 'ABCD-EFGH',
      verification_uri: 'https://issuer.example/activate',
      expires_in: 120,
      interval: 1,
      ...changes,
    })
  const card = () => cardOf({ login: oauth(TOKEN_ENDPOINT) })
  afterEach(() => vi.useRealTimers())

  it('the user is asked once, and the server no more often than it wants', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const network = fakeNetwork()
    const shown: unknown[] = []
    let polls = 0
    network.agent = ({ url }) => (url.endsWith('/device') ? started() : Response.json({}))
    network.answer = () => {
      polls += 1
      if (polls > 2) return {}
      return Response.json({ error: polls === 1 ? 'authorization_pending' : 'slow_down' }, { status: 400 })
    }
    const prompt = (shownNow: unknown) => void shown.push(shownNow)
    const credentials = createCredentials({
      card: card(),
      providers: { login: { ...device, prompt } as Provider },
      to: good.url,
      fetch: network.fetch,
    })
    const work = Promise.all([credentials.fetch(good.url), credentials.fetch(good.url)])
    const times: number[] = []
    for (let second = 1; second <= 9; second += 1) {
      await vi.advanceTimersByTimeAsync(1000)
      for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve))
      if (times.length < polls) times.push(second)
    }
    await work
    expect(times).toEqual([1, 2, 8])
    expect(shown).toEqual([{ verificationUri: 'https://issuer.example/activate', userCode: 'ABCD-EFGH' }])
    expect(network.forms()[0]?.get('device_code')).toBe('code')
    expect(network.calls().filter(({ url }) => url.startsWith(good.url))).toHaveLength(2)
  })

  it.each<[string, Record<string, unknown>]>([
    ['P193 a page over http', { verification_uri: 'http://issuer.example/activate' }],
    ['a script as page', { verification_uri: 'javascript:alert(1)' }],
    ['a script as complete page', { verification_uri_complete: 'javascript:alert(1)' }],
    ['P195 a code that forges a line', { user_code: 'A\nlevel=info' }],
    ['no code', { device_code: 7 }],
  ])('%s is shown to nobody', async (_name, changes) => {
    const network = fakeNetwork()
    network.agent = () => started(changes)
    const shown: unknown[] = []
    const prompt = (shownNow: unknown) => void shown.push(shownNow)
    const credentials = createCredentials({
      card: card(),
      providers: { login: { ...device, prompt } as Provider },
      to: good.url,
      fetch: network.fetch,
    })
    expect(codeOf(await credentials.fetch(good.url).catch((fault: unknown) => fault))).toBe('ERR_TOKEN_ANSWER')
    expect(shown).toEqual([])
  })
})

describe('refresh tokens', () => {
  const code: Extract<Provider, { type: 'authorizationCode' }> = {
    type: 'authorizationCode',
    issuer: 'https://issuer.example',
    tokenEndpoint: TOKEN_ENDPOINT,
    authorizationEndpoint: 'https://issuer.example/auth',
    redirectUri: 'https://me.example/back',
    client: { id: 'app', secret: SECRET },
    scopes: ['read'],
    authorize: (url) =>
      Promise.resolve(`https://me.example/back?code=c&state=${new URL(url).searchParams.get('state')}`),
  }
  const card = () => cardOf({ login: oauth(TOKEN_ENDPOINT) })

  it('A109 P192 one request for all who wait, to the same server; a new one replaces the old', async () => {
    const network = fakeNetwork()
    let now = 1_800_000_000_000
    let count = 0
    network.answer = () => {
      count += 1
      return { refresh_token: `refresh-${count}` }
    }
    const credentials = createCredentials({
      card: card(),
      providers: { login: code },
      to: good.url,
      fetch: network.fetch,
      clock: () => now,
    })
    await credentials.fetch(good.url)
    for (const turn of [1, 2]) {
      now += 3_600_000
      await Promise.all(Array.from({ length: 50 }, () => credentials.fetch(good.url)))
      const refreshed = network.forms('refresh_token')
      expect(refreshed.map((form) => form.get('refresh_token'))).toEqual(['refresh-1', 'refresh-2'].slice(0, turn))
    }
    expect(network.forms('authorization_code')).toHaveLength(1)
    expect(network.forms('authorization_code')[0]?.get('code_verifier')).toMatch(/^.{43}$/)
  })

  it('P201 one that is refused leads to the user, who is not asked twice in a minute', async () => {
    const network = fakeNetwork()
    let asked = 0
    const authorize: typeof code.authorize = (url, options) => {
      asked += 1
      return code.authorize(url, options)
    }
    network.answer = (form) =>
      form.get('grant_type') === 'refresh_token'
        ? Response.json({ error: 'invalid_grant' }, { status: 400 })
        : { refresh_token: 'r' }
    network.agent = () => new Response('{}', { status: 401 })
    const credentials = createCredentials({
      card: card(),
      providers: { login: { ...code, authorize } },
      to: good.url,
      fetch: network.fetch,
    })
    const outcomes: unknown[] = []
    for (let turn = 0; turn < 5; turn += 1)
      outcomes.push(await credentials.fetch(good.url).then(({ status }) => status, codeOf))
    expect(asked).toBe(1)
    expect(new Set(outcomes)).toEqual(new Set(['ERR_CREDENTIALS_UNAVAILABLE']))
  })
})

describe('what is asked for is what was judged', () => {
  it('a request whose URL changes while it is looked at', async () => {
    const credentials = make(cardOf({ a: BEARER }), { a: bearer })
    let looks = 0
    const shifty = {
      get url() {
        looks += 1
        return looks === 1 ? good.url : evil.url
      },
    }
    await credentials.fetch(shifty as never).catch(() => undefined)
    expect(evil.received).toEqual([])
  })

  it('a provider that changes after it was checked', async () => {
    tokens()
    const provider = client() as Record<string, unknown>
    const credentials = make(cardOf({ login: oauth(`${good.url}/token`) }), { login: provider as never })
    provider.tokenEndpoint = `${evil.url}/token`
    ;(provider.scopes as string[]).push('admin')
    await credentials.fetch(good.url)
    expect(evil.received).toEqual([])
    expect(good.received[0]).toContain('scope=read+write&')
  })

  it.each(['clientCertificate', 'redirects', 'mode'])('egress.%s is not for the caller to choose', (name) => {
    expect(() => make(cardOf({}), {}, { egress: { ...local(), [name]: 'report' } as never })).toThrow(
      `"egress.${name}"`,
    )
  })

  it('a clock that is set back makes no token last longer', async () => {
    tokens()
    let now = 1_800_000_000_000
    const credentials = make(cardOf({ login: oauth(`${good.url}/token`) }), { login: client() }, { clock: () => now })
    await credentials.fetch(good.url)
    now -= 3_600_000
    await credentials.fetch(good.url)
    expect(good.received.filter((each) => each.startsWith('POST /token'))).toHaveLength(2)
  })
})
