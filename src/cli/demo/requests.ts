/** What the demo tries, and what has to happen. */
import { request } from 'node:http'
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client'
import type { ErrorCode } from '../../errors.ts'
import { userMessage } from './agent.ts'
import type { DemoProvider } from './provider.ts'

export interface Attempt {
  readonly what: string
  /** HTTP status that must come back. */
  readonly status: number
  /** The operator's reason in the audit event; absent: allowed, or not a guarded path. */
  readonly code?: ErrorCode
  /** Whether the agent's own code must run. */
  readonly runs: boolean
  /** Resolves to the status of the last HTTP response. */
  send(): Promise<number>
}

type Headers = Readonly<Record<string, string>>

export function attempts(baseUrl: string, provider: DemoProvider, partnerKey: string): Attempt[] {
  const key: Headers = { 'x-api-key': partnerKey }
  const bearer = (token: string): Headers => ({ authorization: `Bearer ${token}` })
  const echo = (headers: Headers) => () => viaSdk(baseUrl, 'jsonrpc', headers, 'echo')
  return [
    {
      what: 'card discovery, no credential',
      status: 200,
      runs: false,
      send: () => get(`${baseUrl}/.well-known/agent-card.json`),
    },
    {
      what: 'OAuth resource metadata (RFC 9728)',
      status: 200,
      runs: false,
      send: () => get(`${baseUrl}/.well-known/oauth-protected-resource`),
    },
    { what: 'SendMessage, no credential', status: 401, code: 'ERR_CREDENTIAL_MISSING', runs: false, send: echo({}) },
    {
      what: 'SendMessage, wrong API key',
      status: 401,
      code: 'ERR_API_KEY_UNKNOWN',
      runs: false,
      send: echo({ 'x-api-key': 'a-key-nobody-issued' }),
    },
    { what: 'SendMessage, good API key', status: 200, runs: true, send: echo(key) },
    {
      what: 'SendMessage, good token, streamed',
      status: 200,
      runs: true,
      send: async () =>
        viaSdk(baseUrl, 'jsonrpc-stream', bearer(await provider.token('reader', baseUrl, 'a2a:read')), 'echo'),
    },
    {
      what: 'SendMessage, token for another audience',
      status: 401,
      code: 'ERR_TOKEN_AUDIENCE',
      runs: false,
      send: async () => echo(bearer(await provider.token('reader', 'https://other.example', 'a2a:read')))(),
    },
    {
      what: 'SendMessage, expired token',
      status: 401,
      code: 'ERR_TOKEN_EXPIRED',
      runs: false,
      send: async () => echo(bearer(await provider.expiredToken(baseUrl)))(),
    },
    {
      what: 'SendMessage, unsigned token (alg none)',
      status: 401,
      code: 'ERR_TOKEN_ALGORITHM',
      runs: false,
      send: async () => echo(bearer(unsigned(await provider.token('payer', baseUrl, 'a2a:read'))))(),
    },
    {
      what: 'SendMessage, two Authorization lines',
      status: 400,
      code: 'ERR_CREDENTIAL_MALFORMED',
      runs: false,
      send: async () => twoLines(baseUrl, await provider.token('reader', baseUrl, 'a2a:read')),
    },
    {
      what: 'skill pay-invoice, token without a2a:pay',
      status: 403,
      code: 'ERR_SCOPE_INSUFFICIENT',
      runs: false,
      send: async () =>
        viaSdk(baseUrl, 'jsonrpc', bearer(await provider.token('reader', baseUrl, 'a2a:read')), 'pay-invoice'),
    },
    {
      what: 'skill pay-invoice, API key',
      status: 403,
      code: 'ERR_SKILL_FORBIDDEN',
      runs: false,
      send: () => viaSdk(baseUrl, 'jsonrpc', key, 'pay-invoice'),
    },
    {
      what: 'skill pay-invoice, token with a2a:pay',
      status: 200,
      runs: true,
      send: async () =>
        viaSdk(baseUrl, 'jsonrpc', bearer(await provider.token('payer', baseUrl, 'a2a:read a2a:pay')), 'pay-invoice'),
    },
    {
      what: 'v0.3 client, no credential',
      status: 401,
      code: 'ERR_CREDENTIAL_MISSING',
      runs: false,
      send: () => viaV03(baseUrl, {}),
    },
    { what: 'v0.3 client, good API key', status: 200, runs: true, send: () => viaV03(baseUrl, key) },
    {
      what: 'REST client, no credential',
      status: 401,
      code: 'ERR_CREDENTIAL_MISSING',
      runs: false,
      send: () => viaSdk(baseUrl, 'rest', {}, 'echo'),
    },
    { what: 'REST client, good API key', status: 200, runs: true, send: () => viaSdk(baseUrl, 'rest', key, 'echo') },
    {
      what: 'REST path spelled /%74asks, no credential',
      status: 401,
      code: 'ERR_CREDENTIAL_MISSING',
      runs: false,
      send: () => get(`${baseUrl}/rest/%74asks`),
    },
    {
      what: 'an operation A2A does not have',
      status: 403,
      code: 'ERR_OPERATION_UNKNOWN',
      runs: false,
      send: () => get(`${baseUrl}/rest/admin`, key),
    },
  ]
}

