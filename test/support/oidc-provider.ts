/**
 * A real authorization server (`oidc-provider`) on loopback that can be asked for every kind of token, change its keys,
 * go away and come back. One listener is plain HTTP; a second one, for certificate-bound tokens, is TLS.
 */
import { createHash, randomBytes, X509Certificate } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, request as tlsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import Provider from 'oidc-provider'
import { addExchange, type ExchangeOptions, type ExchangeProvider, exchangeClaims } from './oidc-exchange.ts'
import { createAuthority } from './server-certificate.ts'

export const CLIENT_ID = 'agent-b'
export const CLIENT_SECRET = 'not-a-secret-of-anything-0123456789'
export const REDIRECT_URI = 'https://client.test/callback'
/** Who logs in where a user is needed. */
export const USER = 'alice'

export interface OidcProviderOptions {
  /** Form of the access tokens for each resource (their audience). */
  readonly resources: Readonly<Record<string, 'jwt' | 'opaque'>>
  /** Default `agent:read agent:write`. */
  readonly scope?: string
  /** Clients besides `agent-b`, which has every grant; a secret goes without saying. */
  readonly clients?: readonly Readonly<Record<string, unknown>>[]
  /** `features` besides those of this file. */
  readonly features?: Readonly<Record<string, unknown>>
  /** Has the provider exchange tokens. */
  readonly exchange?: ExchangeOptions
}

export interface TokenAnswer {
  readonly access_token: string
  readonly token_type: string
  readonly refresh_token?: string
}

