import { afterEach, describe, expect, it, vi } from 'vitest'
import { TrustError } from '../../../src/errors.ts'
import type { CustomSchemeConfig } from '../../../src/policy/compiled.ts'
import { createCustomScheme } from '../../../src/schemes/custom.ts'
import type { CredentialSource } from '../../../src/schemes/scheme.ts'
import type { CustomMaterial, CustomScheme } from '../../../src/types.ts'
import { credentials, testContext } from '../../support/credentials.ts'

const NOW = 1_800_000_000
afterEach(() => vi.useRealTimers())

function scheme(custom: CustomScheme, change: Partial<CustomSchemeConfig> = {}) {
  const lines: object[] = []
  const log = (fields: object) => lines.push(fields)
  const config: CustomSchemeConfig = {
    type: 'custom',
    name: 'legacy',
    place: { at: 'authorization', authScheme: 'digest' },
    headers: ['date'],
    timeoutMs: 1000,
    tenants: false,
    ...change,
  }
  const logger = { debug: log, info: log, warn: log, error: log }
  return Object.assign(createCustomScheme(config, custom, { ...testContext(NOW * 1000), logger }), { lines })
}
const sent = (...lines: string[]) => credentials(lines.flatMap((line) => ['Authorization', line]))
const DIGEST = sent('Digest username="alice", response="s3cret"')

const THROWS = {
  get() {
    throw new Error('s3cret')
  },
}
/** Whatever is asked of it throws. */
const HOSTILE = new Proxy(
  {},
  new Proxy(
    {},
    {
      get: () => () => {
        throw new Error('s3cret')
      },
    },
  ),
)

