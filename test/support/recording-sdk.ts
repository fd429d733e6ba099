/** The SDK's own HTTP handlers over a request handler that only remembers what it was asked to run. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard } from '@a2a-js/sdk'
import { TaskNotFoundError } from '@a2a-js/sdk/errors'
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server'
import { jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express'
import express, { type Request } from 'express'
import type { OperationName } from '../../src/types.ts'

/** What the SDK would have run. */
export interface Run {
  readonly name: OperationName
  readonly taskId?: string
  readonly contextId?: string
  readonly configId?: string
  readonly tenant?: string
}

type Params = {
  id?: string
  taskId?: string
  contextId?: string
  tenant?: string
  message?: { taskId?: string; contextId?: string }
}

/** In both versions on both bindings, so that the SDK refuses no version. */
export const recordingCard: AgentCard = AgentCard.fromJSON({
  name: 'recorder',
  description: 'remembers',
  version: '1',
  supportedInterfaces: ['JSONRPC', 'HTTP+JSON'].flatMap((protocolBinding) =>
    ['1.0', '0.3'].map((protocolVersion) => ({ url: 'http://localhost/a2a', protocolBinding, protocolVersion })),
  ),
  capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
  defaultInputModes: [],
  defaultOutputModes: [],
  skills: [],
})

function recordingHandler(runs: Run[]): A2ARequestHandler {
  const run = (name: OperationName, fields: Partial<Params>, params: Params, context: ServerCallContext): never => {
    const tenant = context.tenant || params.tenant
    const kept = Object.entries({ ...fields, tenant }).filter(([, value]) => value)
    runs.push({ name, ...Object.fromEntries(kept) })
    throw new TaskNotFoundError('recorded')
  }
  const onTask = (name: OperationName) => async (params: Params, context: ServerCallContext) =>
    run(name, { taskId: params.id! }, params, context)
  const onConfig = (name: OperationName) => async (params: Params, context: ServerCallContext) =>
    run(name, { taskId: params.taskId!, configId: params.id! } as Partial<Params>, params, context)
  const ofMessage = ({ message = {} }: Params) => ({ taskId: message.taskId!, contextId: message.contextId! })
  const handler = {
    getAgentCard: async () => recordingCard,
    getAuthenticatedExtendedAgentCard: async (params: Params, context: ServerCallContext) =>
      run('GetExtendedAgentCard', {}, params, context),
    sendMessage: async (params: Params, context: ServerCallContext) =>
      run('SendMessage', ofMessage(params), params, context),
    // biome-ignore lint/correctness/useYield: it fails before its first event
    async *sendMessageStream(params: Params, context: ServerCallContext) {
      run('SendStreamingMessage', ofMessage(params), params, context)
    },
    getTask: onTask('GetTask'),
    listTasks: async (params: Params, context: ServerCallContext) =>
      run('ListTasks', { contextId: params.contextId! }, params, context),
    cancelTask: onTask('CancelTask'),
    // biome-ignore lint/correctness/useYield: it fails before its first event
    async *resubscribe(params: Params, context: ServerCallContext) {
      run('SubscribeToTask', { taskId: params.id! }, params, context)
    },
    createTaskPushNotificationConfig: onConfig('CreateTaskPushNotificationConfig'),
    getTaskPushNotificationConfig: onConfig('GetTaskPushNotificationConfig'),
    listTaskPushNotificationConfigs: async (params: Params, context: ServerCallContext) =>
      run('ListTaskPushNotificationConfigs', { taskId: params.taskId! }, params, context),
    deleteTaskPushNotificationConfig: onConfig('DeleteTaskPushNotificationConfig'),
  }
  return handler as unknown as A2ARequestHandler
}

export interface RawRequest {
  readonly method: string
  readonly target: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body?: string | Uint8Array
}

export interface Recording {
  readonly runs: readonly Run[]
  /** As a guard in front of the handlers would see it; `undefined` if the request did not reach the mount. */
  readonly seen: Pick<Request, 'method' | 'url' | 'rawHeaders'> | undefined
  readonly status: number
}

export interface RecordingServer {
  send(request: RawRequest): Promise<Recording>
  close(): Promise<void>
}

export async function recordingServer(
  binding: 'JSONRPC' | 'HTTP+JSON',
  options: { readonly mount: string; readonly legacy: boolean },
): Promise<RecordingServer> {
  let runs: Run[] = []
  let seen: Recording['seen']
  const app = express()
  app.set('env', 'test') // no stack traces on the console
  app.use(options.mount, (req, _res, next) => {
    seen = { method: req.method, url: req.url, rawHeaders: req.rawHeaders }
    next()
  })
  const requestHandler = recordingHandler({
    push: (run: Run) => runs.push(run),
  } as Run[])
  const handlerOptions = {
    requestHandler,
    userBuilder: UserBuilder.noAuthentication,
    legacyCompat: { enabled: options.legacy },
  }
  app.use(options.mount, binding === 'JSONRPC' ? jsonRpcHandler(handlerOptions) : restHandler(handlerOptions))
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const { port } = server.address() as AddressInfo
  return {
    send({ method, target, headers, body }) {
      runs = []
      seen = undefined
      return new Promise((resolve, reject) => {
        const length = body === undefined ? [] : ['Content-Length', String(Buffer.byteLength(body))]
        const request = http.request({
          host: '127.0.0.1',
          port,
          agent,
          method,
          path: target,
          headers: ['Host', 'localhost', ...headers.flat(), ...length],
        })
        request.on('error', reject)
        request.on('response', (response) => {
          response.resume()
          response.on('end', () => resolve({ runs, seen, status: response.statusCode ?? 0 }))
        })
        request.end(body)
      })
    },
    async close() {
      agent.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
