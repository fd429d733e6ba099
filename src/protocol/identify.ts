/**
 * Which operation a request is. In two steps, because headers are authenticated before a byte of the body is read:
 * `identifyHead` says what method, target and headers say, `identifyOperation` what the whole request says.
 *
 * The spelling alone decides which operation is meant and in which version it is written; `A2A-Version` must not
 * contradict it. Without the header (or with an empty one, A2A §3.6.2) both versions' spellings are accepted, because
 * servers differ: the SDK with v0.3 support refuses a v1.0 method there, and without it runs the method. Either way
 * what would run is what is checked.
 */
import type { ErrorCode } from '../errors.ts'
import { headerView } from '../internal/headers.ts'
import type {
  Binding,
  GuardRequest,
  JsonRpcId,
  Operation,
  OperationName,
  ProtocolVersion,
  RequestHead,
} from '../types.ts'
import type { CardModel } from './card-model.ts'
import { matchRoutes, plainSegments, type RouteMatch } from './http-routes.ts'
import { isObject, type JsonObject } from './json-object.ts'
import { readJsonBody, readJsonRpc } from './json-rpc.ts'
import { byGrpcMethod, byJsonRpcMethod } from './operations.ts'
import { type RequestFields, readFields, type SkillSelection } from './request-fields.ts'

/** Where the card's interfaces are, as paths without a trailing slash. */
export interface Mounts {
  /** Paths that may precede an HTTP+JSON route. */
  readonly http: readonly string[]
  /** Paths that JSON-RPC is posted to, beside the mount root. */
  readonly jsonRpc: ReadonlySet<string>
}

export type HeadIdentity =
  | { readonly kind: 'operation'; readonly operation: Operation }
  /** JSON-RPC: only the body says which operation. */
  | { readonly kind: 'body'; readonly binding: 'JSONRPC'; readonly version?: ProtocolVersion }
  | {
      readonly kind: 'unknown'
      readonly binding: Binding
      readonly code: ErrorCode
      readonly version?: ProtocolVersion
    }

export type Identified =
  | { readonly kind: 'operation'; readonly operation: Operation; readonly params?: unknown }
  | {
      readonly kind: 'unknown'
      readonly binding: Binding
      readonly code: ErrorCode
      readonly requestId: JsonRpcId
      readonly version?: ProtocolVersion
    }

const NO_MOUNTS: Mounts = Object.freeze({ http: Object.freeze([]), jsonRpc: new Set<string>() })

/**
 * Reads the mounts off a card, once. A target may be relative to where the agent is mounted (as Express gives it to
 * mounted middleware) or the full path, with or without the path of `publicUrl` that a proxy may have removed.
 *
 * A mount of one segment and a tenant of the same name cannot be told apart: `/a2a/tasks/1` below a mount `/a2a` is read
 * as the full path of task 1 without a tenant, never as tenant "a2a". Do not name a tenant after the mount.
 */
export function compileMounts(card: Pick<CardModel, 'interfaces'>, publicUrl?: string): Mounts {
  const base = pathOf(publicUrl ?? '') ?? ''
  const http = new Set<string>()
  const jsonRpc = new Set<string>()
  for (const { binding, url } of card.interfaces) {
    const path = pathOf(url)
    if (path === undefined || (binding !== 'HTTP+JSON' && binding !== 'JSONRPC')) continue
    const paths = base !== '' && path.startsWith(`${base}/`) ? [path, path.slice(base.length)] : [path]
    for (const each of paths) if (each !== '') (binding === 'JSONRPC' ? jsonRpc : http).add(each)
  }
  return Object.freeze({ http: Object.freeze([...http]), jsonRpc })
}

function pathOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).pathname.replace(/\/+$/, '') : undefined
}

