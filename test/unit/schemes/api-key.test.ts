import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { generateApiKey } from '../../../src/internal/api-key-format.ts'
import type { ApiKeyRecord, ApiKeySchemeConfig } from '../../../src/policy/compiled.ts'
import { createApiKeyScheme } from '../../../src/schemes/api-key.ts'
import type { CredentialSource } from '../../../src/schemes/scheme.ts'
import { credentials, testContext } from '../../support/credentials.ts'

const NOW = 1_800_000_000
const sha256 = (key: string): string => createHash('sha256').update(key).digest('hex')

const alice: ApiKeyRecord = {
  id: 'k1',
  sha256: sha256('alice-key'),
  owner: 'alice',
  scopes: ['read'],
  tenant: 'acme',
  notBefore: NOW - 10,
  expiresAt: NOW + 10,
}
const bob: ApiKeyRecord = { id: 'k2', sha256: sha256('bob-key'), owner: 'bob', scopes: [] }

function scheme(change: Partial<ApiKeySchemeConfig> = {}, now = NOW) {
  const config: ApiKeySchemeConfig = {
    type: 'apiKey',
    name: 'partner-key',
    location: 'header',
    parameter: 'x-api-key',
    keys: [alice, bob],
    ...change,
  }
  return createApiKeyScheme(config, testContext(now * 1000))
}
const header = (...values: string[]): CredentialSource => credentials(values.flatMap((value) => ['X-API-Key', value]))

describe('an API key', () => {
  it('says who the caller is', () => {
    expect(scheme().authenticate(header('alice-key'))).toEqual({
      kind: 'satisfied',
      part: {
        scheme: 'partner-key',
        kind: 'apiKey',
        issuer: 'partner-key',
        subject: 'alice',
        tenant: 'acme',
        scopes: new Set(['read']),
        claims: { keyId: 'k1' },
        expiresAt: NOW + 10,
        credential: { keyId: 'k1' },
      },
    })
  })

  it('P109 an empty or blank one is a missing one', () => {
    for (const value of ['', ' ', '\t']) expect(scheme().authenticate(header(value))).toEqual({ kind: 'absent' })
    expect(scheme().authenticate(credentials([]))).toEqual({ kind: 'absent' })
    // Not even where somebody configured the digest of nothing.
    const blank = scheme({ keys: [{ ...bob, sha256: sha256('') }] })
    expect(blank.authenticate(header(''))).toEqual({ kind: 'absent' })
  })

  it('P112 any other text is unknown, a near miss as well', () => {
    for (const value of ['alice-ke', 'alice-keyy', 'Alice-key', 'é', 'x'.repeat(1025)]) {
      expect(scheme().authenticate(header(value))).toMatchObject({ kind: 'invalid', code: 'ERR_API_KEY_UNKNOWN' })
    }
    expect(scheme().authenticate(header(alice.sha256))).toMatchObject({ kind: 'invalid', code: 'ERR_API_KEY_UNKNOWN' })
  })

  it('P112 of two digests that start alike each finds its own', () => {
    const twin = `${alice.sha256.slice(0, 8)}${'0'.repeat(56)}`
    const both = scheme({ keys: [{ ...bob, sha256: twin }, alice] })
    expect(both.authenticate(header('alice-key'))).toMatchObject({ part: { subject: 'alice' } })
  })

  it('P65 a folded line and joined lines are no key but a broken transport', () => {
    for (const value of ['alice-key ', 'a b', 'alice-key, bob-key', 'alice-key\r\n bob-key', 'alice\tkey']) {
      expect(scheme().authenticate(header(value)), value).toMatchObject({
        kind: 'malformed',
        code: 'ERR_CREDENTIAL_MALFORMED',
      })
    }
  })

  it('P115 a key of one scheme is unknown to another', () => {
    const other = scheme({ name: 'other', keys: [bob] })
    expect(other.authenticate(header('alice-key'))).toMatchObject({ kind: 'invalid', code: 'ERR_API_KEY_UNKNOWN' })
    const same = scheme({ name: 'other', keys: [alice] }).authenticate(header('alice-key'))
    expect(same).toMatchObject({ part: { scheme: 'other', issuer: 'other' } })
  })

  it('counts from notBefore until, and not at, expiresAt', () => {
    const at = (now: number) => scheme({}, now).authenticate(header('alice-key'))
    expect(at(NOW - 11)).toMatchObject({ kind: 'invalid', code: 'ERR_API_KEY_NOT_YET_VALID', detail: 'key k1' })
    expect(at(NOW - 10)).toMatchObject({ kind: 'satisfied' })
    expect(at(NOW + 9)).toMatchObject({ kind: 'satisfied' })
    expect(at(NOW + 10)).toMatchObject({ kind: 'invalid', code: 'ERR_API_KEY_EXPIRED', detail: 'key k1' })
  })

  it('never repeats what was presented', () => {
    const outcome = scheme().authenticate(header('sekrit-value'))
    expect(JSON.stringify(outcome)).not.toContain('sekrit')
  })

  it('a revoked one is refused, and the event says which it was', () => {
    const revoked = scheme({ keys: [{ ...bob, revoked: true }, alice] })
    expect(revoked.authenticate(header('bob-key'))).toEqual({
      kind: 'invalid',
      code: 'ERR_CREDENTIAL_REVOKED',
      detail: 'key k2',
    })
    expect(revoked.authenticate(header('alice-key'))).toMatchObject({ kind: 'satisfied' })
  })

  it('records that would be ambiguous or useless are refused at construction', () => {
    const make = (...keys: ApiKeyRecord[]) => scheme({ keys })
    expect(() => make(alice, { ...bob, sha256: alice.sha256 })).toThrow(TypeError)
    expect(() => make(alice, { ...bob, id: alice.id })).toThrow(TypeError)
    expect(() => make({ ...alice, sha256: 'alice-key' })).toThrow(TypeError)
    expect(() => make({ ...alice, sha256: alice.sha256.toUpperCase() })).toThrow(TypeError)
    expect(() => make({ ...alice, owner: '' })).toThrow(TypeError)
  })
})

