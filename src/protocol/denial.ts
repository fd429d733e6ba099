/**
 * A denial as each binding and version writes it. What A2A itself defines (a task that is not there, the extended card)
 * is written as the SDK's own handlers write it, byte for byte, so that "not yours" and "not there" are one answer; a
 * contract test keeps it so. Everything else is ours, in the forms of A2A v1.0 §9.5, §10.6 and §11.6.
 */
import type { Binding, Denial, DenialReason, JsonRpcId, OperationName, ProtocolVersion } from '../types.ts'
import { type ChallengeInput, formatChallenges } from './challenge.ts'
import { encodeGrpcStatus } from './grpc-status.ts'

export interface DenialInput {
  readonly reason: DenialReason
  readonly binding: Binding
  readonly version: ProtocolVersion
  /** Echoed on JSON-RPC; `null` (the default) when the body was not read. */
  readonly requestId?: JsonRpcId
  /** What was asked for, where it is known: the SDK answers its streaming operations in forms of their own. */
  readonly operation?: OperationName
  /** The task the caller named. It is in the text of `TASK_NOT_FOUND`, whether or not there is such a task. */
  readonly taskId?: string
  /** Written on 401 and 403. */
  readonly challenges?: readonly ChallengeInput[]
  /** Further headers; they replace none of the denial's own. */
  readonly headers?: Readonly<Record<string, string>>
  /** Rounded up to whole seconds, at least 1. */
  readonly retryAfterSeconds?: number
  /** HTTP status in place of the reason's own: 413 for a body that is too large. */
  readonly status?: number
  /** Text in place of the reason's own. Static: nothing of the request, no credential. */
  readonly message?: string
}

interface Form {
  readonly http: number
  readonly jsonRpc: number
  readonly grpc: number
  /** Canonical name of `grpc`, also the `status` of HTTP+JSON. */
  readonly status: string
  readonly message: string
  /** An error that A2A defines. On JSON-RPC it travels with HTTP 200, as everything a method answers. */
  readonly own?: true
}

const FORMS: Readonly<Record<DenialReason, Form>> = {
  UNAUTHENTICATED: {
    http: 401,
    jsonRpc: -32050,
    grpc: 16,
    status: 'UNAUTHENTICATED',
    message: 'Authentication is required',
  },
  PERMISSION_DENIED: {
    http: 403,
    jsonRpc: -32051,
    grpc: 7,
    status: 'PERMISSION_DENIED',
    message: 'The credentials do not permit this request',
  },
  INVALID_REQUEST: {
    http: 400,
    jsonRpc: -32600,
    grpc: 3,
    status: 'INVALID_ARGUMENT',
    message: 'The request is malformed',
  },
  RATE_LIMITED: { http: 429, jsonRpc: -32052, grpc: 8, status: 'RESOURCE_EXHAUSTED', message: 'Too many requests' },
  UNAVAILABLE: {
    http: 503,
    jsonRpc: -32053,
    grpc: 14,
    status: 'UNAVAILABLE',
    message: 'The request cannot be authorized at the moment',
  },
  TASK_NOT_FOUND: { http: 404, jsonRpc: -32001, grpc: 5, status: 'NOT_FOUND', message: 'Task not found', own: true },
  UNSUPPORTED_OPERATION: {
    http: 400,
    jsonRpc: -32004,
    grpc: 9,
    status: 'FAILED_PRECONDITION',
    message: 'Agent does not support authenticated extended card.',
    own: true,
  },
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: {
    http: 400,
    jsonRpc: -32007,
    grpc: 9,
    status: 'FAILED_PRECONDITION',
    message: 'Extended Agent Card not configured',
    own: true,
  },
}

