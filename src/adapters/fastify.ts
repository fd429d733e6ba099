/** Fastify 5: translate the request, ask the guard, then go on or send its denial unchanged. */
import { Readable } from 'node:stream'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../delegation/caller.ts'
import type { Authentication, Guard } from '../guard.ts'
import { assertKnownOptions } from '../internal/options.ts'
import type { AllowedDecision, Binding, Denial } from '../types.ts'
import { bodyValue } from './body-value.ts'
import { callerOf, withCaller } from './caller.ts'
import { decisionOf, rememberDecision } from './decisions.ts'
import { credentialPlaces, originalHead, stripParsed, stripRequest } from './header-hygiene.ts'
import { below, checkMount } from './mount.ts'
import { endsConnection, peerOf, readBody } from './node-request.ts'

export { type FastifyApprovalsOptions, fastifyApprovals } from './fastify-approvals.ts'
export { type FastifyWebhookOptions, fastifyWebhook } from './fastify-webhook.ts'

export interface FastifyGuardOptions {
  readonly guard: Guard
  /** Path the guarded routes share, taken off the target before it is read: `/a2a`. Default: none. */
  readonly mount?: string
  /** Set where these routes serve one binding only. */
  readonly binding?: Exclude<Binding, 'GRPC'>
  /** Leaves the credential where it was. Default false: the handler does not see it. */
  readonly keepCredential?: boolean
}

/** The media type that A2A v1.0 registers for itself; its clients send HTTP+JSON as this. */
const A2A_JSON = 'application/a2a+json'

interface Pending {
  readonly authentication: Authentication
  /** What was decided on. */
  body?: unknown
  caller?: Caller
}

/**
 * Plugin that guards every route of the context it is registered in, and of those below:
 *
 * ```ts
 * await fastify.register(async (agent) => {
 *   await agent.register(fastifyGuard, { guard, mount: '/a2a' })
 *   agent.post('/a2a', handler)
 * })
 * ```
 *
 * Headers are authenticated in `onRequest`. The body is read in `preParsing`, before any parser, and `request.body` becomes
 * the very value that was decided on. Routes registered outside of the context are not guarded.
 */
export const fastifyGuard: FastifyPluginAsync<FastifyGuardOptions> = async (fastify, options) => {
  assertKnownOptions('fastifyGuard', options, ['guard', 'mount', 'binding', 'keepCredential'])
  const { guard, mount = '', binding, keepCredential = false } = options
  if (typeof keepCredential !== 'boolean') throw new TypeError('"keepCredential" must be true or false')
  if (binding !== undefined && binding !== 'JSONRPC' && binding !== 'HTTP+JSON')
    throw new TypeError('"binding" must be JSONRPC or HTTP+JSON')
  checkMount(mount)
  const pendings = new WeakMap<FastifyRequest, Pending>()

  // Fastify knows JSON by one name only. What is parsed is not what is handed on: see `preValidation`.
  if (!fastify.hasContentTypeParser(A2A_JSON))
    fastify.addContentTypeParser(A2A_JSON, { parseAs: 'buffer' }, (_request, _bytes, done) => done(null))

  fastify.addHook('onRequest', async (request, reply) => {
    const { rawHeaders, target } = originalHead(request.raw)
    const authentication = await guard.authenticate({
      method: request.method,
      target: below(mount, target),
      rawHeaders,
      peer: peerOf(request.raw),
      ...(binding === undefined ? {} : { binding }),
    })
    if (authentication.denied !== undefined) return send(request, reply, authentication.denied.denial)
    pendings.set(request, { authentication })
    return undefined
  })

  fastify.addHook('preParsing', async (request, reply, payload) => {
    const pending = pendings.get(request)
    // A request that skipped `onRequest` has no authentication, and so no way on.
    if (pending === undefined) throw new TypeError('fastifyGuard: preParsing ran before onRequest')
    const read = await readBody(request.raw, guard.maxBodyBytes)
    if (!read.ok) return send(request, reply, guard.refuse(pending.authentication, read.code).denial)
    const body = bodyValue(read.bytes)
    const decision = await guard.authorize(pending.authentication, body)
    if (!decision.allowed) return send(request, reply, decision.denial)
    pending.body = Buffer.isBuffer(body) ? undefined : body
    pending.caller = callerOf(guard, decision, originalHead(request.raw))
    const places = credentialPlaces(guard)
    stripRequest(request.raw, places, keepCredential, pending.authentication.hiddenHeaders)
    if (!keepCredential) stripParsed(request, places)
    rememberDecision(request.raw, guard, decision)
    if (decision.headers !== undefined) reply.headers(decision.headers)
    if (read.bytes === undefined) return payload
    return Object.assign(Readable.from([read.bytes]), { receivedEncodedLength: read.bytes.length })
  })

  // With a callback: what follows runs inside of it, and so for the caller.
  fastify.addHook('preValidation', (request, _reply, done) => {
    const { body, caller } = pendings.get(request) ?? {}
    // Also where that is nothing: a parser makes something of no bytes.
    request.body = body
    if (caller === undefined) done()
    else withCaller(caller, () => done())
  })
}
// Fastify's own mark for a plugin whose hooks belong to the context that registers it.
Object.assign(fastifyGuard, { [Symbol.for('skip-override')]: true, [Symbol.for('fastify.display-name')]: 'a2a-trust' })

/** The guard's decision on a request that passed `fastifyGuard`; `undefined` if it did not pass that guard. */
export function decisionFor(guard: Guard, request: FastifyRequest): AllowedDecision | undefined {
  return decisionOf(guard, request.raw)
}

function send({ raw }: FastifyRequest, reply: FastifyReply, { status, headers, body }: Denial): FastifyReply {
  if (endsConnection(raw)) reply.header('connection', 'close')
  // Bytes, so that no serialiser and no reply schema of the route changes what the guard made.
  return reply.code(status).headers(headers).send(Buffer.from(body))
}