describe('a generated key', () => {
  const key = generateApiKey('partner-1')
  const entry: ApiKeyRecord = { id: 'partner-1', sha256: sha256(key), owner: 'partner', scopes: [] }
  const known = scheme({ keys: [alice, entry, { ...bob, sha256: sha256(generateApiKey('k2')) }] })

  it('is looked up by its id; several of one owner are good at a time', () => {
    const second = generateApiKey('partner-2')
    const both = scheme({ keys: [entry, { ...entry, id: 'partner-2', sha256: sha256(second) }, bob] })
    for (const [presented, keyId] of [
      [key, 'partner-1'],
      [second, 'partner-2'],
    ] as const)
      expect(both.authenticate(header(presented))).toMatchObject({
        part: { subject: 'partner', credential: { keyId } },
      })
    expect(both.authenticate(header('bob-key')), 'one of any other form').toMatchObject({ part: { subject: 'bob' } })
  })

  it('A30 another secret under a known id, and an unknown id, are unknown; only the operator learns which', () => {
    const code = 'ERR_API_KEY_UNKNOWN'
    const detail = 'names key partner-1, and is another'
    expect(known.authenticate(header(generateApiKey('partner-1')))).toEqual({ kind: 'invalid', code, detail })
    expect(known.authenticate(header(generateApiKey('nobody')))).toEqual({ kind: 'invalid', code })
    // An entry under another id than the key's is not found: the id in the key is the id in the file.
    const renamed = scheme({ keys: [{ ...entry, id: 'other' }] })
    expect(renamed.authenticate(header(key))).toEqual({ kind: 'invalid', code })
  })

  it('a wrong checksum is told before anything is looked up', () => {
    const typo = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
    expect(known.authenticate(header(typo))).toEqual({ kind: 'invalid', code: 'ERR_API_KEY_CHECKSUM' })
  })

  it('claims its id without proof, and a key of another form claims none', () => {
    expect(known.claimedId?.(header(generateApiKey('nobody')))).toBe('nobody')
    for (const source of [header('alice-key'), header(), header(key, key), header('a2a_x_y_z')])
      expect(known.claimedId?.(source)).toBeUndefined()
  })
})

