/** Every provider against real servers: oidc-provider, a guarded agent, TLS that asks for a certificate, the SDK's client. */
import { generateKeyPairSync, type webcrypto } from 'node:crypto'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { AgentCard } from '@a2a-js/sdk'
import {
  ClientFactory,
  createAuthenticatingFetchWithRetry,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client'
import { exportJWK, generateKeyPair } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { authenticationHandler } from '../../src/adapters/a2a-sdk.ts'
import { userMessage } from '../../src/cli/demo/agent.ts'
import {
  type Credentials,
  type CredentialsOptions,
  createCredentials,
  type Provider,
} from '../../src/delegation/index.ts'
import { type Chain, type ChainAgent, message, startChain } from '../support/agent-chain.ts'
import { createClientChain } from '../support/client-chain.ts'
import { EXCHANGE_GRANT } from '../support/oidc-exchange.ts'
import { CLIENT_ID, CLIENT_SECRET, REDIRECT_URI, visit } from '../support/oidc-provider.ts'
import { createAuthority } from '../support/server-certificate.ts'

let chain: Chain
let agent: ChainAgent
let dpopAgent: ChainAgent
let key: webcrypto.CryptoKey
const opened: Credentials[] = []

beforeAll(async () => {
  const pair = await generateKeyPair('ES256', { extractable: true })
  key = pair.privateKey
  const grant_types = ['client_credentials', EXCHANGE_GRANT]
  chain = await startChain({ rights: () => ['agent:use'] }, [
    { client_id: 'c-basic', grant_types },
    { client_id: 'c-post', grant_types, token_endpoint_auth_method: 'client_secret_post' },
    {
      client_id: 'c-assertion',
      grant_types,
      token_endpoint_auth_method: 'private_key_jwt',
      jwks: { keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'c1', alg: 'ES256', use: 'sig' }] },
    },
  ])
  agent = await chain.agent('E')
  const login = { issuer: chain.provider.issuer, algorithms: ['ES256'], senderConstraint: 'dpop' }
  dpopAgent = await chain.agent('F', { policy: { schemes: { login }, dpop: { nonce: 'required' } } })
})
afterAll(() => chain.close())
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()))
})

const egress = {
  requireHttps: false,
  ports: Array.from({ length: 65_535 }, (_, port) => port + 1),
  allowAddresses: ['127.0.0.1'],
}
function make(to: ChainAgent, provider: Readonly<Record<string, unknown>>, scopes = ['agent:use']) {
  const given = { issuer: chain.provider.issuer, scopes, ...provider } as unknown as Provider
  const made = createCredentials({ card: to.card, providers: { login: given }, to: to.url, egress })
  opened.push(made)
  return made
}
async function call(credentials: Credentials, to = agent) {
  const response = await credentials.fetch(`${to.url}/a2a`, message())
  const { result } = (await response.json()) as { result?: { subject: string; actor?: unknown; scopes: string[] } }
  return { status: response.status, ...result }
}
const secret = { id: 'c-basic', secret: CLIENT_SECRET }
const tokenRequests = () => chain.provider.requests.filter((path) => path === '/token').length

describe('client credentials', () => {
  it.each<[string, () => Extract<Provider, { issuer: string }>['client']]>([
    ['client_secret_basic', () => secret],
    ['client_secret_post', () => ({ id: 'c-post', auth: 'post', secret: CLIENT_SECRET })],
    ['P47 private_key_jwt', () => ({ id: 'c-assertion', auth: 'private_key_jwt', key, kid: 'c1' })],
  ])('%s', async (_name, client) => {
    const credentials = make(agent, { type: 'clientCredentials', client: client() })
    const before = tokenRequests()
    expect(await call(credentials)).toMatchObject({ status: 200, subject: client().id, scopes: ['agent:use'] })
    expect((await call(credentials)).status).toBe(200)
    expect(tokenRequests() - before).toBe(1)
  })

  it('bound to a key: proofs with the nonce of the agent, and no retry after the first', async () => {
    const credentials = make(dpopAgent, { type: 'clientCredentials', client: secret, dpop: true })
    dpopAgent.arrived.length = 0
    expect(await call(credentials, dpopAgent)).toMatchObject({ status: 200, subject: 'c-basic' })
    expect(await call(credentials, dpopAgent)).toMatchObject({ status: 200 })
    expect(dpopAgent.arrived).toHaveLength(3)
    for (const header of dpopAgent.arrived) expect(header).toMatch(/^DPoP /)
    // A token that is not bound does not do.
    expect((await call(make(dpopAgent, { type: 'clientCredentials', client: secret }), dpopAgent)).status).toBe(401)
  })
})

