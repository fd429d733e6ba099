/** What hostile servers, resolvers and callers do to the guarded fetch: always a code, never a secret, nothing left over. */
import { createServer as createHttpServer, type Server as HttpServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { request as undiciRequest } from 'undici'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createDispatcher } from '../../src/egress/dispatcher.ts'
import { createEgress, type EgressDenial, type EgressOptions } from '../../src/egress/index.ts'
import { egressRules } from '../../src/egress/options.ts'
import { TrustError } from '../../src/errors.ts'

const FRIEND = '127.0.0.2'
const HOST = 'a.example.com'
let echo: HttpServer
let raw: Server
let seen: { method: string; url: string; headers: IncomingHttpHeaders; body: string }[]
let answer: string | Buffer

const listen = (server: Server): Promise<number> =>
  new Promise((resolve) => {
    server.listen(0, FRIEND, () => resolve((server.address() as AddressInfo).port))
  })
let echoPort: number
let rawPort: number
beforeAll(async () => {
  echo = createHttpServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk
    })
    request.on('end', () => {
      seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body })
      const to = new URL(request.url ?? '', 'http://x').searchParams.get('to')
      if (to === null) response.end('ok')
      else response.writeHead(307, { location: to }).end()
    })
  })
  raw = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(answer))
  })
  echoPort = await listen(echo)
  rawPort = await listen(raw)
})
afterAll(async () => {
  echo.closeAllConnections()
  for (const server of [echo, raw]) await new Promise((resolve) => server.close(resolve))
})
beforeEach(() => {
  seen = []
})

async function withEgress<T>(options: EgressOptions, use: (egress: ReturnType<typeof createEgress>) => Promise<T>) {
  const egress = createEgress({
    requireHttps: false,
    ports: [echoPort, rawPort],
    allowAddresses: [FRIEND],
    resolver: async () => [FRIEND],
    timeoutMs: 5000,
    ...options,
  })
  try {
    return await use(egress)
  } finally {
    await egress.close()
  }
}
const toEcho = (path = '/', host = HOST) => `http://${host}:${echoPort}${path}`
const toRaw = () => `http://${HOST}:${rawPort}/`
const faultOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => expect.fail('it was answered'),
    (fault: unknown) => fault,
  )
/** Everything an error says, causes included, as a log would have it. */
function textOf(fault: unknown): string {
  const parts: string[] = []
  for (let each = fault; each instanceof Error; each = each.cause) {
    parts.push(each.message, JSON.stringify({ ...each }), JSON.stringify((each as { details?: unknown }).details ?? ''))
  }
  return parts.join('\n')
}

describe('answers that are none', () => {
  it.each([
    ['a status beyond 599', 'HTTP/1.1 999 Odd\r\ncontent-length: 2\r\n\r\nhi', 'ERR_EGRESS_FAILED'],
    [
      'a control character in the status line',
      'HTTP/1.1 200 \u0001\r\ncontent-length: 2\r\n\r\nhi',
      'ERR_EGRESS_FAILED',
    ],
    ['switching protocols', 'HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n', 'ERR_EGRESS_FAILED'],
    ['no HTTP', 'secret-of-the-server\r\n\r\n', 'ERR_EGRESS_FAILED'],
    ['nothing', '', 'ERR_EGRESS_FAILED'],
    [
      'a header block over the limit',
      `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`,
      'ERR_EGRESS_RESPONSE_SIZE',
    ],
    ['broken gzip', 'HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nsecret-of-the-server', 'ERR_EGRESS_FAILED'],
    ['a body cut short', 'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhi', 'ERR_EGRESS_FAILED'],
  ])('%s', async (_, text, code) => {
    answer = text
    const fault = await faultOf(withEgress({}, async ({ fetch }) => (await fetch(toRaw())).text()))
    expect(fault).toBeInstanceOf(TrustError)
    expect(fault).toMatchObject({ code })
    // A99: what the server sent is not repeated.
    expect(textOf(fault)).not.toContain('secret-of-the-server')
  })

  it.each([
    ['HEAD', 'HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n', 200],
    ['GET', 'HTTP/1.1 204 No\r\n\r\n', 204],
    ['GET', 'HTTP/1.1 304 Not Modified\r\n\r\n', 304],
  ])('%s answered with %s is a Response of this process, without body', async (method, text, status) => {
    answer = text
    await withEgress({}, async ({ fetch }) => {
      const response = await fetch(toRaw(), { method })
      expect(response).toBeInstanceOf(Response)
      expect([response.status, response.body, response.url]).toEqual([status, null, toRaw()])
    })
  })

  it('every Set-Cookie survives, and clone reads the same', async () => {
    answer = 'HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 2\r\n\r\nhi'
    await withEgress({}, async ({ fetch }) => {
      const response = await fetch(toRaw())
      expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
      expect([await response.clone().text(), await response.text()]).toEqual(['hi', 'hi'])
    })
  })
})