describe('where an API key is looked for', () => {
  const query = scheme({ location: 'query', parameter: 'key' })
  const cookie = scheme({ location: 'cookie', parameter: 'sid' })
  const malformed = { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED' }

  it('P65 twice is malformed, even with the same value', () => {
    expect(scheme().authenticate(header('alice-key', 'alice-key'))).toMatchObject(malformed)
    expect(query.authenticate(credentials([], 'key=alice-key&key=alice-key'))).toMatchObject(malformed)
    expect(query.authenticate(credentials([], 'key=alice-key&%6bey=bob-key'))).toMatchObject(malformed)
    expect(query.authenticate(credentials([], 'key&key=alice-key'))).toMatchObject(malformed)
    expect(cookie.authenticate(credentials(['Cookie', 'sid=alice-key; sid=bob-key']))).toMatchObject(malformed)
    expect(cookie.authenticate(credentials(['Cookie', 'sid=alice-key', 'Cookie', 'sid=bob-key']))).toMatchObject(
      malformed,
    )
  })

  it('A33 the same name at two places is malformed, even with the same value', () => {
    for (const source of [
      credentials(['X-API-Key', 'alice-key'], 'x-api-key=alice-key'),
      credentials(['X-API-Key', 'alice-key'], 'X-Api-Key=other'),
      credentials(['X-API-Key', 'alice-key', 'Cookie', 'X-API-KEY=alice-key']),
    ])
      expect(scheme().authenticate(source)).toMatchObject(malformed)
    expect(query.authenticate(credentials(['Key', 'alice-key'], 'key=alice-key'))).toMatchObject(malformed)
    expect(cookie.authenticate(credentials(['Cookie', 'sid=alice-key'], 'sid=alice-key'))).toMatchObject(malformed)
    expect(scheme().authenticate(credentials(['X-API-Key', 'alice-key'], 'x-api-key=&a=1'))).toMatchObject({
      kind: 'satisfied',
    })
  })

  it('query: percent-decoded once, by exact name', () => {
    const ask = (text: string) => query.authenticate(credentials([], text))
    expect(ask('a=1&key=alice-key&b')).toMatchObject({ part: { subject: 'alice' } })
    expect(ask('key=alice%2Dkey')).toMatchObject({ part: { subject: 'alice' } })
    expect(ask('key=alice%252Dkey')).toMatchObject({ kind: 'invalid' })
    for (const text of ['', 'a=1', 'Key=alice-key', 'key[]=alice-key', 'key=', 'key']) {
      expect(ask(text), text).toEqual({ kind: 'absent' })
    }
    for (const text of ['key=%zz', 'key=%ff', 'key=a+b']) expect(ask(text), text).toMatchObject(malformed)
    expect(ask('%zz=1&key=alice-key')).toMatchObject({ kind: 'satisfied' })
  })

  it('cookie: by exact name, over several lines as HTTP/2 splits them', () => {
    const ask = (...lines: string[]) => cookie.authenticate(credentials(lines.flatMap((line) => ['Cookie', line])))
    expect(ask('theme=dark; sid=alice-key')).toMatchObject({ part: { subject: 'alice' } })
    expect(ask('theme=dark', 'sid=alice-key')).toMatchObject({ part: { subject: 'alice' } })
    for (const line of ['', 'sid', 'sid=', 'SID=alice-key', 'xsid=alice-key', '$sid=alice-key']) {
      expect(ask(line), line).toEqual({ kind: 'absent' })
    }
    expect(ask('sid="alice-key"')).toMatchObject({ kind: 'invalid' })
  })

  it('P70 a tampered cookie is refused like any other wrong key, without an exception', () => {
    for (const value of ['s:alice-key.bad', 'alice-key%', '%E0%A4%A', '"alice-key', 'alice\u0000-key']) {
      expect(cookie.authenticate(credentials(['Cookie', `sid=${value}`])), value).toMatchObject({
        kind: 'invalid',
        code: 'ERR_API_KEY_UNKNOWN',
      })
    }
  })

  it('P64 a name is compared as text, never as a pattern', () => {
    const odd = scheme({ location: 'query', parameter: 'A.B+' })
    expect(odd.authenticate(credentials([], 'AxBB=alice-key'))).toEqual({ kind: 'absent' })
    expect(odd.authenticate(credentials([], 'A.B%2B=alice-key'))).toMatchObject({ kind: 'satisfied' })
  })

  it('P74 two schemes made of one frozen configuration do not disturb each other', () => {
    const config = Object.freeze({
      type: 'apiKey',
      name: 'k',
      location: 'header',
      parameter: 'x-api-key',
      keys: Object.freeze([Object.freeze({ ...alice })]),
    } as const)
    const one = createApiKeyScheme(config, testContext(NOW * 1000))
    const two = createApiKeyScheme(config, testContext((NOW + 10) * 1000))
    expect(one.authenticate(header('alice-key'))).toMatchObject({ kind: 'satisfied' })
    expect(two.authenticate(header('alice-key'))).toMatchObject({ code: 'ERR_API_KEY_EXPIRED' })
    expect(one.authenticate(header('alice-key'))).toMatchObject({ kind: 'satisfied' })
  })

  it('one place only: a key elsewhere is not read', () => {
    expect(scheme().authenticate(credentials(['Cookie', 'x-api-key=alice-key'], 'x-api-key=alice-key'))).toEqual({
      kind: 'absent',
    })
    expect(query.authenticate(credentials(['key', 'alice-key']))).toEqual({ kind: 'absent' })
  })

  it('is named for the guard and for the caller', () => {
    expect(query.location).toBe('query:key')
    expect(scheme().location).toBe('header:x-api-key')
    expect(cookie.challenges[0]).toEqual({
      scheme: 'ApiKey',
      params: [
        ['in', 'cookie'],
        ['name', 'sid'],
      ],
    })
  })
})
