/** `@grpc/grpc-js`: translate the call, ask the guard, then go on or end it with the guard's status. */
import type { ServerHttp2Stream } from 'node:http2'
import {
  type ChannelOptions,
  Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerOptions,
  status,
} from '@grpc/grpc-js'
import type { Caller } from '../delegation/caller.ts'
import type { Authentication, Guard } from '../guard.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { findFault } from '../internal/plain-data.ts'
import type { AllowedDecision, Denial, Peer } from '../types.ts'
import { callerOf, withCaller } from './caller.ts'
import { decisionOf, rememberDecision } from './decisions.ts'
import { credentialPlaces, isStripped } from './header-hygiene.ts'
import { closeWhenAnswered, peerOfSocket } from './node-request.ts'

export interface GrpcGuardOptions {
  /** Leaves the credential in the metadata, for a handler that must read it itself. Default false: it is removed. */
  readonly keepCredential?: boolean
  /**
   * Called with what was thrown when a call could not be decided for a fault of this process. The caller gets INTERNAL
   * without detail. Default: a process warning.
   */
  readonly onFault?: (fault: unknown) => void
}

/**
 * Server interceptor that lets only allowed A2A calls through. It must be the first of the server's interceptors:
 *
 * ```ts
 * const server = new Server(grpcServerOptions(guard))
 * server.addService(A2AService, grpcService({ requestHandler, userBuilder: userBuilder(guard) }))
 * ```
 *
 * Metadata is authenticated before the message is read, and the decision is about the very message and metadata that the
 * handler gets. Everything the server serves is guarded: a method that is no A2A operation is denied, health checks
 * too. A method that is not registered is answered UNIMPLEMENTED by grpc-js, which asks no interceptor.
 *
 * Not seen: of several `authorization` entries Node keeps the first, for the guard and the handler alike.
 */
export function grpcGuard(guard: Guard, options: GrpcGuardOptions = {}): ServerInterceptor {
  assertKnownOptions('grpcGuard', options, ['keepCredential', 'onFault'])
  const { keepCredential = false, onFault = warn } = options
  if (typeof keepCredential !== 'boolean') throw new TypeError('"keepCredential" must be true or false')
  if (typeof onFault !== 'function') throw new TypeError('"onFault" must be a function')

  return ({ path, requestStream }, call) => {
    let authentication: Authentication | undefined
    let kept: Metadata
    let received: readonly string[]
    let caller: Caller | undefined
    let decided = false
    let offered: AllowedDecision['headers']

    const end = (answer: Parameters<typeof call.sendStatus>[0]) => {
      const stream = http2StreamOf(call)
      if (stream !== undefined) closeWhenAnswered(stream)
      call.sendStatus(answer)
    }
    const inCaller = (pass: () => void) => (caller === undefined ? pass() : withCaller(caller, pass))
    const refuse = (denial: Denial) => end(statusOf(denial))
    const fail = (fault: unknown) => {
      end({ code: status.INTERNAL, details: 'Internal error' })
      onFault(fault)
    }

    async function authenticate(metadata: Metadata, pass: (metadata: Metadata) => void): Promise<void> {
      received = rawHeadersOf(metadata)
      const head = { method: 'POST', target: path, rawHeaders: received, peer: peerOfCall(call) }
      const answer = await guard.authenticate({ ...head, binding: 'GRPC' })
      if (answer.denied !== undefined) return refuse(answer.denied.denial)
      // No operation of A2A takes a stream, and the handler of one would run before any message.
      if (requestStream) return refuse(guard.refuse(answer, 'ERR_REQUEST_MALFORMED').denial)
      authentication = answer
      kept = withoutCredentials(metadata, guard, keepCredential, answer.hiddenHeaders)
      pass(kept)
    }

    /** Whether the message may pass. grpc-js reads none before `pass(kept)`. */
    async function authorize(message: unknown): Promise<boolean> {
      if (authentication === undefined || decided) {
        end({ code: status.INVALID_ARGUMENT, details: 'One request message is expected' })
        return false
      }
      decided = true
      const fault = findFault(message, guard.maxBodyBytes)
      if (message === undefined || fault !== undefined) {
        const code = fault === 'too large' ? 'ERR_REQUEST_TOO_LARGE' : 'ERR_REQUEST_MALFORMED'
        refuse(guard.refuse(authentication, code).denial)
        return false
      }
      const decision = await guard.authorize(authentication, message)
      if (!decision.allowed) {
        refuse(decision.denial)
        return false
      }
      offered = decision.headers
      rememberDecision(kept, guard, decision)
      caller = callerOf(guard, decision, { rawHeaders: received, target: path })
      return true
    }

    return new ServerInterceptingCall(call, {
      sendMetadata(metadata, next) {
        for (const [name, value] of Object.entries(offered ?? {})) metadata.set(name, value)
        next(metadata)
      },
      start(next) {
        next({
          onReceiveMetadata(received, pass) {
            authenticate(received, pass).catch(fail)
          },
          onReceiveMessage(message, pass) {
            authorize(message).then((allowed) => {
              if (allowed) inCaller(() => pass(message))
            }, fail)
          },
          onReceiveHalfClose(pass) {
            // While a message is being decided on, grpc-js holds this back until that has passed.
            // The handler of a unary call runs now.
            if (decided) return inCaller(pass)
            authorize(undefined).catch(fail)
          },
        })
      },
    })
  }
}

