import { randomUUID } from 'node:crypto'
import { exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createEgress } from '../../../src/egress/index.ts'
import { createJwksCache, type JwksCache } from '../../../src/internal/jwks-cache.ts'
import { type Loopback, sendJson, startLoopback } from '../../support/loopback.ts'

type Jwk = Record<string, unknown>

async function publicJwk(kid: string, alg = 'ES256'): Promise<Jwk> {
  const { publicKey } = await generateKeyPair(alg, { extractable: true })
  return { ...(await exportJWK(publicKey)), kid }
}

let server: Loopback
let a: Jwk
let b: Jwk
let published: unknown
let now: number
const seconds = (count: number): void => {
  now += count * 1000
}

beforeAll(async () => {
  server = await startLoopback(() => undefined)
  ;[a, b] = await Promise.all([publicJwk('a'), publicJwk('b')])
})
afterAll(() => server.close())
beforeEach(() => {
  now = 1_800_000_000_000
  published = { keys: [a] }
  server.requests.length = 0
  server.handle = (_request, response) => sendJson(response, published)
})

function remote(fetch: typeof globalThis.fetch = globalThis.fetch): JwksCache {
  return createJwksCache({ source: { url: `${server.origin}/jwks.json` }, fetch, clock: () => now })
}

const down: Loopback['handle'] = (_request, response) => void response.writeHead(500).end('down')

/** What a refresh in the background leads to, awaited by asking for a kid that waits for the same flight. */
async function settled(cache: JwksCache): Promise<void> {
  await cache.warm().catch(() => undefined)
}

