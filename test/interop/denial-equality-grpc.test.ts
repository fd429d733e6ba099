/** As `denial-equality`, on gRPC: what the guard writes for a task and for an extended card is what the SDK's services write. */
import { AgentCard } from '@a2a-js/sdk'
import { LegacyA2AService, legacyGrpcService } from '@a2a-js/sdk/compat/v0_3/server/grpc'
import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { A2AService, grpcService, UserBuilder } from '@a2a-js/sdk/server/grpc'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { renderDenial } from '../../src/protocol/denial.ts'
import type { DenialReason, OperationName, ProtocolVersion } from '../../src/types.ts'
import { contractRequests } from '../contract/operations.ts'
import { encodeMessage, GrpcCaller } from '../support/grpc-calls.ts'

const closers: (() => void)[] = []
afterAll(() => {
  for (const close of closers) close()
})

async function serve(extendedAgentCard: boolean): Promise<GrpcCaller> {
  const card = AgentCard.fromJSON({
    name: 'a',
    description: 'a',
    version: '1',
    supportedInterfaces: ['1.0', '0.3'].map((protocolVersion) => ({
      url: 'http://localhost/',
      protocolBinding: 'GRPC',
      protocolVersion,
    })),
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard },
  })
  const executor = { execute: async () => {}, cancelTask: async () => {} }
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor)
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication }
  const server = new Server()
  server.addService(A2AService, grpcService(options))
  server.addService(LegacyA2AService, legacyGrpcService(options))
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (fault, bound) =>
      fault === null ? resolve(bound) : reject(fault),
    ),
  )
  const caller = new GrpcCaller(port)
  closers.push(() => {
    caller.close()
    server.forceShutdown()
  })
  return caller
}

let withCard: GrpcCaller
let withoutCard: GrpcCaller
beforeAll(async () => {
  withCard = await serve(true)
  withoutCard = await serve(false)
})

async function theirs(caller: GrpcCaller, path: string, version: ProtocolVersion, body: unknown) {
  const { code, details, metadata } = await caller.call(path, encodeMessage(path, body), ['a2a-version', version])
  return { code, details, bytes: (metadata.get('grpc-status-details-bin')[0] as Buffer).toString('hex') }
}

function ours(reason: DenialReason, operation: OperationName, version: ProtocolVersion, taskId?: string) {
  const more = taskId === undefined ? {} : { taskId }
  const { grpc } = renderDenial({ reason, binding: 'GRPC', version, operation, ...more })
  const details = grpc.metadata['grpc-status-details-bin'] as Uint8Array
  return { code: grpc.code, details: grpc.message, bytes: Buffer.from(details).toString('hex') }
}

/** The rows of the contract that are about a task, with one that is not there. */
const onTasks = contractRequests.filter(
  ({ binding, operation }) => binding === 'GRPC' && !/^(?:ListTasks|GetExtendedAgentCard)$/.test(operation),
)

describe('A40 P133 on gRPC a task that is not the caller’s is answered as a task that is not there', () => {
  it.each(onTasks)('$operation $version', async ({ operation, version, path, body }) => {
    const { message, request } = body as { message?: object; request?: object }
    const named = message === undefined ? body : { message: { ...message, taskId: 't-1' } }
    const asked = request === undefined ? named : { request: { ...request, taskId: 't-1' } }
    expect(ours('TASK_NOT_FOUND', operation, version, 't-1')).toEqual(await theirs(withCard, path, version, asked))
  })
})

describe('A38 on gRPC an extended card that is not there is answered as the SDK answers', () => {
  it.each(
    contractRequests.filter(({ binding, operation }) => binding === 'GRPC' && operation === 'GetExtendedAgentCard'),
  )('$version', async ({ path, version, body, operation }) => {
    expect(ours('UNSUPPORTED_OPERATION', operation, version)).toEqual(await theirs(withoutCard, path, version, body))
    const missing = await theirs(withCard, path, version, body)
    expect(ours('EXTENDED_AGENT_CARD_NOT_CONFIGURED', operation, version)).toEqual(missing)
  })
})
