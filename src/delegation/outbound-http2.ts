/**
 * HTTP/2 clients, gRPC among them: `request` of Node's client session is wrapped on its prototype, which no module exports
 * and a session over a stream in memory shows. Headers are judged before a stream is opened, what is written to it piece by piece.
 */
import { connect } from 'node:http2'
import { Duplex, PassThrough } from 'node:stream'
import { firstOf } from './first-of.ts'
import { type OutboundCheck, originOf, outboundCheck } from './outbound-check.ts'

interface Session {
  readonly encrypted?: boolean
  readonly originSet?: string[]
  request(headers?: unknown, options?: unknown): unknown
}

type Write = (chunk: unknown, encoding: BufferEncoding, callback: (error?: Error | null) => void) => void
type Writev = (chunks: { chunk: unknown; encoding: BufferEncoding }[], callback: (error?: Error | null) => void) => void

/** What is used of a client stream. */
interface ClientStream {
  _write: Write
  _writev: Writev
  sendTrailers(headers: object): void
  destroy(error: Error): unknown
}

let found: Session | undefined

function sessionPrototype(): Session {
  if (found !== undefined) return found
  const session = connect('http://in-memory.invalid', { createConnection: () => new PassThrough() })
  session.on('error', () => undefined)
  found = Object.getPrototypeOf(session) as Session
  session.destroy()
  return found
}

export function watchHttp2(): () => void {
  const prototype = sessionPrototype()
  const original = prototype.request
  const request: Session['request'] = function (this: Session, headers, ...rest) {
    const lines = linesOf(headers)
    const check = outboundCheck(originOfSession(this, lines))
    if (check === undefined) return original.call(this, headers, ...rest)
    const error = firstOf(lines, ([name, value]) => (name === ':path' ? check.url(value) : check.header(name, value)))
    if (error !== undefined) return refusedStream(error)
    return watchStream(original.call(this, headers, ...rest) as ClientStream, check)
  }
  prototype.request = request
  return () => {
    // Somebody may have wrapped it since; then it stays, and finds nothing to do.
    if (prototype.request === request) prototype.request = original
  }
}

function linesOf(headers: unknown): [name: string, value: string][] {
  if (typeof headers !== 'object' || headers === null) return []
  if (Array.isArray(headers)) {
    return headers.flatMap((name, i) => (i % 2 === 0 ? [[String(name).toLowerCase(), String(headers[i + 1])]] : []))
  }
  return Object.entries(headers).flatMap(([name, values]) =>
    [values].flat().map((value): [string, string] => [name.toLowerCase(), String(value)]),
  )
}

/**
 * The caller's own audience is known over TLS alone, by the name that the certificate was checked for: `:authority` is
 * whatever the client says. For the report it will do.
 */
function originOfSession({ encrypted, originSet }: Session, lines: readonly [string, string][]): string | undefined {
  const [own] = originSet ?? []
  if (encrypted === true && own !== undefined) return originOf(own)
  const authority = lines.find(([name]) => name === ':authority')?.[1]
  return authority === undefined ? undefined : `h2c://${authority}`
}

function watchStream(stream: ClientStream, check: OutboundCheck): ClientStream {
  const { _write: write, _writev: writev, sendTrailers } = stream
  stream._write = function (chunk, encoding, callback) {
    const error = check.body(chunk, encoding)
    if (error === undefined) write.call(this, chunk, encoding, callback)
    else callback(error)
  }
  stream._writev = function (chunks, callback) {
    const error = firstOf(chunks, ({ chunk, encoding }) => check.body(chunk, encoding))
    if (error === undefined) writev.call(this, chunks, callback)
    else callback(error)
  }
  stream.sendTrailers = function (headers) {
    const error = firstOf(linesOf(headers), ([name, value]) => check.header(name, value, 'trailer'))
    if (error === undefined) sendTrailers.call(this, headers)
    else this.destroy(error)
  }
  return stream
}

/** A client stream that was never opened. Throwing instead would make clients such as grpc-js give the connection up. */
function refusedStream(error: Error): Duplex {
  const stream = new Duplex({ read() {}, write: (_chunk, _encoding, callback) => callback() })
  const nothing = () => undefined
  Object.assign(stream, { id: undefined, rstCode: 0, close: nothing, priority: nothing, sendTrailers: nothing })
  Object.assign(stream, { setTimeout: nothing })
  process.nextTick(() => stream.destroy(error))
  return stream
}
