/** As `ownership` and `extended-card`, over the SDK's gRPC services, v1.0 and v0.3: the same rule, as whole statuses. */
import { AgentCard } from '@a2a-js/sdk'
import { LegacyA2AService, legacyGrpcService } from '@a2a-js/sdk/compat/v0_3/server/grpc'
import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { protectRequestHandler, userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { grpcServerOptions } from '../../src/adapters/grpc.ts'
import { contractRequests } from '../contract/operations.ts'
import { encodeMessage, GrpcCaller } from '../support/grpc-calls.ts'
import { OwnedExecutor, userMessage } from '../support/owned-agent.ts'
import { makeRig, paySkill, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
let caller: GrpcCaller
const server: { current?: Server } = {}
const executor = new OwnedExecutor()
const calls: string[] = []
const tokens: Record<string, string> = {}

beforeAll(async () => {
  const supportedInterfaces = ['1.0', '0.3'].map((protocolVersion) => ({
    url: 'https://agent.example/',
    protocolBinding: 'GRPC',
    protocolVersion,
  }))
  const card = rigCard({ supportedInterfaces })
  const extendedCard = { ...card, skills: [...(card.skills as object[]), paySkill] }
  rig = await makeRig({ card, policy: { extendedCard, skills: { undeclared: 'agent' } } })
  const inner = new DefaultRequestHandler(AgentCard.fromJSON(card), new InMemoryTaskStore(), executor)
  const counting = new Proxy(inner, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        if (name !== 'getAgentCard') calls.push(String(name))
        return (value as (...given: unknown[]) => unknown).apply(target, given)
      }
    },
  })
  const options = { requestHandler: protectRequestHandler(rig.guard, counting), userBuilder: userBuilder(rig.guard) }
  const grpc = new Server(grpcServerOptions(rig.guard))
  grpc.addService(A2AService, grpcService(options))
  grpc.addService(LegacyA2AService, legacyGrpcService(options))
  server.current = grpc
  const port = await new Promise<number>((resolve, reject) =>
    grpc.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (fault, bound) =>
      fault === null ? resolve(bound) : reject(fault),
    ),
  )
  caller = new GrpcCaller(port)
  tokens.alice = await rig.token()
  tokens.bob = await rig.token({ sub: 'bob' })
  tokens.payer = await rig.token({ scope: 'a2a:use a2a:pay' })
})
afterAll(async () => {
  executor.finishAll()
  caller.close()
  server.current?.forceShutdown()
  await rig.close()
})

const ask = (who: string, path: string, version: string, body: unknown) =>
  caller.call(path, encodeMessage(path, body), ['a2a-version', version, 'authorization', `Bearer ${tokens[who]}`])

async function begin(text: string): Promise<string> {
  const configuration = { returnImmediately: true }
  const answer = await ask('alice', '/lf.a2a.v1.A2AService/SendMessage', '1.0', {
    message: userMessage(text),
    configuration,
  })
  expect(answer.code).toBe(0)
  return executor.seen.at(-1)?.taskId as string
}

const onTasks = contractRequests.filter(
  ({ binding, operation }) => binding === 'GRPC' && !/^(?:ListTasks|GetExtendedAgentCard)$/.test(operation),
)

describe('A40 A41 P133 on gRPC a task of somebody else is a task that is not there', () => {
  it.each(onTasks)('$operation $version', async ({ version, path, body }) => {
    const { message, request } = body as { message?: object; request?: object }
    const named = message === undefined ? body : { message: { ...message, taskId: 't-1' } }
    const asked = request === undefined ? named : { request: { ...request, taskId: 't-1' } }
    const about = (id: string): unknown => JSON.parse(JSON.stringify(asked).replaceAll('t-1', id))
    for (const kind of ['live', 'resting']) {
      const id = await begin(kind)
      const absent = crypto.randomUUID()
      const [runs, cancelled] = [executor.seen.length, executor.cancelled.length]
      calls.length = 0
      const bytesOf = async (one: string) => {
        const { code, details, metadata, messages } = await ask('bob', path, version, about(one))
        const [status] = metadata.get('grpc-status-details-bin')
        return {
          code,
          messages,
          text: `${details} ${Buffer.from(status ?? '').toString('latin1')}`.replaceAll(one, 'ID'),
        }
      }
      const foreign = await bytesOf(id)
      expect(foreign).toEqual(await bytesOf(absent))
      expect(foreign).toMatchObject({ code: 5, messages: [] })
      expect([calls, executor.seen.length, executor.cancelled.length]).toEqual([[], runs, cancelled])
      expect((await ask('alice', '/lf.a2a.v1.A2AService/GetTask', '1.0', { id })).code).toBe(0)
    }
  })
})

describe('A60 A61 the extended card on gRPC', () => {
  it.each([
    ['1.0', '/lf.a2a.v1.A2AService/GetExtendedAgentCard'],
    ['0.3', '/a2a.v1.A2AService/GetAgentCard'],
  ])('%s: cut to what the caller may use', async (version, path) => {
    const seen = async (who: string) => {
      const { code, messages } = await ask(who, path, version, {})
      return { code, pays: Buffer.concat(messages).includes('a2a:pay') && Buffer.concat(messages).includes('Pay') }
    }
    expect(await seen('bob')).toEqual({ code: 0, pays: false })
    expect(await seen('payer')).toEqual({ code: 0, pays: true })
    expect((await seen('nobody')).code).toBe(16)
    expect(calls).not.toContain('getAuthenticatedExtendedAgentCard')
  })
})
