/**
 * Request bodies. One text has one meaning or none: what this file hands on is read the same by every JSON parser, and
 * by every JSON-RPC 2.0 server.
 */
import { type ErrorCode, TrustError } from '../errors.ts'
import type { HeaderView } from '../internal/headers.ts'
import { parseStrictJson } from '../internal/json.ts'
import type { JsonRpcId } from '../types.ts'
import { isObject, type JsonObject, own } from './json-object.ts'

export type BodyReading =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly code: ErrorCode }

/**
 * A body as JSON. `undefined` and no bytes at all are no body (`value: undefined`); bytes and text are parsed strictly;
 * anything else is JSON somebody has parsed already and is taken as it is.
 */
export function readJsonBody(body: unknown, headers: HeaderView): BodyReading {
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) return { ok: true, value: body }
  if (body.length === 0) return { ok: true, value: undefined }
  // UTF-7, or a content coding, makes other JSON of the same bytes for the handler that comes after.
  if (!isPlainUtf8(headers)) return { ok: false, code: 'ERR_REQUEST_MALFORMED' }
  try {
    return { ok: true, value: parseStrictJson(body) }
  } catch (error) {
    return { ok: false, code: error instanceof TrustError ? codeOf(error.code) : 'ERR_BODY_NOT_JSON' }
  }
}

function codeOf(code: ErrorCode): ErrorCode {
  if (code === 'ERR_JSON_SIZE') return 'ERR_REQUEST_TOO_LARGE'
  return code === 'ERR_JSON_SYNTAX' || code === 'ERR_JSON_ENCODING' || code === 'ERR_JSON_BOM'
    ? 'ERR_BODY_NOT_JSON'
    : 'ERR_REQUEST_MALFORMED'
}

const CHARSET = /;\s*charset\s*=\s*"?([^";\s]*)/gi

function isPlainUtf8(headers: HeaderView): boolean {
  const types = headers.all('content-type')
  if (types.length > 1) return false
  for (const [, charset] of (types[0] ?? '').matchAll(CHARSET)) {
    if (!/^utf-?8$/i.test(charset!)) return false
  }
  return headers.all('content-encoding').every((coding) => coding.trim().toLowerCase() === 'identity')
}

export type JsonRpcReading =
  | {
      readonly ok: true
      readonly id: string | number
      readonly method: string
      readonly params: JsonObject | undefined
    }
  | { readonly ok: false; readonly code: ErrorCode; readonly id: JsonRpcId }

/** The four members of a request. A member that differs from one of them in case only is read as it by some parsers. */
const MEMBERS: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params'])

/**
 * A JSON-RPC 2.0 request. Refused as malformed: a batch, whatever its members (a decision is about one operation); a
 * notification or an `id` of `null`, which nobody could be answered; an `id` that is not a string or a safe integer
 * (0 and "" are ids like any other); `jsonrpc` other than "2.0"; `params` that are no object. Other members are ignored,
 * as JSON-RPC has always done.
 */
export function readJsonRpc(body: unknown): JsonRpcReading {
  if (body === undefined) return { ok: false, code: 'ERR_BODY_NOT_JSON', id: null }
  if (!isObject(body)) return { ok: false, code: 'ERR_REQUEST_MALFORMED', id: null }
  const id = own(body, 'id')
  if (typeof id !== 'string' && !Number.isSafeInteger(id)) return { ok: false, code: 'ERR_REQUEST_MALFORMED', id: null }
  const malformed = { ok: false, code: 'ERR_REQUEST_MALFORMED', id: id as string | number } as const
  if (Object.keys(body).some((name) => !MEMBERS.has(name) && MEMBERS.has(name.toLowerCase()))) return malformed
  const method = own(body, 'method')
  const params = own(body, 'params')
  if (own(body, 'jsonrpc') !== '2.0' || typeof method !== 'string') return malformed
  if (params !== undefined && !isObject(params)) return malformed
  return { ok: true, id: malformed.id, method, params }
}