describe('the end of a request', () => {
  it("is the caller's abort with the caller's own reason, before, during, and while the body is read", async () => {
    const reason = new RangeError('mine')
    await withEgress({}, async ({ fetch }) => {
      expect(await faultOf(fetch(toEcho(), { signal: AbortSignal.abort(reason) }))).toBe(reason)
      expect(seen).toEqual([])

      const during = new AbortController()
      const call = faultOf(fetch(toEcho(), { signal: during.signal }))
      during.abort(reason)
      expect(await call).toBe(reason)

      const later = new AbortController()
      answer = 'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhi'
      const open = createServer((socket) => void socket.once('data', () => socket.write(answer)))
      const port = await listen(open)
      await withEgress({ ports: [port] }, async (other) => {
        const response = await other.fetch(`http://${HOST}:${port}/`, { signal: later.signal })
        const body = faultOf(response.text())
        later.abort(reason)
        expect(await body).toBe(reason)
      })
      await new Promise((resolve) => open.close(resolve))
    })
  })

  it('leaves no listener on a signal that outlives it', async () => {
    let listeners = 0
    const { signal } = new AbortController()
    const { addEventListener, removeEventListener } = signal
    signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
      listeners += 1
      addEventListener.apply(signal, args)
    }
    signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
      listeners -= 1
      removeEventListener.apply(signal, args)
    }
    await withEgress({}, async ({ fetch }) => {
      await (await fetch(toEcho(), { signal })).text()
      await (await fetch(toEcho(), { signal })).body?.cancel()
      await faultOf(fetch('http://127.0.0.1/', { signal }))
    })
    expect(listeners).toBe(0)
  })

  it('is a code after close', async () => {
    const egress = createEgress({ requireHttps: false, ports: [echoPort], resolver: async () => [FRIEND] })
    await egress.close()
    expect(await faultOf(egress.fetch(toEcho()))).toMatchObject({ code: 'ERR_EGRESS_FAILED' })
  })
})

describe('resolvers', () => {
  it.each([
    ['rejects', async () => Promise.reject(new Error('down')), 'ERR_EGRESS_DNS'],
    [
      'throws',
      () => {
        throw new Error('down')
      },
      'ERR_EGRESS_DNS',
    ],
    ['gives no list', async () => FRIEND, 'ERR_EGRESS_DNS'],
    ['gives none', async () => [], 'ERR_EGRESS_DNS'],
    ['gives too many', async () => new Array(65).fill(FRIEND), 'ERR_EGRESS_DNS'],
    ['gives a name', async () => ['localhost'], 'ERR_EGRESS_ADDRESS'],
    ['gives another spelling of loopback', async () => ['0x7f.1'], 'ERR_EGRESS_ADDRESS'],
    ['gives a zone', async () => ['fe80::1%lo'], 'ERR_EGRESS_ADDRESS'],
    ['gives what is no text', async () => [null, {}], 'ERR_EGRESS_ADDRESS'],
    ['never answers', () => new Promise(() => undefined), 'ERR_EGRESS_TIMEOUT'],
  ])('A68 one that %s leads nowhere', async (_, resolver, code) => {
    const options = { resolver: resolver as EgressOptions['resolver'] & object, timeoutMs: 150 }
    await withEgress(options, async ({ fetch, check }) => {
      expect(await faultOf(fetch(toEcho()))).toMatchObject({ code })
      expect(await check(toEcho())).toMatchObject({ verdict: 'deny', reason: code })
    })
    expect(seen).toEqual([])
  })

  it('A69 one connection, one question: what was checked is dialled', async () => {
    let questions = 0
    const resolver = async () => (questions++ === 0 ? [FRIEND] : ['127.0.0.1'])
    await withEgress({ resolver }, async ({ fetch }) => {
      expect(await (await fetch(toEcho())).text()).toBe('ok')
    })
    expect(questions).toBe(1)
  })
})

