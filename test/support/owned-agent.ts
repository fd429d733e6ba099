/** A protected agent on the SDK's own server: JSON-RPC and HTTP+JSON, v1.0 and v0.3, remembering what ran. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard, TaskState } from '@a2a-js/sdk'
import {
  type A2ARequestHandler,
  AgentEvent,
  type AgentExecutor,
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
  type RequestContext,
  type TaskStore,
} from '@a2a-js/sdk/server'
import { jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express'
import express from 'express'
import { type ProtectOptions, protectRequestHandler, userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { expressGuard } from '../../src/adapters/express.ts'
import type { OperationName } from '../../src/types.ts'
import { makeRig, type Rig, type RigOptions, rigCard } from './rig.ts'

export const bothVersions = {
  supportedInterfaces: ['JSONRPC', 'HTTP+JSON'].flatMap((protocolBinding) =>
    ['1.0', '0.3'].map((protocolVersion) => ({
      url: `https://agent.example/${protocolBinding === 'JSONRPC' ? 'rpc' : 'rest'}`,
      protocolBinding,
      protocolVersion,
    })),
  ),
}

/** A message of `live` begins a task that works until it is cancelled, or `finish` is called; any other completes at once. */
export class OwnedExecutor implements AgentExecutor {
  readonly seen: RequestContext[] = []
  readonly cancelled: string[] = []
  readonly #live = new Map<string, () => void>()
  /** Called before the first event. */
  before: (context: RequestContext) => void = () => {}

  async execute(context: RequestContext, bus: ExecutionEventBus): Promise<void> {
    this.seen.push(context)
    this.before(context)
    const { taskId: id, contextId } = context
    const [part] = context.userMessage.parts
    const text = part?.content?.$case === 'text' ? part.content.value : ''
    const status = (state: TaskState) => ({ state, message: undefined, timestamp: new Date().toISOString() })
    const task = (state: TaskState) =>
      AgentEvent.task({
        id,
        contextId,
        status: status(state),
        artifacts: [],
        history: [context.userMessage],
        metadata: undefined,
      })
    if (text === 'message') {
      bus.publish(
        AgentEvent.message({
          messageId: crypto.randomUUID(),
          contextId,
          taskId: '',
          role: 2,
          parts: [],
          metadata: undefined,
          extensions: [],
          referenceTaskIds: [],
        }),
      )
      return bus.finished()
    }
    bus.publish(task(text === 'live' ? TaskState.TASK_STATE_WORKING : TaskState.TASK_STATE_INPUT_REQUIRED))
    if (text !== 'live') return
    await new Promise<void>((resolve) => this.#live.set(id, resolve))
    const state = this.cancelled.includes(id) ? TaskState.TASK_STATE_CANCELED : TaskState.TASK_STATE_COMPLETED
    bus.publish(AgentEvent.statusUpdate({ taskId: id, contextId, status: status(state), metadata: undefined }))
  }

  cancelTask = async (taskId: string): Promise<void> => {
    this.cancelled.push(taskId)
    this.finish(taskId)
  }

  finish(taskId: string): void {
    this.#live.get(taskId)?.()
    this.#live.delete(taskId)
  }

  finishAll(): void {
    for (const id of [...this.#live.keys()]) this.finish(id)
  }
}

export interface Answer {
  readonly status: number
  readonly type: string | null
  readonly text: string
  readonly json: Record<string, unknown> & { result?: unknown; error?: { code: number; message: string } }
}

export interface OwnedAgent {
  readonly rig: Rig
  readonly executor: OwnedExecutor
  /** Methods of the handler behind, in the order they were called. `getAgentCard` is not counted. */
  readonly calls: string[]
  readonly url: string
  rpc(token: string, method: string, params?: object, version?: '1.0' | '0.3'): Promise<Answer>
  rest(token: string, method: string, path: string, body?: object, version?: '1.0' | '0.3'): Promise<Answer>
  /** Begins a task and returns its ids. */
  begin(
    token: string,
    text?: string,
    message?: object,
    configuration?: object,
  ): Promise<{ id: string; contextId: string }>
  close(): Promise<void>
}

export interface OwnedAgentOptions extends RigOptions {
  readonly store?: TaskStore
  readonly protect?: ProtectOptions
  /** Calls webhooks, as the SDK does. Default: nothing is called. */
  readonly deliver?: boolean
  /** Puts something between the protection and the SDK's handler. */
  readonly wrap?: (handler: A2ARequestHandler) => A2ARequestHandler
}

export async function ownedAgent(options: OwnedAgentOptions = {}): Promise<OwnedAgent> {
  const card = options.card ?? rigCard(bothVersions)
  const rig = await makeRig({ ...options, card })
  const executor = new OwnedExecutor()
  const calls: string[] = []
  const configs = new InMemoryPushNotificationStore()
  const inner = new DefaultRequestHandler(
    AgentCard.fromJSON(card),
    options.store ?? new InMemoryTaskStore(),
    executor,
    undefined,
    configs,
    options.deliver === true ? new DefaultPushNotificationSender(configs) : { send: async () => {} },
  )
  const counting = new Proxy<A2ARequestHandler>(inner, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        if (name !== 'getAgentCard') calls.push(String(name))
        return (value as (...given: unknown[]) => unknown).apply(target, given)
      }
    },
  })
  const requestHandler = protectRequestHandler(rig.guard, options.wrap?.(counting) ?? counting, options.protect)
  const common = { requestHandler, userBuilder: userBuilder(rig.guard), legacyCompat: { enabled: true } }
  const app = express()
  app.set('env', 'test')
  app.use('/rpc', expressGuard(rig.guard, { binding: 'JSONRPC' }), jsonRpcHandler(common))
  app.use('/rest', expressGuard(rig.guard, { binding: 'HTTP+JSON' }), restHandler(common))
  const server: Server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  async function send(token: string, path: string, method: string, version: string, body?: object): Promise<Answer> {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        'a2a-version': version,
        ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    let json: Answer['json'] = {}
    try {
      json = JSON.parse(text) as Answer['json']
    } catch {
      // A stream.
    }
    return { status: response.status, type: response.headers.get('content-type'), text, json }
  }

