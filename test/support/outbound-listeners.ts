/** Where stolen credentials would arrive: listeners that keep every byte. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createHttp2Server, type Http2Server } from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'

export interface Listener {
  readonly port: number
  readonly origin: string
  /** Everything that arrived since the last `clear`, off the socket. */
  bytes(): string
  requests(): number
  clear(): void
  close(): Promise<void>
}

/** HTTP/1.1. `answer` defaults to 200. */
export async function listenHttp(
  answer: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) => response.end('ok'),
): Promise<Listener> {
  let chunks: Buffer[] = []
  let count = 0
  const server = createServer((request, response) => {
    count += 1
    request.on('error', () => undefined).resume()
    request.on('end', () => answer(request, response))
  })
  server.on('connection', (socket: Socket) => socket.on('data', (chunk) => chunks.push(chunk)))
  return listener(
    server,
    () => {
      const taken = { text: Buffer.concat(chunks).toString('latin1'), count }
      return taken
    },
    () => {
      chunks = []
      count = 0
    },
  )
}

/** HTTP/2 without TLS. Headers are compressed on the wire, so they are kept as they were read. */
export async function listenHttp2(): Promise<Listener> {
  let text = ''
  let count = 0
  const server = createHttp2Server()
  server.on('session', (session) => session.on('error', () => undefined))
  server.on('stream', (stream, headers) => {
    count += 1
    text += `${JSON.stringify(headers)}\n`
    stream.on('error', () => undefined)
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
    })
    stream.on('trailers', (trailers) => {
      text += JSON.stringify(trailers)
    })
    stream.on('end', () => {
      if (stream.destroyed) return
      const isGrpc = String(headers['content-type']).startsWith('application/grpc')
      stream.respond(
        { ':status': 200, 'content-type': isGrpc ? 'application/grpc' : 'text/plain' },
        { waitForTrailers: isGrpc },
      )
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.end(isGrpc ? Buffer.alloc(5) : 'ok')
    })
  })
  return listener(
    server,
    () => ({ text, count }),
    () => {
      text = ''
      count = 0
    },
  )
}

async function listener(
  server: Server | Http2Server,
  seen: () => { readonly text: string; readonly count: number },
  clear: () => void,
): Promise<Listener> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    bytes: () => seen().text,
    requests: () => seen().count,
    clear,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
