/** Passwords, and schemes that the operator's own code checks, through the whole guard over real HTTP. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import express from 'express'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import { hashPassword } from '../../src/internal/password-hash.ts'
import type { CustomScheme } from '../../src/types.ts'
import { API_KEY, makeRig, type Rig, rigCard } from '../support/rig.ts'

const PASSWORD = 'PLANTED correct horse battery'
const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-basic-'))
const users = join(folder, 'users.json')
let scrypt = ''
beforeAll(async () => {
  scrypt = await hashPassword(PASSWORD)
  writeFileSync(users, JSON.stringify([{ user: 'alice', scrypt, scopes: ['a2a:use'] }]))
}, 60_000)
afterAll(() => rmSync(folder, { recursive: true }))

const open: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

const card = rigCard({
  securitySchemes: {
    staff: { httpAuthSecurityScheme: { scheme: 'Basic' } },
    legacy: { httpAuthSecurityScheme: { scheme: 'Digest' } },
    key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
  },
  securityRequirements: [
    { schemes: { staff: { list: ['a2a:use'] } } },
    { schemes: { legacy: { list: ['a2a:use'] } } },
    { schemes: { key: { list: [] } } },
  ],
})
const schemes = {
  staff: { users: `file:${users}` },
  legacy: { custom: true, headers: ['date'] },
  key: { keys: 'file:./keys.json' },
}
const legacy: CustomScheme = {
  authenticate: ({ credentials }) => {
    if (credentials === 'fault') return undefined as never
    if (credentials === 'down') throw new Error('PLANTED')
    return credentials === 'good' ? { subject: 'alice', scopes: ['a2a:use'] } : null
  },
  challenge: () => ({ nonce: 'n-1', qop: 'auth' }),
}

interface Served {
  readonly rig: Rig
  /** What the handler saw, one entry for each time it ran. */
  readonly seen: unknown[]
  ask(
    headers: readonly string[],
    path?: string,
  ): Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; text: string }>
}

async function serve(policy: Record<string, unknown> = {}): Promise<Served> {
  const rig = await makeRig({ card, policy: { schemes, ...policy }, guard: { schemes: { custom: { legacy } } } })
  open.push(() => rig.close())
  const seen: unknown[] = []
  const app = express()
  app.use('/a2a', expressGuard(rig.guard), (req, res) => {
    seen.push([req.headers, req.rawHeaders, req.url, req.originalUrl, req.query])
    res.json({})
  })
  // Express's own fault page, without the stack on the test's stderr.
  app.set('env', 'test')
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  open.push(() => new Promise((resolve) => server.close(resolve)))
  const { port } = server.address() as AddressInfo
  return {
    rig,
    seen,
    ask: (headers, path = '/a2a/tasks/t') =>
      new Promise((resolve, reject) => {
        const all = ['host', 'agent.example', 'connection', 'close', 'a2a-version', '1.0', ...headers]
        httpRequest({ port, host: '127.0.0.1', path, headers: all }, (response) => {
          let text = ''
          response.setEncoding('utf8').on('data', (chunk: string) => {
            text += chunk
          })
          response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
        })
          .on('error', reject)
          .end()
      }),
  }
}
const basic = (text: string) => ['Authorization', `Basic ${Buffer.from(text).toString('base64')}`]

