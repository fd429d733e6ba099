/**
 * The web's `Request` and `Response` (Hono, Bun, Deno, Next route handlers, Workers-like hosts): translate the request, ask
 * the guard, then go on or return its denial unchanged.
 */
import type { Guard } from '../guard.ts'
import { assertKnownOptions } from '../internal/options.ts'
import type { AllowedDecision, Binding, Denial, Peer } from '../types.ts'
import { bodyValue } from './body-value.ts'
import { callerOf, withCaller } from './caller.ts'
import { decisionOf, rememberDecision } from './decisions.ts'
import { credentialPlaces, isStripped, withoutParameters } from './header-hygiene.ts'
import { below, checkMount } from './mount.ts'
import { readBody } from './web-body.ts'

export interface WebGuardOptions {
  /** Path the agent is served under, taken off the target before it is read: `/a2a`. Default: none. */
  readonly mount?: string
  /** Set where these requests are of one binding only. */
  readonly binding?: Exclude<Binding, 'GRPC'>
  /** Leaves the credential where it was, for a handler that must read it itself. Default false: it is removed. */
  readonly keepCredential?: boolean
}

/** Runs `handler` for an allowed request. `peer` is what the host knows of the connection, never of a header. */
export type WebGuard = (
  request: Request,
  handler: (request: Request, decision: AllowedDecision) => Response | Promise<Response>,
  peer?: Peer,
) => Promise<Response>

/**
 * Lets only allowed A2A requests through to a handler:
 *
 * ```ts
 * const protect = webGuard(guard, { mount: '/a2a' })
 * app.post('/a2a', (c) => protect(c.req.raw, handle, { address: addressOf(c) }))
 * ```
 *
 * Headers are authenticated before the body is read. The body is read here, up to `guard.maxBodyBytes` and without a
 * content coding, and the handler's request is a new one: the bytes that were decided on, no credential, no header in
 * which a proxy names a caller. Rejects for a fault of this process and for what the handler rejects with.
 *
 * A `Request` keeps no repeated header lines: those of one name arrive joined, and a joined credential is refused. Not
 * known unless `peer` says so: address and client certificate. Without an address, all callers share one limit of failed
 * authentications.
 */
export function webGuard(guard: Guard, options: WebGuardOptions = {}): WebGuard {
  assertKnownOptions('webGuard', options, ['mount', 'binding', 'keepCredential'])
  const { mount = '', binding, keepCredential = false } = options
  checkMount(mount)
  if (typeof keepCredential !== 'boolean') throw new TypeError('"keepCredential" must be true or false')
  if (binding !== undefined && binding !== 'JSONRPC' && binding !== 'HTTP+JSON') {
    throw new TypeError('"binding" must be JSONRPC or HTTP+JSON')
  }
  return async (request, handler, peer = {}) => {
    const head = { target: below(mount, targetOf(request.url)), rawHeaders: [...request.headers].flat() }
    const authentication = await guard.authenticate({
      method: request.method,
      ...head,
      peer,
      ...(binding === undefined ? {} : { binding }),
    })
    if (authentication.denied !== undefined) return respond(authentication.denied.denial)
    const read = await readBody(request, guard.maxBodyBytes)
    if (!read.ok) return respond(guard.refuse(authentication, read.code).denial)
    const body = bodyValue(read.bytes)
    const decision = await guard.authorize(authentication, body)
    if (!decision.allowed) return respond(decision.denial)
    // What nobody could decide on (bytes that are no JSON, on an operation without a body) is not handed on.
    const bytes = body instanceof Uint8Array ? undefined : read.bytes
    const places = credentialPlaces(guard)
    const drop = (name: string) => isStripped(name, places, keepCredential, authentication.hiddenHeaders)
    // Proxies and pages tell the URL in headers of their own.
    const told = (text: string) => (keepCredential ? text : withoutParameters(text, places.query))
    const passed = stripped(request, bytes, drop, told)
    rememberDecision(passed, guard, decision)
    const caller = callerOf(guard, decision, head)
    return withHeaders(await withCaller(caller, () => handler(passed, decision)), decision.headers)
  }
}

/** The guard's decision on a request that `webGuard(guard)` handed on; `undefined` if it did not come from that guard. */
export function decisionFor(guard: Guard, request: Request): AllowedDecision | undefined {
  return decisionOf(guard, request)
}

/** Path and query as the handler will see them: the host's URL parser has read them for both. */
function targetOf(url: string): string {
  const { pathname, search, hash } = new URL(url)
  return pathname + search + hash
}

/** They frame a message on a connection; the new request is on none. */
const FRAMING = new Set(['content-length', 'transfer-encoding'])

function stripped(
  request: Request,
  bytes: Uint8Array | undefined,
  drop: (name: string) => boolean,
  told: (text: string) => string,
): Request {
  const headers = new Headers()
  for (const [name, value] of request.headers) {
    if (!FRAMING.has(name) && !drop(name)) headers.append(name, told(value))
  }
  const { method, signal } = request
  return new Request(told(request.url), { method, headers, signal, ...(bytes === undefined ? {} : { body: bytes }) })
}

function withHeaders(response: Response, headers: AllowedDecision['headers']): Response {
  if (headers === undefined) return response
  // What a handler returns may be sealed: a redirect, or an answer it fetched.
  const answer = new Response(response.body, response)
  for (const [name, value] of Object.entries(headers)) if (!answer.headers.has(name)) answer.headers.set(name, value)
  return answer
}

function respond({ status, headers, body }: Denial): Response {
  return new Response(body, { status, headers })
}

export { type WebApprovalsOptions, webApprovals } from './web-approvals.ts'