/** What is known before the body. Never throws. */
export function identifyHead(head: RequestHead, mounts: Mounts = NO_MOUNTS): HeadIdentity {
  const { method, target, binding } = head
  const stated = versionOf(head)
  const unknown = (as: Binding, code: ErrorCode = 'ERR_OPERATION_UNKNOWN'): HeadIdentity => ({
    kind: 'unknown',
    binding: as,
    code,
    ...(typeof stated === 'string' ? { version: stated } : {}),
  })

  if (binding === 'GRPC') {
    if (stated === null) return unknown('GRPC', 'ERR_VERSION_UNSUPPORTED')
    const spelled = byGrpcMethod.get(target)
    if (spelled === undefined || contradicts(stated, spelled.version)) return unknown('GRPC')
    return { kind: 'operation', operation: { ...spelled, binding } }
  }
  const start = target.search(/[?#]/)
  const path = start === -1 ? target : target.slice(0, start)
  const isJsonRpc = binding === 'JSONRPC' || (binding === undefined && isJsonRpcPath(path, mounts))
  const as = isJsonRpc ? 'JSONRPC' : 'HTTP+JSON'
  if (stated === null) return unknown(as, 'ERR_VERSION_UNSUPPORTED')
  if (isJsonRpc) {
    if (method !== 'POST') return unknown(as)
    return { kind: 'body', binding: 'JSONRPC', ...(stated === undefined ? {} : { version: stated }) }
  }
  const match = routeOf(method, path, mounts, stated)
  if (match === undefined) return unknown(as)
  const query = readQuery(start === -1 ? '' : target.slice(start), match.name)
  if (
    query === undefined ||
    (query.tenant !== undefined && match.tenant !== undefined && query.tenant !== match.tenant)
  ) {
    return unknown(as, 'ERR_REQUEST_MALFORMED')
  }
  return { kind: 'operation', operation: { ...match, ...query, binding: as } }
}

/** `undefined`: not stated; `null`: stated twice, or not a version of A2A. */
function versionOf({ rawHeaders }: RequestHead): ProtocolVersion | undefined | null {
  const lines = headerView(rawHeaders).all('a2a-version')
  if (lines.length > 1) return null
  const version = (lines[0] ?? '').trim()
  if (version === '') return undefined
  return version === '1.0' || version === '0.3' ? version : null
}

function contradicts(stated: ProtocolVersion | undefined, spelled: ProtocolVersion): boolean {
  return stated !== undefined && stated !== spelled
}

function isJsonRpcPath(path: string, { jsonRpc }: Mounts): boolean {
  return path === '' || path === '/' || jsonRpc.has(path) || (path.endsWith('/') && jsonRpc.has(path.slice(0, -1)))
}

/** The one operation that every reading of the path agrees on. */
function routeOf(
  method: string,
  path: string,
  mounts: Mounts,
  stated: ProtocolVersion | undefined,
): RouteMatch | undefined {
  const readings = [path]
  for (const mount of mounts.http) if (path.startsWith(`${mount}/`)) readings.push(path.slice(mount.length))
  let chosen: RouteMatch | undefined
  for (const reading of readings) {
    const segments = plainSegments(reading)
    if (segments === undefined) return undefined
    for (const match of matchRoutes(method, segments)) {
      if (contradicts(stated, match.version)) continue
      // `/v1` is the root of v0.3; only a caller who says v1.0 can mean a tenant by it.
      if (stated === undefined && match.tenant === 'v1') continue
      if (chosen !== undefined && !isSameTarget(chosen, match)) return undefined
      if (chosen === undefined || match.tenant === undefined) chosen = match
    }
  }
  return chosen
}

function isSameTarget(a: RouteMatch, b: RouteMatch): boolean {
  return a.name === b.name && a.taskId === b.taskId && a.configId === b.configId
}

const MOST_PARAMETERS = 256

/**
 * What the query says about the target. A name given twice, or nested (`tenant[]`), is read differently by parsers; the
 * original name of a field (`context_id`) may repeat its value, as in bodies.
 */
function readQuery(query: string, name: OperationName): RequestFields | undefined {
  if (query === '') return {}
  if (query.includes('#')) return undefined
  const parameters = new URLSearchParams(query)
  if (parameters.size > MOST_PARAMETERS) return undefined
  const fields = name === 'ListTasks' ? ['tenant', 'contextId', 'context_id'] : ['tenant']
  const found = new Map<string, string>()
  for (const [key, value] of parameters) {
    const field = key.replace(/[[.].*$/s, '')
    if (!fields.includes(field)) continue
    if (field !== key || found.has(field) || value.includes('\ufffd')) return undefined
    found.set(field, value)
  }
  const tenant = found.get('tenant') || undefined
  const contextId = found.get('contextId') || undefined
  if ((found.get('context_id') || contextId) !== contextId) return undefined
  return { ...(tenant === undefined ? {} : { tenant }), ...(contextId === undefined ? {} : { contextId }) }
}

/**
 * What the request asks for. Never throws: a request that is no operation, or that can be read in two ways, is `unknown`
 * with the operator's code: `ERR_OPERATION_UNKNOWN`, `ERR_VERSION_UNSUPPORTED`, `ERR_BODY_NOT_JSON`,
 * `ERR_REQUEST_TOO_LARGE` or `ERR_REQUEST_MALFORMED`.
 *
 * `selection` says where a caller may name a skill; without it, nowhere. Not checked: whether the parameters are valid
 * for the operation, and whether task, tenant or skill exist.
 */
export function identifyOperation(
  request: GuardRequest,
  mounts: Mounts = NO_MOUNTS,
  selection?: SkillSelection,
): Identified {
  const head = identifyHead(request, mounts)
  if (head.kind === 'unknown') return { ...head, requestId: null }
  const binding = head.kind === 'body' ? head.binding : head.operation.binding
  const stated = head.kind === 'body' ? head.version : head.operation.version
  const unknown = (code: ErrorCode, requestId: JsonRpcId = null): Identified => ({
    kind: 'unknown',
    binding,
    code,
    requestId,
    ...(stated === undefined ? {} : { version: stated }),
  })

  const body = readJsonBody(request.body, headerView(request.rawHeaders))
  if (!body.ok) return unknown(body.code)
  if (head.kind === 'operation') {
    // v0.3 clients in Go and Python send `null` where they mean no body.
    const params = body.value ?? undefined
    if (params !== undefined && !isObject(params)) return unknown('ERR_REQUEST_MALFORMED')
    // RFC 9110 §9.3.1: content in a GET means nothing, so a handler ignores what we would have read in it.
    if (binding === 'HTTP+JSON' && request.method !== 'POST' && Object.keys(params ?? {}).length > 0) {
      return unknown('ERR_REQUEST_MALFORMED')
    }
    const { name, version, ...target } = head.operation
    return finish({ name, version, binding }, params, fieldsOf(target)) ?? unknown('ERR_REQUEST_MALFORMED')
  }
  const call = readJsonRpc(body.value)
  if (!call.ok) return unknown(call.code, call.id)
  const spelled = byJsonRpcMethod.get(call.method)
  if (spelled === undefined || contradicts(stated, spelled.version)) return unknown('ERR_OPERATION_UNKNOWN', call.id)
  return (
    finish({ ...spelled, binding, requestId: call.id }, call.params, {}) ?? unknown('ERR_REQUEST_MALFORMED', call.id)
  )

  function finish(base: Operation, params: JsonObject | undefined, target: RequestFields): Identified | undefined {
    const { name, version } = base
    const fields = readFields({ name, version, binding, params, target }, selection)
    if (fields === undefined) return undefined
    return { kind: 'operation', operation: { ...base, ...fields }, ...(params === undefined ? {} : { params }) }
  }
}

function fieldsOf({ taskId, contextId, configId, tenant }: RequestFields): RequestFields {
  return {
    ...(taskId === undefined ? {} : { taskId }),
    ...(contextId === undefined ? {} : { contextId }),
    ...(configId === undefined ? {} : { configId }),
    ...(tenant === undefined ? {} : { tenant }),
  }
}
