/** The receiver behind each kind of server, over real sockets: raw bytes, one run for each id, and nothing for the rest. */
import { once } from 'node:events'
import { createServer, request as httpRequest, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import express from 'express'
import Fastify from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { webhookHandler as expressWebhookHandler } from '../../src/adapters/express.ts'
import { fastifyWebhook } from '../../src/adapters/fastify.ts'
import {
  createWebhookVerifier,
  receiveWebhook,
  signWebhook,
  type WebhookReceipt,
  type WebhookVerifier,
  webhookHandler,
} from '../../src/webhook/index.ts'

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const NOW = 1_800_000_000
const BODY = '{ "task": {"id":"t1",  "contextId":"c1"} }'
const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

type Work = (receipt: WebhookReceipt) => void | Promise<void>
type Column = (verifier: WebhookVerifier, work: Work) => Promise<number>

async function listen(listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  closing.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

const columns: Readonly<Record<string, Column>> = {
  'node:http': (verifier, work) => listen(webhookHandler(verifier, work)),
  Express: (verifier, work) => {
    const app = express()
    app.post('/', expressWebhookHandler(verifier, work))
    return listen(app)
  },
  'Express behind express.raw': (verifier, work) => {
    const app = express()
    app.post('/', express.raw({ type: () => true, limit: '3mb' }), expressWebhookHandler(verifier, work))
    return listen(app)
  },
  Fastify: async (verifier, work) => {
    const app = Fastify()
    await app.register(fastifyWebhook, { verifier, work })
    closing.push(() => app.close())
    await app.listen({ port: 0, host: '127.0.0.1' })
    return (app.server.address() as AddressInfo).port
  },
  Request: (verifier, work) =>
    listen(async (req, res) => {
      const { method = 'GET', headers } = req
      const init = method === 'POST' ? { body: Readable.toWeb(req) as ReadableStream, duplex: 'half' as const } : {}
      const request = new Request('http://x/', { method, headers: headers as Record<string, string>, ...init })
      const response = await receiveWebhook(verifier, request, work)
      res.writeHead(response.status, { connection: 'close' }).end(await response.text())
    }),
}

function post(port: number, headers: Record<string, string>, body: string | Buffer, method = 'POST'): Promise<number> {
  return new Promise((resolve, reject) => {
    const req = httpRequest({ port, host: '127.0.0.1', method, headers }, (res) => {
      res.resume()
      resolve(res.statusCode as number)
    })
    req.on('error', reject)
    req.end(body)
  })
}
const signed = (id = 'msg_1', body: string | Buffer = BODY) => ({
  ...signWebhook({ secret: SECRET, id, timestampSeconds: NOW, body }),
})

describe.each(Object.entries(columns))('webhook receiver: %s', (_name, column) => {
  async function start() {
    const got: WebhookReceipt[] = []
    const verifier = createWebhookVerifier({ secrets: SECRET, clock: () => NOW * 1000, expectTask: 't1' })
    const port = await column(verifier, (receipt) => void got.push(receipt))
    return { port, got }
  }

  it.each(['application/a2a+json', 'application/json', 'text/plain', 'application/x-www-form-urlencoded', ''])(
    'P172 takes the raw bytes whatever the content type: %j',
    async (type) => {
      const { port, got } = await start()
      const headers = { ...signed(), ...(type === '' ? {} : { 'content-type': type }) }
      expect(await post(port, headers, BODY)).toBe(204)
      expect(got).toMatchObject([{ id: 'msg_1', event: { kind: 'task', taskId: 't1' } }])
    },
  )

  it('runs the work once for an id, and answers a repetition so that the sender stops', async () => {
    const { port, got } = await start()
    expect(await post(port, signed(), BODY)).toBe(204)
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(port, signed(), BODY)))
    expect(answers).toEqual(Array.from({ length: 8 }, () => 200))
    expect(got).toHaveLength(1)
  })

  it('A85 refuses what is forged, and the work does not run', async () => {
    const { port, got } = await start()
    expect(await post(port, signed(), `${BODY}\n`)).toBe(401)
    expect(await post(port, {}, BODY)).toBe(401)
    expect(await post(port, { ...signed(), 'webhook-id': 'a.1' }, BODY)).toBe(400)
    expect(await post(port, { ...signed(), 'webhook-timestamp': String(NOW * 1000) }, BODY)).toBe(400)
    const other = '{"task":{"id":"t2"}}'
    expect(await post(port, signed('msg_2', other), other)).toBe(401)
    const none = '{"jsonrpc":"2.0"}'
    expect(await post(port, signed('msg_3', none), none)).toBe(400)
    expect(await post(port, signed(), '', 'GET')).not.toBe(204)
    expect(got).toEqual([])
  })

  it('gives a challenge back when it is well signed, and runs no work for it', async () => {
    const { port, got } = await start()
    const body = JSON.stringify({ challenge: 'c'.repeat(43) })
    const ask = (headers: Record<string, string>) =>
      fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers: { ...headers, 'webhook-challenge': '1' }, body })
    const answer = await ask(signed('msg_1', body))
    expect([answer.status, await answer.text()]).toEqual([200, body])
    const forged = await ask(signed())
    expect([forged.status, await forged.text()]).toEqual([401, ''])
    expect(got).toEqual([])
  })

  it('refuses a body over the limit, well signed as it is', async () => {
    const { port, got } = await start()
    const large = Buffer.alloc(1024 * 1024 + 1, ' ')
    expect(await post(port, signed('msg_1', large), large)).toBe(413)
    expect(got).toEqual([])
  })
})

