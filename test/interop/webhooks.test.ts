/**
 * Webhooks from end to end with the unmodified SDK: registered over every binding and inline, through guard and ownership,
 * delivered by the sender to a receiver with the verifier.
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard, TaskState } from '@a2a-js/sdk'
import { LegacyA2AService, legacyGrpcService } from '@a2a-js/sdk/compat/v0_3/server/grpc'
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  type RequestContext,
} from '@a2a-js/sdk/server'
import { jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express'
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc'
import { Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js'
import express from 'express'
import { afterEach, describe, expect, it } from 'vitest'
import { protectRequestHandler, userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { expressGuard } from '../../src/adapters/express.ts'
import { grpcServerOptions } from '../../src/adapters/grpc.ts'
import { createEgress } from '../../src/egress/index.ts'
import {
  createPushNotifications,
  createWebhookSender,
  createWebhookVerifier,
  generateWebhookSecret,
  type WebhookReceipt,
  webhookHandler,
} from '../../src/webhook/index.ts'
import { encodeMessage, GrpcCaller } from '../support/grpc-calls.ts'
import { makeRig, rigCard } from '../support/rig.ts'

/** Works in steps, each of which waits for the test. */
class SlowExecutor implements AgentExecutor {
  runs = 0
  go: () => void = () => undefined
  private readonly gate = new Promise<void>((resolve) => {
    this.go = resolve
  })

  async execute({ taskId: id, contextId }: RequestContext, bus: ExecutionEventBus): Promise<void> {
    this.runs += 1
    const status = (state: TaskState) => ({ state, message: undefined, timestamp: new Date().toISOString() })
    const state = (value: TaskState) =>
      bus.publish(AgentEvent.statusUpdate({ taskId: id, contextId, status: status(value), metadata: undefined }))
    bus.publish(
      AgentEvent.task({
        id,
        contextId,
        status: status(TaskState.TASK_STATE_SUBMITTED),
        artifacts: [],
        history: [],
        metadata: {},
      }),
    )
    await this.gate
    for (let n = 0; n < 5; n += 1) state(TaskState.TASK_STATE_WORKING)
    state(TaskState.TASK_STATE_COMPLETED)
    bus.finished()
  }

  cancelTask = async (): Promise<void> => undefined
}

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  closing.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function start() {
  const secret = generateWebhookSecret()
  const received: WebhookReceipt[] = []
  const verifier = createWebhookVerifier({ secrets: secret })
  const carried: string[] = []
  const receive = webhookHandler(verifier, (receipt) => void received.push(receipt))
  const hook = await listening(
    createServer((req, res) => {
      carried.push(`${req.headers.authorization} ${req.headers['x-a2a-notification-token']}`)
      receive(req, res)
    }),
  )
  const app = express()
  const base = await listening(createServer(app))
  const card = rigCard({
    supportedInterfaces: [
      { url: `${base}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: `${base}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
      { url: `${base}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
      { url: `${base}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '0.3' },
      { url: `${base}/`, protocolBinding: 'GRPC', protocolVersion: '1.0' },
      { url: `${base}/`, protocolBinding: 'GRPC', protocolVersion: '0.3' },
    ],
  })
  const rig = await makeRig({ card, policy: { publicUrl: base } })
  closing.push(() => rig.close())
  const port = Number(new URL(hook).port)
  const egress = createEgress({ requireHttps: false, ports: [port], allowAddresses: ['127.0.0.1'] })
  const configs = createPushNotifications({ egress })
  const sender = createWebhookSender({ store: configs, egress, signing: { secrets: { [hook]: { current: secret } } } })
  closing.push(() => sender.close(0))
  const executor = new SlowExecutor()
  const handler = new DefaultRequestHandler(
    AgentCard.fromJSON(card),
    new InMemoryTaskStore(),
    executor,
    undefined,
    configs,
    sender,
  )
  const sdk = {
    requestHandler: protectRequestHandler(rig.guard, handler),
    userBuilder: userBuilder(rig.guard),
    legacyCompat: { enabled: true },
  }
  app.use('/a2a', expressGuard(rig.guard), jsonRpcHandler(sdk))
  app.use('/rest', expressGuard(rig.guard), restHandler(sdk))

  const grpcServer = new GrpcServer(grpcServerOptions(rig.guard))
  grpcServer.addService(A2AService, grpcService(sdk))
  grpcServer.addService(LegacyA2AService, legacyGrpcService(sdk))
  const grpcPort = await new Promise<number>((resolve, reject) =>
    grpcServer.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (fault, bound) =>
      fault === null ? resolve(bound) : reject(fault),
    ),
  )
  const caller = new GrpcCaller(grpcPort)
  closing.push(() => {
    caller.close()
    grpcServer.forceShutdown()
  })
  /** A status of gRPC stands for itself; OK is 200 here. */
  const grpc = async (token: string, version: string, path: string, body: object): Promise<Reply> => {
    const lines = ['a2a-version', version, 'authorization', `Bearer ${token}`]
    const { code, details, metadata, messages } = await caller.call(path, encodeMessage(path, body), lines)
    const status = metadata.get('grpc-status-details-bin').map((bytes) => Buffer.from(bytes).toString('latin1'))
    const text = [details, ...status, ...messages.map((bytes) => bytes.toString('latin1'))].join('\n')
    return { status: code === 0 ? 200 : code, text, json: {} }
  }

  const call = async (token: string, version: string, method: string, path: string, body?: object): Promise<Reply> => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'a2a-version': version },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, text, json: (text === '' ? {} : JSON.parse(text)) as Json }
  }
  const rpc = (token: string, version: string, method: string, params: object) =>
    call(token, version, 'POST', '/a2a', { jsonrpc: '2.0', id: 1, method, params })
  const begin = async (token: string, configuration: object = {}) => {
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'go' }] }
    return rpc(token, '1.0', 'SendMessage', { message, configuration: { returnImmediately: true, ...configuration } })
  }
  const alice = await rig.token()
  return { rig, hook, executor, received, carried, rpc, call, grpc, begin, alice, verifier }
}

