/** The gRPC adapter on real connections: what is read when, what a handler gets, and every way to end a call early. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import {
  credentials,
  type Metadata,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  type ServerOptions,
  type ServerUnaryCall,
  type ServerWritableStream,
  status,
  type UntypedHandleCall,
} from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { decisionFor, grpcGuard, grpcServerOptions } from '../../src/adapters/grpc.ts'
import type { Guard } from '../../src/guard.ts'
import type { AllowedDecision } from '../../src/types.ts'
import { createClientAuthority } from '../support/client-authority.ts'
import { createClientChain } from '../support/client-chain.ts'
import { encodeMessage, GrpcCaller, services, statusDetails } from '../support/grpc-calls.ts'
import { rawGrpcCall } from '../support/raw-grpc.ts'
import { API_KEY, makeRig, type Rig, rigCard } from '../support/rig.ts'
import { createAuthority } from '../support/server-certificate.ts'

const SEND = '/lf.a2a.v1.A2AService/SendMessage'
const STREAM = '/lf.a2a.v1.A2AService/SendStreamingMessage'
const GET = '/lf.a2a.v1.A2AService/GetTask'
const KEY = ['a2a-version', '1.0', 'x-api-key', API_KEY]
const getTask = encodeMessage(GET, { id: 't-1' })
const hello = (message: object = {}) =>
  encodeMessage(SEND, { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }], ...message } })

interface Ran {
  readonly metadata: Metadata
  readonly request: {
    id?: string
    name?: string
    tenant?: string
    message?: { metadata?: Record<string, unknown>; taskId?: string }
  }
  readonly decision: AllowedDecision | undefined
}

type Call = ServerUnaryCall<never, object> | ServerWritableStream<never, object>

interface Running {
  readonly port: number
  readonly ran: Ran[]
  readonly caller: GrpcCaller
  /** Set to hold a streaming handler open. Called with its call. */
  onStream: ((call: ServerWritableStream<never, object>) => void) | undefined
}

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

/** A server with both services and a service of somebody else's. */
async function serve(
  guard: Guard,
  options: ServerOptions = grpcServerOptions(guard),
  security = ServerCredentials.createInsecure(),
  channel = credentials.createInsecure(),
  channelOptions: object = {},
): Promise<Running> {
  const ran: Ran[] = []
  const server = new Server(options)
  const running: { onStream: Running['onStream'] } = { onStream: undefined }
  const handle = ((call: Call, done?: (fault: null, value: object) => void) => {
    ran.push({ metadata: call.metadata, request: call.request, decision: decisionFor(guard, call) })
    if (done !== undefined) return done(null, {})
    const stream = call as ServerWritableStream<never, object>
    if (running.onStream === undefined) stream.end()
    else running.onStream(stream)
  }) as UntypedHandleCall
  for (const service of services) {
    server.addService(service, Object.fromEntries(Object.keys(service).map((name) => [name, handle])))
  }
  const bytes = { requestSerialize: (b: Buffer) => b, requestDeserialize: (b: Buffer) => b }
  const other = (path: string, requestStream: boolean, responseStream: boolean) => ({
    path,
    requestStream,
    responseStream,
    ...bytes,
    responseSerialize: () => Buffer.alloc(0),
    responseDeserialize: (b: Buffer) => b,
  })
  server.addService(
    {
      check: other('/grpc.health.v1.Health/Check', false, false),
      upload: other('/other.Files/Upload', true, false),
      chat: other('/other.Files/Chat', true, true),
      // The path of an operation, as a service of one's own may spell it.
      stream: other('/a2a.v1.A2AService/ListTasks', true, true),
    },
    Object.fromEntries(['check', 'upload', 'chat', 'stream'].map((name) => [name, handle])),
  )
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', security, (fault, bound) => (fault === null ? resolve(bound) : reject(fault))),
  )
  const caller = new GrpcCaller(port, channel, channelOptions)
  closers.push(() => {
    caller.close()
    server.forceShutdown()
  })
  return Object.assign(running, { port, ran, caller })
}

let rig: Rig
beforeAll(async () => {
  rig = await makeRig()
})
afterAll(() => rig.close())