describe('a user', () => {
  it('A102 authorization code, always with PKCE; the user is asked once by all who wait', async () => {
    const asked: URL[] = []
    const authorize = (url: string) => {
      asked.push(new URL(url))
      return visit(url)
    }
    const client = { id: CLIENT_ID, secret: CLIENT_SECRET }
    const credentials = make(agent, { type: 'authorizationCode', client, redirectUri: REDIRECT_URI, authorize }, [
      'agent:use',
      'openid',
    ])
    const seen = await Promise.all(Array.from({ length: 10 }, () => call(credentials)))
    for (const each of seen) expect(each).toMatchObject({ status: 200, subject: 'alice' })
    expect(asked).toHaveLength(1)
    expect(asked[0]?.searchParams.get('code_challenge_method')).toBe('S256')
    expect(asked[0]?.searchParams.get('resource')).toBe(agent.url)
  })

  it.each<[string, (url: URL) => string]>([
    ['an answer for another state', (url) => `${REDIRECT_URI}?code=x&state=${url.searchParams.get('state')}x`],
    [
      'P192 an answer of another issuer',
      (url) => `${REDIRECT_URI}?code=x&state=${url.searchParams.get('state')}&iss=https://evil.test`,
    ],
    [
      'an error',
      (url) =>
        `${REDIRECT_URI}?error=access_denied&error_description=x%0Aforged&state=${url.searchParams.get('state')}`,
    ],
    ['another place', (url) => `https://evil.test/callback?code=x&state=${url.searchParams.get('state')}`],
    ['nonsense', () => 'x'],
  ])('%s is refused, and nothing is sent', async (_name, back) => {
    const client = { id: CLIENT_ID, secret: CLIENT_SECRET }
    const authorize = (url: string) => Promise.resolve(back(new URL(url)))
    const credentials = make(agent, { type: 'authorizationCode', client, redirectUri: REDIRECT_URI, authorize })
    const before = [tokenRequests(), agent.arrived.length]
    const fault = (await call(credentials).catch((error: unknown) => error)) as { code?: string; message: string }
    expect(fault.code).toBe('ERR_CREDENTIALS_UNAVAILABLE')
    expect([tokenRequests(), agent.arrived.length]).toEqual(before)
  })

  it('token exchange: each user as themselves, as the subject token of the moment says', async () => {
    let token = ''
    const credentials = make(agent, { type: 'tokenExchange', client: secret, subjectToken: () => token })
    for (const user of ['alice', 'bob', 'alice']) {
      token = await chain.login(user, agent)
      expect(await call(credentials)).toMatchObject({ status: 200, subject: user, actor: { subject: 'c-basic' } })
    }
  })
})

