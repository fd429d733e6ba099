/** Nothing of the credential is left on what the handler is given, wherever Node, Express or Fastify keep a copy. */
import { type ClientRequest, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import type { AddressInfo } from 'node:net'
import express, { type Request } from 'express'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import { fastifyGuard } from '../../src/adapters/fastify.ts'
import { plugin } from '../support/fastify-plugin.ts'
import { API_KEY, makeRig, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
/** Where the last request that a handler saw still had the key. */
let traces: string[] | undefined
let seen: Record<string, unknown> = {}
let ran = 0

/** Where `needle` can be read: own properties within reach of the request, and what its getters give. */
function pathsTo(needle: string, start: object): string[] {
  const found: string[] = []
  const met = new Set<unknown>()
  const visit = (value: unknown, path: string, depth: number) => {
    if (typeof value === 'string') return value.includes(needle) ? found.push(path) : undefined
    if (typeof value !== 'object' || value === null || met.has(value) || depth > 6) return undefined
    met.add(value)
    for (const key of Reflect.ownKeys(value)) {
      const { value: held } = Object.getOwnPropertyDescriptor(value, key) as PropertyDescriptor
      visit(held, `${path}.${String(key)}`, depth + 1)
    }
    return undefined
  }
  visit(start, '', 0)
  return found
}

function look(request: IncomingMessage, more: Record<string, unknown>): void {
  ran += 1
  const { headers, headersDistinct, trailers, trailersDistinct, rawHeaders, rawTrailers, url } = request
  const got = { headers, headersDistinct, trailers, trailersDistinct, rawHeaders, rawTrailers, url, ...more }
  traces = pathsTo(API_KEY, { got, request })
  seen = structuredClone(got)
}

const card = rigCard({
  securitySchemes: {
    key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
    query: { apiKeySecurityScheme: { location: 'query', name: 'api_key' } },
    cookie: { apiKeySecurityScheme: { location: 'cookie', name: 'sid' } },
  },
  securityRequirements: ['key', 'query', 'cookie'].map((name) => ({ schemes: { [name]: { list: [] } } })),
})

beforeAll(async () => {
  const keys = { keys: 'file:./keys.json' }
  rig = await makeRig({ card, policy: { schemes: { key: keys, query: keys, cookie: keys } } })
})
afterAll(() => rig.close())
beforeEach(() => {
  traces = undefined
  seen = {}
  ran = 0
})

interface Ask {
  readonly path?: string
  readonly headers?: Record<string, string>
  readonly trailers?: Record<string, string>
}

async function ask(port: number, { path = '/a2a/tasks/t:cancel', headers = {}, trailers }: Ask): Promise<number> {
  return new Promise((resolve, reject) => {
    const request: ClientRequest = httpRequest(
      {
        port,
        host: '127.0.0.1',
        path,
        method: 'POST',
        headers: {
          'a2a-version': '1.0',
          'content-type': 'application/json',
          ...(trailers === undefined ? {} : { 'transfer-encoding': 'chunked' }),
          ...headers,
        },
      },
      (response) => {
        response.resume()
        response.on('end', () => resolve(response.statusCode ?? 0))
      },
    )
    request.on('error', reject)
    if (trailers !== undefined) request.addTrailers(trailers)
    request.end('{}')
  })
}

const WAYS: readonly (readonly [string, Ask])[] = [
  ['a header', { headers: { 'x-api-key': API_KEY } }],
  ['a header and its trailer', { headers: { 'x-api-key': API_KEY }, trailers: { 'X-Api-Key': API_KEY } }],
  ['other credentials in trailers', { headers: { 'x-api-key': API_KEY }, trailers: { Authorization: API_KEY } }],
  ['the query', { path: `/a2a/tasks/t:cancel?a=1&api_key=${API_KEY}&b=%20` }],
  ['the query, spelled otherwise', { path: `/a2a/tasks/t:cancel?%61pi_key=${API_KEY}` }],
  [
    'the query, told again by proxies and pages',
    {
      path: `/a2a/tasks/t:cancel?api_key=${API_KEY}`,
      headers: {
        referer: `https://agent.example/a2a?api_key=${API_KEY}`,
        'x-original-uri': `/a2a/tasks/t:cancel?api_key=${API_KEY}`,
      },
    },
  ],
  ['a cookie', { headers: { cookie: `other=1; sid=${API_KEY}` } }],
]

describe('Express', () => {
  let server: Server
  let port: number

  beforeAll(async () => {
    const app = express()
    // What stands in front may have looked already, and then Node and Express remember what they gave.
    app.use((req, _res, next) => {
      const { headersDistinct, trailersDistinct, query } = req
      const cookies = Object.fromEntries((req.headers.cookie ?? '').split('; ').map((pair) => pair.split('=')))
      Object.assign(req, { looked: [headersDistinct, trailersDistinct, query].length, cookies, signedCookies: cookies })
      next()
    })
    app.use('/old', (req, _res, next) => {
      Object.defineProperty(req, 'query', { value: { ...req.query }, configurable: true, writable: true })
      next()
    })
    const handler = (req: Request, res: express.Response) => {
      const { originalUrl, query, cookies } = req as Request & { cookies: unknown }
      look(req, { originalUrl, query, cookies })
      res.json({})
    }
    app.use(['/a2a', '/old'], expressGuard(rig.guard), handler)
    app.use('/kept', expressGuard(rig.guard, { keepCredential: true }), handler)
    server = app.listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    ;({ port } = server.address() as AddressInfo)
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  it.each(WAYS)('A104 no trace of a key in %s', async (_, asked) => {
    expect(await ask(port, asked)).toBe(200)
    expect(ran).toBe(1)
    expect(traces).toEqual([])
  })

  it('the other parameters and cookies stay', async () => {
    await ask(port, {
      path: `/a2a/tasks/t:cancel?a=1&api_key=${API_KEY}&b=%20`,
      headers: { cookie: 'other=1', referer: 'https://x.example/?a=1' },
    })
    expect(seen).toMatchObject({
      originalUrl: '/a2a/tasks/t:cancel?a=1&b=%20',
      query: { a: '1', b: ' ' },
      cookies: { other: '1' },
      headers: { referer: 'https://x.example/?a=1' },
    })
  })

  it('a query that was parsed in front', async () => {
    expect(await ask(port, { path: `/old/tasks/t:cancel?api_key=${API_KEY}&a=1` })).toBe(200)
    expect(traces).toEqual([])
  })

  it('A51 no identity header hides in the trailers, whatever is kept', async () => {
    for (const path of ['/a2a', '/kept'])
      await ask(port, {
        path: `${path}/tasks/t:cancel`,
        headers: { 'x-api-key': API_KEY },
        trailers: { 'X-User-Id': 'mallory', 'X-Checksum': 'c-1' },
      })
    expect(ran).toBe(2)
    expect(seen).toMatchObject({ trailers: { 'x-checksum': 'c-1' }, rawTrailers: ['X-Checksum', 'c-1'] })
    expect(JSON.stringify(seen)).not.toContain('mallory')
  })

  it('keepCredential leaves it where it was', async () => {
    expect(await ask(port, { path: `/kept/tasks/t:cancel?api_key=${API_KEY}` })).toBe(200)
    expect(seen).toMatchObject({ originalUrl: `/kept/tasks/t:cancel?api_key=${API_KEY}` })
  })
})

describe('Fastify', () => {
  let fastify: FastifyInstance
  let port: number

  const handler = async (request: FastifyRequest) => {
    const { headers, query, url, originalUrl } = request
    const { cookies } = request as unknown as { cookies?: unknown }
    const { raw: _, server: __, log: ___, ...own } = request
    look(request.raw, {
      headers,
      query: { ...(query as object) },
      url,
      originalUrl,
      cookies,
      own: pathsTo(API_KEY, own),
    })
    return {}
  }

  const serve = async (http2: boolean) => {
    const app = (http2 ? Fastify({ http2: true }) : Fastify()) as unknown as FastifyInstance
    app.addHook('onRequest', async (request) => {
      const cookies = Object.fromEntries((request.headers.cookie ?? '').split('; ').map((pair) => pair.split('=')))
      Object.assign(request, { cookies, looked: request.originalUrl.length })
    })
    await app.register(
      plugin(async (agent) => {
        await agent.register(fastifyGuard, { guard: rig.guard, mount: '/a2a' })
        agent.post('/a2a/*', handler)
      }),
    )
    await app.register(
      plugin(async (agent) => {
        await agent.register(fastifyGuard, { guard: rig.guard, mount: '/kept', keepCredential: true })
        agent.post('/kept/*', handler)
      }),
    )
    await app.listen({ port: 0, host: '127.0.0.1' })
    return app
  }
  beforeAll(async () => {
    fastify = await serve(false)
    ;({ port } = fastify.server.address() as AddressInfo)
  })
  afterAll(() => fastify.close())

  it.each(WAYS)('A104 no trace of a key in %s', async (_, asked) => {
    expect(await ask(port, asked)).toBe(200)
    expect(ran).toBe(1)
    expect(traces).toEqual([])
  })

  it('the other parameters stay, and keepCredential leaves all', async () => {
    await ask(port, { path: `/a2a/tasks/t:cancel?a=1&api_key=${API_KEY}` })
    expect(seen).toMatchObject({ query: { a: '1' }, originalUrl: '/a2a/tasks/t:cancel?a=1', own: [] })
    await ask(port, { path: `/kept/tasks/t:cancel?api_key=${API_KEY}` })
    const originalUrl = `/kept/tasks/t:cancel?api_key=${API_KEY}`
    expect(seen).toMatchObject({ query: { api_key: API_KEY }, originalUrl })
  })

  it.each(WAYS)('HTTP/2: no trace of a key in %s', async (_, { path = '/a2a/tasks/t:cancel', headers, trailers }) => {
    const app = await serve(true)
    const session: ClientHttp2Session = connect(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
    try {
      const status = await new Promise((resolve, reject) => {
        const stream = session.request(
          {
            [constants.HTTP2_HEADER_METHOD]: 'POST',
            [constants.HTTP2_HEADER_PATH]: path,
            'a2a-version': '1.0',
            'content-type': 'application/json',
            ...headers,
          },
          { waitForTrailers: trailers !== undefined },
        )
        stream.on('wantTrailers', () => stream.sendTrailers(trailers ?? {}))
        stream.on('response', (answer) => resolve(answer[':status']))
        stream.on('error', reject)
        stream.resume()
        stream.end('{}')
      })
      expect([status, ran]).toEqual([200, 1])
      expect(traces).toEqual([])
    } finally {
      session.destroy()
      await app.close()
    }
  })
})