describe('what is read when', () => {
  it('A38 a call without a credential is refused while its message is still on the way', async () => {
    const { port, ran } = await serve(rig.guard)
    const session = connectHttp2(`http://127.0.0.1:${port}`)
    const stream = session.request({
      ':method': 'POST',
      ':path': SEND,
      'content-type': 'application/grpc',
      te: 'trailers',
      'a2a-version': '1.0',
    })
    const headers = await new Promise<Record<string, unknown>>((resolve) => stream.on('response', resolve))
    expect(headers['grpc-status']).toBe('16')
    expect(headers['www-authenticate']).toMatch(/^Bearer realm="a2a"/)
    stream.close()
    session.close()
    expect(ran).toEqual([])
  })

  it('nothing is decoded before the metadata is good: bytes that are no message make no difference', async () => {
    const { caller } = await serve(rig.guard)
    expect((await caller.call(SEND, Buffer.from('ffffffff', 'hex'))).code).toBe(status.UNAUTHENTICATED)
    expect((await caller.call(SEND, Buffer.from('ffffffff', 'hex'), KEY)).code).toBe(status.INTERNAL)
  })
})

describe('what the handler gets', () => {
  it('A51 no credential and no name that a caller gave itself, binary keys included', async () => {
    const { caller, ran } = await serve(rig.guard)
    const more = ['x-user-id', 'root', 'x-forwarded-user', 'root', 'cookie', 'sid=1', 'x-trace', 'kept']
    const metadata = [...KEY, ...more]
    const answer = await caller.call(GET, getTask, metadata, {})
    expect(answer.code).toBe(status.OK)
    expect(ran).toHaveLength(1)
    const seen = ran[0]?.metadata.toJSON() ?? {}
    expect(Object.keys(seen).toSorted()).toEqual(['a2a-version', 'user-agent', 'x-trace'])
    expect(ran[0]?.decision).toMatchObject({ principal: { subject: 'partner' }, operation: { taskId: 't-1' } })
  })

  it('A51 binary keys of the same names neither', async () => {
    const { port, ran } = await serve(rig.guard)
    const pairs = [
      ...KEY,
      'x-user-id-bin',
      'cm9vdA==',
      'authorization-bin',
      'eA==',
      'x-api-key-bin',
      'eA==',
      'x-kept-bin',
      'eA==',
    ]
    await rawGrpcCall(port, GET, pairs, [getTask])
    expect(Object.keys(ran[0]?.metadata.toJSON() ?? {}).filter((name) => name.endsWith('-bin'))).toEqual(['x-kept-bin'])
  })

  it('"keepCredential" leaves the credential and nothing else', async () => {
    const { caller, ran } = await serve(rig.guard, { interceptors: [grpcGuard(rig.guard, { keepCredential: true })] })
    await caller.call(GET, getTask, [...KEY, 'x-user-id', 'root'])
    expect(ran[0]?.metadata.get('x-api-key')).toEqual([API_KEY])
    expect(ran[0]?.metadata.get('x-user-id')).toEqual([])
  })

  it('the decision is about the message it runs on: the last of a field given twice, in both', async () => {
    const { caller, ran } = await serve(rig.guard)
    const twice = Buffer.concat([encodeMessage(GET, { id: 'mine' }), encodeMessage(GET, { id: 'theirs', tenant: 'x' })])
    await caller.call(GET, twice, KEY)
    expect(ran[0]?.decision?.operation).toMatchObject({ taskId: ran[0]?.request.id, tenant: ran[0]?.request.tenant })
    expect(ran[0]?.request).toMatchObject({ id: 'theirs', tenant: 'x' })
  })

  it('fields that nobody knows, and a second variant of a oneof, change neither', async () => {
    const { caller, ran } = await serve(rig.guard)
    const part = new BinaryWriter().uint32(10).string('text').uint32(26).string('https://other.example').finish()
    const message = new BinaryWriter().uint32(10).string('m').uint32(32).int32(1).uint32(42).bytes(part).finish()
    const odd = new BinaryWriter().uint32(18).bytes(message).uint32(7994).string('unknown').finish()
    expect((await caller.call(SEND, Buffer.from(odd), KEY)).code).toBe(status.OK)
    expect(ran[0]?.decision?.operation.name).toBe('SendMessage')
  })

  it('A53 a name in metadata that would be the prototype hides no skill', async () => {
    const strict = await makeRig({ policy: { skills: { select: { metadata: 'skillId' } } } })
    const { caller, ran } = await serve(strict.guard)
    for (const metadata of [
      { ['__proto__']: { skillId: 'unknown' } },
      JSON.parse('{"__proto__":{"skillId":"unknown"}}'),
    ]) {
      await caller.call(SEND, hello({ metadata }), KEY)
    }
    for (const { request } of ran) expect(request.message?.metadata?.skillId).toBeUndefined()
    const before = ran.length
    expect((await caller.call(SEND, hello({ metadata: { skillId: 'unknown' } }), KEY)).code).toBe(
      status.PERMISSION_DENIED,
    )
    expect(ran).toHaveLength(before)
    await strict.close()
  })
})

