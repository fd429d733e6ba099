import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { JwtSchemeConfig } from '../../../src/policy/compiled.ts'
import { createScheme } from '../../../src/schemes/index.ts'
import { createJwtScheme } from '../../../src/schemes/jwt.ts'
import { bearer, credentials, jsonResponse, testContext } from '../../support/credentials.ts'
import { jwtAttackJwks, privateJwk } from '../../support/jwt-attacks.ts'
import { AUDIENCE, fileKeys, ISSUER, jwtConfig, NOW, sign } from '../../support/tokens.ts'

async function judge(token: string, change: Partial<JwtSchemeConfig> = {}) {
  const context = testContext(NOW * 1000)
  const outcome = await createJwtScheme(jwtConfig(change), context).authenticate(bearer(token))
  expect(context.requests).toEqual([])
  return outcome
}
const refused = (code: string) => expect.objectContaining({ kind: 'invalid', code })
const satisfied = expect.objectContaining({ kind: 'satisfied' })

describe('a good token', () => {
  it('says who the caller is, frozen', async () => {
    const act = { sub: 'proxy', iss: 'https://other.test', act: { sub: 'first' } }
    const outcome = await judge(await sign({ act, org: 'acme', deep: { list: [1] } }), { tenantClaim: 'org' })
    expect(outcome).toMatchObject({
      kind: 'satisfied',
      part: {
        scheme: 'login',
        kind: 'oauth2',
        issuer: ISSUER,
        subject: 'alice',
        clientId: 'app',
        tenant: 'acme',
        actor: { subject: 'proxy', issuer: 'https://other.test', actor: { subject: 'first' } },
        scopes: new Set(['read', 'write']),
        expiresAt: NOW + 600,
      },
    })
    if (outcome.kind !== 'satisfied') return
    const { claims } = outcome.part
    expect(Object.isFrozen(claims) && Object.isFrozen((claims.deep as { list: unknown }).list)).toBe(true)
  })

  it.each([
    ['RS256', 'rsa-1'],
    ['ES256', 'ec-1'],
    ['EdDSA', 'ed-1'],
  ])('of %s is accepted with and without a kid that names the key', async (alg, kid) => {
    expect(await judge(await sign({}, { alg }, kid))).toEqual(satisfied)
    const keyless = await sign({}, { alg, kid: undefined }, kid)
    expect(await judge(keyless, { issuers: [{ issuer: ISSUER, keys: fileKeys(kid) }] })).toEqual(satisfied)
  })

  it('Ed25519 and EdDSA are one key under two names, and each must be configured', async () => {
    const token = await sign({}, { alg: 'Ed25519' }, 'ed-1')
    expect(await judge(token)).toEqual(refused('ERR_TOKEN_ALGORITHM'))
    expect(await judge(token, { algorithms: ['Ed25519'] })).toEqual(satisfied)
  })
})

describe('the token is read from Authorization only', () => {
  it('P68 a token in query, body or another header is not looked at', async () => {
    const token = await sign()
    const scheme = createJwtScheme(jwtConfig(), testContext(NOW * 1000))
    const elsewhere = credentials(
      ['X-Access-Token', token, 'Cookie', `access_token=${token}`, 'Proxy-Authorization', `Bearer ${token}`],
      `access_token=${token}`,
    )
    expect(scheme.authenticate(elsewhere)).toEqual({ kind: 'absent' })
  })

  it('is named for the guard and for the caller', () => {
    const scheme = createScheme(jwtConfig(), testContext(0))
    expect(scheme.location).toBe('header:authorization')
    expect(scheme.challenges[0]).toEqual({ scheme: 'Bearer', params: [] })
  })
})