describe('a JWK Set from a URL', () => {
  it('is fetched once for all who ask at the same time, and then answers synchronously', async () => {
    const cache = remote()
    const found = await Promise.all(Array.from({ length: 50 }, () => cache.find('a', 'ES256')))
    expect(new Set(found.map((result) => result.kind))).toEqual(new Set(['found']))
    expect(server.requests).toHaveLength(1)
    expect(cache.find('a', 'ES256')).toMatchObject({ kind: 'found' })
  })

  it('P48 is fetched at most once for 1000 random kids in one second, all of them unknown', async () => {
    const cache = remote()
    await cache.warm()
    seconds(31)
    server.requests.length = 0
    const results = await Promise.all(
      Array.from({ length: 1000 }, () => {
        now += 1
        return cache.find(randomUUID(), 'ES256')
      }),
    )
    expect(new Set(results.map((result) => result.kind))).toEqual(new Set(['unknown']))
    expect(server.requests.length).toBeLessThanOrEqual(1)
  })

  it('finds a key that was added, after the cooldown and not before', async () => {
    const cache = remote()
    await cache.warm()
    published = { keys: [a, b] }
    seconds(29)
    expect(cache.find('b', 'ES256')).toMatchObject({ kind: 'unknown' })
    seconds(1)
    expect(await cache.find('b', 'ES256')).toMatchObject({ kind: 'found' })
    expect(server.requests).toHaveLength(2)
  })

  it('looks for the same missing kid no more than once a minute', async () => {
    const cache = remote()
    await cache.warm()
    seconds(31)
    expect(await cache.find('ghost', 'ES256')).toMatchObject({ kind: 'unknown' })
    seconds(31)
    expect(cache.find('ghost', 'ES256')).toMatchObject({ kind: 'unknown' })
    expect(server.requests).toHaveLength(2)
    seconds(30)
    await cache.find('ghost', 'ES256')
    expect(server.requests).toHaveLength(3)
  })

  it('does not fetch for a known kid with an algorithm the key cannot do, nor for a missing kid', async () => {
    const cache = remote()
    await cache.warm()
    seconds(60)
    expect(cache.find('a', 'RS256')).toMatchObject({ kind: 'unknown' })
    expect(cache.find(undefined, 'RS256')).toMatchObject({ kind: 'unknown' })
    expect(cache.find(undefined, 'ES256')).toMatchObject({ kind: 'found' })
    expect(server.requests).toHaveLength(1)
  })

  it('forgets a removed key after ten minutes at most', async () => {
    const cache = remote()
    await cache.warm()
    published = { keys: [b] }
    seconds(601)
    expect(await cache.find('a', 'ES256')).toMatchObject({ kind: 'unknown' })
    expect(await cache.find('b', 'ES256')).toMatchObject({ kind: 'found' })
  })

  it('is refreshed in the background before that, while it goes on answering', async () => {
    const cache = remote()
    await cache.warm()
    published = { keys: [b] }
    seconds(301)
    expect(cache.find('a', 'ES256')).toMatchObject({ kind: 'found' })
    await settled(cache)
    expect(server.requests).toHaveLength(2)
    expect(cache.find('a', 'ES256')).toMatchObject({ kind: 'unknown' })
  })

  it('keeps the object of a key that is published unchanged, and replaces that of one that is not', async () => {
    const cache = remote()
    await cache.warm()
    const before = cache.find('a', 'ES256')
    await cache.warm()
    const after = cache.find('a', 'ES256')
    expect('key' in before && 'key' in after && before.key === after.key).toBe(true)
    published = { keys: [{ ...b, kid: 'a' }] }
    await cache.warm()
    const replaced = cache.find('a', 'ES256')
    expect('key' in before && 'key' in replaced && before.key === replaced.key).toBe(false)
  })

  it('P51 goes on answering for an hour while the issuer is down, and no longer', async () => {
    const cache = remote()
    await cache.warm()
    server.handle = down
    seconds(3500)
    expect(await cache.find('a', 'ES256')).toMatchObject({ kind: 'found' })
    expect(cache.health()).toMatchObject({ ok: true, detail: expect.stringContaining('status 500') })
    // A key nobody knows yet: with the issuer down that is not an answer.
    expect(await cache.find('b', 'ES256')).toMatchObject({ kind: 'unavailable', code: 'ERR_JWKS_UNAVAILABLE' })
    seconds(101)
    expect(await cache.find('a', 'ES256')).toMatchObject({ kind: 'unavailable', retryAfterSeconds: 5 })
    expect(cache.health().ok).toBe(false)
    server.handle = (_request, response) => sendJson(response, published)
    seconds(5)
    expect(await cache.find('a', 'ES256')).toMatchObject({ kind: 'found' })
    expect(cache.health()).toEqual({ ok: true })
  })

  it('P51 nobody waits for an issuer that has failed already while the last set still counts', async () => {
    let answer = (): Promise<Response> => Promise.resolve(Response.json(published))
    const asked: number[] = []
    const cache = remote(() => {
      asked.push(now)
      return answer()
    })
    await cache.warm()
    answer = () => Promise.reject(new Error('down'))
    seconds(601)
    expect(await cache.find('a', 'ES256')).toMatchObject({ kind: 'found' })
    answer = () => new Promise(() => undefined)
    seconds(6)
    for (let request = 0; request < 10; request++) {
      expect(cache.find('a', 'ES256')).toMatchObject({ kind: 'found' })
    }
    expect(asked).toHaveLength(3)
  })

  it('asks a failing issuer no more than once in five seconds', async () => {
    server.handle = down
    const cache = remote()
    for (let second = 0; second < 20; second++) {
      expect((await cache.find('a', 'ES256')).kind).toBe('unavailable')
      seconds(1)
    }
    expect(server.requests).toHaveLength(4)
  })

  it('P50 an older answer that arrives late does not overwrite a newer one', async () => {
    const answers: ((response: Response) => void)[] = []
    const cache = remote(() => new Promise((resolve) => answers.push(resolve)))
    const early = cache.find('a', 'ES256')
    seconds(16) // the first flight is given up
    const late = cache.find('b', 'ES256')
    expect(answers).toHaveLength(2)
    answers[1]?.(Response.json({ keys: [b] }))
    expect(await late).toMatchObject({ kind: 'found' })
    answers[0]?.(Response.json({ keys: [a] }))
    expect(await early).toMatchObject({ kind: 'unknown' })
    expect(cache.find('b', 'ES256')).toMatchObject({ kind: 'found' })
  })

  it('a clock that is set back makes the set old, not fresh for longer', async () => {
    const cache = remote()
    await cache.warm()
    published = { keys: [b] }
    seconds(-86_400)
    expect(await cache.find('a', 'ES256')).toMatchObject({ kind: 'unknown' })
  })

  it('an empty set is an answer: every key is gone, and a guard does not start on it', async () => {
    const cache = remote()
    await cache.warm()
    published = { keys: [] }
    seconds(601)
    expect(await cache.find('a', 'ES256')).toMatchObject({ kind: 'unknown' })
    await expect(remote().warm()).rejects.toMatchObject({ code: 'ERR_JWKS_INVALID' })
  })

  const unusable: readonly [string, Loopback['handle']][] = [
    ['404', (_request, response) => void response.writeHead(404).end('{"keys":[]}')],
    ['HTML', (_request, response) => void response.end('<html>login</html>')],
    ['a redirect', (_request, response) => void response.writeHead(302, { location: '/other' }).end()],
    ['a duplicate member', (_request, response) => void response.end('{"keys":[],"keys":[]}')],
    ['no keys member', (_request, response) => sendJson(response, { key: [] })],
    ['keys that are no array', (_request, response) => sendJson(response, { keys: { 0: a } })],
    ['101 keys', (_request, response) => sendJson(response, { keys: Array.from({ length: 101 }, () => a) })],
    ['more than 256 KiB', (_request, response) => sendJson(response, { keys: [a], pad: 'x'.repeat(300_000) })],
    ['a closed connection', (request) => void request.socket.destroy()],
  ]
  for (const [what, handle] of unusable) {
    it(`${what} is a failed fetch: unavailable, never an empty set`, async () => {
      server.handle = handle
      const cache = remote()
      expect(await cache.find('a', 'ES256')).toMatchObject({ kind: 'unavailable', code: 'ERR_JWKS_UNAVAILABLE' })
      seconds(6)
      await expect(cache.warm()).rejects.toMatchObject({ code: 'ERR_JWKS_UNAVAILABLE' })
      expect(server.requests.includes('/other')).toBe(false)
    })
  }
})