describe('P136 what is ambiguous or unknown', () => {
  it('of several authorization entries the first is read, and no handler reads another', async () => {
    const { port, ran } = await serve(rig.guard)
    const good = `Bearer ${await rig.token()}`
    const version = ['a2a-version', '1.0']
    await rawGrpcCall(port, GET, [...version, 'authorization', 'Bearer bad', 'authorization', good], [getTask])
    expect(ran).toEqual([])
    await rawGrpcCall(port, GET, [...version, 'authorization', good, 'authorization', 'Bearer bad'], [getTask])
    expect(ran[0]?.metadata.get('authorization')).toEqual([])
  })

  it.each([
    ['an API key twice', ['a2a-version', '1.0', 'x-api-key', API_KEY, 'x-api-key', API_KEY]],
    ['a version twice', [...KEY, 'a2a-version', '1.0']],
    ['a version that contradicts the service', ['a2a-version', '0.3', 'x-api-key', API_KEY]],
    [
      'a credential as binary metadata',
      ['a2a-version', '1.0', 'x-api-key-bin', Buffer.from(API_KEY).toString('base64')],
    ],
  ])('%s is refused and nothing runs', async (_, lines) => {
    const { port, ran } = await serve(rig.guard)
    const { grpcStatus } = await rawGrpcCall(port, GET, lines, [getTask])
    expect([status.UNAUTHENTICATED, status.PERMISSION_DENIED, status.INVALID_ARGUMENT]).toContain(grpcStatus)
    expect(ran).toEqual([])
  })

  it(':authority says nothing about who or where', async () => {
    const { port, ran } = await serve(rig.guard)
    const answer = await rawGrpcCall(port, GET, KEY, [getTask], { authority: 'localhost:1@evil.example' })
    expect(answer.grpcStatus).toBe(status.OK)
    expect(ran[0]?.metadata.get(':authority')).toEqual([])
    expect(JSON.stringify(ran[0]?.decision)).not.toContain('evil')
  })

  it.each([
    ['/grpc.health.v1.Health/Check', status.PERMISSION_DENIED],
    ['/other.Files/Upload', status.INVALID_ARGUMENT],
    ['/other.Files/Chat', status.INVALID_ARGUMENT],
    ['/a2a.v1.A2AService/ListTasks', status.INVALID_ARGUMENT],
  ])('P139 %s is no operation, with or without a credential', async (path, code) => {
    const { caller, ran } = await serve(rig.guard)
    expect((await caller.call(path, Buffer.alloc(1))).code).toBe(status.UNAUTHENTICATED)
    expect((await caller.call(path, Buffer.alloc(1), ['x-api-key', API_KEY])).code).toBe(code)
    expect(ran).toEqual([])
  })

  it.each(['/lf.a2a.v1.A2AService/getTask', '/lf.a2a.v1.A2AService/GetTask/', '/LF.a2a.v1.A2AService/GetTask'])(
    '%s is served by nobody',
    async (path) => {
      const { caller, ran } = await serve(rig.guard)
      expect((await caller.call(path, getTask, KEY)).code).toBe(status.UNIMPLEMENTED)
      expect(ran).toEqual([])
    },
  )

  it('no message, and a second message, run nothing', async () => {
    const { port, ran } = await serve(rig.guard)
    expect((await rawGrpcCall(port, GET, KEY, [])).grpcStatus).toBe(status.INVALID_ARGUMENT)
    expect((await rawGrpcCall(port, GET, KEY, [getTask, getTask])).grpcStatus).toBe(status.INVALID_ARGUMENT)
    expect((await rawGrpcCall(port, STREAM, KEY, [hello(), hello()])).grpcStatus).toBe(status.INVALID_ARGUMENT)
    expect(ran).toEqual([])
  })
})

