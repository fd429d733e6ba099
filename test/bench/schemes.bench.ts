/** What authentication costs a request. By hand: `npx vitest bench --run test/bench/schemes.bench.ts`. */
import { createHash } from 'node:crypto'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { bench, describe } from 'vitest'
import { createApiKeyScheme } from '../../src/schemes/api-key.ts'
import { createJwtScheme } from '../../src/schemes/jwt.ts'
import type { CredentialSource } from '../../src/schemes/scheme.ts'
import { bearer, credentials, testContext } from '../support/credentials.ts'
import { jwtAttackJwks } from '../support/jwt-attacks.ts'
import { AUDIENCE, ISSUER, jwtConfig, NOW, sign } from '../support/tokens.ts'

const DISTINCT = 500
const context = testContext(NOW * 1000)

describe('repeated credential', async () => {
  const keys = Array.from({ length: 1000 }, (_, n) => ({
    id: `k${n}`,
    sha256: createHash('sha256').update(`key-${n}`).digest('hex'),
    owner: `o${n}`,
    scopes: [],
  }))
  const apiKeys = createApiKeyScheme(
    { type: 'apiKey', name: 'k', location: 'header', parameter: 'x-api-key', keys },
    context,
  )
  const good = credentials(['X-Api-Key', 'key-500'])
  bench('API key, one of 1000', () => void apiKeys.authenticate(good))

  const tokens = createJwtScheme(jwtConfig(), context)
  const token = bearer(await sign())
  await tokens.authenticate(token)
  bench('token, cached', () => void tokens.authenticate(token))
})

describe('refusal', async () => {
  const scheme = createJwtScheme(jwtConfig(), context)
  const expired = bearer(await sign({ exp: NOW - 60 }))
  const unknownKid = bearer(await sign({}, { kid: 'nobody' }, 'ec-1').catch(() => sign()))
  const malformed = bearer('x'.repeat(700))
  bench('malformed', () => void scheme.authenticate(malformed))
  bench('expired', () => void scheme.authenticate(expired))
  bench('unknown kid', () => void scheme.authenticate(unknownKid))
})

for (const [alg, kid] of [
  ['RS256', 'rsa-1'],
  ['ES256', 'ec-1'],
  ['EdDSA', 'ed-1'],
] as const) {
  describe(`${alg}, never seen`, async () => {
    const texts = await Promise.all(Array.from({ length: DISTINCT }, (_, n) => sign({ jti: `j${n}` }, { alg }, kid)))
    const sources: CredentialSource[] = texts.map(bearer)
    let scheme = createJwtScheme(jwtConfig(), context)
    let next = 0
    bench('scheme', async () => {
      if (next === DISTINCT) {
        scheme = createJwtScheme(jwtConfig(), context)
        next = 0
      }
      const outcome = await scheme.authenticate(sources[next++] as CredentialSource)
      if (outcome.kind !== 'satisfied') throw new Error(outcome.kind)
    })
    const local = createLocalJWKSet(jwtAttackJwks as never)
    const options = { issuer: ISSUER, audience: AUDIENCE, typ: 'at+jwt', currentDate: new Date(NOW * 1000) }
    let turn = 0
    bench('jose jwtVerify', async () => void (await jwtVerify(texts[turn++ % DISTINCT] as string, local, options)))
  })
}
