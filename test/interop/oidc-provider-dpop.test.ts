/** A real client and a real authorization server: openid-client obtains DPoP-bound tokens and calls the guarded agent. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { exportJWK, generateKeyPair } from 'jose'
import Provider from 'oidc-provider'
import * as client from 'openid-client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { decisionFor, expressGuard } from '../../src/adapters/express.ts'
import { createGuard, type Guard } from '../../src/guard.ts'
import { rigCard } from '../support/rig.ts'

const AGENT_SECRET = 'not-a-secret-of-anything-0123456789'
const servers: Server[] = []
let guard: Guard
let issuer: string
let agent: string
const codes: (string | undefined)[] = []
let ran = 0

async function listen(server: Server): Promise<string> {
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

beforeAll(async () => {
  let callback: ReturnType<Provider['callback']>
  issuer = await listen(createServer((request, response) => void callback(request, response)))
  const app = express()
  agent = await listen(createServer(app))

  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'agent-b',
        client_secret: AGENT_SECRET,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: 'ES256',
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'as-1', use: 'sig', alg: 'ES256' } as never] },
    scopes: ['a2a:use'],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      dPoP: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => agent,
        getResourceServerInfo: () => ({
          scope: 'a2a:use',
          audience: agent,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 600,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  })
  callback = provider.callback()

  guard = await createGuard({
    policy: {
      version: 1,
      card: rigCard({
        supportedInterfaces: [{ url: `${agent}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
        capabilities: {},
        securitySchemes: { login: { openIdConnectSecurityScheme: { openIdConnectUrl: discovery() } } },
        securityRequirements: [{ schemes: { login: { list: ['a2a:use'] } } }],
      }),
      audience: agent,
      publicUrl: agent,
      schemes: { login: { issuer, algorithms: ['ES256'], senderConstraint: 'dpop', clockToleranceSeconds: 300 } },
      dpop: { nonce: 'required' },
    },
    fetch: globalThis.fetch,
    onDecision: ({ code }) => codes.push(code),
  })
  app.use('/a2a', expressGuard(guard), (req, res) => {
    ran += 1
    res.json({ principal: decisionFor(guard, req)?.principal?.subject, headers: Object.keys(req.headers) })
  })
})
afterAll(async () => {
  await guard.close()
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
})

const discovery = () => `${issuer}/.well-known/openid-configuration`

it('a client of openid-client gets in with a nonce it is told, and nobody with its token alone', async () => {
  const config = await client.discovery(new URL(issuer), 'agent-b', AGENT_SECRET, undefined, {
    execute: [client.allowInsecureRequests],
  })
  const DPoP = client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'))
  const { access_token, token_type } = await client.clientCredentialsGrant(
    config,
    { scope: 'a2a:use', resource: agent },
    { DPoP },
  )
  expect(token_type).toBe('dpop')

  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } })
  const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' }
  const call = (DPoP: client.DPoPHandle) =>
    client.fetchProtectedResource(config, access_token, new URL(`${agent}/a2a`), 'POST', body, new Headers(headers), {
      DPoP,
    })
  const response = await call(DPoP)
  expect(response.status).toBe(200)
  const answer = (await response.json()) as { principal: string; headers: string[] }
  expect(answer.principal).toBe('agent-b')
  expect(answer.headers).not.toContain('dpop')
  expect(answer.headers).not.toContain('authorization')
  expect(codes).toEqual(['ERR_DPOP_NONCE', undefined])

  const stolenHeaders = { ...headers, authorization: `Bearer ${access_token}` }
  expect(ran).toBe(1)
  const stolen = await fetch(`${agent}/a2a`, { method: 'POST', body, headers: stolenHeaders })
  expect(stolen.status).toBe(401)
  expect(stolen.headers.get('www-authenticate')).toMatch(/^DPoP realm="a2a", algs="[^"]*", error="invalid_token"/)
  const thief = client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'))
  await expect(call(thief)).rejects.toMatchObject({ cause: [{ scheme: 'dpop' }] })
  expect(codes.slice(2)).toEqual(['ERR_TOKEN_BOUND', 'ERR_DPOP_PROOF'])
  expect(ran).toBe(1)
})