describe('why a set cannot be had', () => {
  it('names the rule of egress that refused it, whatever fetches', async () => {
    const egress = createEgress({ requireHttps: false, ports: [Number(new URL(server.origin).port)] })
    const wrapped: typeof fetch = async (...asked) => {
      try {
        return await egress.fetch(...asked)
      } catch (cause) {
        throw new TypeError('fetch failed', { cause })
      }
    }
    for (const fetch of [egress.fetch, wrapped]) {
      const cache = remote(fetch)
      await expect(cache.warm()).rejects.toMatchObject({
        details: { reason: expect.stringContaining('reason ERR_EGRESS_ADDRESS') as string },
      })
      expect(await cache.find('a', 'ES256')).toMatchObject({
        kind: 'unavailable',
        detail: expect.stringContaining('ERR_EGRESS_ADDRESS') as string,
      })
    }
    await egress.close()
  })

  it.each([
    ['ERR_JSON_SYNTAX', 'nonsense'],
    ['ERR_JSON_DUPLICATE_NAME', '{"keys":[],"keys":[]}'],
    ['ERR_EGRESS_RESPONSE_SIZE', ' '.repeat(300_000)],
  ])('names %s of the document', async (code, document) => {
    server.handle = (_request, response) => void response.end(document)
    await expect(remote().warm()).rejects.toMatchObject({
      details: { reason: expect.stringContaining(`reason ${code}`) as string },
    })
  })
})