async function get(url: string, headers: Headers = {}): Promise<number> {
  const response = await fetch(url, { headers })
  await response.arrayBuffer()
  return response.status
}

/** The SDK's own client, unmodified but for the header a user would configure. */
async function viaSdk(
  baseUrl: string,
  transport: 'jsonrpc' | 'jsonrpc-stream' | 'rest',
  headers: Headers,
  skill: string,
): Promise<number> {
  let status = 0
  const fetchImpl: typeof fetch = async (input, init) => {
    const merged = new Headers(init?.headers)
    for (const [name, value] of Object.entries(headers)) merged.set(name, value)
    const response = await fetch(input, { ...init, headers: merged })
    status = response.status
    return response
  }
  const factory = new ClientFactory({
    transports: [
      transport === 'rest' ? new RestTransportFactory({ fetchImpl }) : new JsonRpcTransportFactory({ fetchImpl }),
    ],
  })
  const client = await factory.createFromUrl(baseUrl)
  const params = { message: userMessage('hello', skill), configuration: undefined, metadata: undefined, tenant: '' }
  try {
    if (transport === 'jsonrpc-stream') for await (const _ of client.sendMessageStream(params));
    else await client.sendMessage(params)
  } catch (error) {
    // A refusal is what several attempts are about; the status says whether it was the expected one.
    if (status === 200) throw error
  }
  return status
}

/** A v0.3 client: no `A2A-Version`, the old method name and message shape. */
async function viaV03(baseUrl: string, headers: Headers): Promise<number> {
  const message = {
    kind: 'message',
    messageId: crypto.randomUUID(),
    role: 'user',
    parts: [{ kind: 'text', text: 'hello' }],
    metadata: { skillId: 'echo' },
  }
  const response = await fetch(`${baseUrl}/a2a`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'message/send', params: { message } }),
  })
  await response.arrayBuffer()
  return response.status
}

function twoLines(baseUrl: string, token: string): Promise<number> {
  const { hostname, port } = new URL(baseUrl)
  return new Promise((resolve, reject) => {
    const headers = [
      'host',
      hostname,
      'content-type',
      'application/json',
      'authorization',
      `Bearer ${token}`,
      'authorization',
      'Bearer x',
    ]
    request({ hostname, port, path: '/a2a', method: 'POST', headers }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on('error', reject)
      .end('{}')
  })
}

/** The same claims under `alg: none`. */
function unsigned(token: string): string {
  return `${Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')}.${token.split('.')[1]}.`
}