describe('certificates', () => {
  it('mTLS to the agent, and tls_client_auth at the token endpoint', async () => {
    const authority = createAuthority()
    const chainOf = createClientChain('spiffe://example.org/me')
    const seen: string[] = []
    const server = createServer(
      { ...authority.issue('localhost'), ca: [chainOf.root], requestCert: true, rejectUnauthorized: true },
      (request, response) => {
        const chunks: Buffer[] = []
        request.on('data', (chunk: Buffer) => chunks.push(chunk))
        request.on('end', () => {
          const { subject } = (request.socket as TLSSocket).getPeerCertificate()
          seen.push(`${request.url} ${subject.CN} ${request.headers.authorization ?? ''} ${Buffer.concat(chunks)}`)
          response.setHeader('content-type', 'application/json')
          response.end(JSON.stringify({ access_token: 'bound', token_type: 'Bearer', expires_in: 60 }))
        })
      },
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const to = `https://localhost:${port}`
    const certificate = { cert: chainOf.leaf + chainOf.intermediate, key: chainOf.key, ca: authority.certificate }
    const reach: CredentialsOptions['egress'] = {
      ports: [port],
      singleLabelNames: true,
      deniedSuffixes: ['internal'],
      allowAddresses: ['127.0.0.1'],
      resolver: async () => ['127.0.0.1'],
    }
    const card = {
      ...agent.card,
      supportedInterfaces: [{ url: `${to}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
      securitySchemes: {
        mesh: { mtlsSecurityScheme: {} },
        login: { oauth2SecurityScheme: { flows: { clientCredentials: { tokenUrl: `${to}/token`, scopes: {} } } } },
      },
      securityRequirements: [{ schemes: { mesh: { list: [] }, login: { list: [] } } }],
    }
    const providers: Record<string, Provider> = {
      mesh: { type: 'mtls', ...certificate },
      login: {
        type: 'clientCredentials',
        issuer: to,
        tokenEndpoint: `${to}/token`,
        client: { id: 'me', auth: 'tls', ...certificate },
      },
    }
    const credentials = createCredentials({ card, providers, to, egress: reach })
    expect((await credentials.fetch(`${to}/a2a`)).status).toBe(200)
    expect(seen[0]).toMatch(/^\/token test client {2}.*client_id=me/)
    expect(seen[1]).toMatch(/^\/a2a test client Bearer bound/)
    await credentials.close()
    // A104: without one it is an error before anything is sent, not a call without it.
    expect(() => createCredentials({ card, providers: { login: providers.login as Provider }, to })).toThrow(
      'No requirement',
    )
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const wrong = { ...certificate, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() }
    expect(() =>
      createCredentials({ card, providers: { ...providers, mesh: { type: 'mtls', ...wrong } }, to }),
    ).toThrow('"clientCertificate"')
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
})

describe("A105 the SDK's client", () => {
  const wait = async (work: unknown) => {
    try {
      const result = await work
      if (typeof result === 'object' && result !== null && Symbol.asyncIterator in result)
        for await (const _ of result as AsyncIterable<unknown>) break
    } catch {
      // What the agent answers is not what this is about.
    }
  }
  it.each(['JSONRPC', 'HTTP+JSON'])(
    '%s: every call carries the same credential, and nothing goes elsewhere',
    async (binding) => {
      const both = {
        ...agent.card,
        capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
        supportedInterfaces: [{ url: `${agent.url}/a2a`, protocolBinding: binding, protocolVersion: '1.0' }],
      }
      const provider: Provider = {
        type: 'clientCredentials',
        issuer: chain.provider.issuer,
        client: secret,
        scopes: ['agent:use'],
      }
      const credentials = createCredentials({ card: both, providers: { login: provider }, to: agent.url, egress })
      opened.push(credentials)
      const viaHandler = createAuthenticatingFetchWithRetry(fetch, authenticationHandler(credentials))
      const message = {
        message: userMessage('x', 'read-invoice'),
        configuration: undefined,
        metadata: undefined,
        tenant: '',
      }
      const task = { id: 'task-1', tenant: '', historyLength: undefined }
      for (const fetchImpl of [credentials.fetch, viaHandler]) {
        const options = { fetchImpl }
        const transport =
          binding === 'JSONRPC' ? new JsonRpcTransportFactory(options) : new RestTransportFactory(options)
        const client = await new ClientFactory({ transports: [transport] }).createFromAgentCard(
          AgentCard.fromJSON(both),
        )
        agent.arrived.length = 0
        await wait(client.sendMessage(message))
        await wait(client.sendMessageStream(message).next())
        await wait(client.getTask(task))
        await wait(client.cancelTask({ ...task, metadata: undefined }))
        await wait(client.resubscribeTask({ id: 'task-1', tenant: '' }).next())
        await wait(
          client.createTaskPushNotificationConfig({
            taskId: 'task-1',
            url: 'https://hooks.example.com',
            tenant: '',
            id: '',
            token: '',
            authentication: undefined,
          }),
        )
        await wait(client.listTaskPushNotificationConfig({ taskId: 'task-1', tenant: '', pageSize: 0, pageToken: '' }))
        await wait(client.getAgentCard())
        expect(agent.arrived.length).toBeGreaterThanOrEqual(8)
        expect(new Set(agent.arrived).size).toBe(1)
        expect(agent.arrived[0]).toMatch(/^Bearer ey/)
      }
    },
  )
})
