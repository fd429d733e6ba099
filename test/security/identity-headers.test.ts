/** A51 P88: no header in which a proxy names a caller reaches the handler, in any spelling, wherever Node keeps it. */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import Fastify from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import { fastifyGuard } from '../../src/adapters/fastify.ts'
import { namesCaller } from '../../src/adapters/identity-headers.ts'
import { API_KEY, makeRig, type Rig } from '../support/rig.ts'

const SPOOFED = [
  ...['X-User', 'X-User-Id', 'X-Username', 'X-Email', 'X-Groups', 'X-Role', 'X-Roles', 'X-Scopes', 'X-Subject'],
  ...['X-Forwarded-User', 'X-Forwarded-Email', 'X-Forwarded-Groups', 'X-Forwarded-Preferred-Username'],
  ...[
    'X-Forwarded-Access-Token',
    'X-Forwarded-Client-Cert',
    'X-Forwarded-Tls-Client-Cert',
    'X-Forwarded-Tls-Client-Cert-Info',
  ],
  ...['Remote-User', 'Remote-Name', 'Remote-Email', 'Remote-Groups', 'X-Remote-User', 'X-Remote-Extra-Scopes'],
  ...[
    'X-Auth-User',
    'X-Auth-Request-User',
    'X-Auth-Request-Access-Token',
    'X-Authenticated-User',
    'X-Authenticated-UserId',
  ],
  ...['Client-Cert', 'Client-Cert-Chain', 'X-Client-Cert', 'X-Client-Certificate', 'X-Client-Verify', 'X-Client-DN'],
  ...['SSL-Client-Cert', 'SSL-Client-S-DN', 'SSL-Client-Verify', 'X-SSL-Client-CN', 'X-SSL-CERT', 'X-ARR-ClientCert'],
  ...['X-Amzn-Oidc-Identity', 'X-Amzn-Oidc-Data', 'X-Amzn-Oidc-Accesstoken', 'X-Amzn-Mtls-Clientcert-Subject'],
  ...['X-Goog-IAP-JWT-Assertion', 'X-Goog-Authenticated-User-Email', 'X-Serverless-Authorization'],
  ...['Cf-Access-Jwt-Assertion', 'Cf-Access-Authenticated-User-Email', 'CF-Access-Client-Id'],
  ...['X-MS-Client-Principal', 'X-MS-Client-Principal-Id', 'X-MS-Client-Principal-Name', 'X-MS-Token-AAD-Id-Token'],
  ...['X-WEBAUTH-USER', 'X-Consumer-Username', 'X-Credential-Identifier', 'X-Userinfo', 'X-authentik-username'],
  ...['X-Pomerium-Jwt-Assertion', 'X-Vouch-User', 'Tailscale-User-Login', 'Teleport-Jwt-Assertion', 'OIDC_CLAIM_sub'],
  ...['SM_USER', 'iv-user', 'eppn', 'Shib-Identity-Provider', 'X-Hasura-Role', 'Impersonate-User', 'X-Okta-User'],
  ...['X-A2A-Agent-Subject', 'X-SPIFFE-ID', 'X-JWT-Payload', 'X-Id-Token', 'X-Tenant-Id', 'X-Client-Id'],
]
const KEPT = [
  ...['Host', 'User-Agent', 'X-User-Agent', 'Accept', 'A2A-Version', 'A2A-Extensions', 'X-Request-Id', 'Traceparent'],
  ...['Content-Type', 'Last-Event-ID', 'X-Forwarded-For', 'X-Forwarded-Proto', 'X-Forwarded-Host', 'Forwarded'],
  ...[
    'Authority',
    'Author',
    'Origin',
    'Referer',
    'X-Correlation-Id',
    'X-Usernames-Count',
    'X-Region',
    'X-Original-Url',
  ],
]

let rig: Rig
const servers: { name: string; port: number; close(): Promise<unknown> }[] = []
let seen: Record<string, unknown> | undefined

function look({ headers, headersDistinct, rawHeaders }: IncomingMessage): void {
  seen = { headers: { ...headers }, headersDistinct: { ...headersDistinct }, rawHeaders: [...rawHeaders] }
}