describe('HTTP Basic', { timeout: 60_000 }, () => {
  it('lets a known user in, and the handler sees no password', async () => {
    const { ask, rig, seen } = await serve()
    expect((await ask(basic(`alice:${PASSWORD}`))).status).toBe(200)
    expect(rig.events.at(-1)).toMatchObject({ allowed: true, principal: 'basic:staff:alice', schemes: ['staff'] })
    expect(seen).toHaveLength(1)
    expect(JSON.stringify([seen, rig.events])).not.toMatch(/authorization|PLANTED|UExBTlRFRA/i)
  })

  it('P95 refuses with a challenge that says how; the answers for a wrong name and a wrong password are the same', async () => {
    const { ask, rig, seen } = await serve()
    const answers = [await ask(basic('alice:PLANTED wrong')), await ask(basic(`PLANTED:${PASSWORD}`))]
    for (const { status, headers } of answers) {
      expect(status).toBe(401)
      expect(headers['www-authenticate']).toBe(
        'Basic realm="a2a", charset="UTF-8", digest realm="a2a", nonce="n-1", qop="auth", ApiKey realm="a2a", in="header", name="x-api-key"',
      )
    }
    expect(answers[0]?.text).toBe(answers[1]?.text)
    expect(rig.events.map(({ failures }) => failures)).toEqual([
      [{ scheme: 'staff', code: 'ERR_PASSWORD_INVALID', detail: 'user alice' }],
      [{ scheme: 'staff', code: 'ERR_PASSWORD_INVALID' }],
    ])
    expect(JSON.stringify([answers, rig.events])).not.toContain('PLANTED')
    expect(seen).toEqual([])
  })

  it.each([
    ['two lines', [...basic('alice:x'), ...basic('alice:x')]],
    ['joined lines', ['Authorization', 'Basic YTpi, Basic YTpi']],
    ['no credentials', ['Authorization', 'Basic']],
    ['broken base64', ['Authorization', 'Basic YTpi=']],
  ])('P65 %s: 400, and the handler does not run', async (_, headers) => {
    const { ask, seen } = await serve()
    expect((await ask(headers)).status).toBe(400)
    expect(seen).toEqual([])
  })

  it('P69 a bad password does not hide behind a good key, and a good one does not hide the key', async () => {
    const { ask, rig } = await serve()
    expect((await ask([...basic('alice:wrong'), 'X-API-Key', API_KEY])).status).toBe(401)
    expect((await ask([...basic(`alice:${PASSWORD}`), 'X-API-Key', API_KEY])).status).toBe(200)
    expect(rig.events.at(-1)?.schemes).toEqual(['key', 'staff'])
  })

  it('A30 wrong passwords are counted, and the address has to wait', async () => {
    const { ask } = await serve({ limits: { failedAuthentication: '2/min' } })
    for (const status of [401, 401, 429]) expect((await ask(basic('alice:wrong'))).status).toBe(status)
  })

  it('A30 of wrong passwords sent together exactly as many are looked at as may fail', async () => {
    const { rig } = await serve({ limits: { failedAuthentication: '2/min' } })
    const from = async (address: string, headers: readonly string[]) => {
      const rawHeaders = ['a2a-version', '1.0', ...headers]
      const decision = await rig.guard.check({ method: 'GET', target: '/tasks/t', rawHeaders, peer: { address } })
      return decision.allowed ? 'allowed' : decision.code
    }
    const guesses = Array.from({ length: 66 }, (_, n) => from(`2001:db8::${n}`, basic(`alice:guess ${n}`)))
    // Elsewhere nobody waits for them, and good callers behind one address get in, however many.
    const good = Array.from({ length: 100 }, () => from('192.0.2.1', basic(`alice:${PASSWORD}`)))
    const answers = await Promise.all(guesses)
    expect(answers.filter((code) => code === 'ERR_PASSWORD_INVALID')).toHaveLength(2)
    expect(answers.filter((code) => code === 'ERR_RATE_LIMITED')).toHaveLength(64)
    expect(new Set(await Promise.all(good))).toEqual(new Set(['allowed']))
    expect(await from('2001:db8::1', basic(`alice:${PASSWORD}`))).toBe('ERR_RATE_LIMITED')
    rig.now += 60
    expect(await from('2001:db8::1', basic(`alice:${PASSWORD}`))).toBe('allowed')
  })

  it('can be revoked by user name and by key id while running', async () => {
    const { ask, rig } = await serve()
    await rig.guard.revoke({ key: { issuer: 'staff', id: 'alice' } })
    expect((await ask(basic(`alice:${PASSWORD}`))).status).toBe(401)
    expect(rig.events.at(-1)?.code).toBe('ERR_CREDENTIAL_REVOKED')
    await rig.guard.revoke({ key: { issuer: 'key', id: 'partner-1' } })
    expect((await ask(['X-API-Key', API_KEY])).status).toBe(401)
  })

  it.each([
    ['a user', basic(`alice:${PASSWORD}`)],
    ['whom code has named', ['Authorization', 'Digest good']],
    ['the owner of a key', ['X-API-Key', API_KEY]],
  ])('%s can be revoked by the principal that the event names', async (_, credential) => {
    const { ask, rig } = await serve()
    expect((await ask(credential)).status).toBe(200)
    await rig.guard.revoke({ principal: rig.events.at(-1)?.principal as string })
    expect((await ask(credential)).status).toBe(401)
    expect(rig.events.at(-1)?.code).toBe('ERR_CREDENTIAL_REVOKED')
  })
})

describe('a scheme checked by code', () => {
  it('decides; A45 the same subject under another kind of scheme is another principal', async () => {
    const { ask, rig } = await serve()
    expect((await ask(['Authorization', 'Digest good'])).status).toBe(200)
    expect(rig.events.at(-1)).toMatchObject({ principal: 'custom:legacy:alice', schemes: ['legacy'] })
  })

  it.each([
    ['null', 'Digest other', 401],
    ['an exception', 'Digest down', 503],
    ['no result', 'Digest fault', 500],
    ['two readings', 'Digest a  b', 400],
  ])('%s is never an allow', async (_, authorization, status) => {
    const { ask, rig, seen } = await serve()
    const answer = await ask(['Authorization', authorization])
    expect(answer.status).toBe(status)
    expect(seen).toEqual([])
    expect(JSON.stringify(rig.events)).not.toContain('PLANTED')
  })

  it.each<[string, unknown]>([
    ['no function', undefined],
    ['an empty set', { custom: {} }],
    ['one too many', { custom: { legacy, other: legacy } }],
    ['one for a scheme of another kind', { custom: { legacy, key: legacy } }],
    ['no function but true', { custom: { legacy: true } }],
    ['an object without one', { custom: { legacy: {} } }],
    ['a challenge that is none', { custom: { legacy: { authenticate: () => null, challenge: 'x' } } }],
    ['a misspelt option', { customs: { legacy } }],
    ['a list', { custom: [legacy] }],
  ])('A29 the guard does not start with %s', async (_, option) => {
    const guard = { schemes: option } as never
    await expect(makeRig({ card, policy: { schemes }, guard })).rejects.toThrow(/"schemes/)
  })

  it('A34 without custom: true an auth-scheme that nothing here checks refuses the start', async () => {
    const guard = { schemes: { custom: { legacy } } }
    const policy = { schemes: { ...schemes, legacy: { issuer: 'https://issuer.example', algorithms: ['ES256'] } } }
    await expect(makeRig({ card, policy, guard })).rejects.toMatchObject({ code: 'ERR_POLICY_INVALID' })
  })
})
