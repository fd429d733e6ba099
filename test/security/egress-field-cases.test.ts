/** Field cases about what is reached: webhook targets, card URLs, key sets. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createCardClient } from '../../src/card/index.ts'
import { createEgress, type EgressOptions } from '../../src/egress/index.ts'
import { createGuard } from '../../src/guard.ts'
import { rigCard } from '../support/rig.ts'

const HOSTS: Record<string, string[]> = {
  'localtest.me': ['127.0.0.1'],
  '10.0.0.1.nip.io': ['10.0.0.1'],
  '127.0.0.1.nip.io': ['127.0.0.1'],
  'mixed.example.com': ['93.184.216.34', '192.168.0.1'],
  'xn--exmple-cua.com': ['93.184.216.34'],
  'good.example.com': ['93.184.216.34'],
}
const resolver = async (name: string) => HOSTS[name] ?? []
const verdict = async (url: string, options: EgressOptions = {}) => {
  const egress = createEgress({ resolver, requireHttps: false, ports: [80, 443, 8080], ...options })
  const { verdict: answer } = await egress.check(url)
  await egress.close()
  return answer
}

describe('targets that strangers name', () => {
  it.each([
    'http://169.254.169.254/latest/meta-data/',
    'http://127.0.0.1:8080',
    'http://[::1]',
    'http://[::ffff:10.0.0.1]',
    'http://0x7f000001',
    'http://0177.0.0.1',
    'http://2130706433',
    'http://100.64.0.1',
    'http://[fd00::1]',
    'http://0.0.0.0',
    'http://metadata.google.internal',
    'file:///etc/passwd',
    'gopher://x',
    'https://user:pw@good.example.com',
    'htp://good.example.com',
    '//good.example.com/card.json',
    'data:application/json,{}',
  ])('A67 A100 P145 P152 P156 %s is refused', async (url) => {
    expect(await verdict(url)).toBe('deny')
  })

  it.each([
    'https://localtest.me/n',
    'https://10.0.0.1.nip.io',
    'http://127.0.0.1.nip.io',
    'https://mixed.example.com',
    'https://localhost.',
    'https://unresolvable.example.com',
  ])('A68 P150 %s is refused for what it resolves to', async (url) => {
    expect(await verdict(url)).toBe('deny')
  })

  it('A70 an IDN host is one host in both spellings, in rules too', async () => {
    for (const url of ['https://exämple.com/hook', 'https://xn--exmple-cua.com/hook', 'https://EXÄMPLE.com./hook']) {
      expect(await verdict(url), url).toBe('allow')
      expect(await verdict(url, { allowHosts: ['xn--exmple-cua.com'] }), url).toBe('allow')
      expect(await verdict(url, { denyHosts: ['xn--exmple-cua.com'] }), url).toBe('deny')
    }
  })

  it('the same rules from the command line', async () => {
    expect(await verdict('https://good.example.com/')).toBe('allow')
  })
})

describe('documents that lead somewhere else', () => {
  let server: Server
  let origin: string
  let body = ''
  let status = 200
  let headers: Record<string, string> = {}
  let sentinel: Server
  let touched = 0

  beforeAll(async () => {
    server = createServer((_, response) => response.writeHead(status, headers).end(body))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.2', resolve))
    origin = `http://127.0.0.2:${(server.address() as AddressInfo).port}`
    sentinel = createServer((_, response) => response.end('{}'))
    sentinel.on('connection', () => {
      touched += 1
    })
    await new Promise<void>((resolve) => sentinel.listen(0, '127.0.0.1', resolve))
  })
  afterAll(async () => {
    for (const one of [server, sentinel]) {
      one.closeAllConnections()
      await new Promise((resolve) => one.close(resolve))
    }
  })
  const inside = () => `http://127.0.0.1:${(sentinel.address() as AddressInfo).port}`
  const ports = () => [server, sentinel].map((one) => (one.address() as AddressInfo).port)

  it('P53 P149 a discovery document that points the key set into the own network: no start, and nothing is touched', async () => {
    body = JSON.stringify({
      issuer: origin,
      jwks_uri: `${inside()}/jwks.json`,
      authorization_endpoint: origin,
      token_endpoint: origin,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['ES256'],
    })
    headers = { 'content-type': 'application/json' }
    const card = rigCard({
      securitySchemes: {
        login: { openIdConnectSecurityScheme: { openIdConnectUrl: `${origin}/.well-known/openid-configuration` } },
      },
      securityRequirements: [{ schemes: { login: { list: [] } } }],
    })
    const starting = createGuard({
      policy: {
        version: 1,
        card,
        audience: 'https://agent.example',
        schemes: { login: { issuer: origin, algorithms: ['ES256'] } },
        egress: { requireHttps: false, ports: ports(), allowAddresses: ['127.0.0.2/32'] },
      },
    })
    await expect(starting).rejects.toMatchObject({
      code: expect.stringMatching(/^ERR_(?:JWKS|DISCOVERY|FETCH|EGRESS)_/) as string,
    })
    expect(touched).toBe(0)
  })

  it('A99 P169 a card server that redirects inside, sends too much, or a page that is no card', async () => {
    const egress = createEgress({
      requireHttps: false,
      ports: ports(),
      allowAddresses: ['127.0.0.2/32'],
      maxResponseBytes: 1_000_000,
    })
    const client = await createCardClient({ trust: { version: 1, mode: 'off' }, fetch: egress.fetch })
    status = 302
    headers = { location: `${inside()}/secret` }
    await expect(client.fetchCard(origin)).rejects.toMatchObject({ code: 'ERR_EGRESS_REDIRECT' })
    status = 200
    headers = {}
    body = 'x'.repeat(2_000_000)
    await expect(client.fetchCard(origin)).rejects.toMatchObject({ code: 'ERR_EGRESS_RESPONSE_SIZE' })
    body = '<html>internal-secret-page</html>'
    const fault = (await client.fetchCard(origin).catch((reason: unknown) => reason)) as Error & { details: object }
    expect(fault).toMatchObject({ code: 'ERR_JSON_SYNTAX' })
    expect(fault.message + JSON.stringify(fault.details) + String(fault.stack)).not.toContain('internal-secret-page')
    expect(touched).toBe(0)
    await egress.close()
  })
})
