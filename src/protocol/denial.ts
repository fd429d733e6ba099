/** One denial, three renderings: JSON-RPC envelope, `google.rpc.Status`, gRPC status. DESIGN §4, A2A §3.3.2, §5.4. */
import type { Binding, Denial, DenialReason, JsonRpcId, ProtocolVersion } from '../types.ts'
import { type ChallengeFields, formatChallenges } from './challenge.ts'

export interface DenialInput {
  readonly reason: DenialReason
  readonly binding: Binding
  readonly version: ProtocolVersion
  /** JSON-RPC only. `null`: none, or not read. */
  readonly requestId?: JsonRpcId
  readonly challenges?: readonly ChallengeFields[]
  readonly retryAfterSeconds?: number
  /** HTTP status in place of the usual one of the reason. */
  readonly status?: number
}

interface Rendering {
  readonly http: number
  readonly jsonRpc: number
  readonly grpc: readonly [code: number, status: string]
  /** All a caller is told in words. Static. */
  readonly message: string
  /** A2A's own errors are answered as the protected handler answers them: on JSON-RPC, HTTP 200. */
  readonly own?: true
}

const RENDERINGS: Readonly<Record<DenialReason, Rendering>> = {
  UNAUTHENTICATED: { http: 401, jsonRpc: -32050, grpc: [16, 'UNAUTHENTICATED'], message: 'Authentication required' },
  PERMISSION_DENIED: { http: 403, jsonRpc: -32051, grpc: [7, 'PERMISSION_DENIED'], message: 'Permission denied' },
  INVALID_REQUEST: { http: 400, jsonRpc: -32600, grpc: [3, 'INVALID_ARGUMENT'], message: 'Invalid request' },
  TASK_NOT_FOUND: { http: 404, jsonRpc: -32001, grpc: [5, 'NOT_FOUND'], message: 'Task not found', own: true },
  RATE_LIMITED: { http: 429, jsonRpc: -32052, grpc: [8, 'RESOURCE_EXHAUSTED'], message: 'Too many requests' },
  UNAVAILABLE: { http: 503, jsonRpc: -32053, grpc: [14, 'UNAVAILABLE'], message: 'Temporarily unavailable' },
  UNSUPPORTED_OPERATION: {
    http: 400,
    jsonRpc: -32004,
    grpc: [9, 'FAILED_PRECONDITION'],
    message: 'This operation is not supported',
    own: true,
  },
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: {
    http: 400,
    jsonRpc: -32007,
    grpc: [9, 'FAILED_PRECONDITION'],
    message: 'Extended Agent Card not configured',
    own: true,
  },
}

const ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo'

/** Says nothing but the reason: no name of a task, skill or tenant, and nothing the caller sent except its id. */
export function renderDenial(input: DenialInput): Denial {
  const { reason, binding, requestId = null, challenges = [], retryAfterSeconds } = input
  const { http, jsonRpc, grpc, message, own } = RENDERINGS[reason]
  const status = input.status ?? (own && binding === 'JSONRPC' ? 200 : http)
  const info = { '@type': ERROR_INFO, reason, domain: own ? 'a2a-protocol.org' : 'a2a-trust' }
  const body =
    binding === 'JSONRPC'
      ? { jsonrpc: '2.0', id: requestId, error: { code: jsonRpc, message, data: [info] } }
      : { error: { code: status, status: grpc[1], message, details: [info] } }
  return Object.freeze({
    status,
    headers: Object.freeze({
      'content-type': 'application/json',
      'cache-control': 'no-store',
      ...(challenges.length === 0 ? {} : { 'www-authenticate': formatChallenges(challenges) }),
      ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(Math.max(1, Math.ceil(retryAfterSeconds))) }),
    }),
    body: JSON.stringify(body),
    reason,
    grpc: Object.freeze({ code: grpc[0], status: grpc[1], message }),
  })
}