describe('issuers', () => {
  const other = 'https://other.test'
  const sameKid = (kid: string) => ({
    from: 'file' as const,
    jwks: { keys: [{ ...jwtAttackJwks.keys.find((key) => key.kid === kid), kid: '1', alg: undefined }] },
  })

  it('P56 the issuer is chosen by iss and then the key, never by kid alone', async () => {
    const issuers = [
      { issuer: ISSUER, keys: sameKid('ec-1') },
      { issuer: other, keys: sameKid('ec-enc') },
    ]
    // ec-enc is marked for encryption; as key 1 of the other issuer it is an ordinary signing key.
    issuers[1]!.keys.jwks.keys[0] = { ...issuers[1]!.keys.jwks.keys[0]!, use: 'sig' } as never
    const mine = await sign({}, { kid: '1' }, 'ec-1')
    const theirs = await sign({ iss: other }, { kid: '1' }, 'ec-enc')
    const forged = await sign({ iss: other }, { kid: '1' }, 'ec-1')
    expect(await judge(mine, { issuers })).toMatchObject({ part: { issuer: ISSUER } })
    expect(await judge(theirs, { issuers })).toMatchObject({ part: { issuer: other } })
    expect(await judge(forged, { issuers })).toEqual(refused('ERR_TOKEN_SIGNATURE'))
  })

  it('P33 the same subject of two issuers is two callers', async () => {
    const issuers = [
      { issuer: ISSUER, keys: fileKeys('ec-1') },
      { issuer: other, keys: fileKeys('rsa-1') },
    ]
    const one = await judge(await sign(), { issuers })
    const two = await judge(await sign({ iss: other }, { alg: 'RS256' }, 'rsa-1'), { issuers })
    expect([one, two]).toMatchObject([{ part: { issuer: ISSUER } }, { part: { issuer: other } }])
  })

  it.each([
    `${ISSUER}/`,
    'https://idp',
    'idp',
    '',
    'HTTPS://idp.test',
    [ISSUER],
    ['https://evil.test', ISSUER],
    undefined,
  ])('P22 P23 P24 P57 iss %j is not the configured issuer', async (iss) => {
    expect(await judge(await sign({ iss: iss as string }))).toEqual(refused('ERR_TOKEN_ISSUER'))
  })

  it('P57 a configured trailing slash is as significant', async () => {
    const issuers = [{ issuer: `${ISSUER}/`, keys: fileKeys() }]
    expect(await judge(await sign(), { issuers })).toEqual(refused('ERR_TOKEN_ISSUER'))
    expect(await judge(await sign({ iss: `${ISSUER}/` }), { issuers })).toEqual(satisfied)
  })

  it('an unknown issuer causes no request', async () => {
    const context = testContext(NOW * 1000)
    const issuers = [{ issuer: ISSUER, keys: { from: 'url', url: 'https://idp.test/jwks' } as const }]
    const scheme = createJwtScheme(jwtConfig({ issuers }), context)
    expect(scheme.authenticate(bearer(await sign({ iss: 'https://evil.test' })))).toEqual(refused('ERR_TOKEN_ISSUER'))
    expect(context.requests).toEqual([])
  })
})

describe('audience', () => {
  it.each([AUDIENCE, [AUDIENCE], ['https://x.test', AUDIENCE]])('P45 %j holds it', async (aud) => {
    expect(await judge(await sign({ aud }))).toEqual(satisfied)
  })

  it.each([undefined, null, '', [], [null], [[AUDIENCE]], { 0: AUDIENCE }, 7, [AUDIENCE, 7]])(
    'P44 P45 %j is no audience',
    async (aud) => {
      expect(await judge(await sign({ aud }))).toEqual(refused('ERR_TOKEN_CLAIMS'))
    },
  )

  it.each(['https://sibling.test', ['evil'], `${AUDIENCE} x`, `${AUDIENCE}/`, AUDIENCE.toUpperCase()])(
    'P41 P46 P100 %j is another audience',
    async (aud) => {
      expect(await judge(await sign({ aud }))).toEqual(refused('ERR_TOKEN_AUDIENCE'))
    },
  )
})

describe('time', () => {
  it('P35 the tolerance holds for exp, nbf and iat alike', async () => {
    const within = { clockToleranceSeconds: 5 }
    expect(await judge(await sign({ nbf: NOW + 3 }), within)).toEqual(satisfied)
    expect(await judge(await sign({ nbf: NOW + 10 }), within)).toEqual(refused('ERR_TOKEN_NOT_YET_VALID'))
    expect(await judge(await sign({ iat: NOW + 3 }), within)).toEqual(satisfied)
    expect(await judge(await sign({ iat: NOW + 10 }), within)).toEqual(refused('ERR_TOKEN_NOT_YET_VALID'))
    expect(await judge(await sign({ exp: NOW - 3 }), within)).toEqual(satisfied)
    expect(await judge(await sign({ exp: NOW - 5 }), within)).toEqual(refused('ERR_TOKEN_EXPIRED'))
  })

  it('an age limit needs iat', async () => {
    const limit = { maxTokenAgeSeconds: 120, rfc9068: false, typ: 'any' } as const
    expect(await judge(await sign(), limit)).toEqual(satisfied)
    expect(await judge(await sign({ iat: NOW - 151 }), limit)).toEqual(refused('ERR_TOKEN_LIFETIME'))
    expect(await judge(await sign({ iat: undefined }), limit)).toEqual(refused('ERR_TOKEN_CLAIMS'))
  })

  it.each(['1800000600', null, true, -1, 1e15])('exp %j is no date', async (exp) => {
    expect(await judge(await sign({ exp }))).toEqual(refused('ERR_TOKEN_CLAIMS'))
  })
})