describe('the dispatcher by itself', () => {
  const rules = () =>
    egressRules({ requireHttps: false, ports: [echoPort], allowAddresses: [FRIEND], resolver: async () => [FRIEND] })

  it('refuses a literal that no URL check has seen', async () => {
    const dispatcher = createDispatcher(egressRules({ requireHttps: false }))
    let connections = 0
    const count = () => {
      connections += 1
    }
    echo.on('connection', count)
    for (const literal of [FRIEND, `[::ffff:${FRIEND}]`]) {
      const call = undiciRequest(toEcho('/', literal), { dispatcher })
      expect(await faultOf(call)).toMatchObject({ code: 'ERR_EGRESS_ADDRESS' })
    }
    await dispatcher.destroy()
    // A connection made before would be told of by now: this one is.
    await withEgress({}, async ({ fetch }) => (await fetch(toEcho())).text())
    echo.off('connection', count)
    expect(connections).toBe(1)
  })

  it('leaves the last word to the connection: an address that is not allowed gets no request', async () => {
    // Nothing real gets this far, so the rules change their mind between lookup and connection.
    let questions = 0
    const dispatcher = createDispatcher({ ...rules(), allowAddress: () => questions++ < 2 })
    const call = undiciRequest(toEcho('/?token=s3cr3t'), { dispatcher })
    expect(await faultOf(call)).toMatchObject({ code: 'ERR_EGRESS_ADDRESS' })
    expect(questions).toBe(3)
    await dispatcher.destroy()
    expect(seen).toEqual([])
  })
})

describe('URL rules', () => {
  it('text that a parser would drop or rewrite is refused, wherever it stands', async () => {
    await withEgress({}, async ({ check, fetch }) => {
      for (const mark of ['\t', '\n', '\r', ' ', '\u0000', '\u007f', '\\']) {
        for (const url of [
          `${mark}${toEcho()}`,
          `${toEcho()}${mark}`,
          toEcho(`/a${mark}b`),
          toEcho('/', `a${mark}.example.com`),
        ]) {
          expect(await check(url), JSON.stringify(url)).toEqual({ verdict: 'deny', reason: 'ERR_EGRESS_URL' })
          expect(await faultOf(fetch(url))).toMatchObject({ code: 'ERR_EGRESS_URL' })
        }
      }
    })
    expect(seen).toEqual([])
  })

  it('the default is https on 443, also where both schemes are listed', async () => {
    const resolver = async () => ['93.184.216.34']
    for (const options of [{ resolver }, { resolver, schemes: ['http:', 'https:'] }]) {
      const egress = createEgress(options)
      expect(await egress.check('https://hooks.example.com/')).toMatchObject({ verdict: 'allow' })
      for (const url of ['http://hooks.example.com/', 'http://hooks.example.com:443/']) {
        expect(await egress.check(url)).toEqual({ verdict: 'deny', reason: 'ERR_EGRESS_SCHEME' })
      }
      for (const port of [80, 8443]) {
        expect(await egress.check(`https://hooks.example.com:${port}/`)).toMatchObject({ reason: 'ERR_EGRESS_PORT' })
      }
      await egress.close()
    }
  })

  it('with a proxy names are not resolved here, because here is not where they are dialled', async () => {
    const resolver = () => expect.fail('it was asked')
    await withEgress({ resolver, proxy: 'http://127.0.0.1:1' }, async ({ check }) => {
      expect(await check(toEcho())).toEqual({ verdict: 'allow', reason: 'allowed' })
      expect(await check(toEcho('/', '10.0.0.1'))).toMatchObject({ reason: 'ERR_EGRESS_ADDRESS' })
    })
  })
})