/**
 * Options for `new Server(…)`: the interceptor, and the policy's `maxBodyBytes` as the largest message, compressed or
 * not, that grpc-js reads and decodes. Without them grpc-js reads up to 4 MiB, and the guard refuses afterwards.
 */
export function grpcServerOptions(guard: Guard, options: GrpcGuardOptions = {}): ServerOptions & ChannelOptions {
  return { interceptors: [grpcGuard(guard, options)], 'grpc.max_receive_message_length': guard.maxBodyBytes }
}

/** The guard's decision on a call that passed `grpcGuard(guard)`; `undefined` if it did not pass that guard. */
export function decisionFor(guard: Guard, call: { readonly metadata: Metadata }): AllowedDecision | undefined {
  return decisionOf(guard, call.metadata)
}

/** As headers. No credential is binary, so `-bin` entries are none of the guard's business. */
function rawHeadersOf(metadata: Metadata): string[] {
  return Object.entries(metadata.toJSON()).flatMap(([name, values]) =>
    values.flatMap((value) => (typeof value === 'string' ? [name, value] : [])),
  )
}

function withoutCredentials(
  received: Metadata,
  guard: Guard,
  keepCredential: boolean,
  hidden: readonly string[],
): Metadata {
  const kept = received.clone()
  const places = credentialPlaces(guard)
  for (const name of Object.keys(received.toJSON())) {
    if (isStripped(name.replace(/-bin$/, ''), places, keepCredential, hidden)) kept.remove(name)
  }
  return kept
}

/** grpc-js has no public way to it. Absent where an interceptor of somebody else stands before the guard's. */
function http2StreamOf(call: ServerInterceptingCallInterface): ServerHttp2Stream | undefined {
  return (call as { readonly stream?: ServerHttp2Stream }).stream
}

/**
 * From the connection, as on HTTP. Where grpc-js does not show it, from its own account of the peer: the verified leaf,
 * without the certificates that came with it.
 */
function peerOfCall(call: ServerInterceptingCallInterface): Peer {
  const socket = http2StreamOf(call)?.session?.socket
  if (socket !== undefined) return peerOfSocket(socket)
  const { remoteAddress } = call.getConnectionInfo()
  const raw = call.getAuthContext().sslPeerCertificate?.raw
  return {
    ...(remoteAddress === undefined ? {} : { address: remoteAddress }),
    ...(raw === undefined ? {} : { certificate: { raw, authorized: true } }),
  }
}

function statusOf({ grpc }: Denial) {
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(grpc.metadata))
    metadata.set(name, typeof value === 'string' ? value : Buffer.from(value))
  return { code: grpc.code, details: grpc.message, metadata }
}

function warn(fault: unknown): void {
  process.emitWarning(fault instanceof Error ? fault : String(fault))
}
