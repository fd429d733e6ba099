/** An introspection endpoint on loopback that says what the test wants, and opaque schemes that ask it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OpaqueSchemeConfig } from '../../src/policy/compiled.ts'
import { createOpaqueScheme } from '../../src/schemes/opaque.ts'
import type { Outcome, Scheme } from '../../src/schemes/scheme.ts'
import { bearer, type TestContext, testContext } from './credentials.ts'
import { sendJson, startLoopback } from './loopback.ts'
import { AUDIENCE, ISSUER, NOW } from './tokens.ts'

export const CLIENT_SECRET = 'a secret/of:the+agent%for-tests-01'

export interface Question {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly form: URLSearchParams
}

export interface IntrospectionEndpoint {
  readonly origin: string
  /** What it was asked, in order. */
  readonly questions: Question[]
  /** Answers one question; replace it at will. */
  answer: (question: Question, response: ServerResponse) => void
  close(): Promise<void>
}

/** An answer that is good in every respect. `undefined` removes a member. */
export function goodAnswer(changes: Record<string, unknown> = {}): Record<string, unknown> {
  const good = {
    active: true,
    iss: ISSUER,
    aud: AUDIENCE,
    sub: 'alice',
    client_id: 'app',
    scope: 'read write',
    token_type: 'Bearer',
    iat: NOW - 60,
    exp: NOW + 600,
  }
  return Object.fromEntries(Object.entries({ ...good, ...changes }).filter(([, value]) => value !== undefined))
}

export async function startIntrospection(): Promise<IntrospectionEndpoint> {
  const server = await startLoopback((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const form = new URLSearchParams(Buffer.concat(chunks).toString())
      const question = { path: request.url ?? '', headers: request.headers, form }
      endpoint.questions.push(question)
      endpoint.answer(question, response)
    })
  })
  const endpoint: IntrospectionEndpoint = {
    origin: server.origin,
    questions: [],
    answer: (_question, response) => sendJson(response, goodAnswer()),
    close: server.close,
  }
  return endpoint
}

export function opaqueConfig(endpoint: string, change: Partial<OpaqueSchemeConfig> = {}): OpaqueSchemeConfig {
  return {
    type: 'opaque',
    name: 'login',
    kind: 'oauth2',
    issuer: ISSUER,
    endpoint: { from: 'policy', url: endpoint },
    client: { auth: 'basic', id: 'agent', secret: () => CLIENT_SECRET },
    cacheSeconds: 30,
    acceptMissingAudience: false,
    otherIssuers: new Set(),
    audience: [AUDIENCE],
    scopeClaims: ['scope', 'scp'],
    clockToleranceSeconds: 30,
    maxTokenBytes: 16_384,
    requiredScopes: [],
    senderConstraint: 'off',
    ...change,
  }
}

export interface OpaqueRig {
  readonly scheme: Scheme
  /** Its `now` moves time. */
  readonly context: TestContext
  present(token: string): Promise<Outcome>
}

export function opaqueRig(endpoint: IntrospectionEndpoint, change: Partial<OpaqueSchemeConfig> = {}): OpaqueRig {
  const context = testContext(NOW * 1000)
  const scheme = createOpaqueScheme(opaqueConfig(`${endpoint.origin}/introspect`, change), {
    ...context,
    clock: () => context.now,
    fetch: globalThis.fetch,
  })
  return { scheme, context, present: async (token) => scheme.authenticate(bearer(token)) }
}
