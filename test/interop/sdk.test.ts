/**
 * The unmodified client and server of `@a2a-js/sdk` 1.3 through the guard: every operation works with a credential and
 * is refused without one, on JSON-RPC, HTTP+JSON and v0.3, and a stream arrives event by event.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard, TaskState } from '@a2a-js/sdk'
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client'
import {
  AgentEvent,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  type RequestContext,
} from '@a2a-js/sdk/server'
import { agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express'
import express from 'express'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { GuardedUser, userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { expressGuard } from '../../src/adapters/express.ts'
import { DemoExecutor, userMessage } from '../../src/cli/demo/agent.ts'
import { makeRig, type Rig, rigCard } from '../support/rig.ts'

/** The demo's agent, remembering its callers; with `gate` set it does not finish before the gate opens. */
class Executor extends DemoExecutor {
  readonly callers: (string | undefined)[] = []
  gate: Promise<void> | undefined

  override async execute(context: RequestContext, bus: ExecutionEventBus): Promise<void> {
    const { user } = context.context
    this.callers.push(user instanceof GuardedUser ? user.principal?.id : undefined)
    if (this.gate === undefined) return super.execute(context, bus)
    this.runs += 1
    const { taskId: id, contextId } = context
    const status = (state: TaskState) => ({ state, message: undefined, timestamp: new Date().toISOString() })
    bus.publish(
      AgentEvent.task({
        id,
        contextId,
        status: status(TaskState.TASK_STATE_WORKING),
        artifacts: [],
        history: [],
        metadata: undefined,
      }),
    )
    await this.gate
    bus.publish(
      AgentEvent.statusUpdate({
        taskId: id,
        contextId,
        status: status(TaskState.TASK_STATE_COMPLETED),
        metadata: undefined,
      }),
    )
    bus.finished()
  }
}

let rig: Rig
let server: Server
let baseUrl: string
let executor: Executor

beforeAll(async () => {
  const app = express()
  server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const supportedInterfaces = [
    { url: `${baseUrl}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
    { url: `${baseUrl}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
    { url: `${baseUrl}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
    { url: `${baseUrl}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '0.3' },
  ]
  const card = rigCard({ supportedInterfaces })
  rig = await makeRig({ card, policy: { publicUrl: baseUrl } })
  executor = new Executor()
  const requestHandler = new DefaultRequestHandler(AgentCard.fromJSON(card), new InMemoryTaskStore(), executor)
  const sdk = { requestHandler, userBuilder: userBuilder(rig.guard), legacyCompat: { enabled: true } }
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }))
  app.use('/a2a', expressGuard(rig.guard), jsonRpcHandler(sdk))
  app.use('/rest', expressGuard(rig.guard), restHandler(sdk))
  // A handler that somebody forgot to guard.
  app.use('/unguarded', jsonRpcHandler(sdk))
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await rig.close()
})
beforeEach(() => {
  executor.gate = undefined
})

const kinds = ['JSON-RPC', 'HTTP+JSON', 'v0.3 JSON-RPC', 'v0.3 HTTP+JSON'] as const
type Kind = (typeof kinds)[number]

/** A client that discovers the agent and then speaks one binding; `statuses` are those of its calls. */
async function connect(kind: Kind, token: string | undefined): Promise<{ client: Client; statuses: number[] }> {
  const statuses: number[] = []
  const fetchImpl: typeof fetch = async (input, init) => {
    const headers = new Headers(init?.headers)
    if (token !== undefined) headers.set('authorization', `Bearer ${token}`)
    const response = await fetch(input, { ...init, headers })
    statuses.push(response.status)
    return response
  }
  const legacyCompat = { enabled: kind.startsWith('v0.3') }
  const binding = kind.replace('v0.3 ', '') === 'JSON-RPC' ? 'JSONRPC' : 'HTTP+JSON'
  const options = { fetchImpl, legacyCompat }
  const factory = new ClientFactory({
    transports: [binding === 'JSONRPC' ? new JsonRpcTransportFactory(options) : new RestTransportFactory(options)],
  })
  const card = await new DefaultAgentCardResolver().resolve(baseUrl)
  const version = legacyCompat.enabled ? '0.3' : '1.0'
  card.supportedInterfaces = card.supportedInterfaces.filter(
    (one) => one.protocolBinding === binding && one.protocolVersion === version,
  )
  return { client: await factory.createFromAgentCard(card), statuses }
}