describe('host rules', () => {
  it('A70 entries and URLs meet in one form: case, IDNA, final dot', async () => {
    for (const entry of ['exämple.com', 'xn--exmple-cua.com', 'EXÄMPLE.com', 'exämple.com.']) {
      await withEgress({ allowHosts: [entry] }, async ({ check }) => {
        for (const host of ['exämple.com', 'xn--exmple-cua.com', 'EXÄMPLE.COM', 'exämple.com.', 'ex%C3%A4mple.com']) {
          expect(await check(toEcho('/', host)), `${entry} ${host}`).toMatchObject({ verdict: 'allow' })
        }
        expect(await check(toEcho('/', 'example.com'))).toMatchObject({ reason: 'ERR_EGRESS_HOST' })
      })
      await withEgress({ denyHosts: [entry] }, async ({ check }) => {
        expect(await check(toEcho('/', 'xn--exmple-cua.com.'))).toMatchObject({ reason: 'ERR_EGRESS_HOST' })
      })
    }
  })

  it('a denied range holds for what names resolve to, and over allowed addresses', async () => {
    await withEgress({ denyHosts: ['127.0.0.0/8'] }, async ({ fetch }) => {
      expect(await faultOf(fetch(toEcho()))).toMatchObject({ code: 'ERR_EGRESS_ADDRESS' })
      expect(await faultOf(fetch(toEcho('/', FRIEND)))).toMatchObject({ code: 'ERR_EGRESS_HOST' })
    })
    expect(seen).toEqual([])
  })

  it('an allowed host is no allowed address', async () => {
    const resolver = async () => ['127.0.0.1']
    await withEgress({ allowHosts: [HOST], resolver }, async ({ fetch }) => {
      expect(await faultOf(fetch(toEcho()))).toMatchObject({
        code: 'ERR_EGRESS_ADDRESS',
        details: { origin: toEcho('').replace(/\/$/, ''), address: '127.0.0.1' },
      })
    })
  })
})

