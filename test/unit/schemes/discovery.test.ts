import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createDiscovery } from '../../../src/schemes/discovery.ts'
import { createJwtScheme } from '../../../src/schemes/jwt.ts'
import { bearer, jsonResponse, type TestContext, testContext } from '../../support/credentials.ts'
import { jwtAttackJwks } from '../../support/jwt-attacks.ts'
import { type Loopback, sendJson, startLoopback } from '../../support/loopback.ts'
import { jwtConfig, NOW, sign } from '../../support/tokens.ts'

const ISSUER = 'https://idp.test'
const URL_ = `${ISSUER}/.well-known/openid-configuration`
const good = { issuer: ISSUER, jwks_uri: `${ISSUER}/keys` }

function jwksUriFrom(context: TestContext, issuer: string) {
  const discovery = createDiscovery({ issuer, url: URL_ }, context)
  return () => discovery('jwks_uri')
}

function discover(document: unknown, issuer = ISSUER) {
  const context = testContext(0, () => jsonResponse(document))
  return { context, jwksUri: jwksUriFrom(context, issuer) }
}

describe('discovery', () => {
  it('gives the jwks_uri and asks again after an hour', async () => {
    const { context, jwksUri } = discover(good)
    expect(await jwksUri()).toBe(good.jwks_uri)
    expect(await jwksUri()).toBe(good.jwks_uri)
    expect(context.requests).toEqual([URL_])
    context.now += 3_600_000
    await jwksUri()
    expect(context.requests).toHaveLength(2)
  })

  it.each([`${ISSUER}/`, 'https://IDP.test', `${ISSUER}:443`, 'https://evil.test', undefined, [ISSUER]])(
    'P57 P59 a document of issuer %j is not that of the configured one',
    async (issuer) => {
      await expect(discover({ ...good, issuer }).jwksUri()).rejects.toMatchObject({ code: 'ERR_DISCOVERY_INVALID' })
    },
  )

  it.each([
    'http://169.254.169.254/',
    'http://idp.test/keys',
    'file:///etc/passwd',
    'data:application/json,{"keys":[]}',
    '/keys',
    'https://user:pw@idp.test/keys',
    'https://idp.test/keys#a',
    '',
    7,
    undefined,
  ])('P53 jwks_uri %j is never fetched', async (uri) => {
    const { context, jwksUri } = discover({ ...good, jwks_uri: uri })
    await expect(jwksUri()).rejects.toMatchObject({ code: 'ERR_DISCOVERY_INVALID' })
    expect(context.requests).toEqual([URL_])
  })

  it('an outage keeps the last answer for a day; a wrong document ends it at once', async () => {
    let answer = (): Response => jsonResponse(good)
    const context = testContext(0, () => answer())
    const jwksUri = jwksUriFrom(context, ISSUER)
    await jwksUri()
    answer = () => new Response('down', { status: 503 })
    context.now = 23 * 3_600_000
    expect(await jwksUri()).toBe(good.jwks_uri)
    context.now = 25 * 3_600_000
    await expect(jwksUri()).rejects.toMatchObject({ code: 'ERR_FETCH_FAILED' })
    answer = () => jsonResponse(good)
    await jwksUri()
    answer = () => jsonResponse({ ...good, issuer: 'https://evil.test' })
    context.now += 2 * 3_600_000
    await expect(jwksUri()).rejects.toMatchObject({ code: 'ERR_DISCOVERY_INVALID' })
  })

  it('an outage after an hour is asked about once a minute, and by one caller', async () => {
    let answer = (): Response => jsonResponse(good)
    const context = testContext(0, () => answer())
    const jwksUri = jwksUriFrom(context, ISSUER)
    await Promise.all([jwksUri(), jwksUri(), jwksUri()])
    expect(context.requests).toHaveLength(1)
    answer = () => new Response('down', { status: 503 })
    context.now = 3_600_000
    await Promise.all([jwksUri(), jwksUri()])
    await jwksUri()
    expect(context.requests).toHaveLength(2)
    context.now += 60_000
    await jwksUri()
    expect(context.requests).toHaveLength(3)
  })

  it('a document that lacks an endpoint is asked for again, so that mending it helps at once', async () => {
    let document: object = { issuer: ISSUER }
    const context = testContext(0, () => jsonResponse(document))
    const jwksUri = jwksUriFrom(context, ISSUER)
    await expect(jwksUri()).rejects.toMatchObject({ code: 'ERR_DISCOVERY_INVALID' })
    document = good
    expect(await jwksUri()).toBe(good.jwks_uri)
  })
})

describe('a scheme that discovers its keys', () => {
  let server: Loopback
  beforeAll(async () => {
    server = await startLoopback(() => undefined)
  })
  afterAll(() => server.close())
  beforeEach(() => {
    server.requests.length = 0
    server.handle = (request, response) =>
      request.url === '/keys'
        ? sendJson(response, jwtAttackJwks)
        : sendJson(response, { issuer: server.origin, jwks_uri: `${server.origin}/keys` })
  })

  it('asks for document and keys once, over a real connection', async () => {
    const keys = { from: 'discovery', url: `${server.origin}/.well-known/openid-configuration` } as const
    const context = { ...testContext(NOW * 1000), fetch: globalThis.fetch }
    const scheme = createJwtScheme(jwtConfig({ issuers: [{ issuer: server.origin, keys }] }), context)
    const token = await sign({ iss: server.origin })
    const outcomes = await Promise.all([1, 2, 3].map(() => scheme.authenticate(bearer(token))))
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(['satisfied', 'satisfied', 'satisfied'])
    expect(server.requests).toEqual(['/.well-known/openid-configuration', '/keys'])
  })

  it('A54 a missing or foreign document stops the start and makes requests unavailable, not invalid', async () => {
    const context = { ...testContext(NOW * 1000), fetch: globalThis.fetch }
    const keys = { from: 'discovery', url: `${server.origin}/.well-known/openid-configuration` } as const
    for (const handle of [
      (_: unknown, response: Parameters<Loopback['handle']>[1]) => sendJson(response, {}, 404),
      (_: unknown, response: Parameters<Loopback['handle']>[1]) => sendJson(response, { issuer: 'https://evil.test' }),
    ]) {
      server.handle = handle
      const scheme = createJwtScheme(jwtConfig({ issuers: [{ issuer: server.origin, keys }] }), context)
      await expect(scheme.warm?.()).rejects.toMatchObject({ code: 'ERR_JWKS_UNAVAILABLE' })
      const outcome = await scheme.authenticate(bearer(await sign({ iss: server.origin })))
      expect(outcome).toMatchObject({ kind: 'unavailable', code: 'ERR_JWKS_UNAVAILABLE' })
    }
  })
})