describe('limits', () => {
  let small: Rig
  beforeAll(async () => {
    small = await makeRig({ policy: { maxBodyBytes: 2048 } })
  })
  afterAll(() => small.close())

  it.each([
    ['by grpc-js, with the options', () => grpcServerOptions(small.guard), false],
    ['by the interceptor alone', () => ({ interceptors: [grpcGuard(small.guard)] }), true],
  ])('a message over maxBodyBytes is refused %s', async (_, options, withDetails) => {
    const { caller, ran } = await serve(small.guard, options())
    const answer = await caller.call(SEND, hello({ parts: [{ text: 'x'.repeat(3000) }] }), KEY)
    expect(answer.code).toBe(status.RESOURCE_EXHAUSTED)
    if (withDetails)
      expect(statusDetails(answer.metadata)).toMatchObject({ code: 8, details: [{ fields: { 1: 'INVALID_REQUEST' } }] })
    expect(ran).toEqual([])
    expect((await caller.call(SEND, hello(), KEY)).code).toBe(status.OK)
  })

  it('a compressed message is measured unpacked', async () => {
    const { port, ran } = await serve(small.guard)
    const bomb = gzipSync(hello({ parts: [{ text: 'x'.repeat(1_000_000) }] }))
    expect(bomb.length).toBeLessThan(2048)
    const lines = [...KEY, 'grpc-encoding', 'gzip']
    expect((await rawGrpcCall(port, SEND, lines, [bomb], { compressed: true })).grpcStatus).toBe(
      status.RESOURCE_EXHAUSTED,
    )
    expect(ran).toEqual([])
    expect((await rawGrpcCall(port, SEND, lines, [gzipSync(hello())], { compressed: true })).grpcStatus).toBe(status.OK)
  })

  it('nesting that JSON could not have is refused', async () => {
    const { caller, ran } = await serve(rig.guard)
    let deep: unknown = 1
    for (let i = 0; i < 300; i += 1) deep = { a: deep }
    expect((await caller.call(SEND, hello({ metadata: { deep } }), KEY)).code).toBe(status.INVALID_ARGUMENT)
    expect(ran).toEqual([])
  })

  it('too many failed attempts are RESOURCE_EXHAUSTED and say for how long', async () => {
    const limited = await makeRig({ policy: { limits: { failedAuthentication: '1/min' } } })
    const { caller } = await serve(limited.guard)
    const bad = ['a2a-version', '1.0', 'x-api-key', 'wrong-key-that-nobody-has-00001']
    expect((await caller.call(GET, getTask, bad)).code).toBe(status.UNAUTHENTICATED)
    const answer = await caller.call(GET, getTask, bad)
    expect(answer.code).toBe(status.RESOURCE_EXHAUSTED)
    expect(Number(answer.metadata.get('retry-after')[0])).toBeGreaterThan(0)
    expect(statusDetails(answer.metadata)?.details.map(({ type }) => type)).toEqual([
      'type.googleapis.com/google.rpc.ErrorInfo',
      'type.googleapis.com/google.rpc.RetryInfo',
    ])
    await limited.close()
  })
})

