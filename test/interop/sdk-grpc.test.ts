/**
 * The unmodified client and server of `@a2a-js/sdk` over gRPC, v1.0 and v0.3, through the guard: every operation the
 * client has works with a credential and is refused without one, and a stream arrives event by event.
 */
import { AgentCard, TaskState } from '@a2a-js/sdk'
import { type Client, ClientFactory } from '@a2a-js/sdk/client'
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc'
import { LegacyA2AService, legacyGrpcService } from '@a2a-js/sdk/compat/v0_3/server/grpc'
import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc'
import { credentials, Server, ServerCredentials, type ServerOptions } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { grpcServerOptions } from '../../src/adapters/grpc.ts'
import { DemoExecutor, userMessage } from '../../src/cli/demo/agent.ts'
import { API_KEY, makeRig, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
let executor: DemoExecutor
let port: number
let unguarded: number
const servers: Server[] = []

function cardAt(at: number, version: string): AgentCard {
  const supportedInterfaces = [{ url: `127.0.0.1:${at}`, protocolBinding: 'GRPC', protocolVersion: version }]
  return AgentCard.fromJSON(rigCard({ supportedInterfaces }))
}

async function serve(options: ServerOptions): Promise<number> {
  const supportedInterfaces = ['1.0', '0.3'].map((protocolVersion) => ({
    url: 'https://agent.example/',
    protocolBinding: 'GRPC',
    protocolVersion,
  }))
  const card = AgentCard.fromJSON(rigCard({ supportedInterfaces }))
  const requestHandler = new DefaultRequestHandler(
    card,
    new InMemoryTaskStore(),
    executor,
    undefined,
    undefined,
    undefined,
    card,
  )
  const sdk = { requestHandler, userBuilder: userBuilder(rig.guard) }
  const server = new Server(options)
  server.addService(A2AService, grpcService(sdk))
  server.addService(LegacyA2AService, legacyGrpcService(sdk))
  servers.push(server)
  return new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (fault, bound) =>
      fault === null ? resolve(bound) : reject(fault),
    ),
  )
}

beforeAll(async () => {
  rig = await makeRig()
  executor = new DemoExecutor()
  port = await serve(grpcServerOptions(rig.guard))
  unguarded = await serve({})
})
afterAll(async () => {
  for (const server of servers) server.forceShutdown()
  await rig.close()
})

function connect(version: string, at = port): Promise<Client> {
  const factory = new GrpcTransportFactory({
    grpcChannelCredentials: credentials.createInsecure(),
    legacyCompat: { enabled: true },
  })
  return new ClientFactory({ transports: [factory] }).createFromAgentCard(cardAt(at, version))
}

const withKey = { serviceParameters: { 'x-api-key': API_KEY } }
const message = (text: string, returnImmediately = false) => ({
  message: userMessage(text, 'echo'),
  configuration: {
    acceptedOutputModes: [],
    taskPushNotificationConfig: undefined,
    historyLength: undefined,
    returnImmediately,
  },
  metadata: undefined,
  tenant: '',
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

async function waitingTask(client: Client): Promise<string> {
  const result = await client.sendMessage(message('wait', true), withKey)
  if (!('id' in result)) throw new Error('the agent answered with a message')
  return result.id
}

describe.each(['1.0', '0.3'])('SDK client over gRPC %s', (version) => {
  it('A27 P136 with a credential every operation works', async () => {
    const client = await connect(version)
    expect(await client.sendMessage(message('hello'), withKey)).toMatchObject({
      status: { state: TaskState.TASK_STATE_COMPLETED },
    })
    const id = await waitingTask(client)
    expect(await client.getTask(task(id), withKey)).toMatchObject({ id })
    if (version === '1.0') expect((await client.listTasks(list, withKey)).tasks.map((one) => one.id)).toContain(id)
    const states: unknown[] = []
    const subscription = client.resubscribeTask({ id, tenant: '' }, withKey)
    states.push((await subscription.next()).value?.payload?.$case)
    expect(await client.cancelTask(task(id), withKey)).toMatchObject({
      status: { state: TaskState.TASK_STATE_CANCELED },
    })
    for await (const event of subscription) states.push(event.payload?.$case)
    expect(states).toContain('statusUpdate')
    const events: unknown[] = []
    for await (const event of client.sendMessageStream(message('hello'), withKey)) events.push(event.payload?.$case)
    expect(events).toEqual(['task', 'artifactUpdate', 'statusUpdate'])
  })

  it.each([
    ['without a credential', {}],
    ['with a bad one', { serviceParameters: { authorization: 'Bearer bad' } }],
  ])('A27 P136 %s every operation is refused and the agent does not run', async (_, options) => {
    const client = await connect(version)
    const id = await waitingTask(client)
    const runs = executor.runs
    const drain = async (events: AsyncIterable<unknown>) => {
      for await (const _event of events) throw new Error('an event came through')
      throw new Error('the stream ended as if nothing were wrong')
    }
    const calls: (() => Promise<unknown>)[] = [
      () => client.sendMessage(message('hello'), options),
      () => drain(client.sendMessageStream(message('hello'), options)),
      () => client.getTask(task(id), options),
      ...(version === '1.0' ? [() => client.listTasks(list, options)] : []),
      () => client.cancelTask(task(id), options),
      () => drain(client.resubscribeTask({ id, tenant: '' }, options)),
    ]
    for (const call of calls) await expect(call()).rejects.toThrow(/UNAUTHENTICATED|Authentication is required/)
    expect(executor.runs).toBe(runs)
    expect(await client.getTask(task(id), withKey)).toMatchObject({ status: { state: TaskState.TASK_STATE_WORKING } })
    await client.cancelTask(task(id), withKey)
  })

  it('A29 a server without the guard answers nobody', async () => {
    const runs = executor.runs
    const client = await connect(version, unguarded)
    await expect(client.sendMessage(message('hello'), withKey)).rejects.toThrow(/guard/)
    expect(executor.runs).toBe(runs)
  })
})