describe('type and claims of an access token', () => {
  it.each(['at+jwt', 'AT+JWT', 'application/at+jwt', 'Application/AT+JWT'])('P40 typ %s is one', async (typ) => {
    expect(await judge(await sign({}, { typ }))).toEqual(satisfied)
  })

  it.each([undefined, 'JWT', 'at+jwt;x', 'application/application/at+jwt', 'id_token+jwt', 'at', ''])(
    'P40 typ %s is none',
    async (typ) => {
      expect(await judge(await sign({}, { typ }))).toEqual(refused('ERR_TOKEN_TYPE'))
    },
  )

  it('`any` takes plain tokens and still refuses one that says it is something else', async () => {
    const any = { typ: 'any' } as const
    for (const typ of [undefined, 'JWT', 'at+jwt', 'application/jwt']) {
      expect(await judge(await sign({}, { typ }), any), typ).toEqual(satisfied)
    }
    for (const typ of ['logout+jwt', 'dpop+jwt', 'id_token+jwt', 'entity-statement+jwt', 'application/secevent+jwt']) {
      expect(await judge(await sign({}, { typ }), any), typ).toEqual(refused('ERR_TOKEN_TYPE'))
    }
  })

  it.each(['client_id', 'iat', 'jti', 'sub', 'exp', 'aud'])('RFC 9068 §2.2 %s is required', async (name) => {
    expect(await judge(await sign({ [name]: undefined }))).toEqual(refused('ERR_TOKEN_CLAIMS'))
  })

  it('a plain bearer token needs iss, sub, aud and exp only, and what it has must be well-formed', async () => {
    const plain = { rfc9068: false, typ: 'any', kind: 'http' } as const
    const bare = { client_id: undefined, iat: undefined, jti: undefined, scope: undefined }
    expect(await judge(await sign(bare), plain)).toMatchObject({ part: { subject: 'alice', scopes: new Set() } })
    for (const bad of [{ client_id: 7 }, { client_id: '' }, { jti: {} }, { sub: 'a\u0000b' }, { sub: 'a\nb' }]) {
      expect(await judge(await sign({ ...bare, ...bad }), plain)).toEqual(refused('ERR_TOKEN_CLAIMS'))
    }
  })

  it('a tenant or an actor that is malformed is refused, not dropped', async () => {
    const tenantClaim = { tenantClaim: 'org' }
    expect(await judge(await sign({ org: 7 }), tenantClaim)).toEqual(refused('ERR_TOKEN_CLAIMS'))
    const chain = (depth: number): unknown => (depth === 0 ? undefined : { sub: `a${depth}`, act: chain(depth - 1) })
    expect(await judge(await sign({ act: chain(8) }))).toEqual(satisfied)
    for (const act of ['x', null, [], {}, { sub: '' }, { sub: 'a', iss: 7 }, { sub: 'a', act: 'x' }, chain(9)]) {
      expect(await judge(await sign({ act })), JSON.stringify(act)).toEqual(refused('ERR_TOKEN_CLAIMS'))
    }
  })

  it.each([{ jkt: 'x' }, { 'x5t#S256': 'x' }, {}, null, 'x', []])(
    'a bound token (cnf %j) is never accepted as plain, whatever the setting',
    async (cnf) => {
      const token = await sign({ cnf })
      expect(await judge(token)).toEqual(refused('ERR_TOKEN_BOUND'))
      expect(await judge(token, { senderConstraint: 'off' })).toEqual(refused('ERR_TOKEN_BOUND'))
    },
  )
})