beforeAll(async () => {
  rig = await makeRig({ policy: { identityHeaders: ['X_Acme_User', 'x-corp-*'] } })
  const app = express()
  app.use(expressGuard(rig.guard), (req, res) => {
    look(req)
    res.end()
  })
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  servers.push({
    name: 'Express',
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(resolve))
    },
  })
  const fastify = Fastify({ forceCloseConnections: true })
  await fastify.register(fastifyGuard, { guard: rig.guard })
  fastify.get('/tasks/t', async (request) => {
    look(request.raw)
    expect(Object.keys(request.headers).filter((name) => namesCaller(name.replaceAll('_', '-')))).toEqual([])
    return ''
  })
  await fastify.listen({ port: 0, host: '127.0.0.1' })
  const { port } = fastify.server.address() as AddressInfo
  servers.push({ name: 'Fastify', port, close: () => fastify.close() })
})
afterAll(async () => {
  for (const server of servers) await server.close()
  await rig.close()
})

function get(port: number, headers: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const all = ['host', 'agent.example', 'a2a-version', '1.0', 'x-api-key', API_KEY, ...headers]
    httpRequest({ port, host: '127.0.0.1', path: '/tasks/t', headers: all }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
      .on('error', reject)
      .end()
  })
}

describe.each(['Express', 'Fastify'])('%s', (framework) => {
  it.each<[string, (name: string) => string]>([
    ['as written', (name) => name],
    ['with underscores, in capitals', (name) => name.replaceAll('-', '_').toUpperCase()],
    ['mixed', (name) => name.replace('-', '_').toLowerCase()],
  ])('A51 P88 %s: gone from headers, rawHeaders and headersDistinct', async (_, spelled) => {
    const { port } = servers.find(({ name }) => name === framework) as (typeof servers)[0]
    for (let at = 0; at < SPOOFED.length; at += 20) {
      seen = undefined
      const names = SPOOFED.slice(at, at + 20).map(spelled)
      expect(
        await get(
          port,
          names.flatMap((name) => [name, 'spoofed', name, 'spoofed again']),
        ),
      ).toBe(200)
      expect(seen).toBeDefined()
      expect(JSON.stringify(seen)).not.toContain('spoofed')
      for (const name of names) expect(JSON.stringify(seen).toLowerCase()).not.toContain(`"${name.toLowerCase()}"`)
    }
  })

  it('so are those that the policy names, and no others', async () => {
    const { port } = servers.find(({ name }) => name === framework) as (typeof servers)[0]
    const names = ['X-Acme-User', 'x_acme_user', 'X-Corp-Person', 'X_CORP_ID', 'X-Acme-User-Agent', 'X-Corporate']
    expect(
      await get(
        port,
        names.flatMap((name) => [name, 'spoofed']),
      ),
    ).toBe(200)
    const { headers, rawHeaders } = seen as { headers: object; rawHeaders: string[] }
    expect(Object.keys(headers).filter((name) => name.startsWith('x'))).toEqual(['x-acme-user-agent', 'x-corporate'])
    expect(rawHeaders.filter((text) => text === 'spoofed')).toHaveLength(2)
  })

  it('a spoofed header is no credential either', async () => {
    const { port } = servers.find(({ name }) => name === framework) as (typeof servers)[0]
    seen = undefined
    const spoofed = SPOOFED.flatMap((name) => [name, 'spiffe://x/admin'])
    const status = await new Promise((resolve, reject) => {
      httpRequest({ port, host: '127.0.0.1', path: '/tasks/t', headers: ['host', 'a', ...spoofed] }, (response) =>
        resolve(response.resume().statusCode),
      )
        .on('error', reject)
        .end()
    })
    expect([status, seen]).toEqual([401, undefined])
  })
})

it('what names nobody is left alone', () => {
  expect(KEPT.filter((name) => namesCaller(name.toLowerCase()))).toEqual([])
  expect(SPOOFED.filter((name) => !namesCaller(name.toLowerCase().replaceAll('_', '-')))).toEqual([])
})
