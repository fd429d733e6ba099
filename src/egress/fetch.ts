/**
 * The one guarded fetch. The URL is checked before anything happens, the addresses of its name inside the connect step,
 * where they become the connection's: what was checked is what is dialled, whatever DNS says a moment later.
 */
import { isIP, type LookupFunction } from 'node:net'
import { Agent, buildConnector, type Dispatcher, ProxyAgent, type Response, fetch as undiciFetch } from 'undici'
import { type ErrorCode, TrustError } from '../errors.ts'
import { checkUrl, isAllowedAddress, resolveHost } from './check.ts'
import type { EgressRules } from './options.ts'

type FetchInput = Parameters<typeof globalThis.fetch>[0]
type FetchInit = Parameters<typeof globalThis.fetch>[1]
type Body = NonNullable<UndiciInit['body']> | null
type UndiciInit = NonNullable<Parameters<typeof undiciFetch>[1]>

export interface GuardedFetch {
  readonly fetch: typeof globalThis.fetch
  close(): Promise<void>
}

export function createGuardedFetch(rules: EgressRules): GuardedFetch {
  const dispatcher =
    rules.proxy === undefined ? createDispatcher(rules) : new ProxyAgent({ uri: rules.proxy, proxyTunnel: true })
  return {
    fetch: async (input, init) => {
      const { url, ...request } = requestOf(input, init)
      return follow(rules, dispatcher, url, request)
    },
    close: async () => dispatcher.destroy(),
  }
}

/** Denials go through here: recorded always, an error unless the mode is `report`. */
export function denied(rules: EgressRules, reason: ErrorCode, url: string): TrustError | undefined {
  const origin = originOf(url)
  rules.onDenied?.({ reason, origin, mode: rules.mode })
  return rules.mode === 'report' ? undefined : new TrustError(reason, { details: { origin } })
}

/** Scheme, host and port; a URL may carry secrets everywhere else. */
function originOf(url: string): string {
  if (!URL.canParse(url)) return 'invalid URL'
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}`
}

const CONNECT_TIMEOUT_MS = 10_000

function createDispatcher(rules: EgressRules): Dispatcher {
  const lookup: LookupFunction = (hostname, options, callback) => {
    resolveHost(hostname.replace(/\.$/, ''), rules).then(
      (resolution) => {
        const failure = resolution.allowed ? undefined : denied(rules, resolution.reason, `dns://${hostname}`)
        if (failure !== undefined || resolution.addresses.length === 0) {
          return callback(failure ?? new TrustError('ERR_EGRESS_DNS', { details: { origin: hostname } }), [])
        }
        const found = resolution.addresses.map((address) => ({ address, family: isIP(address) }))
        const first = found[0] as (typeof found)[number]
        return options.all === true ? callback(null, found) : callback(null, first.address, first.family)
      },
      (fault: Error) => callback(fault, []),
    )
  }
  const dial = buildConnector({ lookup, timeout: Math.min(CONNECT_TIMEOUT_MS, rules.timeoutMs) })
  const connect: buildConnector.connector = (options, callback) => {
    // Node asks no lookup for a literal, so the literal is asked here; `checkUrl` has asked already, for the message.
    const bare = options.hostname.replace(/^\[(.*)\]$/, '$1')
    if (isIP(bare) !== 0 && !isAllowedAddress(bare, rules)) {
      const failure = denied(rules, 'ERR_EGRESS_ADDRESS', `${options.protocol}//${options.host ?? bare}`)
      if (failure !== undefined) return callback(failure, null)
    }
    dial(options, (...[error, socket]) => {
      if (error !== null) return callback(error, null)
      // The last word belongs to the connection itself, whichever way it came about.
      const address = socket.remoteAddress ?? ''
      if (rules.mode === 'enforce' && !isAllowedAddress(address, rules)) {
        socket.destroy()
        return callback(new TrustError('ERR_EGRESS_ADDRESS', { details: { origin: options.hostname } }), null)
      }
      return callback(null, socket)
    })
  }
  return new Agent({ connect, maxHeaderSize: 16_384, keepAliveTimeout: 4000, connections: 64 })
}

interface PlainRequest {
  readonly method: string
  readonly headers: Headers
  readonly body: Body
  readonly signal: AbortSignal | null | undefined
  readonly redirect: 'follow' | 'error' | 'manual'
  readonly rest: UndiciInit
}

/** One request, whether it came as URL and options or as a `Request` of this process's own fetch. */
function requestOf(input: FetchInput, init: FetchInit): PlainRequest & { readonly url: string } {
  const given = typeof input === 'string' || input instanceof URL ? undefined : input
  const { method, headers, body, signal, redirect, ...rest } = (init ?? {}) as unknown as UndiciInit
  // A dispatcher of the caller's would go round every check.
  delete (rest as { dispatcher?: unknown }).dispatcher
  return {
    url: given === undefined ? String(input as string | URL) : given.url,
    method: (method ?? given?.method ?? 'GET').toUpperCase(),
    headers: new Headers((headers ?? given?.headers) as Headers),
    body: body === undefined ? ((given?.body ?? null) as Body) : body,
    signal: (signal ?? given?.signal) as AbortSignal | null | undefined,
    redirect: redirect ?? given?.redirect ?? 'follow',
    rest,
  }
}

