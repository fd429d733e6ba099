/**
 * A real proxy in front: it ends TLS, writes what it saw into the header and passes the request on over plain HTTP to a
 * guarded Express server, as HAProxy does with the lines of docs/mtls.md.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import { Agent, createServer as createHttpsServer, request as httpsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import express, { type Request, type Response } from 'express'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { decisionFor, expressGuard } from '../../src/adapters/express.ts'
import { optionalClientCertificates } from '../../src/guard/client-certificates.ts'
import { createGuard, type Guard } from '../../src/guard.ts'
import type { DecisionEvent } from '../../src/types.ts'
import { type ClientCertificate, createClientAuthority, crlPem } from '../support/client-authority.ts'
import { AUDIENCE, NOW, rigCard } from '../support/rig.ts'
import { createAuthority } from '../support/server-certificate.ts'

const root = createClientAuthority()
const lower = root.intermediate('lower')
const NAME = 'spiffe://example.org/agent'
const alice = lower.issue([6, `${NAME}/alice`])
const mallory = lower.issue([6, `${NAME}/mallory`])
const gone = lower.issue([6, `${NAME}/gone`])

let folder: string
let guard: Guard
let port: number
let ran = 0
const events: DecisionEvent[] = []
const servers: { close(done: () => void): unknown; closeAllConnections(): void }[] = []

const bytes = (der: Uint8Array) => `:${Buffer.from(der).toString('base64')}:`

/** Lines for the agent: none of the caller's that are the proxy's to write, nor those its `Connection` lists. */
function forwarded(request: IncomingMessage): string[] {
  const own = new Set(['client-cert', 'client-cert-chain', 'connection', 'x-forwarded-for'])
  for (const name of (request.headers.connection ?? '').split(',')) own.add(name.trim().toLowerCase())
  const lines: string[] = []
  const leaf = (request.socket as TLSSocket).getPeerX509Certificate()
  if (leaf !== undefined) {
    const chain: string[] = []
    for (let next = leaf.issuerCertificate; next !== undefined; next = next.issuerCertificate)
      chain.push(bytes(next.raw))
    lines.push('Client-Cert', bytes(leaf.raw))
    if (chain.length > 0) lines.push('Client-Cert-Chain', chain.join(', '))
  }
  lines.push('X-Forwarded-For', [request.headers['x-forwarded-for'], '203.0.113.9'].filter(Boolean).join(', '))
  for (let at = 0; at + 1 < request.rawHeaders.length; at += 2) {
    const [name, value] = request.rawHeaders.slice(at, at + 2) as [string, string]
    if (!own.has(name.toLowerCase())) lines.push(name, value)
  }
  return lines
}

async function listen<T extends Server>(server: T): Promise<number> {
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  servers.push(server)
  return (server.address() as AddressInfo).port
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'a2a-trust-tls-proxy-'))
  writeFileSync(join(folder, 'ca.pem'), root.cert)
  writeFileSync(join(folder, 'crl.pem'), crlPem(root.crl()) + crlPem(lower.crl({ revoked: [gone.serial] })))
  const trusted = { trustedProxies: ['127.0.0.1'] }
  guard = await createGuard({
    policy: {
      version: 1,
      card: rigCard({
        capabilities: {},
        securitySchemes: { mesh: { mtlsSecurityScheme: {} } },
        securityRequirements: [{ schemes: { mesh: { list: [] } } }],
      }),
      audience: AUDIENCE,
      publicUrl: AUDIENCE,
      schemes: {
        mesh: {
          ca: 'file:./ca.pem',
          crl: 'file:./crl.pem',
          identities: [`${NAME}/alice`, `${NAME}/gone`, mallory.pin],
          clientCertificate: { header: 'client-cert', format: 'rfc9440', ...trusted },
        },
      },
      clientAddress: { header: 'x-forwarded-for', ...trusted },
    },
    baseDir: folder,
    clock: () => NOW * 1000,
    onDecision: (event) => events.push(event),
  })
  const app = express()
  app.use('/a2a', expressGuard(guard), (req: Request, res: Response) => {
    ran += 1
    res.json({ subject: decisionFor(guard, req)?.principal?.subject, headers: Object.keys(req.headers) })
  })
  const agentPort = await listen(createHttpServer(app))
  const options = optionalClientCertificates(createAuthority().issue('localhost'))
  port = await listen(
    createHttpsServer(options, (request, response) => {
      const to = { host: '127.0.0.1', port: agentPort, method: 'POST', path: request.url, headers: forwarded(request) }
      const passed = httpRequest({ ...to, agent: false }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      })
      request.pipe(passed)
    }) as unknown as Server,
  )
})
afterAll(async () => {
  for (const server of servers) {
    server.closeAllConnections()
    await new Promise<void>((resolve) => server.close(resolve))
  }
  await guard.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  ran = 0
  events.length = 0
})

