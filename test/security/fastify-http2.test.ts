/** Fastify over HTTP/2, where a body needs neither Content-Length nor Transfer-Encoding (RFC 9113 §8.1.1). */
import { X509Certificate } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createSecureServer,
  type IncomingHttpHeaders,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { decisionFor, fastifyGuard } from '../../src/adapters/fastify.ts'
import { peerOf } from '../../src/adapters/node-request.ts'
import { optionalClientCertificates } from '../../src/guard/client-certificates.ts'
import type { Peer } from '../../src/types.ts'
import { createClientChain } from '../support/client-chain.ts'
import { plugin } from '../support/fastify-plugin.ts'
import { API_KEY, makeRig, paySkill, type Rig, rigCard } from '../support/rig.ts'
import { createAuthority } from '../support/server-certificate.ts'

let rig: Rig
let fastify: FastifyInstance
let session: ClientHttp2Session
let bodies: unknown[] = []

beforeAll(async () => {
  rig = await makeRig({
    card: rigCard({ skills: [...(rigCard().skills as object[]), paySkill] }),
    policy: { maxBodyBytes: 200_000, skills: { select: { metadata: 'skillId' }, undeclared: 'agent' } },
  })
  fastify = Fastify({ http2: true }) as unknown as FastifyInstance
  await fastify.register(
    plugin(async (agent) => {
      await agent.register(fastifyGuard, { guard: rig.guard, mount: '/a2a' })
      agent.all('/a2a', async (request) => {
        bodies.push(request.body)
        return decisionFor(rig.guard, request)?.operation
      })
      agent.all('/a2a/*', async (request) => {
        bodies.push(request.body)
        return decisionFor(rig.guard, request)?.operation
      })
    }),
  )
  await fastify.listen({ port: 0, host: '127.0.0.1' })
  session = connect(`http://127.0.0.1:${(fastify.server.address() as AddressInfo).port}`)
})
afterAll(async () => {
  session.destroy()
  await fastify.close()
  await rig.close()
})
beforeEach(() => {
  bodies = []
})

interface Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

function open(method: string, path: string, headers: Record<string, string>, endStream = false): ClientHttp2Stream {
  return session.request(
    { ':method': method, ':path': path, 'a2a-version': '1.0', 'content-type': 'application/json', ...headers },
    { endStream },
  )
}

function answerOf(stream: ClientHttp2Stream): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let headers: IncomingHttpHeaders = {}
    let body = ''
    stream.setEncoding('utf8')
    stream.on('response', (got) => {
      headers = got
    })
    stream.on('data', (chunk: string) => {
      body += chunk
    })
    stream.on('end', () => resolve({ status: Number(headers[':status']), headers, body }))
    stream.on('error', reject)
  })
}

async function post(path: string, body: string, headers: Record<string, string> = {}): Promise<Answer> {
  const stream = open('POST', path, headers)
  const answer = answerOf(stream)
  stream.end(body)
  return answer
}

const KEY = { 'x-api-key': API_KEY }

describe('fastifyGuard over HTTP/2', () => {
  it('reads a body that no header announces, and decides on it', async () => {
    const call = { jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't' } }
    const { status, body } = await post('/a2a', JSON.stringify(call), KEY)
    expect([status, JSON.parse(body)]).toMatchObject([200, { name: 'GetTask', taskId: 't' }])
    expect(bodies).toEqual([call])
  })

  it('A53 a skill, a tenant or nonsense in that body is not passed over', async () => {
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] }
    const pay = JSON.stringify({ message: { ...message, metadata: { skillId: 'pay' } } })
    expect(await post('/a2a/message:send', pay, KEY)).toMatchObject({ status: 403 })
    expect(await post('/a2a/tasks/t:cancel', '{"id":"other"}', KEY)).toMatchObject({ status: 400 })
    expect(await post('/a2a/tasks/t:cancel', 'nonsense', KEY)).toMatchObject({ status: 400 })
    expect(bodies).toEqual([])
    expect(await post('/a2a/message:send', JSON.stringify({ message }), KEY)).toMatchObject({ status: 200 })
    expect(bodies).toEqual([{ message }])
  })

  it('a request that ends with its headers has none, and one whose body is empty neither', async () => {
    expect(await answerOf(open('GET', '/a2a/tasks/t', KEY, true))).toMatchObject({ status: 200 })
    const stream = open('GET', '/a2a/tasks/t', KEY)
    const answer = answerOf(stream)
    stream.end()
    expect(await answer).toMatchObject({ status: 200 })
    expect(bodies).toEqual([undefined, undefined])
  })

  it('A58 an anonymous request is answered while its body is on the way, and its stream ended', async () => {
    const stream = open('POST', '/a2a', {})
    stream.write('{"jsonrpc":')
    const { status, headers } = await answerOf(stream)
    // Connection headers are malformed in HTTP/2 (RFC 9113 §8.2.2).
    expect([status, headers.connection]).toEqual([401, undefined])
    await new Promise((resolve) => (stream.closed ? resolve(undefined) : stream.once('close', resolve)))
    // RFC 9113 §8.1: an early and complete answer asks the client to stop with NO_ERROR.
    expect(stream.rstCode).toBe(0)
    expect(session.destroyed).toBe(false)
    expect(bodies).toEqual([])
  })

  it('a body over the limit is cut off, and the other streams of the connection go on', async () => {
    const stream = open('POST', '/a2a', KEY)
    const answer = answerOf(stream)
    for (let sent = 0; sent < 40; sent += 1) stream.write('x'.repeat(10_000))
    expect(await answer).toMatchObject({ status: 413 })
    await new Promise((resolve) => (stream.closed ? resolve(undefined) : stream.once('close', resolve)))
    const call = { jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't' } }
    expect(await post('/a2a', JSON.stringify(call), KEY)).toMatchObject({ status: 200 })
  })

  it('the peer of a stream is that of its connection, with the certificate it showed', async () => {
    const authority = createAuthority()
    const client = createClientChain('spiffe://example.org/agents/one')
    // Node hands out the certificates below the leaf once for each connection.
    const cert = client.leaf + client.intermediate
    const peers: Peer[] = []
    const server = createSecureServer(optionalClientCertificates(authority.issue('localhost')), (request, response) => {
      peers.push(peerOf(request as unknown as IncomingMessage))
      response.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const tls = connect(`https://localhost:${(server.address() as AddressInfo).port}`, {
      cert,
      key: client.key,
      ca: authority.certificate,
      lookup: (_host, _options, done) => done(null, [{ address: '127.0.0.1', family: 4 }] as never, 4),
    })
    try {
      for (let round = 0; round < 2; round += 1)
        await new Promise((resolve, reject) => {
          tls.on('error', reject)
          const stream = tls.request({ ':path': '/' }).on('end', resolve).on('error', reject)
          stream.resume()
        })
      expect(peers).toHaveLength(2)
      for (const { address, certificate } of peers) {
        expect(address).toMatch(/127\.0\.0\.1$/)
        const seen = [certificate?.raw, ...(certificate?.chain ?? [])].map((raw) => Buffer.from(raw ?? []))
        expect(seen).toEqual([client.leaf, client.intermediate].map((pem) => new X509Certificate(pem).raw))
      }
    } finally {
      tls.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  })
})
