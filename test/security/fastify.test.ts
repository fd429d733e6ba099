/** The Fastify adapter: contexts, parsers, bodies, faults. The contract is in test/contract. */
import { request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import Fastify, { type FastifyInstance, type FastifyPluginCallback } from 'fastify'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { decisionFor, fastifyGuard } from '../../src/adapters/fastify.ts'
import { API_KEY, makeRig, type Rig } from '../support/rig.ts'

let rig: Rig
let fastify: FastifyInstance
let base: string
let bodies: unknown[] = []
/** A context with routes of its own. */
const context =
  (setUp: (agent: FastifyInstance) => Promise<void>): FastifyPluginCallback =>
  (agent, _options, done) => {
    setUp(agent).then(() => done(), done)
  }
const KEY = { 'x-api-key': API_KEY }
const rpc = (changes: object = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't' }, ...changes })

beforeAll(async () => {
  rig = await makeRig({ policy: { maxBodyBytes: 2048 } })
  fastify = Fastify()
  await fastify.register(
    context(async (agent) => {
      await agent.register(fastifyGuard, { guard: rig.guard, mount: '/a2a' })
      agent.post('/a2a', async (request) => {
        bodies.push(request.body)
        return { operation: decisionFor(rig.guard, request)?.operation.name, headers: request.headers }
      })
    }),
  )
  await fastify.register(
    context(async (agent) => {
      // A parser of the host's own, which sees what was decided on and no more.
      agent.removeAllContentTypeParsers()
      agent.addContentTypeParser('*', { parseAs: 'string' }, (_, text, done) => done(null, { parsed: text }))
      await agent.register(fastifyGuard, { guard: rig.guard, mount: '/own' })
      agent.post('/own/tasks/:task', async (request) => {
        bodies.push(request.body)
        return {}
      })
      agent.post('/own', async (request) => {
        bodies.push(request.body)
        return {}
      })
    }),
  )
  const broken = {
    ...rig.guard,
    authorize: () => {
      throw new Error('a fault inside')
    },
  } as typeof rig.guard
  await fastify.register(
    context(async (agent) => {
      await agent.register(fastifyGuard, { guard: broken, mount: '/broken' })
      agent.post('/broken', async (request) => bodies.push(request.body))
    }),
  )
  fastify.post('/outside', async (request) => ({ decision: decisionFor(rig.guard, request) ?? null }))
  await fastify.listen({ port: 0, host: '127.0.0.1' })
  base = `http://127.0.0.1:${(fastify.server.address() as AddressInfo).port}`
})
afterAll(async () => {
  await fastify.close()
  await rig.close()
})
beforeEach(() => {
  bodies = []
})

const post = (path: string, body: string, headers: Record<string, string> = {}) =>
  fetch(base + path, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
  })