interface Answer {
  readonly status: number
  readonly subject?: string
  readonly headers?: readonly string[]
}

function call(client: ClientCertificate | undefined, headers: Record<string, string> = {}): Promise<Answer> {
  const own = client === undefined ? {} : { cert: client.cert + lower.cert, key: client.key }
  const agent = new Agent({ rejectUnauthorized: false, ...own })
  const fixed = { 'content-type': 'application/json', 'a2a-version': '1.0' }
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path: '/a2a', method: 'POST', agent, headers: { ...fixed, ...headers } }
    const sent = httpsRequest(options, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => {
        agent.destroy()
        const status = response.statusCode ?? 0
        resolve({ status, ...(status === 200 ? (JSON.parse(text) as object) : {}) })
      })
    })
    sent.on('error', reject)
    sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } }))
  })
}

describe('behind a proxy that ends TLS', () => {
  it('the caller is who the handshake says, by name or by key, and the handler sees no certificate', async () => {
    const { status, subject, headers } = await call(alice)
    expect({ status, subject }).toEqual({ status: 200, subject: `${NAME}/alice` })
    expect(headers?.filter((name) => name.includes('cert'))).toEqual([])
    expect(await call(mallory)).toMatchObject({ status: 200, subject: mallory.pin })
    expect(events[0]).toMatchObject({ peerAddress: '127.0.0.1', clientAddress: '203.0.113.9' })
  })

  it.each<[string, Record<string, string>]>([
    ['as it is', {}],
    [
      'P88 that brings the header of another',
      { 'client-cert': bytes(alice.der), 'client-cert-chain': bytes(lower.der) },
    ],
    ['P88 that spells it in another way', { client_cert: bytes(alice.der), 'CLIENT-CERT': bytes(alice.der) }],
    ['P89 that has the header taken away', { connection: 'close, client-cert, client-cert-chain' }],
  ])('no certificate is none: a request %s', async (_, headers) => {
    expect(await call(undefined, headers)).toEqual({ status: 401 })
    expect(events[0]).toMatchObject({ code: 'ERR_CREDENTIAL_MISSING' })
    expect(ran).toBe(0)
  })

  it('P88 a header beside a certificate changes nothing', async () => {
    const headers = { 'client-cert': bytes(alice.der), 'x-forwarded-for': '198.51.100.1' }
    expect(await call(mallory, headers)).toMatchObject({ status: 200, subject: mallory.pin })
    expect(events[0]).toMatchObject({ clientAddress: '203.0.113.9' })
  })

  it('one that is revoked, or of nobody known, is refused', async () => {
    expect(await call(gone)).toEqual({ status: 401 })
    expect(await call(createClientAuthority('test root').issue([6, `${NAME}/alice`]))).toEqual({ status: 401 })
    expect(events.flatMap(({ failures }) => failures.map(({ code }) => code))).toEqual([
      'ERR_CERTIFICATE_REVOKED',
      'ERR_CERTIFICATE_UNTRUSTED',
    ])
    expect(ran).toBe(0)
  })
})
