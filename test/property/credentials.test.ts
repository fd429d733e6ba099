import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createApiKeyScheme } from '../../src/schemes/api-key.ts'
import { createJwtScheme } from '../../src/schemes/jwt.ts'
import type { Outcome } from '../../src/schemes/scheme.ts'
import { bearer, credentials, testContext } from '../support/credentials.ts'
import { fileKeys, ISSUER, jwtConfig, NOW, sign } from '../support/tokens.ts'

const context = testContext(NOW * 1000)
const limit = { interruptAfterTimeLimit: 4000, numRuns: 2000 }
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom(...'Bearer .,=\t') }),
)

describe('whatever arrives', () => {
  it('an Authorization header never throws and never lets anybody in', async () => {
    const scheme = createJwtScheme(jwtConfig(), context)
    const line = fc.oneof(
      text,
      text.map((rest) => `Bearer ${rest}`),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 3 }), async (lines) => {
        const outcome = await scheme.authenticate(credentials(lines.flatMap((value) => ['authorization', value])))
        expect(outcome.kind).not.toBe('satisfied')
      }),
      limit,
    )
  })

  it('any one change to a good token makes it a bad one', async () => {
    const token = await sign({}, { alg: 'RS256' }, 'rsa-1')
    const scheme = createJwtScheme(jwtConfig({ issuers: [{ issuer: ISSUER, keys: fileKeys('rsa-1') }] }), context)
    expect((await scheme.authenticate(bearer(token))).kind).toBe('satisfied')
    const alphabet = fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=')
    await fc.assert(
      fc.asyncProperty(fc.nat(token.length), alphabet, fc.constantFrom(0, 1), async (at, char, removed) => {
        const changed = token.slice(0, at) + char + token.slice(at + removed)
        fc.pre(changed !== token)
        expect((await scheme.authenticate(bearer(changed))).kind).not.toBe('satisfied')
      }),
      limit,
    )
  })

  it('claims of any shape, well signed, never throw', async () => {
    const scheme = createJwtScheme(jwtConfig({ typ: 'any', rfc9068: false, tenantClaim: 'org' }), context)
    const name = fc.constantFrom(
      'sub',
      'aud',
      'exp',
      'nbf',
      'iat',
      'act',
      'cnf',
      'scope',
      'scp',
      'org',
      'client_id',
      'jti',
    )
    await fc.assert(
      fc.asyncProperty(name, fc.jsonValue(), async (claim, value) => {
        const outcome = await scheme.authenticate(bearer(await sign({ [claim]: value })))
        expect(['satisfied', 'invalid']).toContain(outcome.kind)
        if (claim === 'cnf') expect(outcome.kind).toBe('invalid')
      }),
      { ...limit, numRuns: 500 },
    )
  })

  it('an API key is taken only when it is exactly the key', () => {
    const sha256 = createHash('sha256').update('the-one-key').digest('hex')
    const keys = [{ id: 'k', sha256, owner: 'o', scopes: [] }]
    const at = (location: 'header' | 'query' | 'cookie') =>
      createApiKeyScheme({ type: 'apiKey', name: 'k', location, parameter: 'key', keys }, context)
    const [header, query, cookie] = [at('header'), at('query'), at('cookie')]
    const never = (outcome: Outcome | Promise<Outcome>) => expect(outcome).not.toMatchObject({ kind: 'satisfied' })
    fc.assert(
      fc.property(text, (value) => {
        fc.pre(!value.includes('the-one-key'))
        never(header.authenticate(credentials(['key', value])))
        never(query.authenticate(credentials([], `key=${value}`)))
        never(cookie.authenticate(credentials(['cookie', `key=${value}`])))
      }),
      limit,
    )
    fc.assert(
      fc.property(text, (other) => {
        fc.pre(!/key|[&;]/.test(decodeLoosely(other)))
        expect(query.authenticate(credentials([], `${other}&key=the-one-key`))).toMatchObject({ kind: 'satisfied' })
      }),
      limit,
    )
  })
})

function decodeLoosely(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
