/** What the guarded fetch does with real servers: redirects, limits, rebinding, kept connections, proxies. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createEgress, type EgressDenial, type EgressOptions } from '../../src/egress/index.ts'
import type { ErrorCode } from '../../src/errors.ts'

const FRIEND = '127.0.0.2'
let server: Server
let sentinel: Server
let port: number
let hits: {
  host: string | undefined
  url: string
  method: string
  headers: IncomingMessage['headers']
  body: string
}[] = []
let sentinelConnections = 0
let handle: (request: IncomingMessage, response: ServerResponse) => void

beforeAll(async () => {
  server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString()
    })
    request.on('end', () => {
      hits.push({
        host: request.headers.host,
        url: request.url ?? '',
        method: request.method ?? '',
        headers: request.headers,
        body,
      })
      handle(request, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, FRIEND, resolve))
  ;({ port } = server.address() as AddressInfo)
  // The same port on an address that may not be reached.
  sentinel = createServer((_, response) => response.end('secret'))
  sentinel.on('connection', () => {
    sentinelConnections += 1
  })
  await new Promise<void>((resolve) => sentinel.listen(port, '127.0.0.1', resolve))
})
afterAll(async () => {
  for (const one of [server, sentinel]) {
    one.closeAllConnections()
    await new Promise((resolve) => one.close(resolve))
  }
})
beforeEach(() => {
  hits = []
  handle = (_, response) => response.end('ok')
})

const HOSTS: Record<string, string[]> = {
  'a.example.com': [FRIEND],
  'b.example.com': [FRIEND],
  'private.example.com': ['127.0.0.1'],
  'mixed.example.com': [FRIEND, '127.0.0.1'],
}

function egressFor(options: EgressOptions = {}) {
  return createEgress({
    requireHttps: false,
    ports: [port],
    allowAddresses: [`${FRIEND}/32`],
    resolver: async (name) => HOSTS[name] ?? [],
    ...options,
  })
}

async function codeOf(call: Promise<unknown>): Promise<ErrorCode | undefined> {
  return call.then(
    () => undefined,
    (fault: { code?: ErrorCode }) => fault.code,
  )
}
const at = (host: string, path = '/') => `http://${host}:${port}${path}`

describe('guarded fetch', () => {
  it('reaches an allowed host by its name: Host is the name, the address is the checked one', async () => {
    const egress = egressFor()
    const response = await egress.fetch(at('a.example.com', '/x?y=1'))
    expect([response.status, await response.text(), response.url]).toEqual([200, 'ok', at('a.example.com', '/x?y=1')])
    expect(hits).toMatchObject([{ host: `a.example.com:${port}`, url: '/x?y=1' }])
    await egress.close()
  })

  it.each([
    ['P150 a name with a private address', 'private.example.com', 'ERR_EGRESS_ADDRESS'],
    ['P148 a name with one private address among public ones', 'mixed.example.com', 'ERR_EGRESS_ADDRESS'],
    ['P160 a literal, as a rejection and not a throw', '127.0.0.1', 'ERR_EGRESS_ADDRESS'],
    ['P153 a mapped literal', '[::ffff:127.0.0.1]', 'ERR_EGRESS_ADDRESS'],
    ['P152 an octal literal', '0177.0.0.1', 'ERR_EGRESS_ADDRESS'],
    ['an unknown name', 'nobody.example.com', 'ERR_EGRESS_DNS'],
    ['a single label', 'localhost', 'ERR_EGRESS_HOST'],
    ['P156 the metadata name', 'metadata.google.internal', 'ERR_EGRESS_HOST'],
  ])('%s is refused before a byte is sent', async (_, host, code) => {
    const egress = egressFor()
    const before = sentinelConnections
    const call = egress.fetch(at(host))
    expect(call).toBeInstanceOf(Promise)
    expect(await codeOf(call)).toBe(code)
    expect(sentinelConnections).toBe(before)
    expect(hits).toEqual([])
    await egress.close()
  })

  it('A69 P148 a name that turns private between check and connect is not dialled', async () => {
    let lookups = 0
    const egress = egressFor({ resolver: async () => (lookups++ === 0 ? [FRIEND] : ['127.0.0.1']) })
    const before = sentinelConnections
    expect((await egress.check(at('rebind.example.com'))).verdict).toBe('allow')
    expect(await codeOf(egress.fetch(at('rebind.example.com')))).toBe('ERR_EGRESS_ADDRESS')
    expect(sentinelConnections).toBe(before)
    await egress.close()
  })

  it('a kept connection stays with the address that was checked; a new one is checked again', async () => {
    let lookups = 0
    const egress = egressFor({ resolver: async () => (lookups++ === 0 ? [FRIEND] : ['127.0.0.1']) })
    const before = sentinelConnections
    const outcomes: (string | undefined)[] = []
    for (let round = 0; round < 5; round += 1) {
      const used = lookups
      const code = await codeOf(egress.fetch(at('keep.example.com')).then((response) => response.text()))
      // Without a lookup the first connection was used again; with one, the private answer was refused.
      expect(code).toBe(used === 0 || lookups === used ? undefined : 'ERR_EGRESS_ADDRESS')
      outcomes.push(code)
    }
    expect(outcomes[0]).toBeUndefined()
    expect(sentinelConnections).toBe(before)
    await egress.close()
  })

  it('P159 a dispatcher of the caller does not get round the checks', async () => {
    const egress = egressFor()
    const open = { dispatch: () => expect.fail("the caller's dispatcher was used") }
    expect(await codeOf(egress.fetch(at('127.0.0.1'), { dispatcher: open } as unknown as RequestInit))).toBe(
      'ERR_EGRESS_ADDRESS',
    )
    await (await egress.fetch(at('a.example.com'), { dispatcher: open } as unknown as RequestInit)).text()
    expect(hits).toHaveLength(1)
    await egress.close()
  })

  it('takes a Request, with its body and headers', async () => {
    const egress = egressFor()
    await egress.fetch(new Request(at('a.example.com'), { method: 'POST', body: 'hello', headers: { 'x-one': '1' } }))
    expect(hits).toMatchObject([{ method: 'POST', body: 'hello', headers: { 'x-one': '1' } }])
    await egress.close()
  })

  it('host rules: deny wins, a wildcard needs a label boundary (P60)', async () => {
    const egress = egressFor({
      allowHosts: ['*.example.com'],
      denyHosts: ['b.example.com'],
      resolver: async () => [FRIEND],
    })
    expect((await egress.check(at('a.example.com'))).verdict).toBe('allow')
    for (const host of ['b.example.com', 'example.com', 'evilexample.com', 'example.com.evil.org', 'a.example.org']) {
      expect(await egress.check(at(host)), host).toMatchObject({ verdict: 'deny', reason: 'ERR_EGRESS_HOST' })
    }
    await egress.close()
  })
})

describe('redirects', () => {
  const to =
    (location: string, status = 302) =>
    (request: IncomingMessage, response: ServerResponse) => {
      if (request.url === '/start') response.writeHead(status, { location }).end()
      else response.end('end')
    }

  it('are refused by default, and the target sees nothing', async () => {
    handle = to(at('b.example.com', '/next'))
    const egress = egressFor()
    expect(await codeOf(egress.fetch(at('a.example.com', '/start')))).toBe('ERR_EGRESS_REDIRECT')
    expect(hits.map(({ url }) => url)).toEqual(['/start'])
    await egress.close()
  })

  it.each([
    ['loopback', () => at('127.0.0.1'), 'ERR_EGRESS_ADDRESS'],
    ['a private name', () => at('private.example.com'), 'ERR_EGRESS_ADDRESS'],
    ['the metadata service', () => 'http://169.254.169.254/latest/', /ERR_EGRESS_(PORT|ADDRESS)/],
    ['another scheme', () => 'gopher://127.0.0.1:6379/_x', 'ERR_EGRESS_SCHEME'],
    ['a URL with a user name', () => `http://user:pw@a.example.com:${port}/`, 'ERR_EGRESS_USERINFO'],
    ['a decimal address', () => `http://2130706433:${port}/`, 'ERR_EGRESS_ADDRESS'],
    ['a text the parser rewrites', () => '/\t/127.0.0.1/', 'ERR_EGRESS_REDIRECT'],
    ['P162 an authority in a path', () => `//127.0.0.1:${port}/`, 'ERR_EGRESS_ADDRESS'],
  ])('to %s is refused even where redirects are followed', async (_, location, code) => {
    const before = sentinelConnections
    handle = to(location())
    const egress = egressFor({ redirects: 5 })
    expect(await codeOf(egress.fetch(at('a.example.com', '/start')))).toMatch(code)
    expect(sentinelConnections).toBe(before)
    expect(hits).toHaveLength(1)
    await egress.close()
  })

  it('A102 P146 to another origin carries no credential, in no header', async () => {
    handle = to(at('b.example.com', '/next'))
    const egress = egressFor({ redirects: 5 })
    const headers = {
      authorization: 'Bearer t',
      cookie: 'c',
      'x-a2a-notification-token': 'n',
      'webhook-signature': 's',
      accept: 'text/plain',
    }
    expect(await (await egress.fetch(at('a.example.com', '/start'), { headers })).text()).toBe('end')
    expect(hits[0]?.headers).toMatchObject(headers)
    expect(hits[1]?.headers.accept).toBe('text/plain')
    for (const name of Object.keys(headers).filter((one) => one !== 'accept'))
      expect(hits[1]?.headers[name]).toBeUndefined()
    await egress.close()
  })

  it('to the same origin keeps them; 303 becomes GET without a body', async () => {
    handle = to('/next', 303)
    const egress = egressFor({ redirects: 5 })
    const response = await egress.fetch(at('a.example.com', '/start'), {
      method: 'POST',
      body: 'x',
      headers: { authorization: 'Bearer t', 'content-type': 'text/plain' },
    })
    expect([await response.text(), response.url, response.redirected]).toEqual([
      'end',
      at('a.example.com', '/next'),
      true,
    ])
    expect(hits[1]).toMatchObject({ method: 'GET', body: '', headers: { authorization: 'Bearer t' } })
    expect(hits[0]?.headers['content-type']).toBeDefined()
    expect(hits[1]?.headers['content-type']).toBeUndefined()
    await egress.close()
  })

  it('A71 A102 P146 a body is not carried to another origin by 307', async () => {
    handle = to(at('b.example.com', '/next'), 307)
    const egress = egressFor({ redirects: 5 })
    expect(await codeOf(egress.fetch(at('a.example.com', '/start'), { method: 'POST', body: 'client_secret=x' }))).toBe(
      'ERR_EGRESS_REDIRECT',
    )
    expect(hits).toHaveLength(1)
    await egress.close()
  })

  it('a loop ends at the limit', async () => {
    handle = (_, response) => response.writeHead(302, { location: '/start' }).end()
    const egress = egressFor({ redirects: 3 })
    expect(await codeOf(egress.fetch(at('a.example.com', '/start')))).toBe('ERR_EGRESS_REDIRECT')
    expect(hits).toHaveLength(4)
    await egress.close()
  })
})

describe('limits', () => {
  it('an announced, an unannounced and a compressed body over the limit are all cut off', async () => {
    const egress = egressFor({ maxResponseBytes: 1000 })
    handle = (_, response) => response.writeHead(200, { 'content-length': '1001' }).end('x'.repeat(1001))
    expect(await codeOf(egress.fetch(at('a.example.com')))).toBe('ERR_EGRESS_RESPONSE_SIZE')
    handle = (_, response) => {
      response.write('x'.repeat(900))
      response.end('x'.repeat(900))
    }
    expect(await codeOf(egress.fetch(at('a.example.com')).then((response) => response.text()))).toBe(
      'ERR_EGRESS_RESPONSE_SIZE',
    )
    handle = (_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(10_000_000)))
    expect(await codeOf(egress.fetch(at('a.example.com')).then((response) => response.text()))).toBe(
      'ERR_EGRESS_RESPONSE_SIZE',
    )
    handle = (_, response) => response.end('x'.repeat(1000))
    expect(await (await egress.fetch(at('a.example.com'))).text()).toHaveLength(1000)
    await egress.close()
  })

  it('a server that never answers, and one that never ends, run into the time limit', async () => {
    const egress = egressFor({ timeoutMs: 200 })
    handle = () => {}
    expect(await codeOf(egress.fetch(at('a.example.com')))).toBe('ERR_EGRESS_TIMEOUT')
    handle = (_, response) => void response.write('x')
    expect(await codeOf(egress.fetch(at('a.example.com')).then((response) => response.text()))).toBe(
      'ERR_EGRESS_TIMEOUT',
    )
    await egress.close()
  })

  it("the caller's own abort is the caller's", async () => {
    const egress = egressFor()
    handle = () => {}
    const controller = new AbortController()
    const call = egress.fetch(at('a.example.com'), { signal: controller.signal })
    controller.abort()
    await expect(call).rejects.toMatchObject({ name: 'AbortError' })
    await egress.close()
  })
})

describe('report mode and proxy', () => {
  it('report lets through and tells, without path or query', async () => {
    const told: EgressDenial[] = []
    const egress = egressFor({ mode: 'report', onDenied: (denial) => told.push(denial) })
    expect(await (await egress.fetch(at('private.example.com', '/p?token=secret'))).text()).toBe('secret')
    expect(told).toEqual([
      {
        reason: 'ERR_EGRESS_ADDRESS',
        origin: `http://private.example.com:${port}`,
        address: '127.0.0.1',
        mode: 'report',
      },
    ])
    await egress.close()
  })

  it('with a proxy the request goes to the proxy, and literals are still judged', async () => {
    const asked: string[] = []
    const proxy = createServer()
    proxy.on('connect', (request: IncomingMessage, socket) => {
      asked.push(request.url ?? '')
      const upstream = connect(port, FRIEND, () => {
        socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
        upstream.pipe(socket).pipe(upstream)
      })
      upstream.on('error', () => socket.destroy())
      socket.on('error', () => upstream.destroy())
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const egress = egressFor({ proxy: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` })
    expect(await (await egress.fetch(at('only-the-proxy-knows.example.com'))).text()).toBe('ok')
    expect(asked).toEqual([`only-the-proxy-knows.example.com:${port}`])
    expect(await codeOf(egress.fetch(at('127.0.0.1')))).toBe('ERR_EGRESS_ADDRESS')
    expect(asked).toHaveLength(1)
    await egress.close()
    proxy.closeAllConnections()
    await new Promise((resolve) => proxy.close(resolve))
  })
})

describe('a connection nobody answers', () => {
  it("fails with a code and the system's reason, without the query", async () => {
    const unused = createTcpServer()
    await new Promise<void>((resolve) => unused.listen(0, FRIEND, resolve))
    const { port: closed } = unused.address() as AddressInfo
    await new Promise((resolve) => unused.close(resolve))
    const egress = egressFor({ ports: [closed] })
    const fault = (await egress
      .fetch(`http://a.example.com:${closed}/?token=secret`)
      .catch((reason: unknown) => reason)) as Error & { details: object }
    expect(fault).toMatchObject({
      code: 'ERR_EGRESS_FAILED',
      details: { reason: 'ECONNREFUSED', origin: `http://a.example.com:${closed}` },
    })
    expect(JSON.stringify(fault.details) + fault.message).not.toContain('secret')
    await egress.close()
  })
})

describe('options', () => {
  it.each([
    ['ports', [0]],
    ['ports', 443],
    ['schemes', ['ftp:']],
    ['allowHosts', ['https://example.com']],
    ['allowHosts', ['*']],
    ['denyHosts', ['exa mple.com']],
    ['allowAddresses', ['10.0.0.0/33']],
    ['requireHttps', 'false'],
    ['redirects', '5'],
    ['redirects', -1],
    ['timeoutMs', Number.POSITIVE_INFINITY],
    ['maxResponseBytes', 0],
    ['mode', 'off'],
    ['resolver', {}],
    ['proxy', 'socks5://x'],
    ['proxy', 'http://proxy.example.com/path'],
    ['proxy', { uri: 'http://proxy.example.com' }],
    ['requireHTTPS', false],
  ])('"%s": %j throws and names the option', (name, value) => {
    expect(() => createEgress({ [name]: value } as EgressOptions)).toThrow(new RegExp(`^"${name}"`))
  })

  it('P165 lists are copied', async () => {
    const denyHosts = ['a.example.com']
    const egress = egressFor({ denyHosts })
    denyHosts.length = 0
    expect((await egress.check(at('a.example.com'))).verdict).toBe('deny')
    await egress.close()
  })
})
