/** Agents of three companies behind one authorization server: a user calls A, which calls B, which calls C. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { decisionFor, expressGuard } from '../../src/adapters/express.ts'
import { withCaller } from '../../src/delegation/caller.ts'
import { createGuard, type Guard, type GuardOptions } from '../../src/guard.ts'
import type { AllowedDecision, DecisionEvent } from '../../src/types.ts'
import { EXCHANGE_GRANT, type ExchangeOptions, LOGIN_GRANT } from './oidc-exchange.ts'
import { CLIENT_SECRET, type OidcProviderOptions, startOidcProvider, type TestOidcProvider } from './oidc-provider.ts'

export interface ChainAgent {
  readonly name: string
  readonly url: string
  readonly card: Readonly<Record<string, unknown>>
  readonly guard: Guard
  readonly events: DecisionEvent[]
  /** `Authorization` of every request that arrived, allowed or not. */
  readonly arrived: string[]
  /** What allowed requests do; its result is the answer. */
  work: (decision: AllowedDecision, body: unknown) => Promise<unknown>
  close(): Promise<void>
}

export interface Chain {
  readonly provider: TestOidcProvider
  /** Has a user log in for an agent. */
  login(user: string, agent: ChainAgent | { readonly url: string }, scope?: string): Promise<string>
  agent(name: string, options?: AgentOptions): Promise<ChainAgent>
  close(): Promise<void>
}

export interface AgentOptions {
  readonly delegation?: readonly Readonly<Record<string, unknown>>[]
  readonly policy?: Readonly<Record<string, unknown>>
  readonly guard?: Partial<GuardOptions>
  /** Scope that the agent as a whole asks for. Default `agent:use`. */
  readonly scope?: string
}

export const SCOPES = 'agent:use invoice:read invoice:pay'

export async function startChain(
  exchange: ExchangeOptions,
  clients: OidcProviderOptions['clients'] = ['a', 'b'].map((name) => ({
    client_id: `agent-${name}-client`,
    grant_types: ['client_credentials', EXCHANGE_GRANT],
  })),
): Promise<Chain> {
  const resources: Record<string, 'jwt' | 'opaque'> = {}
  const provider = await startOidcProvider({
    resources,
    scope: SCOPES,
    exchange,
    clients: [{ client_id: 'app', grant_types: [LOGIN_GRANT] }, ...(clients ?? [])],
  })
  const agents: ChainAgent[] = []
  return {
    provider,
    async login(user, { url }, scope = 'agent:use') {
      const form = { grant_type: LOGIN_GRANT, user, scope, resource: url }
      const authorization = `Basic ${Buffer.from(`app:${CLIENT_SECRET}`).toString('base64')}`
      return (await provider.token(form, { authorization })).access_token
    },
    async agent(name, options = {}) {
      const made = await startAgent(name, provider, options)
      resources[made.url] = 'jwt'
      agents.push(made)
      return made
    },
    async close() {
      await Promise.all(agents.map((each) => each.close()))
      await provider.close()
    },
  }
}

async function startAgent(name: string, provider: TestOidcProvider, options: AgentOptions): Promise<ChainAgent> {
  const app = express()
  const server: Server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { scope = 'agent:use' } = options
  const card = {
    name,
    description: name,
    version: '1.0.0',
    supportedInterfaces: [{ url: `${url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: {},
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [
      { id: 'read-invoice', name: 'Read', description: 'r', tags: [] },
      { id: 'pay-invoice', name: 'Pay', description: 'p', tags: [] },
    ],
    securitySchemes: {
      login: {
        openIdConnectSecurityScheme: { openIdConnectUrl: `${provider.issuer}/.well-known/openid-configuration` },
      },
    },
    securityRequirements: [{ schemes: { login: { list: [scope] } } }],
  }
  const events: DecisionEvent[] = []
  const guard = await createGuard({
    policy: {
      version: 1,
      card,
      audience: url,
      publicUrl: url,
      schemes: { login: { issuer: provider.issuer, algorithms: ['ES256'] } },
      egress: { requireHttps: false, ports: ANY_PORT, allowAddresses: ['127.0.0.1'] },
      ...(options.delegation === undefined ? {} : { delegation: options.delegation }),
      ...options.policy,
    },
    env: { SECRET: CLIENT_SECRET },
    onDecision: (event) => events.push(event),
    ...options.guard,
  })
  const agent: ChainAgent = {
    name,
    url,
    card,
    guard,
    events,
    arrived: [],
    work: async ({ principal }) => ({
      subject: principal?.subject,
      actor: principal?.actor,
      scopes: principal?.scopes,
    }),
    async close() {
      await guard.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  app.use('/a2a', (req, _res, next) => {
    agent.arrived.push(req.headers.authorization ?? '')
    next()
  })
  app.use('/a2a', expressGuard(guard), (req, res) => {
    const decision = decisionFor(guard, req) as AllowedDecision
    const { principal, operation } = decision
    void withCaller({ ...(principal === undefined ? {} : { principal }), operation: operation.name }, () =>
      agent.work(decision, req.body).then(
        (result) => res.json({ jsonrpc: '2.0', id: 1, result }),
        (fault: { code?: string; details?: object }) =>
          res.status(502).json({ error: fault.code ?? String(fault), details: fault.details }),
      ),
    )
  })
  return agent
}

/** Random ports of a test. */
const ANY_PORT = Array.from({ length: 65_535 }, (_, index) => index + 1)

/** A JSON-RPC message to an agent. */
export function message(skill = 'read-invoice'): {
  readonly method: 'POST'
  readonly headers: Record<string, string>
  readonly body: string
} {
  return {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }], metadata: { skillId: skill } } },
    }),
  }
}

/** Whatever an agent answered. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into it
export type Answer = Record<string, any>

/** Calls an agent as a user's application does. */
export async function callAgent(agent: { readonly url: string }, token: string | undefined, skill?: string) {
  const { headers, ...rest } = message(skill)
  const response = await fetch(`${agent.url}/a2a`, {
    ...rest,
    headers: { ...headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
  })
  return { status: response.status, body: (await response.json()) as Answer }
}
