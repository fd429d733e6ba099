/** The ways a request can reach the guard: the columns of the contract. */
import { request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import express from 'express'
import Fastify from 'fastify'
import { decisionFor, expressGuard } from '../../src/adapters/express.ts'
import { decisionFor as fastifyDecisionFor, fastifyGuard } from '../../src/adapters/fastify.ts'
import { decisionFor as grpcDecisionFor, grpcServerOptions } from '../../src/adapters/grpc.ts'
import { webGuard } from '../../src/adapters/web.ts'
import type { Guard } from '../../src/guard.ts'
import type { Binding, OperationName } from '../../src/types.ts'
import { encodeMessage, GrpcCaller, services, statusDetails } from '../support/grpc-calls.ts'
import { serveWeb } from '../support/web-server.ts'
import type { ContractRequest } from './operations.ts'

export interface Answer {
  /** HTTP status, or gRPC status code. */
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
  /** The operation the protected handler ran, if it ran. */
  readonly ran?: OperationName
}

export interface Column {
  readonly name: string
  readonly bindings: readonly Binding[]
  /** `credential` are raw header lines, name and value alternating. */
  send(request: ContractRequest, credential: readonly string[]): Promise<Answer>
  close(): Promise<void>
}

type StartColumn = (guard: Guard) => Promise<Column>

/** Sends on a real socket, header lines as they are given, and says which operation the handler ran. */
function overHttp(port: number, ran: readonly OperationName[]): Column['send'] {
  return async ({ method, path, headers, body }, credential) => {
    const before = ran.length
    const raw = ['host', 'agent.example', ...Object.entries(headers).flat(), ...credential]
    const payload = body === undefined ? undefined : JSON.stringify(body)
    if (payload !== undefined) raw.push('content-length', String(Buffer.byteLength(payload)))
    const answer = await new Promise<Answer>((resolve, reject) => {
      httpRequest({ port, host: '127.0.0.1', method, path: `/agent${path}`, headers: raw }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString(),
          }),
        )
      })
        .on('error', reject)
        .end(payload)
    })
    const [operation] = ran.slice(before)
    return operation === undefined ? answer : { ...answer, ran: operation }
  }
}

const bareCore: StartColumn = async (guard) => ({
  name: 'bare core',
  bindings: ['JSONRPC', 'HTTP+JSON'],
  async send({ method, path, headers, body }, credential) {
    const decision = await guard.check({
      method,
      target: path,
      rawHeaders: [...Object.entries(headers).flat(), ...credential],
      ...(body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) }),
    })
    if (decision.allowed)
      return { status: 200, headers: decision.headers ?? {}, body: '', ran: decision.operation.name }
    return { status: decision.denial.status, headers: decision.denial.headers, body: decision.denial.body }
  },
  close: async () => {},
})

const overExpress: StartColumn = async (guard) => {
  const ran: OperationName[] = []
  const app = express()
  app.use('/agent', expressGuard(guard), (req, res) => {
    ran.push(decisionFor(guard, req)?.operation.name as OperationName)
    res.json({ ok: true })
  })
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  return {
    name: 'express',
    bindings: ['JSONRPC', 'HTTP+JSON'],
    send: overHttp(port, ran),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

const overFastify: StartColumn = async (guard) => {
  const ran: OperationName[] = []
  const app = Fastify()
  await app.register(fastifyGuard, { guard, mount: '/agent' })
  app.all('/agent/*', async (request) => {
    ran.push(fastifyDecisionFor(guard, request)?.operation.name as OperationName)
    return { ok: true }
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  return { name: 'fastify', bindings: ['JSONRPC', 'HTTP+JSON'], send: overHttp(port, ran), close: () => app.close() }
}

const overGrpc: StartColumn = async (guard) => {
  const ran: OperationName[] = []
  const server = new Server(grpcServerOptions(guard))
  for (const service of services) {
    const answer = (
      call: Parameters<typeof grpcDecisionFor>[1] & { end?(): void },
      done?: (e: null, v: object) => void,
    ) => {
      ran.push(grpcDecisionFor(guard, call)?.operation.name as OperationName)
      done === undefined ? call.end?.() : done(null, {})
    }
    server.addService(service, Object.fromEntries(Object.keys(service).map((name) => [name, answer])))
  }
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (fault, bound) =>
      fault === null ? resolve(bound) : reject(fault),
    ),
  )
  const caller = new GrpcCaller(port)
  return {
    name: 'grpc',
    bindings: ['GRPC'],
    async send({ path, headers, body }, credential) {
      const before = ran.length
      const lines = [...Object.entries(headers).flat(), ...credential]
      const { code, metadata, initial } = await caller.call(path, encodeMessage(path, body), lines)
      const [operation] = ran.slice(before)
      return {
        status: code,
        headers: {
          'www-authenticate': metadata.get('www-authenticate').join(''),
          'dpop-nonce': [...initial.get('dpop-nonce'), ...metadata.get('dpop-nonce')][0]?.toString(),
        },
        body: JSON.stringify(statusDetails(metadata) ?? null),
        ...(operation === undefined ? {} : { ran: operation }),
      }
    },
    async close() {
      caller.close()
      server.forceShutdown()
    },
  }
}

const overRequest: StartColumn = async (guard) => {
  const ran: OperationName[] = []
  const protect = webGuard(guard, { mount: '/agent' })
  const server = await serveWeb((request, peer) =>
    protect(
      request,
      (_, decision) => {
        ran.push(decision.operation.name)
        return Response.json({ ok: true })
      },
      peer,
    ),
  )
  return {
    name: 'request',
    bindings: ['JSONRPC', 'HTTP+JSON'],
    send: overHttp(server.port, ran),
    close: () => server.close(),
  }
}

export const columns: Readonly<Record<string, StartColumn>> = {
  'bare core': bareCore,
  express: overExpress,
  fastify: overFastify,
  request: overRequest,
  grpc: overGrpc,
}
