/**
 * The guarded fetch over TLS and through a proxy: the address is pinned and the name is still what is proved. The client
 * is a process of its own on the built package, because that is how it can be given an authority to trust.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer, type IncomingMessage } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, connect, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { EgressOptions } from '../../src/egress/index.ts'
import { createAuthority } from '../support/server-certificate.ts'

const FRIEND = '127.0.0.2'
const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-tls-'))
const trusted = createAuthority()
const ca = join(folder, 'ca.pem')
writeFileSync(ca, trusted.certificate)

interface Hit {
  readonly name: string | false | null
  readonly host: string | undefined
  readonly url: string | undefined
  readonly authorization: string | undefined
}
let hits: Hit[]
let connections: { secure: number; other: number; untrusted: number; plain: number; inside: number }
let asked: { line: string; headers: IncomingMessage['headers'] }[]
let proxyAnswers: 'dials' | 'refuses' | 'hangs'

const record = (request: IncomingMessage) =>
  hits.push({
    name: (request.socket as TLSSocket).servername ?? null,
    host: request.headers.host,
    url: request.url,
    authorization: request.headers.authorization,
  })
const serve = createHttpsServer(trusted.issue('hooks.example.com'), (request, response) => {
  record(request)
  const to = new URL(request.url ?? '', 'http://x').searchParams.get('to')
  if (to === null) response.end('ok')
  else response.writeHead(302, { location: to }).end()
})
const other = createHttpsServer(trusted.issue('other.example.com'), (request, response) => {
  record(request)
  response.end('other')
})
const untrusted = createHttpsServer(createAuthority().issue('hooks.example.com'), (request, response) => {
  record(request)
  response.end('untrusted')
})
const plain = createHttpServer((request, response) => {
  record(request)
  const to = new URL(request.url ?? '', 'http://x').searchParams.get('to')
  if (to === null) response.end('plain')
  else response.writeHead(302, { location: to }).end()
})
const inside = createHttpServer((_, response) => response.end('inside'))
const proxy = createHttpServer((_, response) => response.writeHead(500).end())
const sockets = new Set<Socket>()
proxy.on('connect', (request: IncomingMessage, socket: Socket) => {
  asked.push({ line: `${request.method} ${request.url}`, headers: request.headers })
  sockets.add(socket)
  socket.on('error', () => undefined)
  if (proxyAnswers === 'hangs') return
  if (proxyAnswers === 'refuses') return void socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
  const upstream = connect(portOf(serve), FRIEND, () => {
    socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
    upstream.pipe(socket).pipe(upstream)
  })
  upstream.on('error', () => socket.destroy())
  socket.on('close', () => upstream.destroy())
})

const servers = { secure: serve, other, untrusted, plain, inside }
const portOf = (server: Server): number => (server.address() as AddressInfo).port
beforeAll(async () => {
  for (const [name, server] of Object.entries(servers)) {
    server.on('connection', () => {
      connections[name as keyof typeof connections] += 1
    })
    server.on('tlsClientError', () => undefined)
    await new Promise<void>((resolve) => server.listen(0, name === 'inside' ? '127.0.0.1' : FRIEND, resolve))
  }
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  for (const server of [...Object.values(servers), proxy]) {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  hits = []
  asked = []
  connections = { secure: 0, other: 0, untrusted: 0, plain: 0, inside: 0 }
  proxyAnswers = 'dials'
})

type Call = readonly [url: string, init?: object]
async function fetchAll(calls: readonly Call[], options: EgressOptions = {}): Promise<unknown> {
  const instructions = {
    options: { ports: Object.values(servers).map(portOf), allowAddresses: [FRIEND], timeoutMs: 5000, ...options },
    hosts: { 'hooks.example.com': [FRIEND], 'inside.example.com': ['127.0.0.1'] },
    calls,
  }
  const script = join(import.meta.dirname, '../support/egress-client.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(instructions)], {
    env: { ...process.env, NODE_EXTRA_CA_CERTS: ca },
  })
  return JSON.parse(stdout)
}
const at = (server: Server, path = '/', host = 'hooks.example.com') => `https://${host}:${portOf(server)}${path}`

describe('https', () => {
  it('A69 the address is pinned, and SNI, Host and the certificate are those of the name', async () => {
    const spoofed = { headers: { host: 'other.example.com' } }
    expect(
      await fetchAll([[at(serve, '/1')], [at(serve, '/2'), spoofed], [at(serve, '/3', 'HOOKS.example.com')]]),
    ).toEqual(Array(3).fill({ status: 200, body: 'ok' }))
    const host = `hooks.example.com:${portOf(serve)}`
    expect(hits).toMatchObject(['/1', '/2', '/3'].map((url) => ({ name: 'hooks.example.com', host, url })))
    // At least one of them went over a connection that was there already.
    expect(connections.secure).toBeLessThan(3)
  })

  it('a final dot in the URL is one and the same host', async () => {
    expect(await fetchAll([[at(serve, '/', 'hooks.example.com.')]])).toEqual([{ status: 200, body: 'ok' }])
    expect(hits).toMatchObject([{ name: 'hooks.example.com' }])
  })

  it.each([
    ['of another name', () => other, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['of an authority nobody trusts', () => untrusted, 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
  ])('a certificate %s ends the connection before a request', async (_, server, reason) => {
    expect(await fetchAll([[at(server()), { method: 'POST', body: 's3cr3t' }]])).toEqual([
      { code: 'ERR_EGRESS_FAILED', reason },
    ])
    expect(hits).toEqual([])
    expect(connections.other + connections.untrusted).toBe(1)
  })

  it('P157 a redirect between schemes is judged like any URL, and never leads from https to http', async () => {
    const down = encodeURIComponent(`http://hooks.example.com:${portOf(plain)}/`)
    const up = encodeURIComponent(at(serve, '/up'))
    const hidden = encodeURIComponent(at(inside, '/', 'inside.example.com'))
    const start = `http://hooks.example.com:${portOf(plain)}`
    const outcomes = await fetchAll([[at(serve, `/?to=${down}`)], [`${start}/?to=${hidden}`], [`${start}/?to=${up}`]], {
      requireHttps: false,
      redirects: 3,
    })
    expect(outcomes).toMatchObject([
      { code: 'ERR_EGRESS_REDIRECT' },
      { code: 'ERR_EGRESS_ADDRESS' },
      { status: 200, body: 'ok' },
    ])
    expect(hits.map(({ url }) => url)).toEqual([`/?to=${down}`, `/?to=${hidden}`, `/?to=${up}`, '/up'])
    expect(connections.inside).toBe(0)
  })
})

describe('a proxy', () => {
  const through = () => ({ proxy: `http://user:pass@127.0.0.1:${portOf(proxy)}` })

  it('is told host and port and its own credential, and TLS goes through it to the name', async () => {
    const headers = { authorization: 'Bearer s3cr3t' }
    expect(await fetchAll([[at(serve, '/?token=s3cr3t', 'hooks.example.com'), { headers }]], through())).toEqual([
      { status: 200, body: 'ok' },
    ])
    expect(hits).toMatchObject([{ name: 'hooks.example.com', authorization: 'Bearer s3cr3t' }])
    expect(asked).toMatchObject([
      {
        line: `CONNECT hooks.example.com:${portOf(serve)}`,
        headers: { 'proxy-authorization': `Basic ${Buffer.from('user:pass').toString('base64')}` },
      },
    ])
    expect(JSON.stringify(asked)).not.toContain('s3cr3t')
    expect(hits[0]).not.toHaveProperty('proxy-authorization')
  })

  it('may lead to another server, whose certificate then does not fit', async () => {
    expect(await fetchAll([[at(other, '/', 'other.example.com')]], through())).toEqual([
      { code: 'ERR_EGRESS_FAILED', reason: 'ERR_TLS_CERT_ALTNAME_INVALID' },
    ])
    expect(hits).toEqual([])
  })

  it('that refuses or hangs is a code; nothing is sent another way', async () => {
    proxyAnswers = 'refuses'
    expect(await fetchAll([[at(serve)]], through())).toMatchObject([{ code: 'ERR_EGRESS_FAILED' }])
    proxyAnswers = 'hangs'
    expect(await fetchAll([[at(serve)]], { ...through(), timeoutMs: 300 })).toMatchObject([
      { code: 'ERR_EGRESS_TIMEOUT' },
    ])
    expect(connections.secure).toBe(0)
  })

  it('is not asked for what the URL rules refuse', async () => {
    const refused = [
      at(serve, '/', '127.0.0.1'),
      at(serve, '/', 'user:x@hooks.example.com'),
      'https://hooks.example.com:1/',
    ]
    expect(
      await fetchAll(
        refused.map((url) => [url] as const),
        through(),
      ),
    ).toMatchObject([{ code: 'ERR_EGRESS_ADDRESS' }, { code: 'ERR_EGRESS_USERINFO' }, { code: 'ERR_EGRESS_PORT' }])
    expect(asked).toEqual([])
  })
})