  const agent: OwnedAgent = {
    rig,
    executor,
    calls,
    url,
    rpc: (token, method, params = {}, version = '1.0') =>
      send(token, '/rpc', 'POST', version, { jsonrpc: '2.0', id: 7, method, params }),
    rest: (token, method, path, body, version = '1.0') => send(token, `/rest${path}`, method, version, body),
    async begin(token, text = 'hello', message = {}, configuration = {}) {
      const { json } = await agent.rpc(token, 'SendMessage', {
        message: { ...userMessage(text), ...message },
        configuration: { returnImmediately: true, ...configuration },
      })
      const task = (json.result as { task?: { id: string; contextId: string } } | undefined)?.task
      if (task === undefined) throw new Error(`no task: ${JSON.stringify(json)}`)
      return task
    },
    async close() {
      executor.finishAll()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await rig.close()
    },
  }
  return agent
}

export function userMessage(text: string, more: object = {}) {
  return { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more }
}

export interface OwnedRequest {
  readonly operation: OperationName
  readonly spelled: string
  send(agent: OwnedAgent, token: string, id: string): Promise<Answer>
}

const hook = { url: 'https://hooks.example/a', id: 'c-1' }
const rpc = (operation: OperationName, params: (id: string) => object): OwnedRequest => ({
  operation,
  spelled: 'JSON-RPC 1.0',
  send: (agent, token, id) => agent.rpc(token, operation, params(id)),
})
const legacy = (operation: OperationName, method: string, params: (id: string) => object): OwnedRequest => ({
  operation,
  spelled: 'JSON-RPC 0.3',
  send: (agent, token, id) => agent.rpc(token, method, params(id), '0.3'),
})
const http = (
  operation: OperationName,
  version: '1.0' | '0.3',
  method: string,
  path: (id: string) => string,
  body?: (id: string) => object,
): OwnedRequest => ({
  operation,
  spelled: `${method} HTTP+JSON ${version}`,
  send: (agent, token, id) => agent.rest(token, method, path(encodeURIComponent(id)), body?.(id), version),
})
const legacyMessage = (taskId: string) => ({
  kind: 'message',
  messageId: 'm',
  role: 'user',
  parts: [{ kind: 'text', text: 'x' }],
  taskId,
})
const legacyRestMessage = (taskId: string) => ({
  message: { messageId: 'm', taskId, content: [{ text: 'x' }], role: 'ROLE_USER' },
})
const message = (taskId: string) => ({ message: userMessage('x', { messageId: 'm', taskId }) })

