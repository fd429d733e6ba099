/**
 * The global `fetch` and undici, whichever copy and dispatcher: each announces every request, redirects included, on a
 * diagnostics channel before anything of it is sent. A request that has an `error` by then fails with it when its turn
 * comes, and its `body` may be replaced. Both are how undici 5 to 7 keep a request; a test holds them against each copy
 * there is, so that a later one that does not is noticed.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Agent } from 'undici'
import { snapshotCaller } from './caller.ts'
import { checkedChunks, checkedStream, isNodeStream } from './outbound-body.ts'
import { type OutboundCheck, originOf, outboundCheck } from './outbound-check.ts'

/** What is used of undici's `Request`. */
interface AnnouncedRequest {
  readonly origin: string | URL
  readonly path: string
  readonly method: string
  /** Names and values alternate; undici 5 has one text. */
  readonly headers: readonly (string | readonly string[])[] | string
  readonly host?: string | null
  readonly upgrade?: string | null
  contentType: string | null
  contentLength: number | null
  body: unknown
  error?: Error
  addHeader(name: string, value: string): unknown
}

const CHANNEL = 'undici:request:create'

export function watchUndici(): () => void {
  const restore = dispatcherPrototypes().map(keepContext)
  subscribe(CHANNEL, onCreate)
  return () => {
    unsubscribe(CHANNEL, onCreate)
    for (const undo of restore) undo()
  }
}

function onCreate(message: unknown): void {
  const { request } = message as { readonly request: AnnouncedRequest }
  const check = outboundCheck(originOf(/^https?:/.test(request.path) ? request.path : request.origin))
  if (check === undefined) return
  // What a subscriber throws takes the process down, and the request goes on. A fault of ours ends the request.
  try {
    const error = checkHead(request, check) ?? checkBody(request, check)
    if (error !== undefined) request.error = error
  } catch (fault) {
    request.error = fault instanceof Error ? fault : new Error(String(fault))
  }
}

function checkHead({ origin, path, method, headers, host, upgrade }: AnnouncedRequest, check: OutboundCheck) {
  const lines = typeof headers === 'string' ? headers.split('\r\n').flatMap((line) => line.split(/:(.*)/s, 2)) : headers
  let error = check.url(`${method} ${String(origin)}${path}`)
  for (let i = 0; i + 1 < lines.length && error === undefined; i += 2) {
    error = check.header(String(lines[i]), [lines[i + 1]].flat().join(', '))
  }
  if (host) error ??= check.header('host', host)
  if (upgrade) error ??= check.header('upgrade', upgrade)
  return error
}

/** A body that is at hand is judged now; any other is replaced by one that is judged as it is read. */
function checkBody(request: AnnouncedRequest, check: OutboundCheck): Error | undefined {
  const { body } = request
  if (body === null || body === undefined) return undefined
  if (typeof body === 'string' || body instanceof Uint8Array) return check.whole(body)
  if (isNodeStream(body)) {
    request.body = checkedStream(body, check)
    return undefined
  }
  if (body instanceof Blob) {
    if (request.contentType === null && body.type !== '') request.addHeader('content-type', body.type)
    request.contentLength = body.size
    request.body = checkedChunks(body.stream() as unknown as AsyncIterable<Uint8Array>, check)
    return undefined
  }
  if (isFormData(body)) return checkForm(request, body, check)
  request.body = checkedChunks(body as AsyncIterable<unknown>, check)
  return undefined
}

function isFormData(body: unknown): body is FormData {
  return typeof body === 'object' && body !== null && Reflect.get(body, Symbol.toStringTag) === 'FormData'
}

/** Fields are at hand. With files the form is written here, as undici would. */
function checkForm(request: AnnouncedRequest, form: FormData, check: OutboundCheck): Error | undefined {
  let hasFiles = false
  for (const [name, value] of form) {
    const isFile = typeof value !== 'string'
    hasFiles ||= isFile
    const error = check.whole(`${name}\t${isFile ? `${value.name}\t${value.type}` : value}`)
    if (error !== undefined) return error
  }
  if (!hasFiles) return undefined
  const copy = new FormData()
  for (const [name, value] of form) copy.append(name, value as string)
  const written = new Response(copy)
  if (request.contentType === null) request.addHeader('content-type', written.headers.get('content-type') ?? '')
  request.body = checkedChunks(written.body as unknown as AsyncIterable<Uint8Array>, check)
  return undefined
}

/** A name is asked of DNS before a request has its turn. Dispatchers hand what is thrown while they look to the handler. */
function withoutOrigin(options: object, error: Error): object {
  return Object.defineProperty({ ...options }, 'origin', {
    get() {
      throw error
    },
  })
}

interface DispatcherPrototype {
  dispatch(options: object, handler: unknown): boolean
}

/** Of this package's undici, and of the one that holds the global dispatcher: Node's own, or an application's. */
function dispatcherPrototypes(): DispatcherPrototype[] {
  const globalDispatcher: unknown = Reflect.get(globalThis, Symbol.for('undici.globalDispatcher.1'))
  const found = new Set<DispatcherPrototype>()
  for (const start of [Agent.prototype, globalDispatcher]) {
    let holder: unknown = start
    // The base class: what Agent, Pool and Client share.
    while (typeof holder === 'object' && holder !== null) {
      if (holder.constructor.name === 'DispatcherBase') found.add(holder as DispatcherPrototype)
      holder = Object.getPrototypeOf(holder)
    }
  }
  return [...found]
}

/**
 * A pool whose connections are all busy makes the request later, in the context of whoever frees one. Its options are the
 * same object then: the context of the first dispatch is theirs.
 */
function keepContext(prototype: DispatcherPrototype): () => void {
  const original = prototype.dispatch
  const contexts = new WeakMap<object, NonNullable<ReturnType<typeof snapshotCaller>>>()
  const dispatch: DispatcherPrototype['dispatch'] = function (this: DispatcherPrototype, options, handler) {
    if (typeof options !== 'object' || options === null) return original.call(this, options, handler)
    const context = contexts.get(options)
    if (context !== undefined) return context(() => original.call(this, options, handler))
    const now = snapshotCaller()
    if (now === undefined) return original.call(this, options, handler)
    contexts.set(options, now)
    const { origin } = options as { readonly origin?: string | URL }
    const error = origin === undefined ? undefined : outboundCheck(originOf(origin))?.url(String(origin))
    return original.call(this, error === undefined ? options : withoutOrigin(options, error), handler)
  }
  prototype.dispatch = dispatch
  return () => {
    // Somebody may have wrapped it since; then it stays, and changes nothing.
    if (prototype.dispatch === dispatch) prototype.dispatch = original
  }
}
