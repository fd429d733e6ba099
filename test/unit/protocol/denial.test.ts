import { describe, expect, it } from 'vitest'
import { renderDenial } from '../../../src/protocol/denial.ts'
import type { Binding, DenialReason, ProtocolVersion } from '../../../src/types.ts'

const table: [DenialReason, number, number, number, string][] = [
  ['UNAUTHENTICATED', 401, -32050, 16, 'UNAUTHENTICATED'],
  ['PERMISSION_DENIED', 403, -32051, 7, 'PERMISSION_DENIED'],
  ['INVALID_REQUEST', 400, -32600, 3, 'INVALID_ARGUMENT'],
  ['RATE_LIMITED', 429, -32052, 8, 'RESOURCE_EXHAUSTED'],
  ['UNAVAILABLE', 503, -32053, 14, 'UNAVAILABLE'],
]

describe.each(table)('A37 %s', (reason, http, jsonRpc, code, status) => {
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'a2a-trust' }

  it.each<[ProtocolVersion]>([['1.0'], ['0.3']])('on JSON-RPC %s: HTTP status and envelope', (version) => {
    for (const requestId of [7, 0, '', 'x', null]) {
      const denial = renderDenial({ reason, binding: 'JSONRPC', version, requestId })
      expect(denial.status).toBe(http)
      expect(JSON.parse(denial.body)).toEqual({
        jsonrpc: '2.0',
        id: requestId,
        error: { code: jsonRpc, message: expect.any(String), data: [info] },
      })
    }
    expect(JSON.parse(renderDenial({ reason, binding: 'JSONRPC', version }).body)).toHaveProperty('id', null)
  })

  it.each<[ProtocolVersion]>([['1.0'], ['0.3']])('on HTTP+JSON %s: google.rpc.Status', (version) => {
    const denial = renderDenial({ reason, binding: 'HTTP+JSON', version, requestId: 7 })
    expect(denial.status).toBe(http)
    expect(JSON.parse(denial.body)).toEqual({
      error: { code: http, status, message: expect.any(String), details: [info] },
    })
  })

  it('on gRPC, and never to be stored', () => {
    const denial = renderDenial({ reason, binding: 'GRPC', version: '1.0' })
    expect(denial.grpc).toMatchObject({ code, status })
    expect(denial.headers['cache-control']).toBe('no-store')
    expect(denial.reason).toBe(reason)
    expect(Object.isFrozen(denial) && Object.isFrozen(denial.headers)).toBe(true)
  })

  it('the code is none that A2A or JSON-RPC gives a meaning, but for malformed requests', () => {
    if (reason === 'INVALID_REQUEST') return
    expect(jsonRpc).toBeLessThanOrEqual(-32050)
    expect(jsonRpc).toBeGreaterThanOrEqual(-32099)
  })
})

it('A39 P98 challenges only where credentials are the matter', () => {
  const challenges = [{ scheme: 'Bearer', params: [['realm', 'a2a']] }] as const
  const header = (reason: DenialReason) =>
    renderDenial({ reason, binding: 'JSONRPC', version: '1.0', challenges }).headers['www-authenticate']
  expect(header('UNAUTHENTICATED')).toBe('Bearer realm="a2a"')
  expect(header('PERMISSION_DENIED')).toBe('Bearer realm="a2a"')
  for (const reason of ['INVALID_REQUEST', 'TASK_NOT_FOUND', 'RATE_LIMITED', 'UNAVAILABLE'] as const)
    expect(header(reason)).toBeUndefined()
  expect(renderDenial({ reason: 'UNAUTHENTICATED', binding: 'GRPC', version: '1.0' }).headers).not.toHaveProperty(
    'www-authenticate',
  )
})

it.each([
  [0.2, '1'],
  [-5, '1'],
  [1.5, '2'],
  [60, '60'],
  [Number.NaN, '1'],
  [Number.POSITIVE_INFINITY, '1'],
  [1e9, '86400'],
])('P101 Retry-After for %d is whole seconds', (retryAfterSeconds, text) => {
  const denial = renderDenial({ reason: 'RATE_LIMITED', binding: 'HTTP+JSON', version: '1.0', retryAfterSeconds })
  expect(denial.headers['retry-after']).toBe(text)
})

it('413 replaces the status everywhere it is said', () => {
  const input = { reason: 'INVALID_REQUEST', version: '1.0', status: 413 } as const
  expect(renderDenial({ ...input, binding: 'JSONRPC' }).status).toBe(413)
  const rest = renderDenial({ ...input, binding: 'HTTP+JSON' })
  expect([rest.status, JSON.parse(rest.body).error.code]).toEqual([413, 413])
})

it('A37 the same denial says the same in words on every binding', () => {
  const words = (['JSONRPC', 'HTTP+JSON', 'GRPC'] as const satisfies Binding[]).map(
    (binding) => renderDenial({ reason: 'TASK_NOT_FOUND', binding, version: '1.0', taskId: 't"1' }).grpc.message,
  )
  expect(new Set(words)).toEqual(new Set(['Task not found: t"1']))
})
