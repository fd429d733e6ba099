/** A real authorization server over real connections: discovery, its keys, its RFC 9068 access tokens, key rotation. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import Provider from 'oidc-provider'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createJwtScheme } from '../../src/schemes/jwt.ts'
import { bearer, testContext } from '../support/credentials.ts'
import { AUDIENCE, jwtConfig } from '../support/tokens.ts'

let server: Server
let issuer: string
let now = Date.now()
const requests: string[] = []

async function startProvider(kid: string): Promise<ReturnType<Provider['callback']>> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'agent-b',
        client_secret: 'not-a-secret-of-anything-0123456789',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: 'ES256',
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid, use: 'sig', alg: 'ES256' } as never] },
    scopes: ['agent:read', 'agent:write'],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => AUDIENCE,
        getResourceServerInfo: () => ({
          scope: 'agent:read agent:write',
          audience: AUDIENCE,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  })
  return provider.callback()
}

async function obtainToken(): Promise<string> {
  const response = await fetch(`${issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('agent-b:not-a-secret-of-anything-0123456789')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource: AUDIENCE, scope: 'agent:read' }),
  })
  const body = (await response.json()) as { access_token?: string }
  if (body.access_token === undefined) throw new Error(`no token: ${JSON.stringify(body)}`)
  return body.access_token
}

let callback: ReturnType<Provider['callback']>

beforeAll(async () => {
  server = createServer((request, response) => {
    requests.push(request.url ?? '')
    void callback(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  callback = await startProvider('first')
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

it('tokens of oidc-provider are accepted, end with their key, and its next key is found', async () => {
  const keys = { from: 'discovery', url: `${issuer}/.well-known/openid-configuration` } as const
  const context = { ...testContext(now), clock: () => now, fetch: globalThis.fetch }
  const scheme = createJwtScheme(jwtConfig({ issuers: [{ issuer, keys }], clockToleranceSeconds: 300 }), context)
  await scheme.warm?.()
  const token = await obtainToken()

  const outcome = await scheme.authenticate(bearer(token))
  expect(outcome).toMatchObject({
    kind: 'satisfied',
    part: { issuer, subject: 'agent-b', clientId: 'agent-b', scopes: new Set(['agent:read']) },
  })
  expect(scheme.authenticate(bearer(token))).toBe(outcome)

  callback = await startProvider('second')
  now += 31_000
  const rotated = await obtainToken()
  expect(await scheme.authenticate(bearer(rotated))).toMatchObject({ kind: 'satisfied' })
  expect(await scheme.authenticate(bearer(token))).toMatchObject({ kind: 'invalid', code: 'ERR_TOKEN_KEY_UNKNOWN' })
  expect(requests.filter((url) => url === '/jwks')).toHaveLength(2)
  expect(requests.filter((url) => url.startsWith('/.well-known'))).toHaveLength(1)
})