/** Every operation on a task, in every spelling the SDK serves over HTTP. */
export const onATask: readonly OwnedRequest[] = [
  rpc('SendMessage', message),
  rpc('SendStreamingMessage', message),
  rpc('GetTask', (id) => ({ id })),
  rpc('CancelTask', (id) => ({ id })),
  rpc('SubscribeToTask', (id) => ({ id })),
  rpc('CreateTaskPushNotificationConfig', (taskId) => ({ taskId, ...hook })),
  rpc('GetTaskPushNotificationConfig', (taskId) => ({ taskId, id: 'c-1' })),
  rpc('ListTaskPushNotificationConfigs', (taskId) => ({ taskId })),
  rpc('DeleteTaskPushNotificationConfig', (taskId) => ({ taskId, id: 'c-1' })),
  legacy('SendMessage', 'message/send', (id) => ({ message: legacyMessage(id) })),
  legacy('SendStreamingMessage', 'message/stream', (id) => ({ message: legacyMessage(id) })),
  legacy('GetTask', 'tasks/get', (id) => ({ id })),
  legacy('CancelTask', 'tasks/cancel', (id) => ({ id })),
  legacy('SubscribeToTask', 'tasks/resubscribe', (id) => ({ id })),
  legacy('CreateTaskPushNotificationConfig', 'tasks/pushNotificationConfig/set', (taskId) => ({
    taskId,
    pushNotificationConfig: hook,
  })),
  legacy('GetTaskPushNotificationConfig', 'tasks/pushNotificationConfig/get', (id) => ({ id })),
  legacy('ListTaskPushNotificationConfigs', 'tasks/pushNotificationConfig/list', (id) => ({ id })),
  legacy('DeleteTaskPushNotificationConfig', 'tasks/pushNotificationConfig/delete', (id) => ({
    id,
    pushNotificationConfigId: 'c-1',
  })),
  http('SendMessage', '1.0', 'POST', () => '/message:send', message),
  http('SendStreamingMessage', '1.0', 'POST', () => '/message:stream', message),
  http('GetTask', '1.0', 'GET', (id) => `/tasks/${id}`),
  http('CancelTask', '1.0', 'POST', (id) => `/tasks/${id}:cancel`),
  http('SubscribeToTask', '1.0', 'GET', (id) => `/tasks/${id}:subscribe`),
  http('SubscribeToTask', '1.0', 'POST', (id) => `/tasks/${id}:subscribe`),
  http(
    'CreateTaskPushNotificationConfig',
    '1.0',
    'POST',
    (id) => `/tasks/${id}/pushNotificationConfigs`,
    () => hook,
  ),
  http('GetTaskPushNotificationConfig', '1.0', 'GET', (id) => `/tasks/${id}/pushNotificationConfigs/c-1`),
  http('ListTaskPushNotificationConfigs', '1.0', 'GET', (id) => `/tasks/${id}/pushNotificationConfigs`),
  http('DeleteTaskPushNotificationConfig', '1.0', 'DELETE', (id) => `/tasks/${id}/pushNotificationConfigs/c-1`),
  http('SendMessage', '0.3', 'POST', () => '/v1/message:send', legacyRestMessage),
  http('SendStreamingMessage', '0.3', 'POST', () => '/v1/message:stream', legacyRestMessage),
  http('GetTask', '0.3', 'GET', (id) => `/v1/tasks/${id}`),
  http('CancelTask', '0.3', 'POST', (id) => `/v1/tasks/${id}:cancel`),
  http('SubscribeToTask', '0.3', 'POST', (id) => `/v1/tasks/${id}:subscribe`),
  http('SubscribeToTask', '0.3', 'GET', (id) => `/v1/tasks/${id}:subscribe`),
  http(
    'CreateTaskPushNotificationConfig',
    '0.3',
    'POST',
    (id) => `/v1/tasks/${id}/pushNotificationConfigs`,
    (id) => ({
      name: `tasks/${id}/pushNotificationConfigs/c-1`,
      pushNotificationConfig: hook,
    }),
  ),
  http('GetTaskPushNotificationConfig', '0.3', 'GET', (id) => `/v1/tasks/${id}/pushNotificationConfigs/c-1`),
  http('ListTaskPushNotificationConfigs', '0.3', 'GET', (id) => `/v1/tasks/${id}/pushNotificationConfigs`),
  http('DeleteTaskPushNotificationConfig', '0.3', 'DELETE', (id) => `/v1/tasks/${id}/pushNotificationConfigs/c-1`),
]