describe('scopes', () => {
  const scopesOf = async (claims: Record<string, unknown>) => {
    const outcome = await judge(await sign({ scope: undefined, ...claims }))
    return outcome.kind === 'satisfied' ? [...outcome.part.scopes] : outcome
  }

  it('P105 exact members of a string split on single spaces, or of an array', async () => {
    expect(await scopesOf({ scp: 'r w' })).toEqual(['r', 'w'])
    expect(await scopesOf({ scp: ['r', 'w'] })).toEqual(['r', 'w'])
    expect(await scopesOf({ scope: 'r w', scp: ['w', 'r'] })).toEqual(['r', 'w'])
    expect(await scopesOf({ scope: '' })).toEqual([])
    expect(await scopesOf({})).toEqual([])
    const token = await sign({ scope: 'readonly' })
    expect(await judge(token, { requiredScopes: ['read'] })).toEqual(refused('ERR_SCOPE_INSUFFICIENT'))
  })

  it('P105 anything else is refused', async () => {
    for (const scope of ['a  b', ' a', 'a\tb', 'a"b', 'a\\b', 'é', ['a b'], [''], [7], 7, null, {}]) {
      expect(await scopesOf({ scope }), JSON.stringify(scope)).toEqual(refused('ERR_TOKEN_CLAIMS'))
    }
    expect(await scopesOf({ scope: 'a', scp: ['b'] })).toEqual(refused('ERR_TOKEN_CLAIMS'))
  })

  it('a missing scope is told only of a token whose signature holds', async () => {
    const forged = (await sign({ scope: undefined })).replace(/.{20}$/, 'A'.repeat(20))
    expect(await judge(forged, { requiredScopes: ['read'] })).toEqual(refused('ERR_TOKEN_SIGNATURE'))
  })
})