describe('what callers send', () => {
  it('the platform FormData, Blob and URLSearchParams arrive as they are', async () => {
    const form = new FormData()
    form.set('name', 'value')
    await withEgress({}, async ({ fetch }) => {
      for (const body of [form, new Blob(['blob']), new URLSearchParams({ a: 'b c' }), new TextEncoder().encode('é')]) {
        await (await fetch(toEcho(), { method: 'POST', body })).text()
      }
    })
    expect(seen[0]?.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/)
    expect(seen[0]?.body).toContain('name="name"\r\n\r\nvalue')
    expect(seen.slice(1).map(({ body }) => body)).toEqual(['blob', 'a=b+c', 'é'])
  })

  it.each([
    ['authorization', 'Bearer s3cr3t\r\nx-injected: 1'],
    ['x-token', 's3cr3t\u0000'],
    ['x-token', 's3cr3t\n'.repeat(2).trimEnd()],
    ['s3cr3t:', 'x'],
  ])('P163 a header that would be two is refused, and not quoted (%j)', async (name, value) => {
    const fault = await withEgress({}, ({ fetch }) => faultOf(fetch(toEcho(), { headers: [[name, value]] })))
    expect(fault).toBeInstanceOf(TypeError)
    expect(textOf(fault)).not.toContain('s3cr3t')
    expect(seen).toEqual([])
  })

  it('Host is that of the URL, whatever the caller asks for', async () => {
    await withEgress({}, async ({ fetch }) => {
      await (await fetch(toEcho(), { headers: { host: 'internal.example.org' } })).text()
    })
    expect(seen[0]?.headers.host).toBe(`${HOST}:${echoPort}`)
  })

  it('user names are refused without a word of them, or sent as Basic where they are allowed', async () => {
    const url = toEcho('/x', `al%40ice:s3cr3t@${HOST}`)
    await withEgress({}, async ({ fetch }) => {
      const fault = await faultOf(fetch(url))
      expect(fault).toMatchObject({ code: 'ERR_EGRESS_USERINFO' })
      expect(textOf(fault)).not.toMatch(/s3cr3t|ice/)
    })
    expect(seen).toEqual([])
    await withEgress({ userinfo: true }, async ({ fetch }) => {
      const response = await fetch(url)
      expect([response.url, seen[0]?.headers.authorization]).toEqual([
        toEcho('/x'),
        `Basic ${Buffer.from('al@ice:s3cr3t').toString('base64')}`,
      ])
      await response.text()
    })
  })

  it('P146 a redirect brings no user name, and takes none along', async () => {
    await withEgress({ userinfo: true, redirects: 3 }, async ({ fetch }) => {
      const named = encodeURIComponent(toEcho('/', `x:y@b.example.com`))
      expect(await faultOf(fetch(toEcho(`/?to=${named}`)))).toMatchObject({ code: 'ERR_EGRESS_USERINFO' })
      const plain = encodeURIComponent(toEcho('/', 'b.example.com'))
      await (await fetch(toEcho(`/?to=${plain}`, `x:y@${HOST}`))).text()
    })
    expect(seen.map(({ headers }) => headers.authorization)).toEqual([undefined, 'Basic eDp5', undefined])
  })

  it.each([
    'data:text/plain,x',
    'file:///etc/passwd',
    'blob:x',
    'about:blank',
    'htp://h/card.json',
    '//h/card.json',
    '',
  ])('A100 %j is no address, not even in report mode', async (url) => {
    await withEgress({ mode: 'report' }, async ({ fetch }) => {
      expect(await faultOf(fetch(url))).toMatchObject({ code: 'ERR_EGRESS_SCHEME' })
    })
  })

  it("A71 a request's own redirect mode is never widened, only kept or narrowed", async () => {
    await withEgress({ redirects: 3 }, async ({ fetch }) => {
      const strict = fetch(toEcho('/?to=/again'), { redirect: 'error' })
      expect(await faultOf(strict)).toMatchObject({ code: 'ERR_EGRESS_REDIRECT' })
      const response = await fetch(toEcho('/?to=/again'), { redirect: 'manual' })
      expect([response.status, response.headers.get('location'), await response.text()]).toEqual([307, '/again', ''])
    })
    expect(seen.map(({ url }) => url)).toEqual(['/?to=/again', '/?to=/again'])
  })

  it('a stream is sent once: a redirect that would need it again is refused', async () => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('streamed'))
        controller.close()
      },
    })
    await withEgress({ redirects: 3 }, async ({ fetch }) => {
      const init = { method: 'POST', body, duplex: 'half' } as RequestInit
      expect(await faultOf(fetch(toEcho('/?to=/again'), init))).toMatchObject({ code: 'ERR_EGRESS_REDIRECT' })
      await (await fetch(toEcho('/?to=/again'), { method: 'POST', body: 'text' })).text()
    })
    expect(seen.map(({ body: sent, url }) => [url, sent])).toEqual([
      ['/?to=/again', 'streamed'],
      ['/?to=/again', 'text'],
      ['/again', 'text'],
    ])
  })
})

describe('watching', () => {
  it('every denial is told with its origin, whichever step it came from', async () => {
    const told: EgressDenial[] = []
    const resolver = async () => ['10.0.0.1']
    await withEgress({ resolver, onDenied: (denial) => told.push(denial) }, async ({ fetch }) => {
      await faultOf(fetch(toEcho('/?token=s3cr3t')))
      await faultOf(fetch(toEcho('/?token=s3cr3t', 'user:s3cr3t@127.0.0.1')))
      await faultOf(fetch('ftp://files.example.com/s3cr3t'))
    })
    const origin = `http://${HOST}:${echoPort}`
    expect(told).toEqual([
      { reason: 'ERR_EGRESS_ADDRESS', origin, address: '10.0.0.1', mode: 'enforce' },
      { reason: 'ERR_EGRESS_USERINFO', origin: `http://127.0.0.1:${echoPort}`, mode: 'enforce' },
      { reason: 'ERR_EGRESS_SCHEME', origin: 'ftp://files.example.com', mode: 'enforce' },
    ])
  })

  it('an observer that throws changes nothing', async () => {
    const onDenied = () => {
      throw new Error('observer')
    }
    const resolver = async () => ['127.0.0.1']
    await withEgress({ resolver, onDenied }, async ({ fetch }) => {
      expect(await faultOf(fetch(toEcho()))).toMatchObject({ code: 'ERR_EGRESS_ADDRESS' })
      expect(await faultOf(fetch('ftp://x.example.com/'))).toMatchObject({ code: 'ERR_EGRESS_SCHEME' })
    })
    expect(seen).toEqual([])
  })
})
