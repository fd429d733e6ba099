/** A real OpenID Connect provider on loopback, with two clients: one may only read, one may also pay. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import Provider from 'oidc-provider'

export interface DemoProvider {
  readonly issuer: string
  /** An access token by the client credentials grant, for one audience. */
  token(client: 'reader' | 'payer', audience: string, scope: string): Promise<string>
  /** A token as the provider would have issued it an hour ago, signed with its own key. */
  expiredToken(audience: string): Promise<string>
  close(): Promise<void>
}

const SCOPES = 'a2a:read a2a:pay'

export async function startProvider(): Promise<DemoProvider> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const jwk: JWK = { ...(await exportJWK(privateKey)), kid: 'demo-1', alg: 'RS256', use: 'sig' }
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = (client_id: string, scope: string) => ({
    client_id,
    client_secret: `${client_id}-demo-secret`,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    scope,
  })
  const provider = new Provider(issuer, {
    clients: [client('reader', 'a2a:read'), client('payer', SCOPES)],
    scopes: SCOPES.split(' '),
    jwks: { keys: [jwk] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          scope: SCOPES,
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
  server.on('request', provider.callback())
  return {
    issuer,
    async token(client_id, audience, scope) {
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: {
          authorization: `Basic ${Buffer.from(`${client_id}:${client_id}-demo-secret`).toString('base64')}`,
        },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource: audience, scope }),
      })
      if (!response.ok) throw new Error(`the provider answered ${response.status}: ${await response.text()}`)
      return ((await response.json()) as { access_token: string }).access_token
    },
    async expiredToken(audience) {
      const now = Math.floor(Date.now() / 1000)
      return new SignJWT({ scope: SCOPES, client_id: 'payer', jti: crypto.randomUUID() })
        .setProtectedHeader({ alg: 'RS256', kid: 'demo-1', typ: 'at+jwt' })
        .setIssuer(issuer)
        .setSubject('payer')
        .setAudience(audience)
        .setIssuedAt(now - 7200)
        .setExpirationTime(now - 3600)
        .sign(privateKey)
    },
    close: () => closeServer(server),
  }
}

export async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise<void>((resolve) => server.close(() => resolve()))
}