describe('the keys of a set', () => {
  const lookUp = (keys: unknown[], kid: string, alg: string) =>
    createJwksCache({ source: { jwks: { keys: [...keys, b] } }, fetch: globalThis.fetch, clock: () => now }).find(
      kid,
      alg,
    )

  it('one bad key does not spoil the others, and the reason is told', () => {
    const cache = createJwksCache({
      source: { jwks: { keys: [null, 7, { kty: 'oct', kid: 's', k: 'AAAA' }, { ...a, d: 'AAAA' }, b] } },
      fetch: globalThis.fetch,
      clock: () => now,
    })
    expect(cache.refused().map((entry) => entry.reason)).toEqual([
      'not an object',
      'not an object',
      'symmetric key',
      'private key material',
    ])
    expect(cache.find('a', 'ES256')).toMatchObject({ kind: 'unknown', detail: 'private key material' })
    expect(cache.find('b', 'ES256')).toMatchObject({ kind: 'found' })
  })

  it.each([
    ['use enc', { use: 'enc' }, 'use is not sig'],
    ['key_ops sign', { key_ops: ['sign'] }, 'key_ops does not hold verify'],
    ['key_ops that is no array', { key_ops: 'verify' }, 'key_ops does not hold verify'],
    ['an alg of another key type', { alg: 'RS256' }, 'alg does not fit the key, or is not supported'],
    ['an alg of another curve', { alg: 'ES384' }, 'alg does not fit the key, or is not supported'],
    ['a symmetric alg', { alg: 'HS256' }, 'alg does not fit the key, or is not supported'],
    ['a curve that does not fit the coordinates', { crv: 'P-384' }, 'malformed key'],
    ['an unsupported curve', { crv: 'secp256k1' }, 'unsupported kty or crv'],
    ['a coordinate with padding', { x: 'AAAA==' }, 'malformed key'],
    ['a number for a coordinate', { x: 5 }, 'malformed key'],
  ])('a key with %s is not used', (_what, change, reason) => {
    expect(lookUp([{ ...a, ...change }], 'a', 'ES256')).toMatchObject({ kind: 'unknown', detail: reason })
  })

  it.each(['P-384', 'P-521'])(
    'P61 an off-curve %s point is left out with a reason, never an exception',
    async (crv) => {
      const alg = crv === 'P-384' ? 'ES384' : 'ES512'
      const jwk = await publicJwk('bad', alg)
      const bytes = Buffer.from(jwk.y as string, 'base64url')
      bytes[bytes.length - 1]! ^= 1
      expect(lookUp([{ ...jwk, y: bytes.toString('base64url') }], 'bad', alg)).toMatchObject({
        kind: 'unknown',
        detail: 'malformed key',
      })
    },
  )

  it('two different keys under one kid are both left out; the same key twice is one key', () => {
    expect(lookUp([a, { ...b, kid: 'a' }], 'a', 'ES256')).toMatchObject({ detail: 'kid is used by two different keys' })
    expect(lookUp([a, { ...a }], 'a', 'ES256')).toMatchObject({ kind: 'found' })
  })

  it('one kid may name two keys of different types (RFC 7517 §4.5)', async () => {
    const rsa = await publicJwk('a', 'RS256')
    expect(lookUp([a, rsa], 'a', 'ES256')).toMatchObject({ kind: 'found' })
    expect(lookUp([a, rsa], 'a', 'PS256')).toMatchObject({ kind: 'found' })
  })

  it('a set without a usable key is refused at once', () => {
    for (const jwks of [{ keys: [] }, { keys: [{ kty: 'oct', k: 'AAAA' }] }, [], null, 'x', { keys: 'x' }]) {
      const make = () => createJwksCache({ source: { jwks }, fetch: globalThis.fetch, clock: () => now })
      expect(make).toThrow(expect.objectContaining({ code: 'ERR_JWKS_INVALID' }))
    }
  })

  it('kids that are names of Object.prototype find nothing', () => {
    for (const kid of ['__proto__', 'constructor', 'toString']) {
      expect(lookUp([a], kid, 'ES256')).toMatchObject({ kind: 'unknown' })
      expect(lookUp([a], 'a', kid)).toMatchObject({ kind: 'unknown' })
    }
  })
})