describe('algorithms and keys', () => {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

  it('P01 P02 P04 P06 a MAC keyed with public material is refused before any key is looked up', async () => {
    const jwk = jwtAttackJwks.keys.find((key) => key.kid === 'rsa-1')
    const [, claims] = (await sign()).split('.')
    for (const secret of ['', JSON.stringify(jwk), `#x\n${String(jwk?.n)}`]) {
      const input = `${part({ alg: 'HS256', kid: 'rsa-1', typ: 'at+jwt' })}.${claims}`
      const token = `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
      expect(await judge(token)).toEqual(refused('ERR_TOKEN_ALGORITHM'))
    }
  })

  it('P11 a key in the header is refused, and its text never leads to one', async () => {
    const { d: _d, ...attacker } = privateJwk('attacker-ec') as Record<string, unknown>
    expect(await judge(await sign({}, { jwk: attacker }, 'ec-1'))).toEqual(refused('ERR_TOKEN_HEADER'))
  })

  it.each([[['x']], [[]], [['alg']], ['exp'], [['b64']]])('P12 crit %j is refused', async (crit) => {
    const [, claims, signature] = (await sign()).split('.')
    const header = part({ alg: 'ES256', kid: 'ec-1', typ: 'at+jwt', crit, x: 1, b64: true })
    expect(await judge(`${header}.${claims}.${signature}`)).toEqual(refused('ERR_TOKEN_HEADER'))
  })

  it('P37 a JWE is refused by its shape', async () => {
    const header = part({ alg: 'PBES2-HS256+A128KW', enc: 'A128GCM', p2c: 1e9, zip: 'DEF' })
    expect(await judge(`${header}.AA.AA.AA.AA`)).toEqual(refused('ERR_TOKEN_MALFORMED'))
  })

  it('P16 P17 P18 P21 other spellings, broken UTF-8 and claims that are no object are refused', async () => {
    const [header, claims, signature] = (await sign()).split('.') as [string, string, string]
    const last = signature.at(-1) as string
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const flipped = alphabet[alphabet.indexOf(last) ^ 1] as string
    const broken = Buffer.from('{"sub":"a\xff"}', 'latin1').toString('base64url')
    for (const token of [
      `${header}.${claims}.${signature.slice(0, -1)}${flipped}`,
      `${header}.${claims}.`,
      `.${claims}.${signature}`,
      `${header}.${broken}.${signature}`,
      `${header}.${part([])}.${signature}`,
      `${header}.${part(['x'])}.${signature}`,
    ]) {
      expect(await judge(token)).toEqual(refused('ERR_TOKEN_MALFORMED'))
    }
  })
})

describe('construction', () => {
  it.each<[string, Partial<JwtSchemeConfig>]>([
    ['P08 P10 algorithms', { algorithms: [] }],
    ['P06 algorithms', { algorithms: ['ES256', 'HS256'] }],
    ['P08 algorithms', { algorithms: ['none'] }],
    ['P41 P42 P43 audience', { audience: [] }],
    ['P19 audience', { audience: [''] }],
    ['P26 audience', { audience: [/^a/g as never] }],
    ['issuers', { issuers: [] }],
    ['P19 issuers', { issuers: [{ issuer: ' ', keys: fileKeys() }] }],
    ['P56 issuers', { issuers: [1, 2].map(() => ({ issuer: ISSUER, keys: fileKeys() })) }],
    ['P20 clockToleranceSeconds', { clockToleranceSeconds: Number.POSITIVE_INFINITY }],
    ['P20 clockToleranceSeconds', { clockToleranceSeconds: Number.NaN }],
    ['P20 clockToleranceSeconds', { clockToleranceSeconds: '60s' as never }],
    ['P20 clockToleranceSeconds', { clockToleranceSeconds: 301 }],
    ['maxTokenBytes', { maxTokenBytes: Number.POSITIVE_INFINITY }],
    ['maxTokenAgeSeconds', { maxTokenAgeSeconds: Number.NaN }],
    ['typ', { typ: 'JWT' as never }],
    ['senderConstraint', { senderConstraint: 'none' as never }],
    ['senderConstraint', { senderConstraint: undefined as never }],
  ])('%s that would weaken a check is a TypeError that names it', (title, change) => {
    const option = title.split(' ').at(-1) as string
    const make = () => createJwtScheme(jwtConfig(change), testContext(0))
    expect(make).toThrow(TypeError)
    expect(make).toThrow(`'${option}'`)
  })

  it('a scheme this version cannot check is never made', () => {
    const make = () => createScheme({ type: 'unavailable', name: 'mesh', why: 'no mTLS yet' }, testContext(0))
    expect(make).toThrow(expect.objectContaining({ code: 'ERR_POLICY_UNSUPPORTED' }))
  })
})

describe('a repeated token', () => {
  const issuers = [{ issuer: ISSUER, keys: { from: 'url', url: 'https://idp.test/jwks' } as const }]

  it('is answered synchronously and the same, and judged anew by time', async () => {
    const context = testContext(NOW * 1000)
    const scheme = createJwtScheme(jwtConfig(), context)
    const token = bearer(await sign())
    const first = await scheme.authenticate(token)
    expect(first).toEqual(satisfied)
    expect(scheme.authenticate(token)).toBe(first)
    context.now += 631_000
    expect(scheme.authenticate(token)).toEqual(refused('ERR_TOKEN_EXPIRED'))
    context.now -= 730_000
    expect(scheme.authenticate(token)).toEqual(refused('ERR_TOKEN_NOT_YET_VALID'))
    context.now += 99_000
    expect(scheme.authenticate(token)).toBe(first)
  })

  it('P28 counts for the audience and scopes of the scheme that is asked', async () => {
    const token = bearer(await sign())
    const context = testContext(NOW * 1000)
    const wide = createJwtScheme(jwtConfig(), context)
    const other = createJwtScheme(jwtConfig({ audience: ['https://b.test'] }), context)
    const strict = createJwtScheme(jwtConfig({ requiredScopes: ['admin'] }), context)
    for (let round = 0; round < 2; round++) {
      expect(await wide.authenticate(token)).toEqual(satisfied)
      expect(await other.authenticate(token)).toEqual(refused('ERR_TOKEN_AUDIENCE'))
      expect(await strict.authenticate(token)).toEqual(refused('ERR_SCOPE_INSUFFICIENT'))
    }
  })

  it('P29 P30 is known by its whole text', async () => {
    const scheme = createJwtScheme(jwtConfig(), testContext(NOW * 1000))
    const alice = await sign()
    const bob = await sign({ sub: 'bob' })
    expect(alice.slice(0, 100)).toBe(bob.slice(0, 100))
    expect(await scheme.authenticate(bearer(alice))).toMatchObject({ part: { subject: 'alice' } })
    expect(await scheme.authenticate(bearer(bob))).toMatchObject({ part: { subject: 'bob' } })
    const mixed = `${alice.slice(0, alice.lastIndexOf('.'))}${bob.slice(bob.lastIndexOf('.'))}`
    for (let round = 0; round < 2; round++) {
      expect(await scheme.authenticate(bearer(mixed))).toEqual(refused('ERR_TOKEN_SIGNATURE'))
    }
  })

  it('ends with its key: removed, or replaced under the same kid', async () => {
    let keys: unknown[] = jwtAttackJwks.keys.filter((key) => key.kid === 'ec-1')
    const replacement = { ...jwtAttackJwks.keys.find((key) => key.kid === 'ec-enc'), kid: 'ec-1', use: 'sig' }
    for (const next of [[], [replacement]]) {
      const context = testContext(NOW * 1000, () => jsonResponse({ keys }))
      const scheme = createJwtScheme(jwtConfig({ issuers }), context)
      const token = bearer(await sign({ exp: NOW + 3600 }))
      expect(await scheme.authenticate(token)).toEqual(satisfied)
      expect(scheme.authenticate(token)).toEqual(satisfied)
      const before = keys
      keys = next
      context.now += 601_000
      expect((await scheme.authenticate(token)).kind).toBe('invalid')
      expect((await scheme.authenticate(token)).kind).toBe('invalid')
      keys = before
    }
  })

  it('outlives a refresh that changes nothing', async () => {
    const context = testContext(NOW * 1000, () => jsonResponse(jwtAttackJwks))
    const scheme = createJwtScheme(jwtConfig({ issuers }), context)
    const token = bearer(await sign({ exp: NOW + 3600 }))
    const first = await scheme.authenticate(token)
    await scheme.warm?.()
    expect(scheme.authenticate(token)).toBe(first)
  })

  it('P54 ten thousand checks leave configuration and answer alone', async () => {
    const config = jwtConfig()
    const before = JSON.stringify(config)
    const deepFreeze = (value: object): void => {
      for (const member of Object.values(Object.freeze(value))) {
        if (typeof member === 'object' && member !== null) deepFreeze(member)
      }
    }
    deepFreeze(config)
    const scheme = createJwtScheme(config, testContext(NOW * 1000))
    const token = bearer(await sign())
    const first = await scheme.authenticate(token)
    for (let round = 0; round < 10_000; round++) expect(scheme.authenticate(token) === first).toBe(true)
    expect(JSON.stringify(config)).toBe(before)
  })
})

describe('when keys cannot be had', () => {
  it('the answer is unavailable, never a refusal and never an exception', async () => {
    const context = testContext(NOW * 1000)
    const issuers = [{ issuer: ISSUER, keys: { from: 'url', url: 'https://idp.test/jwks' } as const }]
    const scheme = createJwtScheme(jwtConfig({ issuers }), context)
    expect(await scheme.authenticate(bearer(await sign()))).toMatchObject({
      kind: 'unavailable',
      code: 'ERR_JWKS_UNAVAILABLE',
      retryAfterSeconds: 5,
    })
    await expect(scheme.warm?.()).rejects.toMatchObject({ code: 'ERR_JWKS_UNAVAILABLE' })
    expect(scheme.health?.()).toMatchObject({ ok: false, detail: expect.stringContaining(ISSUER) })
  })

  it('many who present one new token share one check, and past the limit they are told to come back', async () => {
    const scheme = createJwtScheme(jwtConfig(), testContext(NOW * 1000))
    const token = await sign()
    const shared = await Promise.all(Array.from({ length: 2000 }, () => scheme.authenticate(bearer(token))))
    expect(shared.every((outcome) => outcome.kind === 'satisfied')).toBe(true)
    const body = (await sign()).split('.').slice(0, 2).join('.')
    const different = Array.from({ length: 1100 }, (_, n) => {
      const signature = Buffer.alloc(64)
      signature.writeUInt32BE(n + 1, 60)
      return scheme.authenticate(bearer(`${body}.${signature.toString('base64url')}`))
    })
    const outcomes = await Promise.all(different)
    expect(outcomes.filter((outcome) => outcome.kind === 'invalid')).toHaveLength(1024)
    expect(outcomes.filter((outcome) => outcome.kind === 'unavailable')).toHaveLength(76)
    expect(outcomes.at(-1)).toMatchObject({ code: 'ERR_OVERLOADED', retryAfterSeconds: 1 })
  })
})