const send = (text: string) => ({
  message: userMessage(text, 'echo'),
  configuration: undefined,
  metadata: undefined,
  tenant: '',
})
const startOnly = (text: string) => ({
  ...send(text),
  configuration: {
    acceptedOutputModes: [],
    taskPushNotificationConfig: undefined,
    historyLength: undefined,
    returnImmediately: true,
  },
})
const task = (id: string) => ({ id, tenant: '', historyLength: undefined, metadata: undefined })
const list = {
  tenant: '',
  contextId: '',
  status: TaskState.TASK_STATE_UNSPECIFIED,
  pageSize: undefined,
  pageToken: '',
  historyLength: undefined,
  statusTimestampAfter: undefined,
  includeArtifacts: undefined,
}

async function taskIdOf(client: Client): Promise<string> {
  const result = await client.sendMessage(startOnly('wait'))
  if (!('id' in result)) throw new Error('the agent answered with a message')
  return result.id
}

describe.each(kinds)('SDK client over %s', (kind) => {
  it("A27 with a valid token every operation works, as the token's subject", async () => {
    const { client, statuses } = await connect(kind, await rig.token())
    const sent = await client.sendMessage(send('hello'))
    expect(sent).toMatchObject({ status: { state: TaskState.TASK_STATE_COMPLETED } })

    const id = await taskIdOf(client)
    expect(await client.getTask(task(id))).toMatchObject({ id, status: { state: TaskState.TASK_STATE_WORKING } })
    if (!kind.startsWith('v0.3')) {
      const { tasks } = await client.listTasks(list)
      expect(tasks.map((one) => one.id)).toContain(id)
    }
    const states: unknown[] = []
    const subscription = client.resubscribeTask({ id, tenant: '' })
    const first = await subscription.next()
    states.push(first.value?.payload?.$case)
    expect(await client.cancelTask(task(id))).toMatchObject({ status: { state: TaskState.TASK_STATE_CANCELED } })
    for await (const event of subscription) states.push(event.payload?.$case)
    expect(states).toContain('statusUpdate')
    expect(statuses.every((status) => status === 200 || status === 201)).toBe(true)
    expect(new Set(executor.callers)).toEqual(new Set(['oauth2:https%3A%2F%2Fissuer.example:alice']))
  })

  it('a stream is not buffered: the agent does not go on before its first event has arrived', async () => {
    const { client } = await connect(kind, await rig.token())
    let open = () => {}
    executor.gate = new Promise((resolve) => {
      open = resolve
    })
    const cases: (string | undefined)[] = []
    for await (const event of client.sendMessageStream(send('hello'))) {
      cases.push(event.payload?.$case)
      // The agent waits for this: were the first event held back, nothing would ever come.
      open()
    }
    expect(cases).toEqual(['task', 'statusUpdate'])
  })

  it('A27 without a credential every operation is refused and the agent does not run', async () => {
    const id = await taskIdOf((await connect(kind, await rig.token())).client)
    const runs = executor.runs
    const { client, statuses } = await connect(kind, undefined)
    const calls: (() => Promise<unknown>)[] = [
      () => client.sendMessage(send('hello')),
      async () => {
        for await (const _ of client.sendMessageStream(send('hello'))) throw new Error('an event came through')
        throw new Error('the stream ended as if nothing were wrong')
      },
      () => client.getTask(task(id)),
      ...(kind.startsWith('v0.3') ? [] : [() => client.listTasks(list)]),
      () => client.cancelTask(task(id)),
      async () => {
        for await (const _ of client.resubscribeTask({ id, tenant: '' })) throw new Error('an event came through')
        throw new Error('the stream ended as if nothing were wrong')
      },
    ]
    for (const call of calls) await expect(call()).rejects.toThrow(/(?!an event came|the stream ended)/)
    expect(statuses).toEqual(calls.map(() => 401))
    expect(executor.runs).toBe(runs)
    const { client: allowed } = await connect(kind, await rig.token())
    expect(await allowed.getTask(task(id))).toMatchObject({ status: { state: TaskState.TASK_STATE_WORKING } })
  })
})

it('A29 a handler mounted without its guard answers nobody', async () => {
  const runs = executor.runs
  const response = await fetch(`${baseUrl}/unguarded`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', authorization: `Bearer ${await rig.token()}` },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] } },
    }),
  })
  expect(await response.json()).toMatchObject({ error: {} })
  expect(executor.runs).toBe(runs)
})