function taskOf({ json }: Reply): string {
  return json.result?.task.id ?? 'no task'
}

function stateOf(value: unknown): string {
  return (value as { readonly status: { readonly state: string } }).status.state
}

const SECRETS = { token: 's3cr3t-token', authentication: { scheme: 'Bearer', credentials: 's3cr3t-credentials' } }
const ALL_SECRET = /s3cr3t/

type Started = Awaited<ReturnType<typeof start>>
/** What a test reads of an answer. */
interface Json {
  readonly error?: { readonly code: number }
  readonly result?: { readonly task: { readonly id: string } }
}
interface Reply {
  readonly status: number
  readonly text: string
  readonly json: Json
}
interface Binding {
  readonly create: (at: Started, token: string, taskId: string, url: string, hidden: typeof SECRETS) => Promise<Reply>
  readonly list: (at: Started, token: string, taskId: string) => Promise<Reply>
}
/** What a client has read, as it writes it back. */
const REDACTED = { token: '[redacted]', authentication: { scheme: 'Bearer', credentials: '[redacted]' } }
const old = ({ token, authentication: { scheme, credentials } }: typeof SECRETS) => ({
  token,
  authentication: { schemes: [scheme], credentials },
})
const bindings: Readonly<Record<string, Binding>> = {
  'JSON-RPC': {
    create: ({ rpc }, token, taskId, url, hidden) =>
      rpc(token, '1.0', 'CreateTaskPushNotificationConfig', { taskId, id: 'c1', url, ...hidden }),
    list: ({ rpc }, token, taskId) => rpc(token, '1.0', 'ListTaskPushNotificationConfigs', { taskId }),
  },
  'HTTP+JSON': {
    create: ({ call }, token, taskId, url, hidden) =>
      call(token, '1.0', 'POST', `/rest/tasks/${taskId}/pushNotificationConfigs`, { id: 'c1', url, ...hidden }),
    list: ({ call }, token, taskId) => call(token, '1.0', 'GET', `/rest/tasks/${taskId}/pushNotificationConfigs`),
  },
  gRPC: {
    create: ({ grpc }, token, taskId, url, hidden) =>
      grpc(token, '1.0', '/lf.a2a.v1.A2AService/CreateTaskPushNotificationConfig', {
        taskId,
        id: 'c1',
        url,
        ...hidden,
      }),
    list: ({ grpc }, token, taskId) =>
      grpc(token, '1.0', '/lf.a2a.v1.A2AService/ListTaskPushNotificationConfigs', { taskId }),
  },
  'v0.3 gRPC': {
    create: ({ grpc }, token, taskId, url, hidden) =>
      grpc(token, '0.3', '/a2a.v1.A2AService/CreateTaskPushNotificationConfig', {
        parent: `tasks/${taskId}`,
        configId: 'c1',
        config: {
          name: `tasks/${taskId}/pushNotificationConfigs/c1`,
          pushNotificationConfig: { id: 'c1', url, ...old(hidden) },
        },
      }),
    list: ({ grpc }, token, taskId) =>
      grpc(token, '0.3', '/a2a.v1.A2AService/ListTaskPushNotificationConfig', {
        parent: `tasks/${taskId}`,
        pageSize: 0,
        pageToken: '',
      }),
  },
  'v0.3 JSON-RPC': {
    create: ({ rpc }, token, taskId, url, hidden) =>
      rpc(token, '0.3', 'tasks/pushNotificationConfig/set', {
        taskId,
        pushNotificationConfig: { id: 'c1', url, ...old(hidden) },
      }),
    list: ({ rpc }, token, id) => rpc(token, '0.3', 'tasks/pushNotificationConfig/list', { id }),
  },
  'v0.3 HTTP+JSON': {
    create: ({ call }, token, taskId, url, hidden) =>
      call(token, '0.3', 'POST', `/rest/v1/tasks/${taskId}/pushNotificationConfigs`, {
        name: `tasks/${taskId}/pushNotificationConfigs/c1`,
        pushNotificationConfig: { id: 'c1', url, ...old(hidden) },
      }),
    list: ({ call }, token, taskId) => call(token, '0.3', 'GET', `/rest/v1/tasks/${taskId}/pushNotificationConfigs`),
  },
}

