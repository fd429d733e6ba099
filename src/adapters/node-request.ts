/** What every adapter on `node:http` needs of a request: its peer and its body. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Denial, Peer, PeerCertificate } from '../types.ts'

const peers = new WeakMap<Socket, Peer>()

/** Who is at the other end of a request's connection. In HTTP/2 each stream has a socket object of its own. */
export function peerOf(request: IncomingMessage): Peer {
  return peerOfSocket(http2Stream(request)?.session?.socket ?? request.socket)
}

/**
 * The connection's peer: the socket's own address and certificate, never a header. Read once for each connection, and it
 * has to be: Node takes the chain off the connection when it is asked for it, and the second answer is the leaf alone.
 */
export function peerOfSocket(socket: Socket): Peer {
  const known = peers.get(socket)
  if (known !== undefined) return known
  const address = socket.remoteAddress
  const certificate = socket instanceof TLSSocket ? certificateOf(socket) : undefined
  const peer: Peer = Object.freeze({
    ...(address === undefined ? {} : { address }),
    ...(certificate === undefined ? {} : { certificate }),
  })
  // An address that is gone already must not be remembered as the peer of nobody.
  if (address !== undefined) peers.set(socket, peer)
  return peer
}

/** Most certificates taken over from a peer. */
const MAX_CHAIN = 16

function certificateOf(socket: TLSSocket): PeerCertificate | undefined {
  const leaf = socket.getPeerX509Certificate()
  if (leaf === undefined) return undefined
  const chain: Uint8Array[] = []
  // As sent: each leads to the next one sent, whether or not that issued it.
  for (let next = leaf.issuerCertificate; next !== undefined && chain.length < MAX_CHAIN; ) {
    chain.push(next.raw)
    next = next.issuerCertificate
  }
  // Declared as an Error, and its code in fact; `null` while there is none.
  const reason: unknown = socket.authorizationError
  return Object.freeze({
    raw: leaf.raw,
    authorized: socket.authorized,
    ...(typeof reason === 'string' ? { authorizationError: reason } : {}),
    chain: Object.freeze(chain),
  })
}

export type BodyResult =
  | { readonly ok: true; readonly bytes: Buffer | undefined }
  | { readonly ok: false; readonly code: 'ERR_REQUEST_TOO_LARGE' | 'ERR_REQUEST_MALFORMED' }

/** Whether a body follows the headers: they announce it (RFC 9112 §6.3), or did not end the stream (RFC 9113 §8.1). */
function hasBody(request: IncomingMessage): boolean {
  const { headers, httpVersionMajor } = request
  if (httpVersionMajor >= 2) return http2Stream(request)?.endAfterHeaders !== true
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Reads the whole body, up to `maxBytes`. A content coding is refused: what was decided on must be what was sent. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<BodyResult> {
  if (!hasBody(request)) return { ok: true, bytes: undefined }
  if ((request.headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity') {
    return { ok: false, code: 'ERR_REQUEST_MALFORMED' }
  }
  // Somebody in front has read the stream and kept what was in it: there is nothing left to decide on.
  if (request.readableEnded || request.destroyed) return { ok: false, code: 'ERR_REQUEST_MALFORMED' }
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return { ok: false, code: 'ERR_REQUEST_TOO_LARGE' }
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let size = 0
    const settle = (result: BodyResult) => {
      request.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken)
      resolve(result)
    }
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size > maxBytes) {
        request.pause()
        settle({ ok: false, code: 'ERR_REQUEST_TOO_LARGE' })
      } else chunks.push(chunk)
    }
    const onEnd = () => settle({ ok: true, bytes: Buffer.concat(chunks, size) })
    const onBroken = () => settle({ ok: false, code: 'ERR_REQUEST_MALFORMED' })
    request.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  })
}

/** Of Node's `Http2ServerRequest`, which Fastify hands out as an `IncomingMessage`. Gone when the stream has ended. */
function http2Stream(request: IncomingMessage): Http2Stream | undefined {
  return (request as unknown as { readonly stream?: Http2Stream }).stream
}

/** `http2.constants.NGHTTP2_NO_ERROR`, without the module for those who serve HTTP/1.1. */
const NGHTTP2_NO_ERROR = 0

/** An unread body this small is drained, so that the connection can be used again; a larger one ends the connection. */
const DRAIN_BYTES = 64 * 1024

/** To be called before an answer: nothing more is read of a request whose answer is complete (RFC 9113 §8.1). */
export function closeWhenAnswered(stream: Http2Stream, reader: { resume(): unknown } = stream): void {
  // The stream's own end: the response has its `finish` only when the stream is closed.
  stream.once('finish', () => {
    stream.close(NGHTTP2_NO_ERROR)
    // What has arrived already would keep the stream, and so the server, from closing.
    reader.resume()
  })
}

/**
 * To be called before a denial is written: whether the connection has to end with it, because too much of the request
 * is still on the way. In HTTP/2 only its stream ends, when the answer is complete (RFC 9113 §8.1).
 */
export function endsConnection(request: IncomingMessage): boolean {
  if (!hasBody(request) || request.complete) return false
  if (request.httpVersionMajor >= 2) {
    const stream = http2Stream(request)
    if (stream !== undefined) closeWhenAnswered(stream, request)
    return false
  }
  const { 'content-length': length = 0, 'transfer-encoding': coding } = request.headers
  return coding !== undefined || Number(length) > DRAIN_BYTES
}

/** Writes a denial as the guard made it. */
export function writeDenial(request: IncomingMessage, response: ServerResponse, denial: Denial): void {
  response.statusCode = denial.status
  for (const [name, value] of Object.entries(denial.headers)) response.setHeader(name, value)
  if (endsConnection(request)) response.setHeader('connection', 'close')
  response.end(denial.body)
}
