/** Express 5: translate the request, ask the guard, then go on or write its denial unchanged. */
import type { Request, RequestHandler, Response } from 'express'
import type { Caller } from '../delegation/caller.ts'
import type { Guard } from '../guard.ts'
import { assertKnownOptions } from '../internal/options.ts'
import type { AllowedDecision, Binding } from '../types.ts'
import { bodyValue } from './body-value.ts'
import { callerOf, withCaller } from './caller.ts'
import { decisionOf, rememberDecision } from './decisions.ts'
import { credentialPlaces, originalHead, stripRequest } from './header-hygiene.ts'
import { peerOf, readBody, writeDenial } from './node-request.ts'

export interface ExpressGuardOptions {
  /** Set where this mount serves one binding only; the path then plays no part in telling which. */
  readonly binding?: Exclude<Binding, 'GRPC'>
  /** Leaves the credential where it was, for a handler that must read it itself. Default false: it is removed. */
  readonly keepCredential?: boolean
}

/**
 * Middleware that lets only allowed A2A requests through. Mount it at the agent's path, in front of its handlers:
 *
 * ```ts
 * app.use('/a2a', expressGuard(guard), jsonRpcHandler({ requestHandler, userBuilder: userBuilder(guard) }))
 * ```
 *
 * Headers are authenticated before a byte of the body is read. The body of an authenticated request is read here (up to
 * `guard.maxBodyBytes`, no content coding) and `req.body` becomes the very value that was decided on, so that a later
 * `express.json()` has nothing left to parse. A body that an earlier middleware parsed is taken as it is: duplicate
 * members are lost before the guard can see them, so mount the guard first.
 *
 * The handler sees neither the credential nor any header in which a proxy names a caller (`X-User-Id`, `X-Forwarded-Client-Cert`
 * and their like): who the caller is, is in `decisionFor` and in the SDK's user.
 *
 * Everything under the mount is guarded, without exception: serve the public card and `resourceMetadataHandler` in front
 * of it. A fault goes to `next(error)`; it never lets a request through.
 */
export function expressGuard(guard: Guard, options: ExpressGuardOptions = {}): RequestHandler {
  assertKnownOptions('expressGuard', options, ['binding', 'keepCredential'])
  const { binding, keepCredential = false } = options
  if (typeof keepCredential !== 'boolean') throw new TypeError('"keepCredential" must be true or false')
  if (binding !== undefined && binding !== 'JSONRPC' && binding !== 'HTTP+JSON') {
    throw new TypeError('"binding" must be JSONRPC or HTTP+JSON')
  }
  return (req, res, next) => {
    allow(guard, binding, keepCredential, req, res).then((caller) => {
      if (caller !== undefined) withCaller(caller, () => next())
    }, next)
  }
}

async function allow(
  guard: Guard,
  binding: Binding | undefined,
  keepCredential: boolean,
  req: Request,
  res: Response,
): Promise<Caller | undefined> {
  const parsed: unknown = req.body
  const head = originalHead(req)
  const authentication = await guard.authenticate({
    method: req.method,
    ...head,
    peer: peerOf(req),
    body: parsed,
    ...(binding === undefined ? {} : { binding }),
  })
  if (authentication.denied !== undefined) return refuse(req, res, authentication.denied.denial)

  // Text or bytes that an earlier middleware has read are parsed here, so that the handler gets what was decided on.
  let body = typeof parsed === 'string' || Buffer.isBuffer(parsed) ? bodyValue(Buffer.from(parsed as string)) : parsed
  if (body === undefined) {
    const read = await readBody(req, guard.maxBodyBytes)
    if (!read.ok) return refuse(req, res, guard.refuse(authentication, read.code).denial)
    body = bodyValue(read.bytes)
  }
  const decision = await guard.authorize(authentication, body)
  if (!decision.allowed) return refuse(req, res, decision.denial)
  // What nobody could decide on (bytes that are no JSON, on an operation without a body) is not handed on.
  req.body = Buffer.isBuffer(body) ? undefined : body
  const caller = callerOf(guard, decision, head)
  stripRequest(req, credentialPlaces(guard), keepCredential, authentication.hiddenHeaders)
  rememberDecision(req, guard, decision)
  for (const [name, value] of Object.entries(decision.headers ?? {})) res.setHeader(name, value)
  return caller
}

function refuse(req: Request, res: Response, denial: Parameters<typeof writeDenial>[2]): undefined {
  writeDenial(req, res, denial)
}

/** The guard's decision on a request that passed `expressGuard(guard)`; `undefined` if it did not pass that guard. */
export function decisionFor(guard: Guard, req: Request): AllowedDecision | undefined {
  return decisionOf(guard, req)
}

/**
 * Serves the guard's OAuth 2.0 Protected Resource Metadata (RFC 9728 §3) at its well-known path and passes everything
 * else on. Mount it at the root of the application: `app.use(resourceMetadataHandler(guard))`. Without `publicUrl` in
 * the policy, or without a scheme that takes OAuth tokens, there is no document and every request passes on.
 */
export function resourceMetadataHandler(guard: Guard): RequestHandler {
  return (req, res, next) => {
    const metadata = guard.resourceMetadata
    if (metadata === undefined || req.path !== metadata.path || (req.method !== 'GET' && req.method !== 'HEAD'))
      return next()
    res.setHeader('content-type', 'application/json')
    res.setHeader('cache-control', 'public, max-age=3600')
    res.setHeader('access-control-allow-origin', '*')
    res.end(metadata.body)
  }
}

export { webhookHandler } from '../webhook/index.ts'
export { type ApprovalHandlerOptions, approvalHandler, guardLogin } from './approvals.ts'
export { type AgentCardHandlerOptions, agentCardHandler, jwksHandler } from './express-card.ts'