describe.each(Object.entries(bindings))('webhooks registered over %s', (name, { create, list }) => {
  const version = name.startsWith('v0.3') ? '0.3' : '1.0'

  it('A76 A81 every event arrives in order and verifies; the secret is read back by nobody', async () => {
    const at = await start()
    const begun = await at.begin(at.alice)
    const taskId: string = taskOf(begun)
    const created = await create(at, at.alice, taskId, at.hook, SECRETS)
    expect(created.text).not.toMatch(ALL_SECRET)
    expect(created.json.error).toBeUndefined()
    expect([200, 201]).toContain(created.status)
    const listed = await list(at, at.alice, taskId)
    expect(listed.text).toContain(at.hook)
    expect(listed.text).not.toMatch(ALL_SECRET)
    const again = await create(at, at.alice, taskId, at.hook, REDACTED)
    expect([again.json.error, again.text.includes('redacted')]).toEqual([undefined, true])
    at.executor.go()
    await expect.poll(() => at.received.length, { timeout: 5000 }).toBe(6)
    expect(new Set(at.carried)).toEqual(new Set(['Bearer s3cr3t-credentials s3cr3t-token']))
    const states = at.received.map(({ event }) => stateOf(event?.value))
    expect(states.at(-1)).toMatch(/completed$/i)
    expect(at.received.every(({ event }) => event?.taskId === taskId && event.version === version)).toBe(true)
    expect(new Set(at.received.map(({ id }) => id)).size).toBe(6)
  })

  it('A67 a URL of the own network is refused, and nothing is kept', async () => {
    const at = await start()
    const taskId: string = taskOf(await at.begin(at.alice))
    const refused = await create(at, at.alice, taskId, 'http://169.254.169.254/latest/meta-data/', SECRETS)
    expect(refused.text).not.toMatch(ALL_SECRET)
    // Invalid params, as each binding says it; INVALID_ARGUMENT on gRPC.
    expect(refused.json.error?.code ?? refused.status).toBe(
      name.includes('JSON-RPC') ? -32602 : name.includes('gRPC') ? 3 : 400,
    )
    expect((await list(at, at.alice, taskId)).text).not.toContain('169.254')
    at.executor.go()
  })

  it('A79 nobody registers on the task of somebody else', async () => {
    const at = await start()
    const taskId: string = taskOf(await at.begin(at.alice))
    const bob = await at.rig.token({ sub: 'bob' })
    const foreign = await create(at, bob, taskId, at.hook, SECRETS)
    expect(foreign.text).toMatch(/not found/i)
    expect((await list(at, at.alice, taskId)).text).not.toContain(at.hook)
    at.executor.go()
    await expect.poll(async () => (await at.rpc(at.alice, '1.0', 'GetTask', { id: taskId })).text).toMatch(/COMPLETED/)
    expect(at.received).toEqual([])
  })
})

describe('webhooks given along with a message', () => {
  it('A81 the first event is delivered as well', async () => {
    const at = await start()
    at.executor.go()
    const begun = await at.begin(at.alice, { taskPushNotificationConfig: { url: at.hook, ...SECRETS } })
    expect(begun.text).not.toMatch(ALL_SECRET)
    await expect.poll(() => at.received.length, { timeout: 5000 }).toBe(7)
    expect(at.received.map(({ event }) => event?.kind)).toEqual([
      'task',
      ...Array.from({ length: 6 }, () => 'statusUpdate'),
    ])
  })

  it.each([
    ['an empty one', {}],
    ['one to the own network', { url: 'http://127.0.0.1:1/' }],
    ['one with a line break', { url: 'https://hooks.example.com/', token: 'a\nb' }],
  ])('A83 %s is invalid params, and the agent does not run', async (_what, taskPushNotificationConfig) => {
    const at = await start()
    const refused = await at.begin(at.alice, { taskPushNotificationConfig })
    expect(refused.json.error).toMatchObject({ code: -32602 })
    expect(at.executor.runs).toBe(0)
  })

  it('A83 an empty configuration registers nothing', async () => {
    const at = await start()
    at.executor.go()
    expect((await at.begin(at.alice, {})).json.result).toBeDefined()
    expect(at.received).toEqual([])
  })
})
