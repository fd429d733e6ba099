import { beforeAll, describe, expect, it, vi } from 'vitest'
import * as passwords from '../../../src/internal/password-hash.ts'
import type { BasicUser } from '../../../src/policy/compiled.ts'
import { createBasicScheme } from '../../../src/schemes/basic.ts'
import { credentials, testContext } from '../../support/credentials.ts'

/** Counts what is hashed; the hashing itself is the real one. */
vi.mock('../../../src/internal/password-hash.ts', async (original) => {
  const real = await original<typeof passwords>()
  return { ...real, isPassword: vi.fn(real.isPassword) }
})
const hashed = vi.mocked(passwords.isPassword)

const NOW = 1_800_000_000
const PASSWORD = 'correct:horse battery, stäple'
let alice: BasicUser

beforeAll(async () => {
  alice = { user: 'alice', scrypt: await passwords.hashPassword(PASSWORD), owner: 'acme', scopes: ['read'] }
}, 60_000)

function scheme(users: readonly BasicUser[] = [alice]) {
  hashed.mockClear()
  const context = testContext(NOW * 1000)
  return { context, ...createBasicScheme({ type: 'basic', name: 'staff', users }, context) }
}
const encoded = (text: string | Buffer) => Buffer.from(text as string).toString('base64')
const sent = (...lines: string[]) => credentials(lines.flatMap((line) => ['Authorization', line]))
const basic = (user: string, password: string) => sent(`Basic ${encoded(`${user}:${password}`)}`)
const INVALID = { kind: 'invalid', code: 'ERR_PASSWORD_INVALID' }

