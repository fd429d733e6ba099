/**
 * `node:http` and `node:https`, and every client on top of them. Node's diagnostics channel says that a request starts
 * when it has been sent (Node 20), and shows no body in any version; so the methods that every byte goes through are
 * wrapped on the prototype. A request is destroyed before anything of the offending piece is written.
 */
import { ClientRequest } from 'node:http'
import { snapshotCaller } from './caller.ts'
import { firstOf } from './first-of.ts'
import { type OutboundCheck, outboundCheck } from './outbound-check.ts'

/** What is used of `OutgoingMessage`: `_send` writes the head with the first piece, and everything after. */
interface Outgoing extends ClientRequest {
  _header: string | null
  _headerSent: boolean
  _send(data: unknown, ...rest: unknown[]): boolean
}

type Method = (this: Outgoing, ...args: unknown[]) => unknown

interface State {
  /** For whom the request was made. Who writes to it later may be somebody else. */
  readonly context: ReturnType<typeof snapshotCaller>
  check?: OutboundCheck | undefined
  isRefused: boolean
}

const states = new WeakMap<ClientRequest, State>()

export function watchHttp(): () => void {
  const restore = [
    // The first that a request does, while it is made; with headers as an array the second.
    before('setHeader', (request, [name, value]) => {
      stateOf(request)
      if (String(name).toLowerCase() !== 'host') return false
      // Of the host's name DNS is asked before the head is written. Thrown, the request is never made.
      const error = checkOf(request)?.header('host', String(value))
      if (error !== undefined) throw error
      return false
    }),
    before('_storeHeader', (request) => {
      stateOf(request)
      return false
    }),
    before('write', (request, [chunk, encoding]) =>
      refuses(request, (check) => check.body(chunk, encodingOf(encoding))),
    ),
    before('end', (request, [chunk, encoding]) => refuses(request, (check) => check.body(chunk, encodingOf(encoding)))),
    before('addTrailers', (request, [trailers]) => {
      const lines = Array.isArray(trailers) ? (trailers as unknown[][]) : Object.entries(trailers as object)
      return refuses(request, (check) =>
        firstOf(lines, ([name, value]) => check.header(String(name), String(value), 'trailer')),
      )
    }),
    before('_send', (request) => {
      const { _header: head, _headerSent: isSent } = request
      return !isSent && head !== null ? refuses(request, (check) => checkHead(head, check)) : stateOf(request).isRefused
    }),
  ]
  return () => {
    for (const undo of restore) undo()
  }
}

/**
 * Wraps a method of `ClientRequest`, and of nothing that servers send. Where `refused` says so, it is not called: `write`
 * and `_send` answer that nobody need wait, `end` the request.
 */
function before(
  name: 'setHeader' | '_storeHeader' | 'write' | 'end' | 'addTrailers' | '_send',
  refused: (request: Outgoing, args: readonly unknown[]) => boolean,
): () => void {
  const prototype = ClientRequest.prototype as unknown as Record<string, Method>
  const inherited = !Object.hasOwn(prototype, name)
  const original = prototype[name] as Method
  const wrapped: Method = function (...args) {
    if (refused(this, args)) return name === 'end' ? this : true
    return original.apply(this, args)
  }
  Object.defineProperty(prototype, name, { value: wrapped, writable: true, configurable: true, enumerable: false })
  return () => {
    // Somebody may have wrapped it since; then it stays, and finds nothing to do.
    if (prototype[name] !== wrapped) return
    if (inherited) delete prototype[name]
    else prototype[name] = original
  }
}

function stateOf(request: Outgoing): State {
  let state = states.get(request)
  if (state === undefined) {
    state = { context: snapshotCaller(), isRefused: false }
    states.set(request, state)
  }
  return state
}

function checkOf(request: Outgoing): OutboundCheck | undefined {
  const state = stateOf(request)
  const make = () => outboundCheck(originOfRequest(request))
  state.check ??= state.context === undefined ? make() : state.context(make)
  return state.check
}

/**
 * From where the request is really sent; the port is known from the `Host` header alone, so one that is made up can
 * at most name another port of the same host.
 */
function originOfRequest(request: Outgoing): string | undefined {
  const { protocol, host } = request as { protocol?: string; host?: string }
  if (protocol === undefined || host === undefined) return undefined
  const name = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
  const port = /:(\d+)$/.exec(String(request.getHeader('host') ?? ''))?.[1]
  const url = `${protocol}//${name}${port === undefined ? '' : `:${port}`}`
  return URL.canParse(url) ? new URL(url).origin : url
}

function refuses(request: Outgoing, judge: (check: OutboundCheck) => Error | undefined): boolean {
  const state = stateOf(request)
  if (state.isRefused) return true
  const check = checkOf(request)
  const error = check === undefined ? undefined : judge(check)
  if (error === undefined) return false
  state.isRefused = true
  request.destroy(error)
  return true
}

/** The head as it will be written: request line, then a line for each header. */
function checkHead(head: string, check: OutboundCheck): Error | undefined {
  const [requestLine = '', ...lines] = head.split('\r\n')
  return (
    check.url(requestLine) ??
    firstOf(lines, (line) => {
      const colon = line.indexOf(':')
      return colon === -1 ? undefined : check.header(line.slice(0, colon), line.slice(colon + 2))
    })
  )
}

function encodingOf(value: unknown): BufferEncoding | undefined {
  return typeof value === 'string' && Buffer.isEncoding(value) ? value : undefined
}
