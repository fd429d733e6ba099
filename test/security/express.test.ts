/** The Express adapter on real sockets: bodies, mounts, metadata, faults. */
import { request as httpRequest, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import express, { type NextFunction, type Request, type Response } from 'express'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { decisionFor, expressGuard, resourceMetadataHandler } from '../../src/adapters/express.ts'
import { API_KEY, makeRig, type Rig } from '../support/rig.ts'

let rig: Rig
let server: Server
let port: number
let bodies: unknown[] = []
let faults: unknown[] = []

beforeAll(async () => {
  rig = await makeRig({ policy: { maxBodyBytes: 2048 } })
  const app = express()
  app.use(resourceMetadataHandler(rig.guard))
  const handler = (req: Request, res: Response) => {
    bodies.push(req.body)
    res.json({ operation: decisionFor(rig.guard, req)?.operation.name })
  }
  app.use('/a2a', expressGuard(rig.guard), express.json(), handler)
  app.use('/parsed', express.json(), expressGuard(rig.guard, { binding: 'JSONRPC' }), handler)
  const broken = {
    ...rig.guard,
    authorize: () => {
      throw new Error('a fault inside')
    },
  } as typeof rig.guard
  app.use('/broken', expressGuard(broken), handler)
  app.use((fault: unknown, _req: Request, res: Response, _next: NextFunction) => {
    faults.push(fault)
    res.status(500).end('fault')
  })
  server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  ;({ port } = server.address() as AddressInfo)
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await rig.close()
})
beforeEach(() => {
  bodies = []
  faults = []
})

const KEY = { 'x-api-key': API_KEY }
const rpc = (changes: object = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't' }, ...changes })

function post(path: string, body: string | Buffer, headers: Record<string, string> = {}) {
  return fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
  })
}

describe('expressGuard', () => {
  it('hands on the very value that was decided on', async () => {
    const response = await post('/a2a', rpc(), KEY)
    expect([response.status, await response.json()]).toEqual([200, { operation: 'GetTask' }])
    expect(bodies).toEqual([{ jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't' } }])
  })

  it('A58 answers an anonymous request while its body is still on the way, and reads none of it', async () => {
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write(
          'POST /a2a HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 52428800\r\n\r\n{"jsonrpc"',
        )
      })
      let text = ''
      socket.on('data', (chunk: Buffer) => {
        text += chunk.toString()
      })
      socket.on('error', reject)
      socket.on('close', () => resolve(text))
    })
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
    expect(answer.toLowerCase()).toContain('connection: close')
    expect(answer).toContain('"id":null')
    expect(bodies).toEqual([])
  })

  it.each([
    ['a body over the limit, announced', () => rpc({ pad: 'x'.repeat(3000) }), {}, 413, -32600],
    ['P18 a body that is no JSON', () => '{"jsonrpc"', {}, 400, -32600],
    [
      'A26 a duplicated member',
      () => '{"jsonrpc":"2.0","id":1,"method":"GetTask","method":"CancelTask","params":{"id":"t"}}',
      {},
      400,
      -32600,
    ],
    ['JSON inside a JSON string', () => JSON.stringify(rpc()), {}, 400, -32600],
    ['a batch', () => `[${rpc()}]`, {}, 400, -32600],
    ['a content coding', () => rpc(), { 'content-encoding': 'gzip' }, 400, -32600],
    ['an unknown method', () => rpc({ method: 'DropTable' }), {}, 403, -32051],
  ])('%s is refused and nothing runs', async (_, body, headers, status, code) => {
    const response = await post('/a2a', body(), { ...KEY, ...headers })
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({ jsonrpc: '2.0', error: { code } })
    expect(bodies).toEqual([])
    expect(faults).toEqual([])
  })

  it('a chunked body over the limit is cut off', async () => {
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const request = httpRequest(
        {
          port,
          host: '127.0.0.1',
          path: '/a2a',
          method: 'POST',
          headers: { 'content-type': 'application/json', ...KEY },
        },
        (response) => {
          response.resume()
          resolve(response.statusCode)
        },
      )
      request.on('error', reject)
      request.write('x'.repeat(2000))
      request.end('x'.repeat(2000))
    })
    expect(status).toBe(413)
    expect(bodies).toEqual([])
  })

  it("A37 a body that a middleware in front has parsed: its id is echoed, and the binding is the mount's", async () => {
    const response = await post('/parsed/anything', rpc())
    expect([response.status, await response.json()]).toMatchObject([
      401,
      { jsonrpc: '2.0', id: 7, error: { code: -32050 } },
    ])
    expect((await post('/parsed/anything', rpc(), KEY)).status).toBe(200)
  })

  it('P76 P77 P78 other spellings of a path are the same operation or nothing', async () => {
    for (const path of [
      '/a2a/%74asks/1',
      '/a2a//tasks/1',
      '/a2a/tasks/1/',
      '/a2a/TASKS/1',
      '/a2a/x/../tasks/1',
      '/a2a/tasks;a=b/1',
      '/a2a/tasks?x=/.well-known/agent-card.json',
    ]) {
      const raw = await new Promise<number | undefined>((resolve, reject) => {
        httpRequest({ port, host: '127.0.0.1', path, method: 'GET' }, (response) => {
          response.resume()
          resolve(response.statusCode)
        })
          .on('error', reject)
          .end()
      })
      expect(raw, path).toBe(401)
    }
    expect(bodies).toEqual([])
  })

  it('a fault goes to the host: 500, never an allow and never a 401', async () => {
    const response = await post('/broken', rpc(), KEY)
    expect([response.status, await response.text()]).toEqual([500, 'fault'])
    expect(faults).toMatchObject([{ message: 'a fault inside' }])
    expect(bodies).toEqual([])
  })

  it('a connection is kept after a denial with a small body', async () => {
    const response = await post('/a2a', rpc())
    expect(response.status).toBe(401)
    expect(response.headers.get('connection')).not.toBe('close')
  })

  it('"binding" must be one that Express can carry', () => {
    expect(() => expressGuard(rig.guard, { binding: 'GRPC' as 'JSONRPC' })).toThrow(/^"binding"/)
  })
})

describe('resourceMetadataHandler (RFC 9728)', () => {
  it('A39 P59 serves the document that the challenge points to', async () => {
    const path = '/.well-known/oauth-protected-resource'
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { host: 'evil.example' } })
    expect(response.status).toBe(200)
    expect(await response.json()).toEqual({
      resource: 'https://agent.example',
      resource_name: 'Rig',
      authorization_servers: ['https://issuer.example'],
      bearer_methods_supported: ['header'],
      scopes_supported: ['a2a:use'],
    })
    const denied = await post('/a2a', rpc())
    expect(denied.headers.get('www-authenticate')).toContain(`resource_metadata="https://agent.example${path}"`)
    expect((await fetch(`http://127.0.0.1:${port}${path}/other`)).status).toBe(404)
    expect((await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST' })).status).toBe(404)
  })
})
