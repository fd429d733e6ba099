/**
 * The HTTP contract, once, as data: operations x bindings and versions x credentials x columns. A2A §7.4, §7.5, §13.1:
 * missing is 401, not enough is 403, valid is let through, on the same operation (A27, A37, A38, A50).
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Binding } from '../../src/types.ts'
import { AUDIENCE, makeRig, NOW, type Rig } from '../support/rig.ts'
import { type Column, columns } from './columns.ts'
import { contractRequests } from './operations.ts'

interface Expected {
  readonly status: number
  readonly grpc: number
  readonly jsonRpc: number
  readonly rest: string
  readonly reason: string
  readonly challenge: readonly (string | RegExp)[]
}

const METADATA = `resource_metadata="${AUDIENCE}/.well-known/oauth-protected-resource"`
const expected: Readonly<Record<string, Expected>> = {
  none: {
    status: 401,
    grpc: 16,
    jsonRpc: -32050,
    rest: 'UNAUTHENTICATED',
    reason: 'UNAUTHENTICATED',
    challenge: [`Bearer realm="a2a", scope="a2a:use", ${METADATA}, ApiKey realm="a2a", in="header", name="x-api-key"`],
  },
  bad: {
    status: 401,
    grpc: 16,
    jsonRpc: -32050,
    rest: 'UNAUTHENTICATED',
    reason: 'UNAUTHENTICATED',
    challenge: [
      `Bearer realm="a2a", error="invalid_token", scope="a2a:use", ${METADATA}, ApiKey realm="a2a", in="header", name="x-api-key"`,
    ],
  },
  malformed: {
    status: 400,
    grpc: 3,
    jsonRpc: -32600,
    rest: 'INVALID_ARGUMENT',
    reason: 'INVALID_REQUEST',
    challenge: [],
  },
  insufficient: {
    status: 403,
    grpc: 7,
    jsonRpc: -32051,
    rest: 'PERMISSION_DENIED',
    reason: 'PERMISSION_DENIED',
    challenge: [/^Bearer realm="a2a", error="insufficient_scope", scope="a2a:use", resource_metadata=/],
  },
}

const HTTP: readonly Binding[] = ['JSONRPC', 'HTTP+JSON']
const columnBindings: Readonly<Record<string, readonly Binding[]>> = { grpc: ['GRPC'] }

describe.each(Object.keys(columns))('contract over %s', (name) => {
  let rig: Rig
  let column: Column
  const credentials: Record<string, string[]> = { none: [] }

  beforeAll(async () => {
    rig = await makeRig()
    column = await (columns[name] as (typeof columns)[string])(rig.guard)
    const bearer = async (claims: Record<string, unknown> = {}) => [
      'authorization',
      `Bearer ${await rig.token(claims)}`,
    ]
    credentials.valid = await bearer()
    credentials.insufficient = await bearer({ scope: 'a2a:other' })
    credentials.bad = await bearer({ exp: NOW - 3600 })
    // Two lines with one credential each; gRPC carries one line only, so there they are two in one.
    credentials.malformed = column.bindings.includes('GRPC')
      ? ['authorization', `Bearer ${await rig.token()}, Bearer ${await rig.token()}`]
      : [...(await bearer()), ...(await bearer())]
  })
  afterAll(async () => {
    await column.close()
    await rig.close()
  })

  const rows = contractRequests.filter(({ binding }) => (columnBindings[name] ?? HTTP).includes(binding))

  describe.each(rows)('$operation on $binding $version', (request) => {
    it.each(Object.entries(expected))('A50 %s is refused and nothing runs', async (credential, want) => {
      const answer = await column.send(request, credentials[credential] as string[])
      expect(answer.ran).toBeUndefined()
      expect(answer.status).toBe(request.binding === 'GRPC' ? want.grpc : want.status)
      const challenge = answer.headers['www-authenticate'] ?? ''
      for (const part of want.challenge) expect(challenge).toMatch(part)
      if (want.challenge.length === 0) expect(challenge).toBe('')
      if (request.binding === 'GRPC') {
        const type = 'type.googleapis.com/google.rpc.ErrorInfo'
        const details = [{ type, fields: { 1: want.reason, 2: 'a2a-trust' } }]
        expect(JSON.parse(answer.body)).toMatchObject({ code: want.grpc, details })
        return
      }
      const body = JSON.parse(answer.body) as {
        jsonrpc?: string
        id?: unknown
        error: Record<string, unknown> & { details?: unknown[]; data?: unknown[] }
      }
      const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: want.reason, domain: 'a2a-trust' }
      if (request.binding === 'JSONRPC') {
        expect(body).toMatchObject({ jsonrpc: '2.0', error: { code: want.jsonRpc, data: [info] } })
        // The body is read only once the headers are good.
        expect(body.id).toBe(want.status === 403 ? 7 : null)
      } else {
        expect(body).toMatchObject({ error: { code: want.status, status: want.rest, details: [info] } })
      }
      expect(answer.headers['cache-control']).toBe('no-store')
    })

    it('valid is let through, as the operation it is', async () => {
      const answer = await column.send(request, credentials.valid as string[])
      expect(answer).toMatchObject({ status: request.binding === 'GRPC' ? 0 : 200, ran: request.operation })
    })
  })

  it('every decision left one event, with the principal where there was one, and no credential', () => {
    const text = JSON.stringify(rig.events)
    for (const line of Object.values(credentials)
      .flat()
      .filter((value) => value.startsWith('Bearer'))) {
      expect(text).not.toContain(line.slice('Bearer '.length))
    }
    const count = rows.length * (Object.keys(expected).length + 1)
    expect(rig.events.length).toBe(count)
    expect(new Set(rig.events.filter(({ allowed }) => allowed).map(({ principal }) => principal))).toEqual(
      new Set(['oauth2:https%3A%2F%2Fissuer.example:alice']),
    )
  })
})