describe('fastifyGuard', () => {
  it('hands on the value that was decided on, and no credential', async () => {
    const response = await post('/a2a', rpc(), KEY)
    const answer = (await response.json()) as { operation: string; headers: object }
    expect([response.status, answer.operation]).toEqual([200, 'GetTask'])
    expect(answer.headers).not.toHaveProperty('x-api-key')
    expect(bodies).toEqual([{ jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't' } }])
  })

  it("with a parser of the host's own the decided value still arrives", async () => {
    expect((await post('/own', rpc(), KEY)).status).toBe(200)
    expect(bodies).toMatchObject([{ method: 'GetTask' }])
  })

  it.each([
    ['no credential', () => rpc(), {}, 401, -32050],
    [
      'a duplicated member',
      () => '{"jsonrpc":"2.0","id":1,"method":"GetTask","method":"CancelTask"}',
      KEY,
      400,
      -32600,
    ],
    ['a body over the limit', () => rpc({ pad: 'x'.repeat(3000) }), KEY, 413, -32600],
    ['an unknown method', () => rpc({ method: 'DropTable' }), KEY, 403, -32051],
  ])('%s is refused and nothing runs', async (_, body, headers, status, code) => {
    const response = await post('/a2a', body(), headers)
    expect([response.status, await response.json()]).toMatchObject([status, { error: { code } }])
    expect(bodies).toEqual([])
  })

  it('what a parser makes of bytes that hold nothing to decide on is not handed on', async () => {
    const url = `${base}/own/tasks/t:cancel`
    const headers = { 'a2a-version': '1.0', 'content-type': 'text/plain', ...KEY }
    const empty = new ReadableStream({ start: (controller) => controller.close() })
    const response = await fetch(url, { method: 'POST', body: empty, duplex: 'half', headers } as RequestInit)
    expect(response.status).toBe(200)
    expect(bodies).toEqual([undefined])
  })

  it('a large body that was not read ends the connection, a small one does not', async () => {
    const connectionAfter = (length: number) =>
      new Promise((resolve, reject) => {
        const headers = { 'content-length': length, 'content-type': 'application/json', 'a2a-version': '1.0' }
        const { port } = fastify.server.address() as AddressInfo
        const request = httpRequest({ port, host: '127.0.0.1', path: '/a2a', method: 'POST', headers }, (response) => {
          resolve(`${response.statusCode} ${response.headers.connection}`)
          request.destroy()
        })
        request.on('error', reject)
        request.write('{')
      })
    expect(await connectionAfter(10_000_000)).toBe('401 close')
    expect(await connectionAfter(1000)).toBe('401 keep-alive')
  })

  it("a fault is the host's 500, and routes outside of the context are not decided on", async () => {
    expect((await post('/broken', rpc(), KEY)).status).toBe(500)
    expect(bodies).toEqual([])
    expect(await (await post('/outside', '{}')).json()).toEqual({ decision: null })
  })

  it('guards the whole context: routes before the plugin, routes below it, what is not found, and injected requests', async () => {
    const ran: string[] = []
    const app = Fastify()
    await app.register(
      context(async (agent) => {
        agent.get('/a2a/tasks/:id', async () => ran.push('before'))
        await agent.register(fastifyGuard, { guard: rig.guard, mount: '/a2a' })
        await agent.register(
          context(async (child) => {
            child.get('/a2a/tasks', async () => ran.push('below'))
          }),
        )
        agent.setNotFoundHandler(async () => ran.push('not found'))
      }),
    )
    const ask = async (method: 'GET' | 'HEAD' | 'OPTIONS', url: string, headers: object = {}) =>
      (await app.inject({ method, url, headers: { 'a2a-version': '1.0', ...headers } })).statusCode
    for (const url of ['/a2a/tasks/1', '/a2a/tasks', '/a2a/nothing']) expect(await ask('GET', url)).toBe(401)
    expect(await ask('OPTIONS', '/a2a/tasks')).toBe(401)
    // Fastify answers HEAD wherever it answers GET.
    expect(await ask('HEAD', '/a2a/tasks', KEY)).toBe(403)
    expect(ran).toEqual([])
    expect([await ask('GET', '/a2a/tasks/1', KEY), await ask('GET', '/a2a/tasks', KEY)]).toEqual([200, 200])
    expect(ran).toEqual(['before', 'below'])
    await app.close()
  })

  it.each(['application/a2a+json', 'application/json', 'application/a2a+json; charset=utf-8'])(
    'reads %s, which HTTP+JSON is sent as',
    async (type) => {
      const app = Fastify()
      const seen: unknown[] = []
      await app.register(fastifyGuard, { guard: rig.guard, mount: '/a2a' })
      app.post('/a2a/message:send', async (request) => seen.push(request.body))
      const headers = { 'content-type': type, 'a2a-version': '1.0', ...KEY }
      const sent = await app.inject({ method: 'POST', url: '/a2a/message:send', payload: '{"message":{}}', headers })
      expect([sent.statusCode, seen]).toEqual([200, [{ message: {} }]])
      await app.close()
    },
  )

  it('"mount" must be a path', async () => {
    await expect(Fastify().register(fastifyGuard, { guard: rig.guard, mount: 'a2a/' })).rejects.toThrow(/^"mount"/)
  })
})