describe('calls that end early', () => {
  it('what a refused caller goes on sending is not taken', async () => {
    const { port } = await serve(rig.guard)
    const session = connectHttp2(`http://127.0.0.1:${port}`)
    const stream = session.request({
      ':method': 'POST',
      ':path': SEND,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    const headers = await new Promise<Record<string, unknown>>((resolve) => stream.on('response', resolve))
    expect(headers['grpc-status']).toBe('16')
    let sent = 0
    const closed = new Promise<void>((resolve) => {
      stream.once('close', resolve)
    })
    // As fast as it is taken: without an end to it, some hundred megabytes in a second.
    const push = () => {
      while (!stream.closed && sent < 50e6) {
        sent += 65_536
        if (!stream.write(Buffer.alloc(65_536))) return
      }
    }
    stream
      .on('drain', push)
      .on('error', () => {})
      .resume()
    push()
    await closed
    expect(sent).toBeLessThan(2e6)
    expect(stream.rstCode).toBe(0)
    session.close()
  })

  /** A guard whose authentication waits until it is let go. */
  function waiting(guard: Guard) {
    let go = () => {}
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    let asked = () => {}
    const entered = new Promise<void>((resolve) => {
      asked = resolve
    })
    const slow: Guard = {
      ...guard,
      async authenticate(request) {
        asked()
        await gate
        return guard.authenticate(request)
      },
    }
    let told = () => {}
    const cancelled = new Promise<void>((resolve) => {
      told = resolve
    })
    // Behind the guard, to know when the server has learned that the client is gone.
    const observer: ServerInterceptor = (_, call) =>
      new ServerInterceptingCall(call, { start: (next) => next({ onCancel: told }) })
    const options = { interceptors: [grpcGuard(slow), observer] }
    return { slow, go, entered, cancelled, options }
  }

  it('a deadline that passes while the guard waits ends the call, and the handler never runs', async () => {
    const { slow, go, cancelled, options } = waiting(rig.guard)
    const { caller, port, ran } = await serve(slow, options)
    // Written by hand, so that it is the server who notices.
    const answer = await rawGrpcCall(port, GET, [...KEY, 'grpc-timeout', '50m'], [getTask])
    expect(answer.grpcStatus).toBe(status.DEADLINE_EXCEEDED)
    await cancelled
    go()
    expect((await caller.call(GET, getTask)).code).toBe(status.UNAUTHENTICATED)
    expect(ran).toEqual([])
  })

  it('a call that its client cancels while the guard waits never runs', async () => {
    const { slow, go, entered, cancelled, options } = waiting(rig.guard)
    const { caller, ran } = await serve(slow, options)
    const call = caller.start(GET, getTask, KEY)
    await entered
    call.cancel()
    expect((await call.answer).code).toBe(status.CANCELLED)
    await cancelled
    go()
    expect((await caller.call(GET, getTask)).code).toBe(status.UNAUTHENTICATED)
    expect(ran).toEqual([])
  })

  it('a stream passes message by message, and a cancel reaches the handler', async () => {
    const running = await serve(rig.guard)
    let cancelled = () => {}
    const end = new Promise<void>((resolve) => {
      cancelled = resolve
    })
    running.onStream = (call) => {
      call.on('cancelled', cancelled)
      call.write({})
    }
    const call = running.caller.start(STREAM, hello(), KEY)
    await call.first
    call.cancel()
    await end
    expect(running.ran[0]?.decision?.operation.name).toBe('SendStreamingMessage')
  })

  it.each(['authenticate', 'authorize'] as const)(
    'a fault in %s is INTERNAL without detail, and nothing runs',
    async (name) => {
      const faults: unknown[] = []
      const broken = {
        ...rig.guard,
        [name]: () => {
          throw new Error('a secret inside')
        },
      } as Guard
      const { caller, ran } = await serve(broken, {
        interceptors: [grpcGuard(broken, { onFault: (fault) => faults.push(fault) })],
      })
      const answer = await caller.call(GET, getTask, KEY)
      expect([answer.code, answer.details]).toEqual([status.INTERNAL, 'Internal error'])
      expect(answer.metadata.get('grpc-status-details-bin')).toEqual([])
      expect(faults).toEqual([new Error('a secret inside')])
      expect(ran).toEqual([])
    },
  )

  it('a closed guard is UNAVAILABLE', async () => {
    const closed = await makeRig()
    await closed.close()
    const { caller, ran } = await serve(closed.guard)
    expect((await caller.call(GET, getTask, KEY)).code).toBe(status.UNAVAILABLE)
    expect(ran).toEqual([])
  })

  it('options are checked', () => {
    expect(() => grpcGuard(rig.guard, { keepCredential: 1 as never })).toThrow(/^"keepCredential"/)
    expect(() => grpcGuard(rig.guard, { onFault: 1 as never })).toThrow(/^"onFault"/)
  })
})

describe('A29 the guard is there', () => {
  it('userBuilder takes the calls of its own guard and no other', async () => {
    const other = await makeRig()
    const { caller, ran } = await serve(rig.guard)
    await caller.call(GET, getTask, KEY)
    const call = { metadata: ran[0]?.metadata as Metadata }
    expect((await userBuilder(rig.guard)(call)).userName).toContain('partner')
    await expect(userBuilder(other.guard)(call)).rejects.toMatchObject({ code: 'ERR_GUARD_NOT_MOUNTED' })
    for (const bare of [{}, { metadata: call.metadata.clone() }, { metadata: null }, { metadata: 'x' }])
      await expect(userBuilder(rig.guard)(bare)).rejects.toMatchObject({ code: 'ERR_GUARD_NOT_MOUNTED' })
    await other.close()
  })
})

describe('client certificates', () => {
  it('A51 P88 a header of a trusted proxy is one, of anybody else none, and no handler sees either', async () => {
    const authority = createClientAuthority()
    const agent = authority.issue([6, 'spiffe://example.org/agents/one'])
    const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-grpc-'))
    closers.push(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, 'ca.pem'), authority.cert)
    const pem = encodeURIComponent(agent.cert)
    const lines = ['a2a-version', '1.0', 'x-amzn-mtls-clientcert', pem, 'x_amzn_mtls_clientcert', pem]
    for (const [trusted, code] of [
      ['127.0.0.0/8', status.OK],
      ['10.0.0.0/8', status.UNAUTHENTICATED],
    ] as const) {
      const clientCertificate = { header: 'X-Amzn-Mtls-Clientcert', format: 'pem', trustedProxies: [trusted] }
      const mesh = await makeRig({
        card: rigCard({
          securitySchemes: {
            mesh: { mtlsSecurityScheme: {} },
            key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
          },
          securityRequirements: [{ schemes: { mesh: { list: [] } } }, { schemes: { key: { list: [] } } }],
        }),
        policy: {
          schemes: {
            mesh: { ca: `file:${folder}/ca.pem`, identities: ['spiffe://example.org/agents/*'], clientCertificate },
            key: { keys: 'file:./keys.json' },
          },
        },
      })
      const { caller, ran } = await serve(mesh.guard)
      expect((await caller.call(GET, getTask, lines)).code).toBe(code)
      expect((await caller.call(GET, getTask, [...lines, 'x-api-key', API_KEY])).code).toBe(status.OK)
      expect(ran.map(({ metadata }) => Object.keys(metadata.toJSON()).filter((name) => /cert/.test(name)))).toEqual(
        ran.map(() => []),
      )
      await mesh.close()
    }
  })

  it('A51 the certificate of the connection is judged with what came along, and a header is none', async () => {
    const chain = createClientChain('spiffe://example.org/agents/one')
    const authority = createAuthority()
    const { key, cert } = authority.issue('localhost')
    const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-grpc-'))
    closers.push(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, 'ca.pem'), chain.root)
    const mesh = await makeRig({
      card: rigCard({
        securitySchemes: { mesh: { mtlsSecurityScheme: {} } },
        securityRequirements: [{ schemes: { mesh: { list: [] } } }],
      }),
      policy: { schemes: { mesh: { ca: `file:${folder}/ca.pem`, identities: ['spiffe://example.org/agents/*'] } } },
      guard: { clock: Date.now },
    })
    const pair = [{ private_key: Buffer.from(key), cert_chain: Buffer.from(cert) }]
    const start = (client: { key?: Buffer; chain?: Buffer }, asks: boolean) =>
      serve(
        mesh.guard,
        grpcServerOptions(mesh.guard),
        ServerCredentials.createSsl(Buffer.from(chain.root), pair, asks),
        credentials.createSsl(Buffer.from(authority.certificate), client.key ?? null, client.chain ?? null),
        { 'grpc.ssl_target_name_override': 'localhost' },
      )
    const version = ['a2a-version', '1.0']
    const withOne = await start(
      { key: Buffer.from(chain.key), chain: Buffer.from(chain.leaf + chain.intermediate) },
      true,
    )
    const answer = await withOne.caller.call(GET, getTask, version)
    expect([answer.code, answer.details]).toEqual([status.OK, 'OK'])
    expect(withOne.ran[0]?.decision?.principal?.subject).toBe('spiffe://example.org/agents/one')
    const without = await start({}, false)
    const forged = [...version, 'x-forwarded-client-cert', 'URI=spiffe://example.org/agents/one']
    expect((await without.caller.call(GET, getTask, forged)).code).toBe(status.UNAUTHENTICATED)
    expect(without.ran).toEqual([])
    await mesh.close()
  })
})