export interface TestOidcProvider {
  readonly issuer: string
  /** Paths asked for, in order. */
  readonly requests: string[]
  /** A token by the grant that `form` names; headers may hold a DPoP proof. Rejects with what the provider answers. */
  token(form: Readonly<Record<string, string>>, headers?: Readonly<Record<string, string>>): Promise<TokenAnswer>
  clientCredentials(resource: string, headers?: Readonly<Record<string, string>>): Promise<string>
  /** Login of `USER` with PKCE, played to the end. */
  authorizationCode(resource: string): Promise<TokenAnswer>
  /** Client credentials over TLS with a client certificate (PEM), so that the token is bound to it. */
  certificateBound(resource: string, client: { readonly cert: string; readonly key: string }): Promise<string>
  revoke(token: string): Promise<void>
  /** A new signing key in place of the old one. */
  rotate(kid: string): Promise<void>
  /** Nothing listens until `start`. */
  stop(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

/** What the package ships no types for. */
interface Internals extends ExchangeProvider {
  callback(): (request: IncomingMessage, response: ServerResponse) => void
  interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>
  readonly Grant: new (
    properties: object,
  ) => {
    addOIDCScope(scope: string): void
    addResourceScope(resource: string, scope: string): void
    save(): Promise<string>
  }
}
interface RequestContext {
  readonly req: IncomingMessage
  readonly oidc: {
    readonly client: { readonly clientId: string }
    readonly session: { readonly accountId?: string }
  }
}

export async function startOidcProvider(options: OidcProviderOptions): Promise<TestOidcProvider> {
  const { scope = 'agent:read agent:write' } = options
  const requests: string[] = []
  let provider: Internals
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    requests.push((request.url ?? '').split('?', 1)[0] as string)
    if (request.url?.startsWith('/interaction/')) {
      void provider.interactionFinished(request, response, { login: { accountId: USER } })
    } else provider.callback()(request, response)
  }
  let server = await listen(createServer(handle), 0)
  const { port } = server.address() as AddressInfo
  const issuer = `http://127.0.0.1:${port}`
  const tls = { ...createAuthority().issue('localhost'), requestCert: true, rejectUnauthorized: false }
  const tlsServer = await listen(createTlsServer(tls, handle), 0)

  const info = (resource: string) => ({
    scope,
    audience: resource,
    accessTokenFormat: options.resources[resource] ?? 'opaque',
    accessTokenTTL: 300,
    jwt: { sign: { alg: 'ES256' } },
  })

  async function make(kid: string): Promise<Internals> {
    const { privateKey } = await generateKeyPair('ES256', { extractable: true })
    const jwk: JWK = { ...(await exportJWK(privateKey)), kid, use: 'sig', alg: 'ES256' }
    const made = new Provider(issuer, {
      clients: [
        {
          client_id: CLIENT_ID,
          grant_types: ['client_credentials', 'authorization_code', 'refresh_token'],
          redirect_uris: [REDIRECT_URI],
          response_types: ['code'],
        },
        {
          client_id: 'bound-b',
          grant_types: ['client_credentials'],
          tls_client_certificate_bound_access_tokens: true,
        },
        ...(options.clients ?? []),
      ].map((client) => ({
        client_secret: CLIENT_SECRET,
        grant_types: [],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: 'ES256',
        introspection_signed_response_alg: 'ES256',
        ...client,
      })),
      jwks: { keys: [jwk] },
      cookies: { keys: ['cookies of a test'] },
      scopes: ['openid', ...scope.split(' ')],
      findAccount: (_context: unknown, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
      interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
      issueRefreshToken: () => true,
      loadExistingGrant: async ({ oidc: { client, session } }: RequestContext) => {
        const grant = new made.Grant({ clientId: client.clientId, accountId: session.accountId })
        grant.addOIDCScope(`openid ${scope}`)
        for (const resource of Object.keys(options.resources)) grant.addResourceScope(resource, scope)
        await grant.save()
        return grant
      },
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        introspection: { enabled: true },
        revocation: { enabled: true },
        jwtIntrospection: { enabled: true },
        dPoP: { enabled: true },
        mTLS: {
          enabled: true,
          certificateBoundAccessTokens: true,
          getCertificate: ({ req }: RequestContext) => {
            const raw = (req.socket as TLSSocket).getPeerCertificate?.().raw
            return raw === undefined ? undefined : new X509Certificate(raw).toString()
          },
        },
        resourceIndicators: {
          enabled: true,
          useGrantedResource: () => true,
          getResourceServerInfo: (_context: unknown, resource: string) => info(resource),
        },
        ...options.features,
      },
      ...(options.exchange === undefined ? {} : { extraTokenClaims: exchangeClaims }),
    }) as unknown as Internals
    if (options.exchange !== undefined) addExchange(made, issuer, jwk, info, options.exchange)
    return made
  }
  provider = await make('first')

  async function token(form: Readonly<Record<string, string>>, headers: Readonly<Record<string, string>> = {}) {
    const response = await fetch(`${issuer}/token`, {
      method: 'POST',
      headers: { authorization: basic(CLIENT_ID), ...headers },
      body: new URLSearchParams(form),
    })
    return tokenIn(await response.text())
  }

  return {
    issuer,
    requests,
    token,
    async clientCredentials(resource, headers) {
      return (await token({ grant_type: 'client_credentials', resource, scope: 'agent:read' }, headers)).access_token
    },
    async authorizationCode(resource) {
      const verifier = randomBytes(32).toString('base64url')
      const code = await logIn(issuer, {
        client_id: CLIENT_ID,
        response_type: 'code',
        redirect_uri: REDIRECT_URI,
        scope: 'openid agent:read',
        resource,
        code_challenge_method: 'S256',
        code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      })
      return token({
        grant_type: 'authorization_code',
        code,
        redirect_uri: REDIRECT_URI,
        code_verifier: verifier,
        resource,
      })
    },
    async certificateBound(resource, client) {
      const body = new URLSearchParams({ grant_type: 'client_credentials', resource, scope: 'agent:read' }).toString()
      const text = await new Promise<string>((resolve, reject) => {
        const { port: tlsPort } = tlsServer.address() as AddressInfo
        const url = `https://127.0.0.1:${tlsPort}/token`
        const headers = { authorization: basic('bound-b'), 'content-type': 'application/x-www-form-urlencoded' }
        const request = tlsRequest(url, { method: 'POST', headers, ...client, rejectUnauthorized: false, agent: false })
        request.on('error', reject).on('response', (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () => resolve(Buffer.concat(chunks).toString()))
        })
        request.end(body)
      })
      return tokenIn(text).access_token
    },
    async revoke(revoked) {
      const response = await fetch(`${issuer}/token/revocation`, {
        method: 'POST',
        headers: { authorization: basic(CLIENT_ID) },
        body: new URLSearchParams({ token: revoked }),
      })
      if (!response.ok) throw new Error(`not revoked: ${await response.text()}`)
    },
    async rotate(kid) {
      provider = await make(kid)
    },
    stop: () => closeServer(server),
    async start() {
      server = await listen(createServer(handle), port)
    },
    async close() {
      await Promise.all([closeServer(server), closeServer(tlsServer)])
    },
  }
}

function basic(clientId: string): string {
  return `Basic ${Buffer.from(`${clientId}:${CLIENT_SECRET}`).toString('base64')}`
}

function tokenIn(text: string): TokenAnswer {
  const answer = JSON.parse(text) as Partial<TokenAnswer>
  if (answer.access_token === undefined) throw new Error(`no token: ${text}`)
  return answer as TokenAnswer
}

async function logIn(issuer: string, parameters: Readonly<Record<string, string>>): Promise<string> {
  const back = new URL(await visit(`${issuer}/auth?${new URLSearchParams(parameters)}`))
  const code = back.searchParams.get('code')
  if (code === null) throw new Error(`no code: ${back.search}`)
  return code
}

/**
 * Follows the provider from page to page, with its cookies, as `USER`, until it sends the browser back to the client;
 * answers with that URL.
 */
export async function visit(start: string): Promise<string> {
  const cookies = new Map<string, string>()
  let url = start
  for (let step = 0; step < 8; step += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (name !== undefined && value !== undefined) cookies.set(name, value)
    }
    const location = response.headers.get('location')
    if (location === null) throw new Error(`no way on from ${url.split('?')[0]}: ${await response.text()}`)
    const next = new URL(location, url)
    if (next.href.startsWith(REDIRECT_URI)) return next.href
    url = next.href
  }
  throw new Error('the login does not end')
}

async function listen<T extends Server>(server: T, port: number): Promise<T> {
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  return server
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