it('Request: a body that breaks off is answered, and no work runs', async () => {
  const got: unknown[] = []
  const verifier = createWebhookVerifier({ secrets: SECRET, clock: () => NOW * 1000 })
  const body = new ReadableStream({ start: (controller) => controller.error(new Error('gone')) })
  const request = new Request('http://x/', { method: 'POST', body, headers: signed(), duplex: 'half' } as RequestInit)
  expect((await receiveWebhook(verifier, request, () => void got.push(1))).status).toBe(400)
  expect(got).toEqual([])
})

describe('a receiver behind a body parser', () => {
  it('P172 answers 500 and says to the operator what to do', async () => {
    const logged: unknown[] = []
    const got: unknown[] = []
    const logger = { warn: (facts: object) => logged.push(facts), error: () => undefined, info: () => undefined }
    const app = express()
    app.use(express.json())
    const verifier = createWebhookVerifier({ secrets: SECRET, clock: () => NOW * 1000 })
    app.post(
      '/',
      expressWebhookHandler(verifier, () => void got.push(1), { logger: logger as never }),
    )
    const port = await listen(app)
    expect(await post(port, { ...signed(), 'content-type': 'application/json' }, BODY)).toBe(500)
    expect(got).toEqual([])
    expect(logged).toMatchObject([{ code: 'ERR_WEBHOOK_BODY', detail: expect.stringContaining('express.raw') }])
  })

  it('P172 says so as well where the body was read and left nowhere', async () => {
    const logged: unknown[] = []
    const logger = { warn: (facts: object) => logged.push(facts), error: () => undefined }
    const verifier = createWebhookVerifier({ secrets: SECRET, clock: () => NOW * 1000 })
    const receive = webhookHandler(verifier, () => undefined, { logger: logger as never })
    const port = await listen(async (req, res) => {
      for await (const _chunk of req);
      receive(req, res)
    })
    expect(await post(port, signed(), BODY)).toBe(500)
    const request = new Request('http://x/', { method: 'POST', headers: signed(), body: BODY })
    request.body?.getReader()
    const { status } = await receiveWebhook(verifier, request, () => undefined, { logger: logger as never })
    expect(status).toBe(500)
    const advice = { code: 'ERR_WEBHOOK_BODY', detail: expect.stringContaining('express.raw') }
    expect(logged).toMatchObject([advice, advice])
  })

  it('Fastify: a parser of the surrounding context plays no part', async () => {
    const app = Fastify()
    closing.push(() => app.close())
    const got: unknown[] = []
    const verifier = createWebhookVerifier({ secrets: SECRET, clock: () => NOW * 1000 })
    await app.register(fastifyWebhook, { verifier, work: () => void got.push(1), path: '/hook' })
    app.post('/json', (request) => request.body)
    await app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = app.server.address() as AddressInfo
    const response = await fetch(`http://127.0.0.1:${port}/hook`, {
      method: 'POST',
      headers: { ...signed(), 'content-type': 'application/json' },
      body: BODY,
    })
    expect(response.status).toBe(204)
    expect(got).toEqual([1])
    const json = await fetch(`http://127.0.0.1:${port}/json`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"a":1}',
    })
    expect(await json.json()).toEqual({ a: 1 })
  })

  it('work that throws is logged without what it said, and the sender is not asked again', async () => {
    const logged: unknown[] = []
    const logger = { error: (facts: object) => logged.push(facts) }
    const verifier = createWebhookVerifier({ secrets: SECRET, clock: () => NOW * 1000 })
    const work = () => Promise.reject(new RangeError('secret'))
    const port = await listen(webhookHandler(verifier, work, { logger: logger as never }))
    expect(await post(port, signed(), BODY)).toBe(204)
    await expect.poll(() => logged).toEqual([{ id: 'msg_1', error: 'RangeError' }])
  })
})