async function follow(
  rules: EgressRules,
  dispatcher: Dispatcher,
  first: string,
  request: PlainRequest,
): Promise<globalThis.Response> {
  const timeout = AbortSignal.timeout(rules.timeoutMs)
  const signal = request.signal ? AbortSignal.any([request.signal, timeout]) : timeout
  let { method, headers, body } = request
  let target = first
  for (let hops = 0; ; hops += 1) {
    const verdict = checkUrl(target, rules)
    if (!verdict.allowed) {
      const failure = denied(rules, verdict.reason, target)
      if (failure !== undefined || !URL.canParse(target))
        throw failure ?? new TrustError(verdict.reason, { details: { origin: 'invalid URL' } })
    }
    const url = new URL(target)
    const response = await send(rules, dispatcher, url, {
      ...request.rest,
      method,
      headers: [...headers],
      body,
      signal,
      redirect: 'manual',
      ...duplexFor(body),
    })
    const location = REDIRECTS.has(response.status) ? response.headers.get('location') : null
    if (location === null || request.redirect === 'manual') return limited(rules, response, url, hops > 0, signal)

    await response.body?.cancel().catch(() => undefined)
    const refuse = () =>
      new TrustError('ERR_EGRESS_REDIRECT', { details: { origin: url.origin, status: response.status } })
    if (request.redirect === 'error' || hops >= rules.redirects) throw refuse()
    const next = nextUrl(location, url)
    if (next === undefined || (url.protocol === 'https:' && next.protocol !== 'https:')) throw refuse()
    const toGet =
      response.status === 303
        ? method !== 'HEAD'
        : (response.status === 301 || response.status === 302) && method === 'POST'
    if (toGet) {
      method = 'GET'
      body = null
      headers = without(headers, (name) => name.startsWith('content-'))
    }
    if (next.origin !== url.origin) {
      // What was meant for one origin is not carried to another, in no header and not in the body.
      if (body !== null) throw refuse()
      headers = without(headers, (name) => !SAFELISTED.has(name))
    } else if (
      body !== null &&
      typeof body !== 'string' &&
      !(body instanceof URLSearchParams) &&
      !ArrayBuffer.isView(body)
    ) {
      throw refuse()
    }
    target = next.href
  }
}

const REDIRECTS = new Set([301, 302, 303, 307, 308])
const SAFELISTED = new Set(['accept', 'accept-language', 'content-language', 'content-type', 'user-agent'])

/** `undefined` for a Location that the URL parser would rewrite. */
function nextUrl(location: string, base: URL): URL | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  return /[\u0000-\u0020\u007f\\]/.test(location) || !URL.canParse(location, base.href)
    ? undefined
    : new URL(location, base.href)
}

function without(headers: Headers, drop: (name: string) => boolean): Headers {
  return new Headers([...headers].filter(([name]) => !drop(name)))
}

/** A stream as body has to be announced to fetch. */
function duplexFor(body: Body): { duplex?: 'half' } {
  return body instanceof ReadableStream ? { duplex: 'half' } : {}
}

async function send(rules: EgressRules, dispatcher: Dispatcher, url: URL, init: UndiciInit): Promise<Response> {
  try {
    return await undiciFetch(url, { ...init, dispatcher })
  } catch (fault) {
    throw coded(rules, url, fault)
  }
}

/** Our own code first, then the time limit, then the caller's abort as it is; anything else is a failed connection. */
function coded(rules: EgressRules, url: URL, fault: unknown): unknown {
  const details = { origin: url.origin }
  for (let cause = fault, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth += 1) {
    if (cause instanceof TrustError) return cause
    const errors: unknown =
      cause instanceof AggregateError ? cause.errors.find((each) => each instanceof TrustError) : undefined
    if (errors !== undefined) return errors
    if (cause.name === 'TimeoutError') {
      return new TrustError('ERR_EGRESS_TIMEOUT', { details: { ...details, timeoutMs: rules.timeoutMs }, cause: fault })
    }
  }
  if (fault instanceof Error && fault.name === 'AbortError') return fault
  const code = (fault as { cause?: { code?: unknown } } | null)?.cause?.code
  return new TrustError('ERR_EGRESS_FAILED', {
    details: { ...details, reason: typeof code === 'string' ? code : 'no answer' },
    cause: fault,
  })
}

/** The response with a body that ends in an error beyond the limit, counted after decompression. */
function limited(
  rules: EgressRules,
  response: Response,
  url: URL,
  redirected: boolean,
  signal: AbortSignal,
): globalThis.Response {
  const tooLarge = () =>
    new TrustError('ERR_EGRESS_RESPONSE_SIZE', {
      details: { origin: url.origin, maxResponseBytes: rules.maxResponseBytes },
    })
  const announced = Number(response.headers.get('content-length') ?? 0)
  if (response.body === null) return response as unknown as globalThis.Response
  if (announced > rules.maxResponseBytes) {
    void response.body.cancel().catch(() => undefined)
    throw tooLarge()
  }
  const reader = response.body.getReader()
  let size = 0
  const body = new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (done) return controller.close()
        size += value.byteLength
        if (size > rules.maxResponseBytes) {
          void reader.cancel().catch(() => undefined)
          return controller.error(tooLarge())
        }
        return controller.enqueue(value)
      } catch (fault) {
        return controller.error(coded(rules, url, signal.aborted ? signal.reason : fault))
      }
    },
    cancel: (reason) => reader.cancel(reason),
  })
  const { status, statusText, headers } = response
  const copy = new globalThis.Response(body, { status, statusText, headers: [...headers] })
  Object.defineProperties(copy, { url: { value: url.href }, redirected: { value: redirected } })
  return copy
}