describe('a scheme that a function checks', () => {
  it('says what the function says, as a principal of its own kind and name; frozen', async () => {
    const claims = { list: [{ a: 1 }], ['__proto__']: 1 }
    const one = scheme(() => ({
      subject: 'alice',
      scopes: ['read', 'read'],
      clientId: 'c',
      claims,
      expiresAt: NOW + 1,
      credential: { keyId: 'k' },
    }))
    const outcome = await one.authenticate(DIGEST)
    expect(outcome).toEqual({
      kind: 'satisfied',
      part: {
        scheme: 'legacy',
        kind: 'custom',
        issuer: 'legacy',
        subject: 'alice',
        scopes: new Set(['read']),
        clientId: 'c',
        claims: { list: [{ a: 1 }] },
        expiresAt: NOW + 1,
        credential: { keyId: 'k' },
      },
    })
    const { part } = outcome as unknown as { part: { claims: { list: object[] } } }
    claims.list.push({ a: 2 })
    expect(part.claims.list.length).toBe(1)
    for (const value of [part, part.claims, part.claims.list, part.claims.list[0]])
      expect(Object.isFrozen(value)).toBe(true)
  })

  it('is given what stands at its place and the headers the policy lists, and no other credential', async () => {
    const seen: CustomMaterial[] = []
    const one = scheme((material) => {
      seen.push(material)
      return null
    })
    const raw = ['Authorization', 'DIGEST a="b", c=d', 'Cookie', 'sid=1', 'X-API-Key', 'k', 'Date', 'd1', 'Date', 'd2']
    const certificate = { raw: new Uint8Array(1), authorized: false }
    await one.authenticate({ ...credentials(raw, 'q=1'), address: '127.0.0.1', certificate })
    expect(seen).toEqual([
      {
        scheme: 'legacy',
        credentials: 'a="b", c=d',
        headers: { date: ['d1', 'd2'] },
        method: 'POST',
        target: '/?q=1',
        address: '127.0.0.1',
      },
    ])
    await one.authenticate({ ...DIGEST, certificate: { ...certificate, authorized: true } })
    expect(seen[1]?.certificate).toEqual({ ...certificate, authorized: true })
    expect(Object.isFrozen(seen[0]) && Object.isFrozen(seen[0]?.headers)).toBe(true)
  })

  it.each<[string, CustomSchemeConfig['place'], CredentialSource, string]>([
    ['no header', { at: 'authorization', authScheme: 'digest' }, sent(), 'absent'],
    ['another auth-scheme', { at: 'authorization', authScheme: 'digest' }, sent('Bearer x'), 'absent'],
    ['two lines', { at: 'authorization', authScheme: 'digest' }, sent('Digest a', 'Digest a'), 'malformed'],
    ['an empty one', { at: 'authorization', authScheme: 'digest' }, sent('Digest '), 'malformed'],
    ['too long', { at: 'authorization', authScheme: 'digest' }, sent(`Digest ${'a'.repeat(16_385)}`), 'malformed'],
    ['no key', { at: 'header', parameter: 'x-key' }, sent(), 'absent'],
    ['an empty key', { at: 'header', parameter: 'x-key' }, credentials(['X-Key', ' ']), 'absent'],
    ['a key twice', { at: 'query', parameter: 'key' }, credentials([], 'key=a&key=b'), 'malformed'],
    ['a key too long', { at: 'header', parameter: 'x-key' }, credentials(['X-Key', 'a'.repeat(16_385)]), 'malformed'],
    ['no certificate', { at: 'tls' }, sent(), 'absent'],
    ['an unreadable one', { at: 'tls' }, { ...sent(), certificate: { unreadable: 'x' } }, 'malformed'],
    [
      'an unverified certificate',
      { at: 'tls' },
      { ...sent(), certificate: { raw: new Uint8Array(1), authorized: false } },
      'invalid',
    ],
  ])('is not asked: %s', (_, place, source, kind) => {
    const check = vi.fn(() => ({ subject: 'alice' }))
    expect(scheme(check, { place }).authenticate(source)).toMatchObject({ kind })
    expect(check).not.toHaveBeenCalled()
  })

  it('null refuses, and so does a result that has ended', async () => {
    expect(await scheme(async () => null).authenticate(DIGEST)).toEqual({ kind: 'invalid', code: 'ERR_CUSTOM_REFUSED' })
    expect(await scheme(() => ({ subject: 'a', expiresAt: NOW })).authenticate(DIGEST)).toMatchObject({
      kind: 'invalid',
      code: 'ERR_CUSTOM_REFUSED',
    })
  })

  it.each<[string, () => unknown]>([
    [
      'an exception',
      () => {
        throw new Error('s3cret')
      },
    ],
    ['a rejection', () => Promise.reject(new TypeError('s3cret'))],
    [
      'a thrown text',
      () => {
        throw 's3cret'
      },
    ],
    ['a thrown nothing', () => Promise.reject(undefined)],
    ['an exception whose own members throw', () => Promise.reject(HOSTILE)],
    [
      'an exception whose class throws',
      () => Promise.reject(Object.defineProperty(new Error(), 'constructor', THROWS)),
    ],
    [
      'an exception without a class',
      () => Promise.reject(Object.defineProperty(new Error(), 'constructor', { value: null })),
    ],
  ])('%s is unavailable, and its text goes nowhere', async (_, fail) => {
    const one = scheme(fail as CustomScheme)
    const outcome = await one.authenticate(DIGEST)
    expect(outcome).toMatchObject({ kind: 'unavailable', code: 'ERR_CUSTOM_FAILED', retryAfterSeconds: 1 })
    expect(one.lines).toHaveLength(1)
    expect(JSON.stringify([outcome, one.lines])).not.toContain('s3cret')
  })

  it('no answer in time is unavailable, and the function is told', async () => {
    vi.useFakeTimers()
    let told = false
    const one = scheme((_, { signal }) => new Promise(() => signal.addEventListener('abort', () => (told = true))))
    const outcome = one.authenticate(DIGEST)
    await vi.advanceTimersByTimeAsync(1000)
    expect(await outcome).toMatchObject({ kind: 'unavailable', code: 'ERR_CUSTOM_FAILED', detail: 'no answer in time' })
    expect(told).toBe(true)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('256 calls at once, the next is told to come back; what never ends gives its place back in time', async () => {
    vi.useFakeTimers()
    const one = scheme(() => new Promise(() => {}))
    const calls = Array.from({ length: 256 }, () => one.authenticate(DIGEST))
    expect(one.authenticate(DIGEST)).toMatchObject({ kind: 'unavailable', code: 'ERR_OVERLOADED' })
    await vi.advanceTimersByTimeAsync(1000)
    await Promise.all(calls)
    expect(one.authenticate(DIGEST)).toBeInstanceOf(Promise)
    await vi.advanceTimersByTimeAsync(1000)
  })

  const circular: Record<string, unknown> = {}
  circular.self = circular

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['true', true],
    ['a text', 'alice'],
    ['a list', [{ subject: 'alice' }]],
    ['no subject', {}],
    ['an empty subject', { subject: '' }],
    ['a blank subject', { subject: ' ' }],
    ['a subject with a control character', { subject: 'a\nb' }],
    ['a number for a subject', { subject: 1 }],
    ['a member that is none', { subject: 'a', admin: true }],
    ['an issuer of its own', { subject: 'a', issuer: 'https://issuer.example' }],
    ['scopes as text', { subject: 'a', scopes: 'read write' }],
    ['a scope with a space', { subject: 'a', scopes: ['read write'] }],
    ['milliseconds', { subject: 'a', expiresAt: NOW * 1000 }],
    ['no number for an end', { subject: 'a', expiresAt: Number.NaN }],
    ['a tenant the policy does not know of', { subject: 'a', tenant: 't' }],
    ['claims that are no JSON', { subject: 'a', claims: { when: new Date(0) } }],
    ['claims that hold themselves', { subject: 'a', claims: circular }],
    ['a subject with half a character', { subject: '\ud800a' }],
    ['a subject that is inherited', Object.create({ subject: 'a' })],
    ['an object of a class', new (class { readonly subject = 'a' })()], // biome-ignore format: short
    ['claims that are too large', { subject: 'a', claims: { text: 'x'.repeat(20_000) } }],
    [
      'a claim that throws',
      {
        subject: 'a',
        get claims() {
          throw new Error('s3cret')
        },
      },
    ],
  ])('a result that is none is a fault, never an allow: %s', async (_, result) => {
    const fault = await Promise.resolve(scheme((() => result) as CustomScheme).authenticate(DIGEST)).catch(
      (thrown: unknown) => thrown,
    )
    expect(fault).toBeInstanceOf(TrustError)
    expect(fault).toMatchObject({ code: 'ERR_CUSTOM_RESULT', details: { scheme: 'legacy' } })
  })

  it('with tenants: true the function says the tenant', async () => {
    const one = scheme(() => ({ subject: 'a', tenant: 't' }), { tenants: true })
    expect(await one.authenticate(DIGEST)).toMatchObject({ part: { tenant: 't' } })
  })

  it('has the challenge of its place, with what the function adds at that moment, and none that fails', () => {
    const nonces = ['n1', 'n2']
    const check = () => null
    const one = scheme({ authenticate: check, challenge: () => ({ nonce: nonces.shift() ?? '', qop: 'auth' }) })
    expect(one.challenges[0]?.params).toEqual([
      ['nonce', 'n1'],
      ['qop', 'auth'],
    ])
    expect(one.challenges[0]).toMatchObject({ scheme: 'digest', params: [['nonce', 'n2'], expect.anything()] })
    const broken = scheme({ authenticate: check, challenge: () => { throw new Error('s3cret') } }) // biome-ignore format: short
    expect(broken.challenges[0]?.params).toEqual([])
    expect(scheme(check, { place: { at: 'cookie', parameter: 'sid' } }).challenges[0]).toEqual({
      scheme: 'ApiKey',
      params: [
        ['in', 'cookie'],
        ['name', 'sid'],
      ],
    })
  })
})
