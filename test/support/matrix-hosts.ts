/** One agent on the SDK's own servers, behind each adapter, on real sockets. What ran is what the SDK's handler was asked. */
import { request as httpRequest, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard } from '@a2a-js/sdk'
import { LegacyA2AService, legacyGrpcService } from '@a2a-js/sdk/compat/v0_3/server/grpc'
import {
  type A2ARequestHandler,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server'
import { jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express'
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import express from 'express'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { protectRequestHandler, userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { expressGuard } from '../../src/adapters/express.ts'
import { fastifyGuard } from '../../src/adapters/fastify.ts'
import { grpcServerOptions } from '../../src/adapters/grpc.ts'
import { webGuard } from '../../src/adapters/web.ts'
import type { Binding } from '../../src/types.ts'
import type { ContractRequest } from '../contract/operations.ts'
import { plugin } from './fastify-plugin.ts'
import { encodeMessage, GrpcCaller } from './grpc-calls.ts'
import { OwnedExecutor } from './owned-agent.ts'
import { makeRig, type Rig, rigCard } from './rig.ts'
import { serveWeb, WRITTEN } from './web-server.ts'

export interface MatrixAgent {
  readonly rig: Rig
  readonly executor: OwnedExecutor
  /** Methods of the SDK's handler that ran. `getAgentCard` is not counted: it asks nothing of the agent. */
  readonly calls: string[]
  readonly requestHandler: A2ARequestHandler
}

export async function matrixAgent(): Promise<MatrixAgent> {
  const supportedInterfaces = ['JSONRPC', 'HTTP+JSON', 'GRPC'].flatMap((protocolBinding) =>
    ['1.0', '0.3'].map((protocolVersion) => ({ url: 'https://agent.example/', protocolBinding, protocolVersion })),
  )
  const card = rigCard({ supportedInterfaces })
  const rig = await makeRig({ card, policy: { extendedCard: card } })
  const executor = new OwnedExecutor()
  const calls: string[] = []
  const typed = AgentCard.fromJSON(card)
  const stores = [new InMemoryTaskStore(), new InMemoryPushNotificationStore()] as const
  const sender = { send: async () => {} }
  const inner = new DefaultRequestHandler(typed, stores[0], executor, undefined, stores[1], sender)
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
  return { rig, executor, calls, requestHandler: protectRequestHandler(rig.guard, counting) }
}

/** What came of a request, in one word for every binding and version. */
export type Outcome = 'ok' | 'unauthenticated' | 'denied' | 'not found' | `other: ${string}`

export interface MatrixHost {
  /** `onFirst`: the first bytes of the answer have arrived. */
  send(request: ContractRequest, credential: readonly string[], onFirst?: () => void): Promise<Outcome>
  close(): Promise<void>
}

const HTTP = ['JSONRPC', 'HTTP+JSON'] as const
const PATHS = { JSONRPC: '/rpc', 'HTTP+JSON': '/rest' } as const

function overHttp(port: number): MatrixHost['send'] {
  return ({ binding, method, path, headers, body }, credential, onFirst = () => {}) => {
    const raw = ['host', 'agent.example', ...Object.entries(headers).flat(), ...credential]
    const payload = body === undefined ? undefined : JSON.stringify(body)
    if (payload !== undefined) raw.push('content-length', String(Buffer.byteLength(payload)))
    const target = `${PATHS[binding as (typeof HTTP)[number]]}${path === '/' ? '' : path}`
    return new Promise((resolve, reject) => {
      httpRequest({ port, host: '127.0.0.1', method, path: target, headers: raw, agent: false }, (response) => {
        let text = ''
        response.setEncoding('utf8').once('data', onFirst)
        response.on('data', (chunk: string) => (text += chunk))
        response.on('end', () => resolve(httpOutcome(response.statusCode ?? 0, text)))
      })
        .on('error', reject)
        .end(payload)
    })
  }
}

/** A2A's own errors: on JSON-RPC and in v0.3 by their code, in v1.0 by status. */
function httpOutcome(status: number, text: string): Outcome {
  if (status === 401) return 'unauthenticated'
  if (status === 403) return 'denied'
  if (status === 404 || /"code":-32001\b/.test(text)) return 'not found'
  return status < 300 && !/"error":/.test(text) ? 'ok' : `other: ${status} ${text}`
}

const GRPC_OUTCOMES: Readonly<Record<number, Outcome>> = { 0: 'ok', 16: 'unauthenticated', 7: 'denied', 5: 'not found' }

async function onExpress({ rig, requestHandler }: MatrixAgent): Promise<MatrixHost> {
  const common = { requestHandler, userBuilder: userBuilder(rig.guard), legacyCompat: { enabled: true } }
  const app = express()
  app.use('/rpc', expressGuard(rig.guard, { binding: 'JSONRPC' }), jsonRpcHandler(common))
  app.use('/rest', expressGuard(rig.guard, { binding: 'HTTP+JSON' }), restHandler(common))
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    send: overHttp((server.address() as AddressInfo).port),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

/** The SDK serves HTTP with Express routers only; behind other hosts they run as they are, without a guard of Express. */
function sdkRouters(
  requestHandler: A2ARequestHandler,
  user: (request: object) => ReturnType<ReturnType<typeof userBuilder>>,
) {
  const common = { requestHandler, userBuilder: user, legacyCompat: { enabled: true } }
  const app = express()
  app.use('/rpc', jsonRpcHandler(common))
  app.use('/rest', restHandler(common))
  return app as unknown as RequestListener
}

async function onFastify({ rig: { guard }, requestHandler }: MatrixAgent): Promise<MatrixHost> {
  const sdk = sdkRouters(requestHandler, userBuilder(guard))
  const app = Fastify()
  const run = async (request: FastifyRequest, reply: FastifyReply) => {
    reply.hijack()
    Object.assign(request.raw, { body: request.body })
    sdk(request.raw as never, reply.raw as never)
  }
  for (const binding of HTTP) {
    const mount = PATHS[binding]
    await app.register(
      plugin(async (scope) => {
        await scope.register(fastifyGuard, { guard, mount, binding })
        scope.all(mount, run)
        scope.all(`${mount}/*`, run)
      }),
    )
  }
  await app.listen({ port: 0, host: '127.0.0.1' })
  return { send: overHttp((app.server.address() as AddressInfo).port), close: () => app.close() }
}

async function onRequest({ rig: { guard }, requestHandler }: MatrixAgent): Promise<MatrixHost> {
  const allowed = new WeakMap<object, Request>()
  const user = userBuilder(guard)
  const sdk = sdkRouters(requestHandler, async (req) => user(allowed.get(req) ?? req))
  const guards = {
    '/rpc': webGuard(guard, { mount: '/rpc', binding: 'JSONRPC' }),
    '/rest': webGuard(guard, { mount: '/rest', binding: 'HTTP+JSON' }),
  }
  const server = await serveWeb(async (request, peer, { req, res }) => {
    const mount = new URL(request.url).pathname.startsWith('/rpc') ? '/rpc' : '/rest'
    return guards[mount](
      request,
      async (passed) => {
        const text = await passed.text()
        const headers = Object.fromEntries(passed.headers)
        Object.assign(req as IncomingMessage, { headers, body: text === '' ? undefined : JSON.parse(text) })
        req.rawHeaders.splice(0, req.rawHeaders.length, ...Object.entries(headers).flat())
        allowed.set(req, passed)
        sdk(req, res as never)
        return WRITTEN
      },
      peer,
    )
  })
  return { send: overHttp(server.port), close: () => server.close() }
}

async function onGrpc({ rig: { guard }, requestHandler }: MatrixAgent): Promise<MatrixHost> {
  const options = { requestHandler, userBuilder: userBuilder(guard) }
  const server = new Server(grpcServerOptions(guard))
  server.addService(A2AService, grpcService(options))
  server.addService(LegacyA2AService, legacyGrpcService(options))
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (fault, bound) =>
      fault === null ? resolve(bound) : reject(fault),
    ),
  )
  const caller = new GrpcCaller(port)
  return {
    async send({ path, headers, body }, credential, onFirst = () => {}) {
      const lines = [...Object.entries(headers).flat(), ...credential]
      const call = caller.start(path, encodeMessage(path, body), lines)
      void call.first.then(onFirst)
      const { code, details } = await call.answer
      return GRPC_OUTCOMES[code] ?? `other: ${code} ${details}`
    },
    async close() {
      caller.close()
      server.forceShutdown()
    },
  }
}

export const hosts: Readonly<
  Record<string, { bindings: readonly Binding[]; start(agent: MatrixAgent): Promise<MatrixHost> }>
> = {
  Express: { bindings: HTTP, start: onExpress },
  Fastify: { bindings: HTTP, start: onFastify },
  Request: { bindings: HTTP, start: onRequest },
  gRPC: { bindings: ['GRPC'], start: onGrpc },
}