// Real hashes: slow on purpose, and slower where other tests run.
describe('HTTP Basic (RFC 7617)', { timeout: 120_000 }, () => {
  it('says who the caller is, never what they typed; A36 the auth-scheme has no case', async () => {
    const good = {
      kind: 'satisfied',
      part: {
        scheme: 'staff',
        kind: 'basic',
        issuer: 'staff',
        subject: 'acme',
        scopes: new Set(['read']),
        claims: { user: 'alice' },
        credential: { keyId: 'alice' },
      },
    }
    const one = scheme()
    for (const name of ['Basic', 'basic', 'BASIC'])
      expect(await one.authenticate(sent(`${name} ${encoded(`alice:${PASSWORD}`)}`))).toEqual(good)
    expect(one.challenges).toEqual([{ scheme: 'Basic', params: [['charset', 'UTF-8']] }])
    expect(one.location).toBe('header:authorization')
  })

  it('the same text in another Unicode form is the same password', async () => {
    expect(await scheme().authenticate(basic('alice', PASSWORD.normalize('NFD')))).toMatchObject({ kind: 'satisfied' })
  })

  it('P112 another password, another user and an empty one are refused alike', async () => {
    const one = scheme()
    expect(await one.authenticate(basic('alice', `${PASSWORD}x`))).toEqual({ ...INVALID, detail: 'user alice' })
    expect(await one.authenticate(basic('Alice', PASSWORD))).toEqual(INVALID)
    expect(await one.authenticate(basic('alice:correct', 'horse'))).toMatchObject(INVALID)
    expect(await one.authenticate(basic('', PASSWORD))).toEqual(INVALID)
    expect(await one.authenticate(basic('alice', ''))).toEqual(INVALID)
  })

  it('A30 an unknown user costs what a known one costs', async () => {
    const cheap = { ...alice, user: 'bob', scrypt: alice.scrypt.replace('ln=15,r=8,p=3', 'ln=14,r=8,p=5') }
    const one = scheme([alice, cheap])
    await one.authenticate(basic('nobody', PASSWORD))
    await one.authenticate(basic('nobody', 'other'))
    expect(hashed).toHaveBeenCalledTimes(2)
    const [first, second] = hashed.mock.calls.map(([, stored]) => stored)
    expect(first, 'the same costs each time').toBe(second)
    expect([14, 15]).toContain(first?.logN)
  })

  it.each([
    ['two lines', sent(`Basic ${encoded('a:b')}`, `Basic ${encoded('a:b')}`)],
    ['nothing after the scheme', sent('Basic')],
    ['an empty credential', sent('Basic ')],
    ['two spaces', sent(`Basic  ${encoded('a:b')}`)],
    ['a tab', sent(`Basic\t${encoded('a:b')}`)],
    ['two lines that a proxy joined', sent(`Basic ${encoded('a:b')}, Basic ${encoded('a:b')}`)],
    ['a folded line', sent(`Basic ${encoded('a:b')}\r\n ${encoded('a:b')}`)],
    ['no padding', sent(`Basic ${encoded('a:bc').slice(0, -1)}`)],
    ['bits behind the end', sent('Basic YTpjZB==')],
    ['base64url', sent(`Basic ${encoded('a:>>>???').replaceAll('+', '-').replaceAll('/', '_')}`)],
    ['no base64', sent('Basic a:b')],
    ['parameters', sent('Basic user="a"')],
    ['no UTF-8', sent(`Basic ${encoded(Buffer.from([0x61, 0x3a, 0xff]))}`)],
    ['no colon', sent(`Basic ${encoded('alice')}`)],
    ['NUL', sent(`Basic ${encoded('alice\u0000:x')}`)],
    ['a line feed', sent(`Basic ${encoded('alice:x\n')}`)],
    ['a C1 control', sent(`Basic ${encoded('alice:x\u0085')}`)],
    ['too much', sent(`Basic ${encoded(`a:${'x'.repeat(2000)}`)}`)],
  ])('P65 %s is malformed, and nothing is hashed', (_, source) => {
    const one = scheme()
    expect(one.authenticate(source)).toMatchObject({ kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED' })
    expect(one.claimedId?.(source)).toBeUndefined()
    expect(hashed).not.toHaveBeenCalled()
  })

  it('is absent without the header and behind another auth-scheme', () => {
    for (const source of [sent(), sent('Bearer abc'), sent('Digest username="a"'), credentials(['X', 'Basic YTpi'])])
      expect(scheme().authenticate(source)).toEqual({ kind: 'absent' })
  })

  it('claims the user name without proof', () => {
    expect(scheme().claimedId?.(basic('mallory', 'x'))).toBe('mallory')
  })

  it('a good pair is hashed once in a minute, a wrong one every time; end and revocation are asked every time', async () => {
    const one = scheme([{ ...alice, expiresAt: NOW + 30 }])
    const good = basic('alice', PASSWORD)
    expect(await one.authenticate(good)).toMatchObject({ kind: 'satisfied' })
    expect(one.authenticate(good), 'at hand').toMatchObject({ kind: 'satisfied' })
    expect(hashed).toHaveBeenCalledTimes(1)
    for (let i = 0; i < 2; i += 1) await one.authenticate(basic('alice', 'wrong'))
    expect(hashed).toHaveBeenCalledTimes(3)
    one.context.now += 30_000
    expect(one.authenticate(good)).toEqual({ kind: 'invalid', code: 'ERR_PASSWORD_EXPIRED', detail: 'user alice' })
    one.context.now += 30_000
    expect(await one.authenticate(good)).toMatchObject({ code: 'ERR_PASSWORD_EXPIRED' })
    expect(hashed).toHaveBeenCalledTimes(4)
    const revoked = scheme([{ ...alice, revoked: true }])
    expect(await revoked.authenticate(good)).toEqual({
      kind: 'invalid',
      code: 'ERR_CREDENTIAL_REVOKED',
      detail: 'user alice',
    })
    expect(await revoked.authenticate(basic('alice', 'wrong')), 'nobody learns it without the password').toMatchObject(
      INVALID,
    )
  })

  it('one check serves all who present the same at once; two run, 64 wait, the next is told to come back', async () => {
    const one = scheme()
    const ends: ((matches: boolean) => void)[] = []
    hashed.mockImplementation(() => new Promise((resolve) => ends.push(resolve)))
    try {
      const same = Array.from({ length: 100 }, () => one.authenticate(basic('alice', PASSWORD)))
      expect(hashed).toHaveBeenCalledTimes(1)
      const flood = Array.from({ length: 65 }, (_, i) => one.authenticate(basic('alice', `wrong ${i}`)))
      expect(hashed).toHaveBeenCalledTimes(2)
      expect(one.authenticate(basic('alice', 'one more'))).toEqual({
        kind: 'unavailable',
        code: 'ERR_OVERLOADED',
        retryAfterSeconds: 1,
      })
      expect(one.authenticate(basic('alice', PASSWORD)), 'already being checked').toBeInstanceOf(Promise)
      ends.shift()?.(true)
      for (const outcome of await Promise.all(same)) expect(outcome).toMatchObject({ kind: 'satisfied' })
      let open = flood.length
      for (const each of flood) void Promise.resolve(each).finally(() => (open -= 1))
      while (open > 0) {
        ends.shift()?.(false)
        await Promise.resolve()
      }
      for (const outcome of await Promise.all(flood)) expect(outcome).toMatchObject(INVALID)
    } finally {
      hashed.mockImplementation(
        (await vi.importActual<typeof passwords>('../../../src/internal/password-hash.ts')).isPassword,
      )
    }
  })

  it('keeps no password: neither in what it answers nor in itself', async () => {
    const one = scheme()
    const outcomes = [await one.authenticate(basic('alice', PASSWORD)), await one.authenticate(basic(PASSWORD, 'x'))]
    expect(JSON.stringify(outcomes)).not.toContain('horse')
  })

  it('refuses users that are ambiguous or have no usable hash', () => {
    for (const users of [[], [alice, alice], [{ ...alice, scrypt: 'plain' }]])
      expect(() => scheme(users)).toThrow(TypeError)
  })
})
