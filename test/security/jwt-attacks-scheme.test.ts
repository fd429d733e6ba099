import { createScheme } from '../../src/schemes/index.ts'
import { bearer, jsonResponse, testContext } from '../support/credentials.ts'
import { describeJwtAttacks, jwtAttackJwks, jwtSchemeConfigOf } from '../support/jwt-attacks.ts'

describeJwtAttacks('a scheme with keys from a file', async ({ token, config }) => {
  const context = testContext(config.now * 1000)
  const scheme = createScheme(jwtSchemeConfigOf(config, { from: 'file', jwks: jwtAttackJwks }), context)
  const outcome = await scheme.authenticate(bearer(token))
  return { verdict: outcome.kind === 'satisfied' ? 'valid' : 'invalid', fetches: context.requests.length }
})

describeJwtAttacks('a scheme with keys from a URL, asked twice', async ({ token, config }) => {
  const context = testContext(config.now * 1000, () => jsonResponse(jwtAttackJwks))
  const keys = { from: 'url', url: 'https://issuer.example/jwks.json' } as const
  const scheme = createScheme(jwtSchemeConfigOf(config, keys), context)
  await scheme.warm?.()
  const warmed = context.requests.length
  const first = await scheme.authenticate(bearer(token))
  const again = scheme.authenticate(bearer(token))
  if (again instanceof Promise) throw new Error('a repeated token must be answered synchronously')
  if (again.kind !== first.kind) throw new Error('the cache changed the answer')
  return { verdict: first.kind === 'satisfied' ? 'valid' : 'invalid', fetches: context.requests.length - warmed }
})
