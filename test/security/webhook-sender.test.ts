/** The sender against receivers on real sockets: order, signatures, faults, and nothing to where it must not go. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Role, TaskState } from '@a2a-js/sdk'
import { InMemoryPushNotificationStore, ServerCallContext } from '@a2a-js/sdk/server'
import { exportJWK, generateKeyPair } from 'jose'
import { afterEach, describe, expect, it } from 'vitest'
import { createEgress, type EgressOptions } from '../../src/egress/index.ts'
import type { TrustError } from '../../src/errors.ts'
import {
  createPushNotifications,
  createWebhookSender,
  createWebhookVerifier,
  type DeliveryEvent,
  generateWebhookSecret,
  type PushConfig,
  type PushNotifications,
  type PushNotificationsOptions,
  type WebhookSenderOptions,
  webhookHandler,
} from '../../src/webhook/index.ts'

interface Hit {
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly body: string
  readonly atMs: number
}
type Answer = (req: IncomingMessage, res: ServerResponse, index: number) => void

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function receiver(answer: Answer = (_req, res) => void res.writeHead(204).end()) {
  const hits: Hit[] = []
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const { headers, rawHeaders } = req
    hits.push({ headers, rawHeaders, body: Buffer.concat(chunks).toString(), atMs: Date.now() })
    answer(req, res, hits.length)
  }).listen(0, '127.0.0.1')
  closing.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { hits, port, url: `http://127.0.0.1:${port}/hook` }
}

const alice = { user: { isAuthenticated: true, userName: 'alice' }, requestedVersion: '1.0' }
const bob = { user: { isAuthenticated: true, userName: 'bob' }, requestedVersion: '1.0' }

const config = (url: string, more: Partial<PushConfig> = {}): PushConfig => ({
  tenant: '',
  id: 'c1',
  taskId: 't1',
  url,
  token: '',
  authentication: undefined,
  ...more,
})
const update = (n: number, state = 'TASK_STATE_WORKING', taskId = 't1') => ({
  statusUpdate: { taskId, contextId: 'x', status: { state }, metadata: { n } },
})

async function rig(
  ports: readonly number[],
  {
    egress = {},
    store = {},
    sender = {},
  }: {
    egress?: EgressOptions
    store?: Partial<PushNotificationsOptions>
    sender?: Partial<WebhookSenderOptions>
  } = {},
) {
  const events: DeliveryEvent[] = []
  const guarded = createEgress({ requireHttps: false, ports, allowAddresses: ['127.0.0.1'], timeoutMs: 500, ...egress })
  const configs = createPushNotifications({ egress: guarded, ...store })
  const made = createWebhookSender({
    store: configs,
    egress: guarded,
    retry: { baseMs: 1, maxMs: 5 },
    onDelivery: (event) => events.push(event),
    ...sender,
  })
  closing.push(() => guarded.close())
  closing.push(() => made.close(0))
  const settled = (count: number) =>
    expect.poll(() => events.filter(({ outcome }) => outcome !== 'retry').length, { timeout: 5000 }).toBe(count)
  return { configs, sender: made, events, settled }
}

const numbers = (hits: readonly Hit[]) =>
  hits.map(({ body }) => (JSON.parse(body) as ReturnType<typeof update>).statusUpdate.metadata.n)

describe('what is sent', () => {
  it('A73 A82 the configured Authorization and token, exactly, with content type and version', async () => {
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port])
    await configs.save(
      't1',
      alice,
      config(url, { token: 'tok', authentication: { scheme: 'Bearer', credentials: 't' } }),
    )
    await configs.save(
      't1',
      alice,
      config(url, { id: 'c2', authentication: { scheme: 'Basic', credentials: 'dXNlcjpwdw==' } }),
    )
    await sender.send(update(1), alice)
    await settled(2)
    const sent = hits.map(({ headers }) => headers.authorization).toSorted()
    expect(sent).toEqual(['Basic dXNlcjpwdw==', 'Bearer t'])
    for (const { headers } of hits)
      expect(headers).toMatchObject({ 'content-type': 'application/a2a+json', 'a2a-version': '1.0' })
    expect(hits.map(({ headers }) => headers['x-a2a-notification-token']).filter(Boolean)).toEqual(['tok'])
  })

  it('verifies at a receiver: secrets of the origin, both while they are rotated', async () => {
    const [current, previous] = [generateWebhookSecret(), generateWebhookSecret()]
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port], {
      sender: { signing: { secrets: { [`http://127.0.0.1:${port}`]: { current, previous } } } },
    })
    await configs.save('t1', alice, config(url))
    await sender.send(update(1), alice)
    await settled(1)
    const [{ rawHeaders: headers, body }] = hits as [Hit]
    for (const secrets of [current, previous])
      expect(await createWebhookVerifier({ secrets, expectTask: 't1' }).verify({ headers, body })).toMatchObject({
        ok: true,
      })
  })

  it('a secret given in the config signs and is never sent', async () => {
    const secret = generateWebhookSecret()
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port])
    await configs.save('t1', alice, config(url, { authentication: { scheme: 'HMAC-SHA256', credentials: secret } }))
    await sender.send(update(1), alice)
    await settled(1)
    const [{ rawHeaders: headers, body }] = hits as [Hit]
    expect(headers.join('\n')).not.toContain(secret.slice(6))
    expect(hits[0]?.headers.authorization).toBeUndefined()
    expect(await createWebhookVerifier({ secrets: secret }).verify({ headers, body })).toMatchObject({ ok: true })
  })

  it('a JWT goes beside what was registered, and into Authorization where nothing was', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port], {
      sender: { signing: { jwt: { key: privateKey, kid: 'k', issuer: 'https://agent.example' } } },
    })
    await configs.save('t1', alice, config(url))
    await configs.save('t1', alice, config(url, { id: 'c2', authentication: { scheme: 'Bearer', credentials: 'abc' } }))
    await sender.send(update(1), alice)
    await settled(2)
    const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k' }] }
    const options = { jwks, issuer: 'https://agent.example', audience: url }
    for (const { rawHeaders: headers, body } of hits)
      expect(await createWebhookVerifier(options).verify({ headers, body })).toMatchObject({ ok: true })
    expect(hits.filter(({ headers }) => headers.authorization === 'Bearer abc')).toHaveLength(1)
  })

  it("A82 the SDK's own objects, in the version of each registration", async () => {
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port])
    await configs.save('t1', alice, config(url))
    await configs.save('t1', { ...alice, requestedVersion: '0.3' }, config(url, { id: 'c2' }))
    const status = { state: TaskState.TASK_STATE_COMPLETED, message: undefined, timestamp: '2026-01-01T00:00:00Z' }
    const message = {
      messageId: 'm',
      role: Role.ROLE_AGENT,
      taskId: 't1',
      contextId: 'x',
      parts: [],
      metadata: {},
      extensions: [],
      referenceTaskIds: [],
    }
    const task = { id: 't1', contextId: 'x', status, artifacts: [], history: [message], metadata: {} }
    const event = { payload: { $case: 'statusUpdate', value: { taskId: 't1', contextId: 'x', status, metadata: {} } } }
    const sent = sender.send(event, alice, task)
    // What the agent does next is not what happened then (A80).
    status.state = TaskState.TASK_STATE_FAILED
    await sent
    await settled(2)
    const byVersion = Object.fromEntries(hits.map(({ headers, body }) => [headers['a2a-version'], JSON.parse(body)]))
    expect(byVersion['1.0']).toMatchObject({
      statusUpdate: { taskId: 't1', status: { state: 'TASK_STATE_COMPLETED' } },
    })
    expect(byVersion['0.3']).toMatchObject({ kind: 'task', id: 't1', status: { state: 'completed' } })
  })

  it('works on a store of the SDK, and checks there what that store does not', async () => {
    const { hits, url, port } = await receiver()
    const { sender, events, settled } = await rig([port], {})
    const plain = new InMemoryPushNotificationStore()
    const context = new ServerCallContext({ requestedVersion: '1.0' })
    const other = createWebhookSender({
      store: plain as never,
      egress: createEgress({ requireHttps: false, ports: [port], allowAddresses: ['127.0.0.1'] }),
      onDelivery: (event) => events.push(event),
      retry: { maxAgeMs: 50, baseMs: 10 },
    })
    closing.push(() => other.close(0))
    await plain.save('t1', context, {
      ...config(url),
      authentication: { scheme: 'Bearer', credentials: 't' },
    })
    await plain.save('t1', context, {
      ...config(url, { id: 'c2' }),
      authentication: { scheme: 'Bearer', credentials: 'a\r\nX: y' },
    })
    await other.send(update(1), context as never)
    await settled(2)
    expect(hits.map(({ headers }) => headers.authorization)).toEqual(['Bearer t'])
    expect(events.find(({ configId }) => configId === 'c2')).toMatchObject({ reason: 'ERR_PUSH_CONFIG' })
    expect(sender.health().ok).toBe(true)
  })
})

describe('order and faults', () => {
  it('A81 ten events to a slow receiver arrive in order, and other tasks do not wait', async () => {
    const slow = await receiver((_req, res) => void setTimeout(() => res.writeHead(200).end(), 30))
    const fast = await receiver()
    const { configs, sender, settled } = await rig([slow.port, fast.port])
    await configs.save('t1', alice, config(slow.url))
    await configs.save('t2', alice, config(fast.url, { taskId: 't2' }))
    for (let n = 1; n <= 9; n += 1) void sender.send(update(n), alice)
    void sender.send(update(10, 'TASK_STATE_COMPLETED'), alice)
    await sender.send(update(1, 'TASK_STATE_COMPLETED', 't2'), alice)
    await settled(11)
    expect(numbers(slow.hits)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(fast.hits[0]?.atMs).toBeLessThan(slow.hits[3]?.atMs ?? 0)
  })

  it('A81 500, 500, 200: the same id until it arrives, signed anew, and the receiver runs it once', async () => {
    const secret = generateWebhookSecret()
    const { hits, url, port } = await receiver((_req, res, index) => void res.writeHead(index < 3 ? 500 : 200).end())
    const { configs, sender, events, settled } = await rig([port])
    await configs.save('t1', alice, config(url, { authentication: { scheme: 'hmac-sha256', credentials: secret } }))
    await sender.send(update(1), alice)
    await sender.send(update(2), alice)
    await settled(2)
    expect(numbers(hits)).toEqual([1, 1, 1, 2])
    expect(new Set(hits.slice(0, 3).map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect(events.map(({ outcome, attempt }) => `${outcome} ${attempt}`)).toEqual([
      'retry 1',
      'retry 2',
      'delivered 3',
      'delivered 1',
    ])
    const verifier = createWebhookVerifier({ secrets: secret })
    const verdicts = []
    for (const { rawHeaders: headers, body } of hits) verdicts.push((await verifier.verify({ headers, body })).ok)
    expect(verdicts).toEqual([true, false, false, true])
  })

  const slowly = (res: ServerResponse, write: () => void) => {
    const timer = setInterval(write, 5)
    res.on('close', () => clearInterval(timer))
  }
  it.each<[string, number[], Answer]>([
    ['answers 500', [1, 2, 2, 3, 4], (_req, res) => void res.writeHead(500).end()],
    ['answers 307', [1, 2, 3, 4], (_req, res) => void res.writeHead(307, { location: '/other' }).end()],
    ['answers 304', [1, 2, 3, 4], (_req, res) => void res.writeHead(304).end()],
    ['answers 410', [1, 2], (_req, res) => void res.writeHead(410).end()],
    ['answers 206', [1, 2, 3, 4], (_req, res) => void res.writeHead(206).end()],
    [
      'answers 103 first',
      [1, 2, 3, 4],
      (_req, res) => res.writeEarlyHints({ link: '</x>; rel=preload' }, () => res.writeHead(204).end()),
    ],
    ['answers 103 alone', [1, 2, 2, 3, 4], (_req, res) => res.writeEarlyHints({ link: '</x>; rel=preload' })],
    ['never answers', [1, 2, 2, 3, 4], () => undefined],
    ['closes early', [1, 2, 2, 3, 4], (req) => req.socket.destroy()],
    ['closes in the status line', [1, 2, 2, 3, 4], (req) => void req.socket.end('HTTP/1.1 20')],
    ['answers no HTTP', [1, 2, 2, 3, 4], (req) => void req.socket.end('220 smtp\r\n')],
    ['writes its headers byte by byte', [1, 2, 2, 3, 4], (req, res) => slowly(res, () => req.socket.write('H'))],
    ['writes its body byte by byte', [1, 2, 3, 4], (_req, res) => slowly(res.writeHead(200), () => res.write('x'))],
    [
      'closes in its body',
      [1, 2, 3, 4],
      (req, res) => {
        res.writeHead(200, { 'content-length': 100 }).write('x')
        setTimeout(() => req.socket.destroy(), 5)
      },
    ],
    [
      'answers with a body it calls gzip',
      [1, 2, 3, 4],
      (_req, res) => {
        res.writeHead(200, { 'content-encoding': 'gzip' }).end('no gzip')
      },
    ],
    [
      'asks to wait for ever',
      [1, 2, 3, 4],
      (_req, res) => void res.writeHead(503, { 'retry-after': '9'.repeat(9) }).end(),
    ],
    [
      'asks to wait for what is no time',
      [1, 2, 2, 3, 4],
      (_req, res) => void res.writeHead(503, { 'retry-after': '1e9' }).end(),
    ],
    [
      'asks to wait until the past',
      [1, 2, 2, 3, 4],
      (_req, res) => void res.writeHead(503, { 'retry-after': 'Thu, 01 Jan 1970 00:00:00 GMT' }).end(),
    ],
  ])('a receiver that %s once hears %j, and no more', async (_what, heard, fault) => {
    const { hits, url, port } = await receiver((req, res, index) =>
      index === 2 ? fault(req, res, index) : res.writeHead(204).end(),
    )
    const { configs, sender, settled } = await rig([port], { egress: { timeoutMs: 150 } })
    await configs.save('t1', alice, config(url))
    for (const n of [1, 2, 3, 4]) await sender.send(update(n, n === 4 ? 'TASK_STATE_COMPLETED' : undefined), alice)
    await settled(4)
    expect(numbers(hits)).toEqual(heard)
    expect(sender.health()).toMatchObject({ queued: 0, openHosts: 0 })
  })

  it('a lost answer is sent again, and only there', async () => {
    const { hits, url, port } = await receiver((req, res, index) =>
      index === 1 ? req.socket.destroy() : res.writeHead(200).end(),
    )
    const { configs, sender, settled } = await rig([port])
    await configs.save('t1', alice, config(url))
    await sender.send(update(1), alice)
    await settled(1)
    expect(numbers(hits)).toEqual([1, 1])
  })

  it('a receiver that does not answer, or answers byte by byte, is left after the limit', async () => {
    const never = await receiver((_req, _res, index) => void (index > 1 && _res.writeHead(200).end()))
    const slow = await receiver((_req, res) => {
      res.writeHead(200)
      const timer = setInterval(() => res.write('x'), 20)
      res.on('close', () => clearInterval(timer))
    })
    const { configs, sender, events, settled } = await rig([never.port, slow.port], { egress: { timeoutMs: 100 } })
    await configs.save('t1', alice, config(never.url))
    await configs.save('t1', alice, config(slow.url, { id: 'c2' }))
    await sender.send(update(1), alice)
    await settled(2)
    expect(events).toContainEqual(
      expect.objectContaining({ configId: 'c1', outcome: 'retry', reason: 'ERR_EGRESS_TIMEOUT' }),
    )
    // Its status came; what it goes on to say is not waited for.
    expect(slow.hits).toHaveLength(1)
  })

  it('a receiver that sends a gigabyte is not read', async () => {
    let sent = 0
    const { hits, url, port } = await receiver((_req, res) => {
      res.writeHead(200)
      const block = Buffer.alloc(1024 * 1024)
      const more = (): void => {
        while (sent < 1024 && !res.destroyed) {
          sent += 1
          if (!res.write(block)) return void res.once('drain', more)
        }
      }
      more()
    })
    const { configs, sender, settled } = await rig([port])
    await configs.save('t1', alice, config(url))
    await sender.send(update(1), alice)
    await settled(1)
    expect(hits).toHaveLength(1)
    expect(sent).toBeLessThan(64)
  })

  it('A71 P146 a redirect is not followed: the other host hears nothing, the delivery has failed', async () => {
    const other = await receiver()
    const { url, port } = await receiver((_req, res) => void res.writeHead(307, { location: other.url }).end())
    const { configs, sender, events, settled } = await rig([port, other.port])
    await configs.save(
      't1',
      alice,
      config(url, { token: 'tok', authentication: { scheme: 'Bearer', credentials: 't' } }),
    )
    await sender.send(update(1), alice)
    await settled(1)
    expect(other.hits).toEqual([])
    expect(events).toMatchObject([{ outcome: 'failed', reason: 'ERR_EGRESS_REDIRECT' }])
  })

  it.each([400, 401, 404, 413])('a %i is not sent again, and the next event is', async (status) => {
    const { hits, url, port } = await receiver(
      (_req, res, index) => void res.writeHead(index === 1 ? status : 200).end(),
    )
    const { configs, sender, events, settled } = await rig([port])
    await configs.save('t1', alice, config(url))
    await sender.send(update(1), alice)
    await sender.send(update(2), alice)
    await settled(2)
    expect(numbers(hits)).toEqual([1, 2])
    expect(events).toMatchObject([{ outcome: 'failed', status }, { outcome: 'delivered' }])
  })

  it('Retry-After is waited for', async () => {
    const { hits, url, port } = await receiver((_req, res, index) => {
      res.writeHead(index === 1 ? 429 : 200, index === 1 ? { 'retry-after': '1' } : {}).end()
    })
    const { configs, sender, settled } = await rig([port])
    await configs.save('t1', alice, config(url))
    await sender.send(update(1), alice)
    await settled(1)
    expect((hits[1]?.atMs ?? 0) - (hits[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(990)
  })

  it('gives an event up after its age, and goes on with the next', async () => {
    let up = false
    const { hits, url, port } = await receiver((_req, res) => void res.writeHead(up ? 200 : 500).end())
    let offset = 0
    const { configs, sender, events, settled } = await rig([port], {
      sender: {
        clock: () => Date.now() + offset,
        retry: { baseMs: 1, maxMs: 5, maxAgeMs: 10_000 },
        host: { failures: 100 },
      },
    })
    await configs.save('t1', alice, config(url))
    await sender.send(update(1), alice)
    await expect.poll(() => hits.length).toBeGreaterThan(2)
    offset = 20_000
    await settled(1)
    expect(events.at(-1)).toMatchObject({ outcome: 'expired' })
    up = true
    await sender.send(update(2), alice)
    await settled(2)
    expect(events.at(-1)).toMatchObject({ outcome: 'delivered' })
  })

  it('stops asking a host that fails, tries it once, and goes on when it is back', async () => {
    let up = false
    const { hits, url, port } = await receiver((_req, res) => void res.writeHead(up ? 200 : 503).end())
    const { configs, sender, settled } = await rig([port], {
      sender: { host: { failures: 3, openMs: 150 }, retry: { baseMs: 1, maxMs: 1 } },
    })
    for (const id of ['c1', 'c2', 'c3', 'c4']) await configs.save('t1', alice, config(url, { id }))
    await sender.send(update(1), alice)
    await expect.poll(() => sender.health().openHosts).toBe(1)
    const before = hits.length
    expect(before).toBeLessThanOrEqual(7)
    up = true
    await settled(4)
    expect(hits.length - before).toBe(4)
    expect(sender.health()).toEqual({ ok: true, queued: 0, openHosts: 0 })
  })

  it('A84 many configs of one host share its rate', async () => {
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port], {
      sender: { host: { perSecond: 10 } },
      store: { limits: { perTask: 50 } },
    })
    for (let n = 0; n < 15; n += 1) await configs.save('t1', alice, config(url, { id: `c${n}` }))
    await sender.send(update(1), alice)
    await settled(15)
    expect((hits.at(-1)?.atMs ?? 0) - (hits[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(350)
  })

  it('a full lane drops the oldest that does not end the task, and the end arrives last', async () => {
    let open = false
    const waiting: ServerResponse[] = []
    const { hits, url, port } = await receiver(
      (_req, res) => void (open ? res.writeHead(200).end() : waiting.push(res)),
    )
    const { configs, sender, events, settled } = await rig([port], {
      sender: { queue: { maxPerConfig: 3 } },
      egress: { timeoutMs: 5000 },
    })
    await configs.save('t1', alice, config(url))
    for (let n = 1; n <= 6; n += 1) await sender.send(update(n), alice)
    await sender.send(update(7, 'TASK_STATE_COMPLETED'), alice)
    await expect.poll(() => waiting.length).toBe(1)
    open = true
    waiting[0]?.writeHead(200).end()
    await settled(7)
    expect(numbers(hits)).toEqual([1, 6, 7])
    expect(events.filter(({ outcome }) => outcome === 'dropped')).toHaveLength(4)
  })

  it('bodies are bounded together: what has no room is dropped and said, whatever its number', async () => {
    const waiting: ServerResponse[] = []
    const { hits, url, port } = await receiver((_req, res) => void waiting.push(res))
    const { configs, sender, events } = await rig([port], {
      sender: { queue: { maxBytes: 1000 } },
      egress: { timeoutMs: 5000 },
    })
    await configs.save('t1', alice, config(url))
    const large = (n: number, state?: string) => ({
      statusUpdate: { ...update(n, state).statusUpdate, metadata: { n, text: 'x'.repeat(300) } },
    })
    for (let n = 1; n <= 5; n += 1) await sender.send(large(n), alice)
    await sender.send({ statusUpdate: { ...update(6).statusUpdate, metadata: { text: 'x'.repeat(2000) } } }, alice)
    await sender.send(large(7, 'TASK_STATE_COMPLETED'), alice)
    expect(sender.health().queued).toBe(2)
    expect(events.filter(({ outcome }) => outcome === 'dropped')).toHaveLength(5)
    await expect.poll(() => hits.length).toBe(1)
  })

  it('close delivers what is queued and reports what it could not', async () => {
    const { hits, url, port } = await receiver()
    const dead = await receiver((_req, res) => void res.writeHead(500).end())
    const { configs, sender, events } = await rig([port, dead.port], {
      sender: { retry: { baseMs: 60_000 }, random: () => 1 },
    })
    await configs.save('t1', alice, config(url))
    await configs.save('t2', alice, config(dead.url, { taskId: 't2' }))
    void sender.send(update(1), alice)
    void sender.send(update(2), alice)
    void sender.send(update(3, 'TASK_STATE_WORKING', 't2'), alice)
    await sender.close(300)
    expect(numbers(hits)).toEqual([1, 2])
    expect(events.at(-1)).toMatchObject({ taskId: 't2', outcome: 'dropped' })
    await expect(sender.send(update(4), alice)).rejects.toMatchObject({ code: 'ERR_WEBHOOK_SENDER_CLOSED' })
  })
})

describe('where it goes', () => {
  it('A69 P148 a name that points inside once it is registered gets no byte', async () => {
    const { hits, port } = await receiver()
    const answers = [['93.184.216.34'], ['127.0.0.1'], ['127.0.0.1']]
    let asked = 0
    const { configs, sender, events, settled } = await rig([port], {
      egress: { allowAddresses: [], resolver: async () => answers[Math.min(asked++, 2)] as string[] },
    })
    await configs.save('t1', alice, config(`http://rebind.example.com:${port}/hook`))
    await sender.send(update(1), alice)
    await settled(1)
    expect(hits).toEqual([])
    expect(events).toMatchObject([{ outcome: 'failed', reason: 'ERR_EGRESS_ADDRESS' }])
  })

  it('A81 a deleted config gets nothing more: not what was queued, not what was being tried', async () => {
    const { hits, url, port } = await receiver((_req, res) => void res.writeHead(500).end())
    const { configs, sender, events, settled } = await rig([port], {
      sender: { retry: { baseMs: 60_000 }, random: () => 1 },
    })
    await configs.save('t1', alice, config(url))
    for (let n = 1; n <= 3; n += 1) await sender.send(update(n), alice)
    await expect.poll(() => hits.length).toBe(1)
    await configs.delete('t1', alice, 'c1')
    await settled(3)
    expect(hits).toHaveLength(1)
    expect(events.map(({ outcome }) => outcome)).toEqual(['retry', 'revoked', 'dropped', 'dropped'])
    await configs.delete('t1', alice, 'c1')
    await sender.send(update(4), alice)
    expect(sender.health().queued).toBe(0)
  })

  it('a replaced config: what waits goes to the new receiver, the old one hears nothing more', async () => {
    const old = await receiver((_req, res) => void res.writeHead(500).end())
    const next = await receiver()
    const { configs, sender, settled } = await rig([old.port, next.port], {
      sender: { retry: { baseMs: 60_000 }, random: () => 1 },
    })
    await configs.save('t1', alice, config(old.url))
    await sender.send(update(1), alice)
    await sender.send(update(2), alice)
    await expect.poll(() => old.hits.length).toBe(1)
    await configs.save('t1', alice, config(next.url))
    await settled(2)
    expect(old.hits).toHaveLength(1)
    expect(numbers(next.hits)).toEqual([1, 2])
  })

  it('a 410 ends the config', async () => {
    const { hits, url, port } = await receiver((_req, res) => void res.writeHead(410).end())
    const { configs, sender, events, settled } = await rig([port])
    await configs.save('t1', alice, config(url))
    await sender.send(update(1), alice)
    await sender.send(update(2), alice)
    await settled(2)
    expect(hits).toHaveLength(1)
    expect(events).toMatchObject([{ outcome: 'gone' }, { outcome: 'revoked' }])
    expect(await configs.load('t1', alice)).toEqual([])
  })

  it('A78 an event of anybody reaches the webhook of its owner, and nobody else sees the webhook', async () => {
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port])
    await configs.save('t1', alice, config(url))
    await sender.send(update(1), bob)
    await sender.send(update(2), {})
    await settled(2)
    expect(numbers(hits)).toEqual([1, 2])
    expect(await configs.load('t1', bob)).toEqual([])
    await configs.delete('t1', bob, 'c1')
    expect(await configs.load('t1', alice)).toHaveLength(1)
  })
})

describe('what must not take the agent down, or hold it up', () => {
  it('a URL that is none in a store of the SDK is one failed delivery', async () => {
    const { sender, events, settled } = await rig([1])
    const plain = new InMemoryPushNotificationStore()
    const other = createWebhookSender({
      store: plain as never,
      egress: createEgress(),
      onDelivery: (event) => events.push(event),
    })
    closing.push(() => other.close(0))
    await plain.save('t1', new ServerCallContext({ requestedVersion: '1.0' }), config('no url'))
    await other.send(update(1), new ServerCallContext({ requestedVersion: '1.0' }) as never)
    await settled(1)
    expect(events).toMatchObject([{ outcome: 'failed', reason: 'ERR_PUSH_CONFIG', attempt: 0 }])
    expect([other.health().queued, sender.health().queued]).toEqual([0, 0])
  })

  it('records that hold no URL fail alone', async () => {
    const record = { taskId: 't1', owner: 'o', version: '1.0', tenant: '', scheme: '', sealed: '', revision: '1' }
    const { hits, url, port } = await receiver()
    const list = () => [
      { ...record, id: 'c1', url: 'no url' },
      { ...record, id: 'c2', url },
    ]
    const records = { list, put: () => 'stored' as const, delete: () => undefined }
    const { sender, events, settled } = await rig([port], {
      store: { records, encryptionKeys: [Buffer.alloc(32, 1).toString('base64')] },
    })
    await sender.send(update(1), alice)
    await settled(2)
    expect(hits).toHaveLength(1)
    expect(events.find(({ configId }) => configId === 'c1')).toMatchObject({ outcome: 'failed' })
  })

  it('"onDelivery" that rejects is logged, and the next event is sent', async () => {
    const { hits, url, port } = await receiver()
    const logged: unknown[] = []
    const note = (...line: unknown[]) => void logged.push(line)
    const logger = { debug: note, info: note, warn: note, error: note }
    const onDelivery = async () => {
      throw new Error('s3cr3t')
    }
    const { configs, sender } = await rig([port], { sender: { logger, onDelivery } })
    await configs.save('t1', alice, config(url))
    for (const n of [1, 2]) await sender.send(update(n), alice)
    await expect.poll(() => numbers(hits)).toEqual([1, 2])
    await expect.poll(() => JSON.stringify(logged).split('\\"onDelivery\\" threw').length).toBe(3)
    expect(JSON.stringify(logged)).not.toContain('s3cr3t')
  })

  it('P167 a signing key that does not work is told at once, and nothing is queued that cannot be signed', async () => {
    const jwt = { key: { kty: 'oct', k: 'AAAA' }, issuer: 'https://agent.example.com' } as never
    const { configs, sender } = await rig([1], { sender: { signing: { jwt } } })
    await expect.poll(() => sender.health().ok).toBe(false)
    await configs.save('t1', alice, config('http://127.0.0.1:1/'))
    await expect(sender.send(update(1), alice)).rejects.toMatchObject({ code: 'ERR_WEBHOOK_SIGNING_KEY' })
    expect(sender.health().queued).toBe(0)
  })

  it('what cannot be sent makes send reject, never throw', async () => {
    const { configs, sender, port } = { ...(await rig([1])), port: 1 }
    await configs.save('t1', alice, config(`http://127.0.0.1:${port}/`))
    const withFunction = { statusUpdate: { taskId: 't1', work: () => undefined } }
    for (const event of [withFunction, undefined, null]) await expect(sender.send(event, alice)).rejects.toThrow()
  })

  it('a store that never answers holds up neither close nor other tasks', async () => {
    const { hits, url, port } = await receiver()
    const records = new Map([['t1', { taskId: 't1' }]])
    const plain = new InMemoryPushNotificationStore()
    const context = new ServerCallContext({ requestedVersion: '1.0' })
    await plain.save('t2', context, config(url, { taskId: 't2' }))
    const store = {
      load: (taskId: string) =>
        records.has(taskId) ? new Promise<never>(() => undefined) : plain.load(taskId, context),
      delete: async () => undefined,
    }
    const egress = createEgress({ requireHttps: false, ports: [port], allowAddresses: ['127.0.0.1'] })
    const sender = createWebhookSender({ store: store as never, egress })
    void sender.send(update(1), context as never).catch(() => undefined)
    await sender.send(update(2, 'TASK_STATE_WORKING', 't2'), context as never)
    await expect.poll(() => hits.length).toBe(1)
    await sender.close(20)
    expect(sender.health().ok).toBe(false)
  })

  it('a place at a busy host goes to who still has something to send', async () => {
    const held: ServerResponse[] = []
    const { hits, url, port } = await receiver((_req, res, index) => {
      if (index === 1) held.push(res)
      else res.writeHead(204).end()
    })
    const { configs, sender, events, settled } = await rig([port], {
      sender: { host: { concurrency: 1 } },
      egress: { timeoutMs: 5000 },
    })
    for (const taskId of ['t1', 't2', 't3', 't4']) {
      await configs.save(taskId, alice, config(url, { taskId }))
      await sender.send(update(1, 'TASK_STATE_WORKING', taskId), alice)
    }
    await expect.poll(() => hits.length).toBe(1)
    await configs.delete('t2', alice, 'c1')
    await settled(1)
    const startMs = Date.now()
    held[0]?.writeHead(204).end()
    await settled(4)
    expect(Date.now() - startMs).toBeLessThan(2000)
    expect(events.map(({ taskId, outcome }) => `${taskId} ${outcome}`)).toEqual([
      't2 revoked',
      't1 delivered',
      't3 delivered',
      't4 delivered',
    ])
  })

  it('a host that is back gets all that waited for it at once', async () => {
    let waiting: ServerResponse[] = []
    const { hits, url, port } = await receiver((_req, res, index) => {
      if (index === 1) res.writeHead(500).end()
      else waiting.push(res)
    })
    const { configs, sender, settled } = await rig([port], {
      sender: { host: { concurrency: 3, failures: 1, openMs: 20 } },
      egress: { timeoutMs: 5000 },
    })
    const tasks = ['t1', 't2', 't3', 't4']
    for (const taskId of tasks) await configs.save(taskId, alice, config(url, { taskId }))
    await sender.send(update(1, 'TASK_STATE_WORKING', 't1'), alice)
    await expect.poll(() => sender.health().openHosts).toBe(1)
    for (const taskId of tasks.slice(1)) await sender.send(update(1, 'TASK_STATE_WORKING', taskId), alice)
    await expect.poll(() => hits.length).toBe(2)
    waiting[0]?.writeHead(204).end()
    waiting = []
    await expect.poll(() => waiting.length).toBe(3)
    for (const res of waiting) res.writeHead(204).end()
    await settled(4)
  })

  it('a 410 of the receiver before ends no config that another process has put in its place', async () => {
    let revision = 'old'
    const deleted: string[] = []
    const next = await receiver()
    const old = await receiver((_req, res) => {
      revision = 'new'
      res.writeHead(410).end()
    })
    const record = { taskId: 't1', id: 'c1', owner: 'o', version: '1.0', tenant: '', scheme: '', sealed: '' }
    const records = {
      put: () => 'stored' as const,
      list: () => [{ ...record, revision, url: revision === 'old' ? old.url : next.url }],
      delete: () => void deleted.push(revision),
    }
    const { sender, settled } = await rig([old.port, next.port], {
      store: { records, encryptionKeys: [Buffer.alloc(32, 1).toString('base64')] },
    })
    for (const n of [1, 2]) await sender.send(update(n), alice)
    await settled(2)
    expect([deleted, numbers(old.hits), numbers(next.hits)]).toEqual([[], [1], [2]])
  })
})

describe('proof of control', () => {
  const secret = generateWebhookSecret()
  const inBand = { authentication: { scheme: 'HMAC-SHA256', credentials: secret } }

  it('a receiver that knows the secret is registered, and its work runs for events alone', async () => {
    const got: unknown[] = []
    const verifier = createWebhookVerifier({ secrets: secret, expectToken: 'tok' })
    const handle = webhookHandler(verifier, ({ event }) => void got.push(event?.kind))
    const server = createServer(handle).listen(0, '127.0.0.1')
    closing.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const url = `http://127.0.0.1:${port}/`
    const { configs, sender, settled } = await rig([port], {
      store: { challenge: true, signing: { secrets: { [new URL(url).origin]: { current: secret } } } },
    })
    await configs.save('t1', alice, config(url, { token: 'tok', ...inBand }))
    await sender.send(update(1), alice)
    await settled(1)
    expect(got).toEqual(['statusUpdate'])
    await expect(configs.save('t1', alice, config(url, { id: 'c2', token: 'other', ...inBand }))).rejects.toMatchObject(
      { message: expect.stringContaining('challenge') },
    )
    expect(await configs.load('t1', alice)).toHaveLength(1)
  })

  it.each<[string, (body: string) => [number, string, object?]]>([
    ['says nothing', () => [204, '']],
    ['gives it back with another status', (body) => [201, body]],
    ['gives another back', () => [200, JSON.stringify({ challenge: 'c'.repeat(43) })]],
    ['gives it back among other things', (body) => [200, body.replace('{', '{"a":1,')]],
    ['gives it back as text', (body) => [200, (JSON.parse(body) as { challenge: string }).challenge]],
    ['sends more than an answer', (body) => [200, `${body}${' '.repeat(2000)}`]],
    ['redirects', (body) => [307, body, { location: 'http://127.0.0.1:1/' }]],
    ['wants nothing', (body) => [410, body]],
  ])('a receiver that %s is not registered', async (_what, answer) => {
    const { port, url, hits } = await receiver((_req, res, index) => {
      const [status, text, headers] = answer(hits[index - 1]?.body as string)
      res.writeHead(status, { ...headers }).end(text)
    })
    const { configs } = await rig([port], { store: { challenge: true } })
    await expect(configs.save('t1', alice, config(url, inBand))).rejects.toThrow('url did not answer the challenge')
    expect(hits).toHaveLength(1)
    expect(JSON.stringify(hits)).not.toContain(secret)
    expect(configs.records('t1')).toEqual([])
  })

  it('where it may not go, nobody is asked; options are checked', async () => {
    const { port, url, hits } = await receiver()
    const { configs } = await rig([port], { store: { challenge: true }, egress: { allowAddresses: [] } })
    await expect(configs.save('t1', alice, config(url))).rejects.toThrow()
    expect(hits).toEqual([])
    const egress = { check: async () => ({ verdict: 'allow', reason: 'allowed' }) } as never
    expect(() => createPushNotifications({ egress, challenge: true })).toThrow(/"challenge"/)
    expect(() => createPushNotifications({ egress, challenge: 'yes' as never })).toThrow(/"challenge"/)
    expect(() =>
      createPushNotifications({ egress, signing: { secrets: { 'no origin': { current: secret } } } }),
    ).toThrow(/"signing.secrets"/)
  })

  it('A84 a host that answers no challenge is left alone for a minute, and a full task is told before any', async () => {
    const { hits, url, port } = await receiver()
    const { configs } = await rig([port], { store: { challenge: true, limits: { perTask: 1 } } })
    for (let n = 0; n < 5; n += 1)
      await expect(configs.save('t1', alice, config(url, { id: `c${n}` }))).rejects.toThrow('did not answer')
    await expect(configs.save('t1', alice, config(url))).rejects.toThrow('asked too often')
    expect(hits).toHaveLength(5)
  })
})

describe('registration', () => {
  const refused = async (save: Promise<unknown>) => {
    const error: unknown = await save.then(
      () => 'accepted',
      (reason: unknown) => reason,
    )
    // As the SDK's invalid params, with the code as its cause.
    expect(error).toMatchObject({ name: 'RequestMalformedError', cause: { code: expect.any(String) } })
    return ((error as Error).cause as TrustError).code
  }
  const guarded = (options: Partial<PushNotificationsOptions> = {}): PushNotifications =>
    createPushNotifications({ egress: createEgress({ resolver: async () => ['93.184.216.34'] }), ...options })

  it.each([
    'http://169.254.169.254/latest/meta-data/',
    'https://127.0.0.1/',
    'http://[::1]',
    'http://[::ffff:10.0.0.1]',
    'https://0x7f000001',
    'https://0177.0.0.1',
    'https://2130706433',
    'https://100.64.0.1',
    'https://[fd00::1]',
    'https://0.0.0.0',
    'http://metadata.google.internal',
    'https://localhost.',
    'file:///etc/passwd',
    'gopher://x',
    'https://user:pw@10.0.0.1',
    'https://hooks.example.com:8443/',
    'https://hooks.example.com/#secret',
    '/hook',
    '',
  ])('A67 A83 %s is invalid params', async (url) => {
    expect(await refused(guarded().save('t1', alice, config(url)))).toBe('ERR_PUSH_CONFIG')
  })

  it('A68 a name with one address inside, or with none, is invalid params', async () => {
    for (const addresses of [['10.0.0.1'], ['93.184.216.34', '127.0.0.1'], []]) {
      const configs = guarded({ egress: createEgress({ resolver: async () => addresses }) })
      expect(await refused(configs.save('t1', alice, config('https://hooks.example.com/')))).toBe('ERR_PUSH_CONFIG')
    }
  })

  it('A70 only allowed origins, in either form of IDNA, and no neighbour of theirs', async () => {
    const configs = guarded({ allow: ['https://*.example.com', 'https://exämple.de'] })
    await configs.save('t1', alice, config('https://a.b.example.com/x'))
    await configs.save('t1', alice, config('https://xn--exmple-cua.de/x'))
    for (const url of [
      'https://example.com/',
      'https://evilexample.com/',
      'https://a.example.com.evil.net/',
      'https://exampel.de/',
    ])
      expect(await refused(configs.save('t1', alice, config(url)))).toBe('ERR_PUSH_CONFIG')
    expect(() => guarded({ allow: ['https://*'] })).toThrow(/"allow"/)
  })

  it.each([
    ['credentials with a line break', { authentication: { scheme: 'Bearer', credentials: 'a\r\nX: y' } }],
    ['a scheme with a tab', { authentication: { scheme: 'Bearer\tx', credentials: 'a' } }],
    ['an empty scheme', { authentication: { scheme: '', credentials: 'a' } }],
    ['empty credentials', { authentication: { scheme: 'Bearer', credentials: '' } }],
    ['a token with a NUL', { token: 'a\0b' }],
    ['a token beyond ASCII', { token: 'tök' }],
    ['credentials that end in a space', { authentication: { scheme: 'Bearer', credentials: 'a ' } }],
    ['a short signing secret', { authentication: { scheme: 'HMAC-SHA256', credentials: 'whsec_c2hvcnQ=' } }],
    ['an id with a line break', { id: 'a\nb' }],
  ])('P163 %s is invalid params', async (_what, change) => {
    expect(await refused(guarded().save('t1', alice, config('https://hooks.example.com/', change)))).toBe(
      'ERR_PUSH_CONFIG',
    )
  })

  it('A79 no task, another task than the path names, or nobody who asks', async () => {
    const configs = guarded()
    const url = 'https://hooks.example.com/'
    expect(await refused(configs.save('', alice, config(url, { taskId: '' })))).toBe('ERR_PUSH_CONFIG')
    expect(await refused(configs.save('t1', alice, config(url, { taskId: 't2' })))).toBe('ERR_PUSH_CONFIG')
    for (const nobody of [{}, { user: { isAuthenticated: false, userName: 'alice' } }, { user: undefined }])
      expect(await refused(configs.save('t1', nobody, config(url)))).toBe('ERR_PUSH_CONFIG')
    expect(await configs.load('t1', { user: { isAuthenticated: false, userName: 'alice' } })).toEqual([])
  })

  it('A84 a thousand configs of one task stop at the limit, and other limits hold as well', async () => {
    const configs = guarded({ limits: { perTask: 10, perOwner: 15, perHost: 17 } })
    let accepted = 0
    for (let n = 0; n < 1000; n += 1)
      accepted += await configs.save('t1', alice, config('https://hooks.example.com/', { id: `c${n}` })).then(
        () => 1,
        () => 0,
      )
    expect(accepted).toBe(10)
    const to = (taskId: string, id: string, url = 'https://hooks.example.com/') => config(url, { taskId, id })
    for (let n = 0; n < 5; n += 1) await configs.save('t2', alice, to('t2', `c${n}`))
    expect(await refused(configs.save('t2', alice, to('t2', 'c9')))).toBe('ERR_PUSH_CONFIG_LIMIT')
    for (let n = 0; n < 2; n += 1) await configs.save('t3', bob, to('t3', `c${n}`))
    expect(await refused(configs.save('t3', bob, to('t3', 'c9')))).toBe('ERR_PUSH_CONFIG_LIMIT')
    await configs.save('t3', bob, to('t3', 'c9', 'https://other.example.com/'))
    // Replacing is not adding, and deleting makes room.
    await configs.save('t1', alice, to('t1', 'c0'))
    await configs.delete('t1', alice, 'c0')
    await configs.save('t2', alice, to('t2', 'c9'))
  })

  it('A76 what is secret is read back by nobody, and written back redacted it stays', async () => {
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port])
    const given = config(url, {
      id: '',
      token: 's3cr3t-token',
      authentication: { scheme: 'Bearer', credentials: 's3cr3t' },
    })
    await configs.save('t1', alice, given)
    expect(given).toMatchObject({
      id: expect.stringMatching(/./),
      token: '[redacted]',
      authentication: { credentials: '[redacted]' },
    })
    const [read] = (await configs.load('t1', alice)) as [PushConfig]
    expect(JSON.stringify(read)).not.toContain('s3cr3t')
    expect(JSON.stringify(await configs.records('t1'))).not.toContain('s3cr3t')
    expect(read).toMatchObject({ id: given.id, url, authentication: { scheme: 'Bearer' } })
    await configs.save('t1', alice, { ...read, url: `${url}/new` })
    await sender.send(update(1), alice)
    await settled(1)
    expect(hits[0]?.headers).toMatchObject({
      authorization: 'Bearer s3cr3t',
      'x-a2a-notification-token': 's3cr3t-token',
    })
  })

  it('A76 a redacted secret does not move to another origin or scheme, and stands for nothing where there is none', async () => {
    const configs = guarded()
    const secret = { authentication: { scheme: 'Bearer', credentials: 's3cr3t' } }
    const redacted = { authentication: { scheme: 'Bearer', credentials: '[redacted]' } }
    await configs.save('t1', alice, config('https://hooks.example.com/', secret))
    expect(await refused(configs.save('t1', alice, config('https://evil.example.net/', redacted)))).toBe(
      'ERR_PUSH_CONFIG',
    )
    const basic = { authentication: { scheme: 'Basic', credentials: '[redacted]' } }
    expect(await refused(configs.save('t1', alice, config('https://hooks.example.com/', basic)))).toBe(
      'ERR_PUSH_CONFIG',
    )
    expect(await refused(configs.save('t1', bob, config('https://hooks.example.com/', redacted)))).toBe(
      'ERR_PUSH_CONFIG',
    )
    expect(
      await refused(configs.save('t2', alice, config('https://hooks.example.com/', { taskId: 't2', ...redacted }))),
    ).toBe('ERR_PUSH_CONFIG')
  })

  it('A80 P165 what the caller does to its object afterwards changes nothing', async () => {
    const { hits, url, port } = await receiver()
    const { configs, sender, settled } = await rig([port])
    const given = config(url, { authentication: { scheme: 'Bearer', credentials: 't' } })
    await configs.save('t1', alice, given)
    given.url = 'https://evil.example.net/'
    const [read] = (await configs.load('t1', alice)) as [PushConfig]
    read.url = 'https://evil.example.net/'
    await sender.send(update(1), alice)
    await settled(1)
    expect(hits).toHaveLength(1)
  })

  it('keys rotate: what an older one sealed opens, what no key sealed does not', async () => {
    const key = () => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64')
    const [first, second, third] = [key(), key(), key()]
    const records = new Map<string, never>()
    const shared = {
      put: (record: never) => {
        records.set('c1', record)
        return 'stored' as const
      },
      list: () => [...records.values()],
      delete: () => undefined,
    }
    const open = (encryptionKeys: string[]) => guarded({ records: shared, encryptionKeys })
    await open([first]).save('t1', alice, config('https://hooks.example.com/', { token: 's3cr3t' }))
    const [record] = shared.list() as [never]
    expect(JSON.stringify(record)).not.toContain('s3cr3t')
    expect(open([second, first]).open(record).token).toBe('s3cr3t')
    const sealed = { code: 'ERR_PUSH_CONFIG_SEALED' }
    expect(() => open([third]).open(record)).toThrow(expect.objectContaining(sealed))
    // A record that was moved to another receiver does not open.
    expect(() => open([first]).open({ ...(record as object), url: 'https://evil.example.net/' } as never)).toThrow(
      expect.objectContaining(sealed),
    )
    // Nor does one whose scheme was changed: a key to sign with must not become one to send.
    expect(() => open([first]).open({ ...(record as object), scheme: 'Bearer' } as never)).toThrow(
      expect.objectContaining(sealed),
    )
    // What no key opens is listed without a secret, and a new registration takes its place.
    expect(await open([third]).load('t1', alice)).toMatchObject([{ id: 'c1', token: '[redacted]' }])
    await open([third]).save('t1', alice, config('https://hooks.example.com/', { token: 'next' }))
    expect(open([third]).open(shared.list()[0] as never).token).toBe('next')
    expect(() => guarded({ records: shared })).toThrow(/"encryptionKeys"/)
    expect(() => guarded({ encryptionKeys: ['c2hvcnQ='] })).toThrow(/"encryptionKeys"/)
  })
})

describe('options', () => {
  const egress = createEgress()
  const store = createPushNotifications({ egress })
  it.each([
    [{ egress }, /"store"/],
    [{ store }, /"egress"/],
    [{ store, egress, retries: 1 }, /"retries"/],
    [{ store, egress, retry: { base: 1 } }, /"base"/],
    [{ store, egress, retry: { baseMs: 0 } }, /"retry.baseMs"/],
    [{ store, egress, queue: { concurrency: 1.5 } }, /"queue.concurrency"/],
    [{ store, egress, host: { perSecond: Number.NaN } }, /"host.perSecond"/],
    [{ store, egress, tokenHeaderName: 'Authorization' }, /"tokenHeaderName"/],
    [{ store, egress, tokenHeaderName: 'X Y' }, /"tokenHeaderName"/],
    [{ store, egress, signing: { secret: 'x' } }, /"secret"/],
    [
      { store, egress, signing: { secrets: { 'https://a.example/x': { current: generateWebhookSecret() } } } },
      /origin/,
    ],
    [{ store, egress, signing: { secrets: { 'https://a.example': { current: 'short' } } } }, /"signing.secrets"/],
  ])('%# are refused at construction', (options, message) => {
    expect(() => createWebhookSender(options as never)).toThrow(message)
  })
})
