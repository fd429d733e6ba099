/** A real HTTP server on the loopback interface that counts what it is asked. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Loopback {
  readonly origin: string
  /** Request targets, in order. */
  readonly requests: string[]
  /** What it answers; replace it at will. */
  handle: (request: IncomingMessage, response: ServerResponse) => void
  close(): Promise<void>
}

export async function startLoopback(handle: Loopback['handle']): Promise<Loopback> {
  const server = createServer((request, response) => {
    loopback.requests.push(request.url ?? '')
    loopback.handle(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const loopback: Loopback = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    handle,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return loopback
}

export function sendJson(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}