/** Renders a denial. Total: any input gives an answer, and no header it writes can be broken out of. */
export function renderDenial(input: DenialInput): Denial {
  const { reason } = input
  const form = FORMS[reason]
  const message = input.message ?? messageOf(form, input)
  const { status, contentType, body } = write(form, message, input)
  const headers: Record<string, string> = {
    ...input.headers,
    'content-type': contentType,
    'cache-control': 'no-store',
  }
  if (reason === 'UNAUTHENTICATED' || reason === 'PERMISSION_DENIED') {
    const challenges = formatChallenges(input.challenges ?? [])
    if (challenges !== '') headers['www-authenticate'] = challenges
  }
  if (input.retryAfterSeconds !== undefined) headers['retry-after'] = String(wholeSeconds(input.retryAfterSeconds))
  return Object.freeze({
    status,
    headers: Object.freeze(headers),
    body,
    reason,
    grpc: writeGrpc(form, message, input, headers),
  })
}

/** What travels as metadata beside the details: the headers that say something to a gRPC client. */
const GRPC_HEADERS = ['www-authenticate', 'retry-after', 'dpop-nonce']

function writeGrpc(form: Form, message: string, input: DenialInput, headers: Record<string, string>): Denial['grpc'] {
  // Every gRPC implementation answers a message over its limit with this code, whatever else is INVALID_ARGUMENT.
  const { grpc: code, status } = input.status === 413 ? FORMS.RATE_LIMITED : form
  const retryAfterSeconds = input.retryAfterSeconds === undefined ? undefined : wholeSeconds(input.retryAfterSeconds)
  const details = encodeGrpcStatus({
    code,
    message,
    reason: input.reason,
    domain: domainOf(form),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  })
  const metadata = Object.entries(headers).filter(([name]) => GRPC_HEADERS.includes(name))
  return Object.freeze({
    code,
    status,
    message,
    metadata: Object.freeze({ ...Object.fromEntries(metadata), 'grpc-status-details-bin': details }),
  })
}

function messageOf(form: Form, { reason, taskId }: DenialInput): string {
  return reason === 'TASK_NOT_FOUND' && taskId !== undefined ? `${form.message}: ${taskId}` : form.message
}

function wholeSeconds(seconds: number): number {
  return Number.isFinite(seconds) ? Math.min(Math.max(1, Math.ceil(seconds)), 86_400) : 1
}

interface Written {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

const JSON_TYPE = 'application/json; charset=utf-8'

function write(form: Form, message: string, input: DenialInput): Written {
  const { binding, version } = input
  const status = input.status ?? form.http
  if (binding === 'JSONRPC') return writeJsonRpc(form, message, input)
  // v0.3 REST has no envelope: for what A2A defines, the SDK writes the JSON-RPC error object alone.
  if (form.own && version === '0.3') {
    return { status, contentType: JSON_TYPE, body: JSON.stringify(jsonRpcError(form, message, input)) }
  }
  const error = { code: status, status: form.status, message, details: [errorInfo(form, input)] }
  return { status, contentType: 'application/a2a+json; charset=utf-8', body: JSON.stringify({ error }) }
}

function writeJsonRpc(form: Form, message: string, input: DenialInput): Written {
  const { requestId = null, operation, version } = input
  const isStream = form.own === true && (operation === 'SendStreamingMessage' || operation === 'SubscribeToTask')
  // The SDK drops the ids 0 and "" when a stream fails before its first event. Echoing them would tell the two apart.
  const id = isStream ? requestId || null : requestId
  const text = JSON.stringify({ jsonrpc: '2.0', id, error: jsonRpcError(form, message, input) })
  if (isStream && version === '0.3' && operation === 'SubscribeToTask') {
    return { status: 200, contentType: 'text/event-stream', body: `event: error\ndata: ${text}\n\n` }
  }
  return { status: form.own ? 200 : (input.status ?? form.http), contentType: JSON_TYPE, body: text }
}

function jsonRpcError(form: Form, message: string, input: DenialInput): object {
  const error = { code: form.jsonRpc, message }
  // v0.3 defines no data for its own errors.
  return form.own && input.version === '0.3' ? error : { ...error, data: [errorInfo(form, input)] }
}

function errorInfo(form: Form, { reason }: DenialInput): object {
  return {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason,
    domain: domainOf(form),
  }
}

function domainOf(form: Form): string {
  return form.own ? 'a2a-protocol.org' : 'a2a-trust'
}
