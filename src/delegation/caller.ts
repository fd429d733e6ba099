/**
 * Who the code that runs now is working for. Kept by the runtime's asynchronous context: it follows promises, timers,
 * streams and emitters, and never passes from one request to another.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { OperationName, Principal } from '../types.ts'
import { fingerprintOf, type InboundCredential, inboundCredential, type PresentedCredential } from './credentials.ts'
import { createTable, type Table } from './search.ts'

/** The caller of the request that is being worked on. Frozen. */
export interface Caller {
  /** Absent for an anonymous caller. */
  readonly principal?: Principal
  readonly operation?: OperationName
  readonly taskId?: string
  /** The skill the caller named, or the one that runs. */
  readonly skill?: string
  /** Origin this caller's credentials are meant for: that of the policy's `publicUrl`. */
  readonly audience?: string
  /** What arrived, as digests. Absent: nothing that is known. */
  readonly credentials?: readonly InboundCredential[]
}

export interface CallerInput extends Omit<Caller, 'credentials'> {
  readonly credentials?: readonly (InboundCredential | PresentedCredential)[]
}

/** A credential that must not leave, and the one origin it may go to. */
export interface Watched {
  readonly credential: InboundCredential
  readonly audience: string | undefined
}

interface Context {
  readonly caller: Caller
  /** Those of this caller and of every caller around. */
  readonly watched: readonly Watched[]
  /** Origins that are sent credentials on purpose, by this package alone. */
  readonly permitted: readonly string[]
  table?: Table<InboundCredential>
}

const storage = new AsyncLocalStorage<Context>()

/** The caller that the running code works for; `undefined` outside of a request. */
export function currentCaller(): Caller | undefined {
  return storage.getStore()?.caller
}

/**
 * Runs `fn` for `caller`, with everything it starts, and returns what it returns. The adapters do this for each request;
 * it is for what arrives in another way, such as a job. Credentials in clear text become digests here. Those of a caller
 * around stay watched: an inner caller takes nothing out of sight.
 */
export function withCaller<T>(caller: CallerInput, fn: () => T): T {
  const given: unknown = caller
  if (typeof given !== 'object' || given === null) throw new TypeError('"caller" must be an object')
  const credentials = (caller.credentials ?? []).flatMap((one) => {
    const made = 'value' in one ? inboundCredential(one) : one
    return made === undefined ? [] : [made]
  })
  const outer = storage.getStore()
  const audience = caller.audience === undefined ? undefined : new URL(caller.audience).origin
  const watched = [
    ...(outer?.watched ?? []),
    ...credentials
      .filter((credential) => outer?.watched.every((one) => one.credential !== credential) !== false)
      .map((credential) => ({ credential, audience })),
  ]
  const copy: Caller = Object.freeze({
    ...caller,
    ...(audience === undefined ? {} : { audience }),
    credentials: Object.freeze(credentials),
  })
  return storage.run({ caller: copy, watched, permitted: outer?.permitted ?? [] }, fn)
}

/**
 * `fn`, for the caller of now, whenever and from wherever it is called: for queues and pools whose worker was started
 * outside of the request. Without a caller, `fn` itself.
 */
export function bindCaller<This, Args extends unknown[], Result>(
  fn: (this: This, ...args: Args) => Result,
): (this: This, ...args: Args) => Result {
  const context = storage.getStore()
  if (context === undefined) return fn
  return function (...args) {
    return storage.run(context, () => fn.apply(this, args))
  }
}

/** Runs `fn`, whose requests to `origin` may carry the caller's credential: the exchange of a token at its issuer. */
export function withPermittedOrigin<T>(origin: string, fn: () => T): T {
  const context = storage.getStore()
  if (context === undefined) return fn()
  return storage.run({ ...context, permitted: [...context.permitted, origin] }, fn)
}

/** What must not be sent to `origin` now; `undefined` where there is nothing to look for. */
export function watchedFor(
  origin: string | undefined,
  audiences: readonly string[] = [],
): { readonly caller: Caller; readonly table: Table<InboundCredential> } | undefined {
  const context = storage.getStore()
  if (context === undefined || context.watched.length === 0) return undefined
  const { caller, watched, permitted } = context
  if (origin !== undefined && permitted.includes(origin)) return undefined
  const isOwn = ({ audience }: Watched) =>
    origin !== undefined && (audience === undefined ? audiences.includes(origin) : audience === origin)
  if (watched.some(isOwn)) {
    const rest = watched.filter((one) => !isOwn(one))
    return rest.length === 0 ? undefined : { caller, table: tableOf(rest) }
  }
  context.table ??= tableOf(watched)
  return { caller, table: context.table }
}

function tableOf(watched: readonly Watched[]): Table<InboundCredential> {
  return createTable(
    watched.flatMap(({ credential }) => {
      const found = fingerprintOf(credential)
      return found === undefined ? [] : [[credential, found] as const]
    }),
  )
}

/** Runs what it is given for the caller of now, whenever that is; `undefined` without one. */
export function snapshotCaller(): (<T>(fn: () => T) => T) | undefined {
  const context = storage.getStore()
  return context === undefined ? undefined : (fn) => storage.run(context, fn)
}
