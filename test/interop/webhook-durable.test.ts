/** Deliveries over BullMQ on a real Redis survive the death of their process, in order, and run once at the receiver. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createEgress } from '../../src/egress/index.ts'
import { createBullQueue } from '../../src/webhook/bullmq.ts'
import {
  createPushNotifications,
  createWebhookSender,
  createWebhookVerifier,
  generateWebhookSecret,
} from '../../src/webhook/index.ts'

const script = join(import.meta.dirname, '../support/durable-sender.mjs')
let redis: ChildProcess
let redisPort: number
const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-redis-'))
const closing: (() => unknown)[] = []

async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

beforeAll(async () => {
  redisPort = await freePort()
  redis = spawn('redis-server', ['--port', String(redisPort), '--bind', '127.0.0.1', '--save', '', '--dir', folder], {
    stdio: 'ignore',
  })
  const client = new Redis(redisPort, '127.0.0.1')
  client.on('error', () => undefined)
  await vi.waitFor(async () => expect(await client.ping()).toBe('PONG'), { timeout: 10_000 })
  client.disconnect()
}, 15_000)
afterAll(async () => {
  redis.kill('SIGKILL')
  await once(redis, 'close')
  rmSync(folder, { recursive: true })
})
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

interface Hit {
  readonly id: string
  readonly task: string
  readonly n: number
  readonly ok: boolean
}

async function receiver(secret: string, status: () => number = () => 200) {
  const hits: Hit[] = []
  const verifier = createWebhookVerifier({ secrets: secret })
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const answer = status()
    const result = answer === 200 ? await verifier.verify({ headers: req.rawHeaders, body }) : { ok: false }
    const { statusUpdate } = JSON.parse(body.toString()) as {
      statusUpdate: { taskId: string; metadata: { n: number } }
    }
    hits.push({
      id: req.headers['webhook-id'] as string,
      task: statusUpdate.taskId,
      n: statusUpdate.metadata.n,
      ok: result.ok,
    })
    setTimeout(() => res.writeHead(answer).end(), 10)
  }).listen(0, '127.0.0.1')
  closing.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
  await once(server, 'listening')
  return { hits, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` }
}

function start(
  url: string,
  secret: string,
  count: number,
): { child: ChildProcess; queued: Promise<void>; closed: () => boolean } {
  const child = spawn(process.execPath, [script, String(redisPort), url, secret, String(count)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  closing.push(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'close')
  })
  let output = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  const queued = (async () => {
    await expect.poll(() => output, { timeout: 20_000 }).toContain('queued')
  })()
  return { child, queued, closed: () => output.includes('closed') }
}

describe('webhooks over BullMQ', () => {
  it('A81 kill -9 in the middle: every event arrives, none out of order, duplicates under their id, each run once', async () => {
    const secret = generateWebhookSecret()
    const { hits, url } = await receiver(secret)
    const first = start(url, secret, 30)
    await first.queued
    await expect.poll(() => hits.length, { timeout: 5000 }).toBeGreaterThan(5)
    first.child.kill('SIGKILL')
    await once(first.child, 'close')
    const before = hits.length
    expect(before).toBeLessThan(90)

    const second = start(url, secret, 0)
    await expect.poll(() => new Set(hits.map(({ id }) => id)).size, { timeout: 15_000 }).toBe(90)
    for (const task of ['t1', 't2', 't3']) {
      const own = hits.filter((hit) => hit.task === task)
      const firsts = own.filter((hit, index) => own.findIndex(({ id }) => id === hit.id) === index)
      expect(firsts.map(({ n }) => n)).toEqual(Array.from({ length: 30 }, (_, n) => n))
      // An event sent twice is sent twice in a row.
      expect(own.map(({ n }) => n)).toEqual(own.map(({ n }) => n).toSorted((a, b) => a - b))
    }
    expect(hits.filter(({ ok }) => ok)).toHaveLength(90)
    expect(hits.length - 90).toBeLessThanOrEqual(3)
    second.child.kill('SIGTERM')
    expect((await once(second.child, 'close'))[0]).toBe(0)
  }, 40_000)

  it('retries keep order and id; what is deleted meanwhile is not sent', async () => {
    const secret = generateWebhookSecret()
    let status = 503
    const { hits, url } = await receiver(secret, () => status)
    const client = new Redis(redisPort, '127.0.0.1', { maxRetriesPerRequest: null })
    closing.push(() => client.disconnect())
    const { port } = new URL(url)
    const egress = createEgress({ requireHttps: false, ports: [Number(port)], allowAddresses: ['127.0.0.1'] })
    const store = createPushNotifications({ egress })
    const alice = { user: { isAuthenticated: true, userName: 'alice' }, requestedVersion: '1.0' }
    for (const taskId of ['a', 'b'])
      await store.save(taskId, alice, { tenant: '', id: 'c', taskId, url, token: '', authentication: undefined })
    const sender = createWebhookSender({
      store,
      egress,
      durable: createBullQueue({ client, name: 'second' }),
      signing: { secrets: { [new URL(url).origin]: { current: secret } } },
      retry: { baseMs: 10, maxMs: 20 },
      host: { failures: 1000 },
    })
    closing.push(() => sender.close(1000))
    const update = (taskId: string, n: number) => ({ statusUpdate: { taskId, contextId: 'x', metadata: { n } } })
    for (const n of [0, 1, 2]) for (const taskId of ['a', 'b']) await sender.send(update(taskId, n), alice)
    await expect.poll(() => hits.length, { timeout: 5000 }).toBeGreaterThan(4)
    expect(new Set(hits.map(({ n }) => n))).toEqual(new Set([0]))
    expect(new Set(hits.map(({ id }) => id)).size).toBe(2)
    await store.delete('b', alice, 'c')
    await new Promise((resolve) => setImmediate(resolve))
    const afterDelete = hits.length
    status = 200
    await expect
      .poll(() => hits.filter(({ task, ok }) => task === 'a' && ok).map(({ n }) => n), { timeout: 5000 })
      .toEqual([0, 1, 2])
    expect(hits.slice(afterDelete).filter(({ task, n }) => task === 'b' && n > 0)).toEqual([])
  }, 20_000)

  it('close ends in time when Redis does not answer', async () => {
    const secret = generateWebhookSecret()
    const { hits, url } = await receiver(secret)
    const sending = start(url, secret, 30)
    await sending.queued
    await expect.poll(() => hits.length, { timeout: 5000 }).toBeGreaterThan(5)
    redis.kill('SIGSTOP')
    try {
      sending.child.kill('SIGTERM')
      await expect.poll(() => sending.closed(), { timeout: 9000 }).toBe(true)
    } finally {
      redis.kill('SIGCONT')
    }
  }, 20_000)

  it('Redis that is gone makes send reject, and the agent goes on', async () => {
    const port = await freePort()
    const client = new Redis(port, '127.0.0.1', {
      maxRetriesPerRequest: null,
      retryStrategy: () => null,
      enableOfflineQueue: false,
    })
    client.on('error', () => undefined)
    closing.push(() => client.disconnect())
    const queue = createBullQueue({ client, name: 'gone' })
    const item = {
      lane: 'l',
      message: { id: 'm', taskId: 't', version: '1.0', body: '{}', contentType: 'x' },
      configId: 'c',
      origin: 'o',
      queuedMs: 0,
      final: false,
      attempts: 0,
    }
    await expect(queue.push(item)).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' })
  })
})
