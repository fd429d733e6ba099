/** Client certificates through real TLS connections, express and the whole guard. */
import { createHash, X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { Agent, createServer, request, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import express, { type Request, type Response } from 'express'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decisionFor, expressGuard } from '../../src/adapters/express.ts'
import { optionalClientCertificates } from '../../src/guard/client-certificates.ts'
import { createGuard, type Guard } from '../../src/guard.ts'
import { createClientAuthority } from '../support/client-authority.ts'
import { API_KEY, AUDIENCE, makeRig, NOW, type Rig, rigCard } from '../support/rig.ts'
import { createAuthority } from '../support/server-certificate.ts'

interface Case {
  readonly id: string
  readonly expect: 'valid' | 'invalid' | 'either'
  readonly now: number
  readonly trustAnchors: readonly string[]
  readonly intermediates: readonly string[]
  readonly leaf: string
  readonly leafKey?: string
  readonly identity?: { readonly spiffeId?: string | null }
}

const { cases } = JSON.parse(readFileSync(new URL('../vectors/x509/mtls-client.json', import.meta.url), 'utf8')) as {
  cases: Case[]
}

const { cases: spiffeIds } = JSON.parse(
  readFileSync(new URL('../vectors/x509/spiffe-ids.json', import.meta.url), 'utf8'),
) as { cases: { id: string; expect: 'valid' | 'invalid'; path?: string }[] }

/** Anchors of all kinds in the vectors; the guard gets those of the case. */
let rig: Rig
let server: Server
let port: number
let guard: Guard | undefined
let ran = 0

beforeAll(async () => {
  rig = await makeRig()
  const app = express()
  app.use(
    '/a2a',
    (req, res, next) => expressGuard(guard as Guard)(req, res, next),
    (req: Request, res: Response) => {
      ran += 1
      res.json({ principal: decisionFor(guard as Guard, req)?.principal?.id ?? null })
    },
  )
  // The server knows no authority of callers: whatever it says of a chain, the guard has to find out.
  const options = optionalClientCertificates({
    ...createAuthority().issue('localhost'),
    // Lets a weak certificate reach the guard.
    ciphers: 'DEFAULT:@SECLEVEL=0',
  })
  server = createServer(options, app).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  ;({ port } = server.address() as AddressInfo)
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await rig.close()
})

const card = rigCard({
  securitySchemes: {
    mesh: { mtlsSecurityScheme: {} },
    key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
  },
  securityRequirements: [{ schemes: { mesh: { list: [] } } }, { schemes: { key: { list: [] } } }],
})

async function guardFor({ trustAnchors, now }: Case, identities: readonly string[]): Promise<Guard> {
  writeFileSync(join(rig.folder, 'ca.pem'), trustAnchors.join(''))
  return createGuard({
    policy: {
      version: 1,
      card,
      audience: AUDIENCE,
      publicUrl: AUDIENCE,
      schemes: { mesh: { ca: 'file:./ca.pem', identities }, key: { keys: 'file:./keys.json' } },
    },
    baseDir: rig.folder,
    clock: () => now * 1000,
  })
}

type Answer = { readonly status: number; readonly body: string; readonly challenge: string | undefined }

/** One call on a connection of its own; rejects where TLS ends before there is an answer. */
function call(client: { cert?: string; key?: string }, headers: Record<string, string> = {}): Promise<Answer> {
  const agent = new Agent({ rejectUnauthorized: false, ciphers: 'DEFAULT:@SECLEVEL=0', ...client })
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } })
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port,
      path: '/a2a',
      method: 'POST',
      agent,
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
    }
    const sent = request(options, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => {
        agent.destroy()
        resolve({ status: response.statusCode ?? 0, body: text, challenge: response.headers['www-authenticate'] })
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

const own = ({ leaf, leafKey, intermediates }: Case) => ({
  cert: [leaf, ...intermediates].join(''),
  key: leafKey as string,
})
const testable = cases.filter(({ leafKey, trustAnchors }) => leafKey !== undefined && trustAnchors.length > 0)

/** Patterns that take whatever could be read as a SPIFFE ID in the vectors. */
const BROAD = ['example.org', 'trustdomain', 'trust_domain-1.x', 'staging.example.com'].flatMap((domain) =>
  ['/*', '/*/*', '/*/*/*', '/*/*/*/*'].map((path) => `spiffe://${domain}${path}`),
)
/** What is open and decided the stricter way, and names of which nobody knows which counts. */
const NOT_BY_KEY: ReadonlySet<string> = new Set([
  'mtls/time/expired-root',
  'mtls/eku/absent',
  'mtls/eku/any',
  'mtls/ku/absent',
  'mtls/pathlen/root-exceeded',
  'mtls/depth/12-intermediates',
  'mtls/key/secp256k1',
  'mtls/identity/two-uris',
  'mtls/identity/san-uri-nul',
])

function pinOf(pem: string): string {
  const spki = new X509Certificate(pem).publicKey.export({ type: 'spki', format: 'der' })
  return `sha256/${createHash('sha256').update(spki).digest('base64')}`
}

describe('certificates of real connections', () => {
  it.each(testable.filter((each) => each.expect === 'invalid'))('$id is denied', async (each) => {
    guard = await guardFor(each, ['spiffe://example.org/*', 'spiffe://example.org/*/*', '*.example.org'])
    const before = ran
    const status = await call(own(each)).then(
      (answer) => answer.status,
      (fault: { code?: string }) => fault.code,
    )
    // Some the TLS stack of client or server will not even carry.
    expect(status === 401 || String(status).startsWith('ERR_') || status === 'ECONNRESET', String(status)).toBe(true)
    expect(ran).toBe(before)
  })

  const named = testable.filter((each) => each.expect === 'valid' && typeof each.identity?.spiffeId === 'string')
  it.each(named)('$id names its caller', async (each) => {
    const id = each.identity?.spiffeId as string
    guard = await guardFor(each, [id])
    const { status, body } = await call(own(each))
    expect({ status, body: JSON.parse(body) as unknown }).toEqual({
      status: 200,
      body: { principal: `mtls:${encodeURIComponent('spiffe://example.org')}:${encodeURIComponent(id)}` },
    })
  })

  const others = testable.filter((each) => each.expect !== 'invalid' && !named.includes(each))
  it.each(others)('$id ($expect), by its key', async (each) => {
    const pin = pinOf(each.leaf)
    guard = await guardFor(each, [pin])
    const before = ran
    const answer = await call(own(each)).catch(() => ({ status: 401, body: '' }))
    const refused = NOT_BY_KEY.has(each.id)
    expect([answer.status, ran - before]).toEqual(refused ? [401, 0] : [200, 1])
    if (!refused) expect(answer.body).toContain(encodeURIComponent(pin))
  })

  it.each(others.filter(({ identity }) => identity?.spiffeId === null))('$id has no SPIFFE ID', async (each) => {
    guard = await guardFor(each, BROAD)
    const before = ran
    expect((await call(own(each))).status).toBe(401)
    expect(ran).toBe(before)
  })

  it('all of the vectors go through TLS but one that has no key and one that no policy can have', async () => {
    expect(cases).toHaveLength(87)
    expect(cases.filter((each) => !testable.includes(each)).map(({ id }) => id)).toEqual([
      'mtls/trust/no-anchors',
      'mtls/sig/sha1',
    ])
    await expect(guardFor({ ...(cases[0] as Case), trustAnchors: [] }, BROAD)).rejects.toMatchObject({
      code: 'ERR_POLICY_INVALID',
    })
  })

  describe('SPIFFE IDs of the vectors, each as the URI of a certificate', () => {
    const authority = createClientAuthority()
    const presented = (id: string) => {
      const { cert, key } = authority.issue([6, id])
      return { cert, key }
    }
    const guardNaming = (identities: readonly string[]) =>
      guardFor({ ...(cases[0] as Case), trustAnchors: [authority.cert], now: NOW }, identities)

    it.each(spiffeIds)('$expect: $id', async ({ id, expect: verdict, path }) => {
      // A trust domain alone is an ID and no caller.
      const isCaller = verdict === 'valid' && path !== undefined
      guard = await guardNaming(isCaller ? [id] : BROAD)
      const before = ran
      const { status, body } = await call(presented(id))
      expect([status, ran - before]).toEqual(isCaller ? [200, 1] : [401, 0])
      if (isCaller) expect(body).toContain(`:${encodeURIComponent(id)}"`)
    })

    it('are all of them, and the patterns would take those that are none', async () => {
      expect(spiffeIds).toHaveLength(31)
      guard = await guardNaming(BROAD)
      expect((await call(presented('spiffe://trustdomain/path'))).status).toBe(200)
    })
  })

  const good = cases[0] as Case

  it('without a certificate the answer is a denial, and another credential still serves', async () => {
    guard = await guardFor(good, ['spiffe://example.org/agent/a'])
    const denied = await call({})
    expect(denied).toMatchObject({ status: 401, challenge: expect.stringContaining('MutualTLS') as string })
    expect((await call({}, { 'x-api-key': API_KEY })).status).toBe(200)
  })

  it('a bad certificate is not made good by another credential', async () => {
    guard = await guardFor(good, ['spiffe://example.org/agent/other'])
    expect((await call(own(good), { 'x-api-key': API_KEY })).status).toBe(401)
  })

  it('P88 a certificate in a header is not one', async () => {
    guard = await guardFor(good, ['spiffe://example.org/agent/a'])
    const der = good.leaf.replace(/-----[A-Z ]+-----|\s/g, '')
    const headers = { 'client-cert': `:${der}:`, 'x-forwarded-client-cert': 'URI=spiffe://example.org/agent/a' }
    expect((await call({}, headers)).status).toBe(401)
  })
})
