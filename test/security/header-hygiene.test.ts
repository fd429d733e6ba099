import { request as httpRequest, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type Request, type Response } from 'express'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import { API_KEY, makeRig, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
let server: Server
let port: number

interface Seen {
  readonly headers: Record<string, string>
  readonly raw: readonly string[]
  readonly url: string
}

beforeAll(async () => {
  const card = rigCard({
    securitySchemes: {
      ...(rigCard().securitySchemes as object),
      query: { apiKeySecurityScheme: { location: 'query', name: 'api_key' } },
    },
    securityRequirements: [
      { schemes: { login: { list: ['a2a:use'] } } },
      { schemes: { key: { list: [] } } },
      { schemes: { query: { list: [] } } },
    ],
  })
  rig = await makeRig({
    card,
    policy: {
      schemes: {
        login: { issuer: 'https://issuer.example', algorithms: ['ES256'], jwks: 'file:./jwks.json' },
        key: { keys: 'file:./keys.json' },
        query: { keys: 'file:./keys.json' },
      },
    },
  })
  const app = express()
  const handler = (req: Request, res: Response) => res.json({ headers: req.headers, raw: req.rawHeaders, url: req.url })
  app.use('/a2a', expressGuard(rig.guard), handler)
  app.use('/kept', expressGuard(rig.guard, { keepCredential: true }), handler)
  app.use('/twice', expressGuard(rig.guard), expressGuard(rig.guard), handler)
  server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  ;({ port } = server.address() as AddressInfo)
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await rig.close()
})

function get(path: string, headers: readonly string[]): Promise<{ status: number; seen: Seen }> {
  return new Promise((resolve, reject) => {
    const all = ['host', 'agent.example', 'a2a-version', '1.0', ...headers]
    httpRequest({ port, host: '127.0.0.1', path, headers: all }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString()
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, seen: JSON.parse(text) as Seen }))
    })
      .on('error', reject)
      .end()
  })
}

describe('what the handler sees', () => {
  it('A51 P88 no identity header, in no spelling, and no credential; the rest is as it was', async () => {
    const spoofed = [
      'X-User-Id',
      'X_User_Id',
      'x-forwarded-user',
      'X-Forwarded-Client-Cert',
      'Client-Cert',
      'X-SSL-Client-Verify',
      'X-A2A-Agent-Subject',
      'X-Amzn-Oidc-Data',
      'X-Auth-Request-Email',
      'Remote-User',
      'X-Tenant-Id',
      'Proxy-Authorization',
      'DPoP',
    ]
    const { status, seen } = await get('/a2a/tasks/t', [
      ...spoofed.flatMap((name) => [name, 'admin']),
      'x-api-key',
      API_KEY,
      'cookie',
      'sid=1',
      'x-request-id',
      'r-1',
      'x-user-agent',
      'ua',
      'traceparent',
      't',
    ])
    expect(status).toBe(200)
    expect(seen.headers).toEqual({
      host: 'agent.example',
      'a2a-version': '1.0',
      'x-request-id': 'r-1',
      'x-user-agent': 'ua',
      traceparent: 't',
      connection: expect.any(String) as string,
    })
    expect(seen.raw.join(' ')).not.toMatch(/admin|sid=1/)
    expect(JSON.stringify(seen)).not.toContain(API_KEY)
  })

  it('A104 a key in the query is taken off the URL, the other parameters stay', async () => {
    const { status, seen } = await get(`/a2a/tasks/t?historyLength=1&api_key=${API_KEY}&x=%20`, [])
    expect([status, seen.url]).toEqual([200, '/tasks/t?historyLength=1&x=%20'])
  })

  it('a token in the query is not read, refused beside one in the header, and seen by no handler', async () => {
    const both = await get('/a2a/tasks/t?access%5Ftoken=abc', ['authorization', `Bearer ${await rig.token()}`])
    expect(both.status).toBe(400)
    expect((await get(`/a2a/tasks/t?access_token=${await rig.token()}`, [])).status).toBe(401)
    const { status, seen } = await get('/a2a/tasks/t?access_token=abc&x=1', ['x-api-key', API_KEY])
    expect([status, seen.url]).toEqual([200, '/tasks/t?x=1'])
  })

  it('keepCredential leaves the credential, and nothing else', async () => {
    const { seen } = await get('/kept/tasks/t', ['x-api-key', API_KEY, 'x-user-id', 'admin'])
    expect(seen.headers['x-api-key']).toBe(API_KEY)
    expect(seen.headers).not.toHaveProperty('x-user-id')
  })

  it.each(['a2a', 'kept'])(
    'P88 under /%s nothing that a server behind could take for the credential',
    async (mount) => {
      const forged = ['X_API_Key', 'X_Api-Key', 'PROXY_AUTHORIZATION'].flatMap((name) => [name, 'forged'])
      const { status, seen } = await get(`/${mount}/tasks/t`, ['x-api-key', API_KEY, ...forged])
      expect(status).toBe(200)
      expect(JSON.stringify(seen)).not.toContain('forged')
    },
  )

  it('a second guard in the chain still sees what arrived', async () => {
    expect((await get('/twice/tasks/t', ['x-api-key', API_KEY])).status).toBe(200)
    expect((await get(`/twice/tasks/t?api_key=${API_KEY}`, [])).status).toBe(200)
    expect((await get('/twice/tasks/t', [])).status).toBe(401)
  })
})
