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
    // The first that a request does; with headers as an array the second.
    wrap(
      'setHeader',
      (original) =>
        function (...args) {
          stateOf(this)
          return original.apply(this, args)
        },
    ),
    wrap(
      '_storeHeader',
      (original) =>
        function (...args) {
          stateOf(this)
          return original.apply(this, args)
        },
    ),
    wrap(
      'write',
      (original) =>
        function (...args) {
          return refuses(this, (check) => check.body(args[0], encodingOf(args[1]))) ? false : original.apply(this, args)
        },
    ),
    wrap(
      'end',
      (original) =>
        function (...args) {
          return refuses(this, (check) => check.body(args[0], encodingOf(args[1]))) ? this : original.apply(this, args)
        },
    ),
    wrap(
      'addTrailers',
      (original) =>
        function (...args) {
          const trailers = Object.entries(args[0] as object).map(([name, value]) =>
            Array.isArray(args[0]) ? value : [name, value],
          )
          const refused = refuses(this, (check) =>
            firstOf(trailers, (one) => check.header(String(one[0]), String(one[1]), 'trailer')),
          )
          return refused ? undefined : original.apply(this, args)
        },
    ),
    wrap(
      '_send',
      (original) =>
        function (...args) {
          const { _header: head, _headerSent: isSent } = this
          if (!isSent && head !== null && refuses(this, (check) => checkHead(head, check))) return false
          return stateOf(this).isRefused ? false : original.apply(this, args)
        },
    ),
  ]
  return () => {
    for (const undo of restore) undo()
  }
}

/** On `ClientRequest` alone: what servers send is not looked at. */
function wrap(
  name: 'setHeader' | '_storeHeader' | 'write' | 'end' | 'addTrailers' | '_send',
  make: (original: Method) => Method,
): () => void {
  const prototype = ClientRequest.prototype as unknown as Record<string, Method>
  const inherited = !Object.hasOwn(prototype, name)
  const original = prototype[name] as Method
  const wrapped = make(original)
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

function checkOf(request: Outgoing, state: State): OutboundCheck | undefined {
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
  const check = checkOf(request, state)
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
