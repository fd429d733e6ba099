import { writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import express from 'express'
import { describe, expect, it } from 'vitest'
import { expressGuard } from '../../src/adapters/express.ts'
import type { Guard } from '../../src/guard.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import type { Revocation } from '../../src/policy/revocation.ts'
import { createMemoryRevocationStore } from '../../src/store/revocation-memory.ts'
import type { RevocationStore } from '../../src/store/stores.ts'
import { API_KEY, ISSUER, makeRig, NOW, type Rig, type RigOptions, rigCard } from '../support/rig.ts'

/** Principals of the rig, as audit events name them. */
const ALICE = `oauth2:${encodeURIComponent(ISSUER)}:alice`
const PARTNER = 'apiKey:key:partner'

async function withRig(options: RigOptions, use: (rig: Rig) => Promise<void>): Promise<void> {
  const rig = await makeRig(options)
  try {
    await use(rig)
  } finally {
    await rig.close()
  }
}

async function ask(guard: Guard, ...credentials: string[]): Promise<string> {
  const decision = await guard.check({
    method: 'GET',
    target: '/tasks/t',
    rawHeaders: ['a2a-version', '1.0', ...credentials],
    binding: 'HTTP+JSON',
  })
  return decision.allowed ? 'allowed' : `${decision.denial.status} ${decision.code}`
}

const REVOKED = '401 ERR_CREDENTIAL_REVOKED'
const bearer = (token: string) => ['authorization', `Bearer ${token}`]

describe('guard.revoke', () => {
  it.each<[string, Revocation, string, string]>([
    ['a token', { token: { issuer: ISSUER, id: 'jti-1' } }, REVOKED, 'allowed'],
    ['a signing key', { key: { issuer: ISSUER, id: 'rig-1' } }, REVOKED, 'allowed'],
    ['an API key', { key: { issuer: 'key', id: 'partner-1' } }, 'allowed', REVOKED],
    ['a principal', { principal: ALICE }, REVOKED, 'allowed'],
    ['another principal', { principal: PARTNER }, 'allowed', REVOKED],
    ['an issuer', { issuer: ISSUER }, REVOKED, 'allowed'],
    ['what was issued before', { issuedBefore: NOW - 59 }, REVOKED, REVOKED],
    ['what was issued before, and was not', { issuedBefore: NOW - 60 }, 'allowed', REVOKED],
    ['what an issuer issued before', { issuer: ISSUER, issuedBefore: NOW }, REVOKED, 'allowed'],
    ['what a principal had before', { principal: ALICE, issuedBefore: NOW }, REVOKED, 'allowed'],
    ['a time as text', { issuer: ISSUER, issuedBefore: new Date(NOW * 1000).toISOString() }, REVOKED, 'allowed'],
    ['a token of another issuer', { token: { issuer: 'https://x.example', id: 'jti-1' } }, 'allowed', 'allowed'],
    ['a key of another scheme', { key: { issuer: 'other', id: 'partner-1' } }, 'allowed', 'allowed'],
    ['a token with the id of a key', { token: { issuer: ISSUER, id: 'rig-1' } }, 'allowed', 'allowed'],
    ['a principal with a name in common', { principal: `${ALICE}2` }, 'allowed', 'allowed'],
    ['something that has ended', { issuer: ISSUER, expiresAt: NOW }, 'allowed', 'allowed'],
  ])('%s', async (_, revocation, token, key) => {
    await withRig({}, async ({ guard, token: make }) => {
      const presented = await make()
      expect([await ask(guard, ...bearer(presented)), await ask(guard, 'x-api-key', API_KEY)]).toEqual([
        'allowed',
        'allowed',
      ])
      await guard.revoke(revocation)
      expect([await ask(guard, ...bearer(presented)), await ask(guard, 'x-api-key', API_KEY)]).toEqual([token, key])
    })
  })

  it('P118 what was issued while the door stood open is refused once the epoch is set; what comes after is not', async () => {
    await withRig({ policy: { revoked: [{ issuedBefore: NOW }] } }, async ({ guard, token }) => {
      expect(await ask(guard, ...bearer(await token({ iat: NOW - 1 })))).toBe(REVOKED)
      expect(await ask(guard, ...bearer(await token({ iat: NOW })))).toBe('allowed')
    })
  })

  it('a token that does not say when it was issued is as old as can be', async () => {
    const card = rigCard({
      securitySchemes: { plain: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
      securityRequirements: [{ schemes: { plain: { list: [] } } }],
    })
    const schemes = { plain: { issuer: ISSUER, algorithms: ['ES256'], jwks: 'file:./jwks.json' } }
    await withRig({ card, policy: { schemes } }, async ({ guard, token }) => {
      const presented = await token({ iat: undefined }, { typ: 'JWT' })
      expect(await ask(guard, ...bearer(presented))).toBe('allowed')
      await guard.revoke({ issuedBefore: 1 })
      expect(await ask(guard, ...bearer(presented))).toBe(REVOKED)
    })
  })

  it('counts as failed authentication, is challenged as an invalid token, and is told to the operator', async () => {
    await withRig({ policy: { limits: { failedAuthentication: '2/min' } } }, async ({ guard, token, events }) => {
      const presented = await token()
      await guard.revoke({ token: { issuer: ISSUER, id: 'jti-1' } })
      const { denied } = await guard.authenticate({
        method: 'GET',
        target: '/tasks/t',
        rawHeaders: bearer(presented),
      })
      expect(denied?.denial.headers['www-authenticate']).toMatch(/^Bearer .*error="invalid_token"/)
      expect(denied?.denial.body).not.toMatch(/revoked/i)
      expect(events[0]?.failures).toEqual([{ scheme: 'login', code: 'ERR_CREDENTIAL_REVOKED' }])
      expect(await ask(guard, ...bearer(presented))).toBe(REVOKED)
      expect(await ask(guard, ...bearer(presented))).toBe('429 ERR_RATE_LIMITED')
    })
  })

  it('a good second credential does not excuse a revoked one', async () => {
    await withRig({}, async ({ guard, token }) => {
      await guard.revoke({ principal: ALICE })
      expect(await ask(guard, ...bearer(await token()), 'x-api-key', API_KEY)).toBe(REVOKED)
    })
  })

  it('neither does a second scheme that reads the same token and gives its owner another id', async () => {
    const { securitySchemes } = rigCard() as { securitySchemes: { login: object } }
    const card = rigCard({
      securitySchemes: { login: securitySchemes.login, plain: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
      securityRequirements: [{ schemes: { login: { list: ['a2a:use'] } } }, { schemes: { plain: { list: [] } } }],
    })
    const login = { issuer: ISSUER, algorithms: ['ES256'], jwks: 'file:./jwks.json' }
    await withRig({ card, policy: { schemes: { login, plain: login } } }, async ({ guard, token }) => {
      const presented = await token()
      expect(await ask(guard, ...bearer(presented))).toBe('allowed')
      await guard.revoke({ principal: ALICE })
      expect(await ask(guard, ...bearer(presented))).toBe(REVOKED)
    })
  })

  it('reaches a request whose body is still on its way: the handler does not run', async () => {
    await withRig({}, async ({ guard, events }) => {
      let ran = false
      const app = express()
      app.use(expressGuard(guard), (_req, res) => {
        ran = true
        res.end()
      })
      const server = app.listen(0, '127.0.0.1')
      await new Promise((resolve) => server.once('listening', resolve))
      try {
        const body = '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}'
        const arrived = new Promise<void>((resolve) => server.once('request', () => setImmediate(resolve)))
        const status = new Promise((resolve, reject) => {
          const request = httpRequest(
            {
              port: (server.address() as AddressInfo).port,
              host: '127.0.0.1',
              method: 'POST',
              headers: { 'a2a-version': '1.0', 'x-api-key': API_KEY, 'content-length': body.length },
            },
            (response) => resolve(response.resume().statusCode),
          ).on('error', reject)
          request.write(body.slice(0, 10))
          arrived.then(() => guard.revoke({ principal: PARTNER })).then(() => request.end(body.slice(10)), reject)
        })
        expect(await status).toBe(401)
        expect(ran).toBe(false)
        expect(events.at(-1)).toMatchObject({ allowed: false, code: 'ERR_CREDENTIAL_REVOKED', operation: 'GetTask' })
      } finally {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
    })
  })

  it('lasts over a reload, also when the policy lists nothing', async () => {
    await withRig({}, async ({ guard }) => {
      await guard.revoke({ key: { issuer: 'key', id: 'partner-1' } })
      await guard.reload()
      expect(await ask(guard, 'x-api-key', API_KEY)).toBe(REVOKED)
    })
  })

  it('is explained, and asked of nothing that is anonymous', async () => {
    await withRig({}, async ({ guard }) => {
      await guard.revoke({ issuedBefore: NOW })
      const head = { method: 'GET', target: '/tasks/t', binding: 'HTTP+JSON' as const }
      const rawHeaders = ['a2a-version', '1.0', 'x-api-key', API_KEY]
      expect((await guard.explain({ ...head, rawHeaders })).code).toBe('ERR_CREDENTIAL_REVOKED')
      expect(await ask(guard)).toBe('401 ERR_CREDENTIAL_MISSING')
    })
  })

  it.each<[string, unknown, string]>([
    ['nothing', {}, '"revocation" says nothing'],
    ['an end alone', { expiresAt: NOW }, '"revocation" says nothing'],
    ['a misspelt member', { jti: 'x' }, '"revocation"'],
    ['two things', { issuer: ISSUER, principal: ALICE }, 'at most one of'],
    ['a bare jti', { token: 'jti-1' }, '"revocation.token"'],
    ['a token without its issuer', { token: { id: 'jti-1' } }, '"revocation.token.issuer"'],
    ['a bare subject', { principal: 'alice' }, '"revocation.principal"'],
    ['a short digest', { certificate: 'abcd' }, '"revocation.certificate"'],
    ['milliseconds', { issuedBefore: NOW * 1000 }, '"revocation.issuedBefore"'],
    ['no number', { issuedBefore: Number.NaN }, '"revocation.issuedBefore"'],
    ['a local time', { issuedBefore: '2026-01-01 00:00' }, '"revocation.issuedBefore"'],
    ['text', 'jti-1', '"revocation"'],
    ['nothing at all', undefined, '"revocation"'],
  ])('refuses %s', async (_, revocation, message) => {
    await withRig({}, async ({ guard }) => {
      const refusal = await guard.revoke(revocation as Revocation).catch((fault: unknown) => fault)
      expect(refusal).toBeInstanceOf(TypeError)
      expect((refusal as Error).message).toContain(message)
      expect(await ask(guard, 'x-api-key', API_KEY)).toBe('allowed')
    })
  })
})

describe('the policy’s list', () => {
  it('revokes from the start, and what it no longer lists is believed again after a reload', async () => {
    await withRig({}, async ({ folder, token }) => {
      const { createGuard } = await import('../../src/guard.ts')
      const path = join(folder, 'policy.json')
      const write = (revoked: Revocation[]) =>
        writeFileSync(
          path,
          JSON.stringify({
            version: 1,
            card: rigCard(),
            audience: 'https://agent.example',
            schemes: {
              login: { issuer: ISSUER, algorithms: ['ES256'], jwks: 'file:./jwks.json' },
              key: { keys: 'file:./keys.json' },
            },
            ...(revoked.length === 0 ? {} : { revoked }),
          }),
        )
      write([{ principal: ALICE }, { key: { issuer: 'key', id: 'partner-1' } }])
      const guard = await createGuard({ policy: path, clock: () => NOW * 1000 })
      try {
        const presented = bearer(await token())
        expect([await ask(guard, ...presented), await ask(guard, 'x-api-key', API_KEY)]).toEqual([REVOKED, REVOKED])
        write([])
        await guard.reload()
        expect([await ask(guard, ...presented), await ask(guard, 'x-api-key', API_KEY)]).toEqual(['allowed', 'allowed'])
      } finally {
        await guard.close()
      }
    })
  })

  it('warns of an entry that no credential can be meant by', async () => {
    const revoked = [{ issuer: `${ISSUER}/` }, { key: { issuer: 'keys', id: 'partner-1' } }, { issuer: 'key' }]
    await withRig({ policy: { revoked } }, async ({ guard }) => {
      const idle = guard.health().warnings.filter((warning) => warning.includes('revokes nothing'))
      expect(idle).toHaveLength(2)
    })
  })

  it('is checked like the rest of the policy', async () => {
    const refusal = await makeRig({ policy: { revoked: [{ principal: 'alice' }, {}] } }).catch(
      (fault: unknown) => fault,
    )
    expect(String(refusal)).toMatch(/must be the id of a principal/)
    expect(String(refusal)).toMatch(/says nothing/)
  })
})

describe('a store that cannot tell', () => {
  it.each<[string, RevocationStore['revokes'], string]>([
    [
      'throws',
      () => {
        throw new Error('too old')
      },
      '503 ERR_STORE_UNAVAILABLE',
    ],
    ['answers with a promise', (() => Promise.resolve(false)) as unknown as RevocationStore['revokes'], REVOKED],
    ['answers nothing', (() => undefined) as unknown as RevocationStore['revokes'], REVOKED],
  ])('%s: nobody gets in', async (_, revokes, expected) => {
    await withRig({ guard: { stores: { revocation: { add: () => {}, revokes } } } }, async ({ guard }) => {
      expect(await ask(guard, 'x-api-key', API_KEY)).toBe(expected)
      expect(await ask(guard)).toBe('401 ERR_CREDENTIAL_MISSING')
    })
  })

  it('is full: revoke rejects, so that nobody believes it done', async () => {
    const revocation = createMemoryRevocationStore({ maxEntries: 1 })
    await withRig({ guard: { stores: { revocation } } }, async ({ guard }) => {
      await guard.revoke({ principal: ALICE })
      await expect(guard.revoke({ principal: PARTNER })).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' })
    })
  })

  it('two guards with one store: what one revokes the other refuses', async () => {
    const revocation = createMemoryRevocationStore({ clock: () => NOW * 1000 })
    await withRig({ guard: { stores: { revocation } } }, (one) =>
      withRig({ guard: { stores: { revocation } } }, async (other) => {
        await one.guard.revoke({ key: { issuer: 'key', id: 'partner-1' } })
        expect(await ask(other.guard, 'x-api-key', API_KEY)).toBe(REVOKED)
      }),
    )
  })
})

it('a digest of a certificate is taken as openssl prints it', async () => {
  const { revocationEntry, revocationNames } = await import('../../src/policy/revocation.ts')
  const keyId = sha256Hex('a certificate')
  const printed = (keyId.toUpperCase().match(/../g) as string[]).join(':')
  const part = {
    scheme: 'mesh',
    kind: 'mtls' as const,
    issuer: 'spiffe://example.org',
    subject: 'spiffe://example.org/a',
    scopes: new Set<string>(),
    claims: {},
    credential: { keyId },
  }
  expect(revocationNames(part)).toContain(revocationEntry({ certificate: printed }).name)
  expect(revocationNames({ ...part, kind: 'http' })).not.toContain(revocationEntry({ certificate: keyId }).name)
})
