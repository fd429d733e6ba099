/** A host of the web's `Request` and `Response` on a real socket, as the servers of Hono or Next do it. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Peer } from '../../src/types.ts'

/** Returned by a handler that has written the answer to the response of Node itself. */
export const WRITTEN: Response = new Response(null, { status: 204 })

export interface WebServer {
  readonly port: number
  close(): Promise<void>
}

type Host = (request: Request, peer: Peer, node: { req: IncomingMessage; res: ServerResponse }) => Promise<Response>

export async function serveWeb(host: Host): Promise<WebServer> {
  const server = createServer((req, res) => {
    answer(host, req, res).catch(() => {
      res.statusCode = 500
      res.end()
    })
  })
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

async function answer(host: Host, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const headers = new Headers()
  for (let i = 0; i + 1 < req.rawHeaders.length; i += 2)
    headers.append(req.rawHeaders[i] as string, req.rawHeaders[i + 1] as string)
  const hasBody = req.method !== 'GET' && req.method !== 'HEAD'
  const body = hasBody ? { body: Readable.toWeb(req) as ReadableStream, duplex: 'half' as const } : {}
  const request = new Request(`http://agent.example${req.url}`, { method: req.method as string, headers, ...body })
  const { remoteAddress: address } = req.socket
  const response = await host(request, address === undefined ? {} : { address }, { req, res })
  if (response === WRITTEN) return
  res.writeHead(response.status, Object.fromEntries(response.headers))
  if (response.body === null) res.end()
  else await pipeline(Readable.fromWeb(response.body as never), res)
}
