import { generateKeyPair } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createOpaqueScheme } from '../../../src/schemes/opaque.ts'
import type { Outcome } from '../../../src/schemes/scheme.ts'
import { bearer, credentials, testContext } from '../../support/credentials.ts'
import {
  CLIENT_SECRET,
  goodAnswer,
  type IntrospectionEndpoint,
  opaqueConfig,
  opaqueRig,
  startIntrospection,
} from '../../support/introspection.ts'
import { sendJson } from '../../support/loopback.ts'
import { AUDIENCE, ISSUER, NOW, sign } from '../../support/tokens.ts'

let endpoint: IntrospectionEndpoint
beforeAll(async () => {
  endpoint = await startIntrospection()
})
afterAll(() => endpoint.close())
beforeEach(() => {
  endpoint.questions.length = 0
  says(goodAnswer())
})

function says(answer: unknown, status = 200): void {
  endpoint.answer = (_question, response) => sendJson(response, answer, status)
}
function saysText(text: string, contentType = 'application/json'): void {
  endpoint.answer = (_question, response) => void response.writeHead(200, { 'content-type': contentType }).end(text)
}
const codeOf = (outcome: Outcome): string => ('code' in outcome ? outcome.code : outcome.kind)

describe('the question', () => {
  it('is a POST with token, hint and client credentials, the latter form-encoded before base64 (RFC 6749 §2.3.1)', async () => {
    await opaqueRig(endpoint).present('tok.en/+~_-==')
    const [question] = endpoint.questions
    expect(question?.path).toBe('/introspect')
    expect(Object.fromEntries(question?.form ?? [])).toEqual({
      token: 'tok.en/+~_-==',
      token_type_hint: 'access_token',
    })
    expect(question?.headers.accept).toBe('application/json')
    const [scheme, pair] = (question?.headers.authorization ?? '').split(' ')
    const [id, secret] = Buffer.from(pair ?? '', 'base64')
      .toString()
      .split(':')
    expect([scheme, id, new URLSearchParams(`s=${secret}`).get('s')]).toEqual(['Basic', 'agent', CLIENT_SECRET])
  })

  it('post sends the credentials in the form, and none in a header', async () => {
    await opaqueRig(endpoint, { client: { auth: 'post', id: 'agent', secret: () => CLIENT_SECRET } }).present('t')
    const [question] = endpoint.questions
    expect(question?.headers.authorization).toBeUndefined()
    expect(Object.fromEntries(question?.form ?? [])).toMatchObject({ client_id: 'agent', client_secret: CLIENT_SECRET })
  })

  it('P47 the audience of a client assertion is the issuer as one text; a list only where the policy says so', async () => {
    const { privateKey } = await generateKeyPair('ES256')
    const client = { auth: 'private_key_jwt', id: 'agent', key: () => privateKey, kid: 'k1' } as const
    await opaqueRig(endpoint, { client: { ...client, audience: ISSUER } }).present('t1')
    await opaqueRig(endpoint, { client: { ...client, audience: [ISSUER, `${ISSUER}/token`] } }).present('t2')
    const assertions = endpoint.questions.map(({ form }) => form.get('client_assertion')?.split('.') ?? [])
    const [first, second] = assertions.map(([, claims]) =>
      JSON.parse(Buffer.from(claims ?? '', 'base64url').toString()),
    )
    expect(first).toMatchObject({ aud: ISSUER, iss: 'agent', sub: 'agent' })
    expect(first.exp - first.iat).toBe(60)
    expect(second.aud).toEqual([ISSUER, `${ISSUER}/token`])
    expect(second.jti).not.toBe(first.jti)
    expect(JSON.parse(Buffer.from(assertions[0]?.[0] ?? '', 'base64url').toString())).toEqual({
      alg: 'ES256',
      kid: 'k1',
    })
  })

  it('does not follow a redirect, which would carry token and secret along', async () => {
    endpoint.answer = (question, response) =>
      question.path === '/introspect'
        ? void response.writeHead(307, { location: `${endpoint.origin}/elsewhere` }).end()
        : sendJson(response, goodAnswer())
    expect(await opaqueRig(endpoint).present('t')).toMatchObject({ kind: 'unavailable' })
    expect(endpoint.questions.map(({ path }) => path)).toEqual(['/introspect'])
  })

  it.each([
    [['Authorization', 'Bearer a', 'Authorization', 'Bearer a'], 'ERR_CREDENTIAL_MALFORMED'],
    [['Authorization', 'Bearer  a'], 'ERR_CREDENTIAL_MALFORMED'],
    [['Authorization', 'Bearer a,Bearer b'], 'ERR_CREDENTIAL_MALFORMED'],
    [['Authorization', `Bearer ${'a'.repeat(16_385)}`], 'ERR_TOKEN_TOO_LARGE'],
    [['Authorization', 'Basic YTpi'], 'absent'],
    [['X-Authorization', 'Bearer a'], 'absent'],
  ])('is not asked for %j', async (headers, code) => {
    const outcome = await opaqueRig(endpoint).scheme.authenticate(credentials(headers, 'access_token=a'))
    expect(codeOf(outcome)).toBe(code)
    expect(endpoint.questions).toEqual([])
  })
})

describe('the answer', () => {
  it('makes the principal: subject, client, scopes, expiry', async () => {
    expect(await opaqueRig(endpoint).present('t')).toMatchObject({
      kind: 'satisfied',
      part: {
        issuer: ISSUER,
        subject: 'alice',
        clientId: 'app',
        scopes: new Set(['read', 'write']),
        expiresAt: NOW + 600,
        credential: { issuedAt: NOW - 60 },
      },
    })
  })

  it('without sub it is about the client, and without iss of the issuer that was asked', async () => {
    says(goodAnswer({ sub: undefined, iss: undefined }))
    expect(await opaqueRig(endpoint).present('t')).toMatchObject({ part: { subject: 'app', issuer: ISSUER } })
  })

  it('claims cannot be changed by a handler for the next request', async () => {
    says(goodAnswer({ ext: { list: [1] } }))
    const rig = opaqueRig(endpoint)
    const outcome = (await rig.present('t')) as Extract<Outcome, { kind: 'satisfied' }>
    expect(() => (outcome.part.claims.ext as { list: number[] }).list.push(2)).toThrow(TypeError)
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['not active', { active: false }, 'ERR_TOKEN_INACTIVE'],
    ['another issuer', { iss: `${ISSUER}/` }, 'ERR_TOKEN_ISSUER'],
    ['an issuer that is no text', { iss: [ISSUER] }, 'ERR_TOKEN_ISSUER'],
    ['a null issuer', { iss: null }, 'ERR_TOKEN_ISSUER'],
    ['no audience', { aud: undefined }, 'ERR_TOKEN_CLAIMS'],
    ['another audience (P100)', { aud: 'https://other.test' }, 'ERR_TOKEN_AUDIENCE'],
    ['an audience within another', { aud: `${AUDIENCE} https://other.test` }, 'ERR_TOKEN_AUDIENCE'],
    ['an empty audience list', { aud: [] }, 'ERR_TOKEN_CLAIMS'],
    ['a nested audience', { aud: [[AUDIENCE]] }, 'ERR_TOKEN_CLAIMS'],
    ['P99 no exp: mandatory here, and the documents say so', { exp: undefined }, 'ERR_TOKEN_CLAIMS'],
    ['exp as text', { exp: String(NOW + 600) }, 'ERR_TOKEN_CLAIMS'],
    ['exp in milliseconds', { exp: (NOW + 600) * 1000 }, 'ERR_TOKEN_CLAIMS'],
    ['expired', { exp: NOW - 30 }, 'ERR_TOKEN_EXPIRED'],
    ['not yet valid', { nbf: NOW + 31 }, 'ERR_TOKEN_NOT_YET_VALID'],
    ['issued in the future', { iat: NOW + 31 }, 'ERR_TOKEN_NOT_YET_VALID'],
    ['neither sub nor client_id', { sub: undefined, client_id: undefined }, 'ERR_TOKEN_CLAIMS'],
    ['an empty sub, whatever the client', { sub: '' }, 'ERR_TOKEN_CLAIMS'],
    ['a null sub', { sub: null }, 'ERR_TOKEN_CLAIMS'],
    ['a control character in sub', { sub: 'a\u0000b' }, 'ERR_TOKEN_CLAIMS'],
    ['a client_id that is no text', { client_id: 7 }, 'ERR_TOKEN_CLAIMS'],
    ['a username that is no text', { username: { a: 1 } }, 'ERR_TOKEN_CLAIMS'],
    ['a scope with two spaces', { scope: 'read  write' }, 'ERR_TOKEN_CLAIMS'],
    ['scope and scp that disagree', { scp: ['admin'] }, 'ERR_TOKEN_CLAIMS'],
    ['an actor without sub', { act: {} }, 'ERR_TOKEN_CLAIMS'],
    ['a key binding', { cnf: { jkt: 'x' } }, 'ERR_TOKEN_BOUND'],
    ['an empty binding', { cnf: {} }, 'ERR_TOKEN_BOUND'],
    ['a null binding', { cnf: null }, 'ERR_TOKEN_BOUND'],
    ['token_type DPoP without the key', { token_type: 'DPoP' }, 'ERR_TOKEN_BOUND'],
    ['another token_type', { token_type: 'mac' }, 'ERR_TOKEN_TYPE'],
    ['a token_type that is no text', { token_type: ['Bearer'] }, 'ERR_TOKEN_TYPE'],
    ['a refresh token of Hydra', { token_use: 'refresh_token' }, 'ERR_TOKEN_TYPE'],
    ['a refresh token of Keycloak', { typ: 'Refresh' }, 'ERR_TOKEN_TYPE'],
    ['an ID token of Keycloak', { typ: 'ID' }, 'ERR_TOKEN_TYPE'],
  ])('%s is refused', async (_name, changes, code) => {
    says(goodAnswer(changes))
    const rig = opaqueRig(endpoint)
    expect(await rig.present('t')).toMatchObject({ kind: 'invalid', code })
    expect(await rig.present('t')).toMatchObject({ kind: 'invalid', code })
  })

  it('aud may be absent where the policy says so, if the answer at least says that it is an access token', async () => {
    says(goodAnswer({ aud: undefined }))
    expect(await opaqueRig(endpoint, { acceptMissingAudience: true }).present('t')).toMatchObject({ kind: 'satisfied' })
    says(goodAnswer({ aud: undefined, token_type: undefined }))
    expect(codeOf(await opaqueRig(endpoint, { acceptMissingAudience: true }).present('t'))).toBe('ERR_TOKEN_TYPE')
    says(goodAnswer({ aud: 'https://other.test' }))
    expect(codeOf(await opaqueRig(endpoint, { acceptMissingAudience: true }).present('t'))).toBe('ERR_TOKEN_AUDIENCE')
  })

  it('lacking a required scope is told to one who is known', async () => {
    const rig = opaqueRig(endpoint, { requiredScopes: ['read', 'admin'] })
    expect(await rig.present('t')).toMatchObject({ code: 'ERR_SCOPE_INSUFFICIENT', detail: 'admin' })
  })

  it.each<[string, string, string?]>([
    ['active as text', '{"active":"true","aud":"x"}'],
    ['active as number', '{"active":1}'],
    ['active null', '{"active":null}'],
    ['active missing', '{"error":"invalid_client"}'],
    ['active twice', '{"active":false,"active":true}'],
    ['active inherited', '{"__proto__":{"active":true}}'],
    ['a list', '[{"active":true}]'],
    ['nothing', ''],
    ['a page', '<html>', 'text/html'],
    ['JSON that does not say so', '{"active":true}', 'text/plain'],
    ['a JWT although JSON was asked for', 'e30.e30.', 'application/token-introspection+jwt'],
    ['two values', '{"active":true}{}'],
    ['a byte order mark', '\ufeff{"active":true}'],
    ['too deep', `{"active":true,"a":${'['.repeat(200)}${']'.repeat(200)}}`],
    ['too large', `{"active":true,"a":"${'a'.repeat(256 * 1024)}"}`],
  ])('%s says nothing of the token: 503', async (_name, text, contentType) => {
    saysText(text, contentType)
    expect(await opaqueRig(endpoint).present('t')).toMatchObject({
      kind: 'unavailable',
      code: 'ERR_INTROSPECTION_INVALID',
      retryAfterSeconds: 5,
    })
  })
})

describe('what is remembered', () => {
  it('an answer for cacheSeconds, synchronously, and never the permission', async () => {
    const rig = opaqueRig(endpoint, { requiredScopes: ['read'] })
    const first = await rig.present('t')
    expect(rig.scheme.authenticate(bearer('t'))).toBe(first)
    rig.context.now += 29_999
    expect(rig.scheme.authenticate(bearer('t'))).toBe(first)
    expect(endpoint.questions).toHaveLength(1)
    says({ active: false })
    rig.context.now += 1
    expect(codeOf(await rig.present('t'))).toBe('ERR_TOKEN_INACTIVE')
  })

  it('never beyond exp, and time is judged again', async () => {
    says(goodAnswer({ exp: NOW + 10, nbf: NOW + 20 }))
    const rig = opaqueRig(endpoint, { clockToleranceSeconds: 20 })
    expect((await rig.present('t')).kind).toBe('satisfied')
    rig.context.now += 9_999
    await rig.present('t')
    expect(endpoint.questions).toHaveLength(1)
    rig.context.now += 1
    await rig.present('t')
    expect(endpoint.questions).toHaveLength(2)
  })

  it('a clock that is set back makes an answer old, and nbf unmet', async () => {
    says(goodAnswer({ nbf: NOW }))
    const rig = opaqueRig(endpoint)
    await rig.present('t')
    rig.context.now -= 60_000
    expect(codeOf(await rig.present('t'))).toBe('ERR_TOKEN_NOT_YET_VALID')
    expect(endpoint.questions).toHaveLength(2)
  })

  it('nothing good with cacheSeconds 0', async () => {
    const rig = opaqueRig(endpoint, { cacheSeconds: 0 })
    await rig.present('t')
    await rig.present('t')
    expect(endpoint.questions).toHaveLength(2)
  })

  it('a refusal for 5 seconds', async () => {
    says({ active: false })
    const rig = opaqueRig(endpoint)
    await rig.present('t')
    rig.context.now += 4_999
    await rig.present('t')
    expect(endpoint.questions).toHaveLength(1)
    says(goodAnswer())
    rig.context.now += 1
    expect((await rig.present('t')).kind).toBe('satisfied')
  })

  it('a thousand and more guesses push no good answer out', async () => {
    const rig = opaqueRig(endpoint)
    await rig.present('good')
    says({ active: false })
    for (let batch = 0; batch < 20; batch += 1) {
      await Promise.all(Array.from({ length: 60 }, (_, index) => rig.present(`guess-${batch}-${index}`)))
    }
    expect(rig.scheme.authenticate(bearer('good'))).toMatchObject({ kind: 'satisfied' })
  })

  it('one question for all who come at once, and the token itself is kept nowhere', async () => {
    const rig = opaqueRig(endpoint)
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => rig.present('same')))
    expect(new Set(outcomes).size).toBe(1)
    expect(endpoint.questions).toHaveLength(1)
  })

  it('at most 64 questions at once', async () => {
    const waiting: (() => void)[] = []
    endpoint.answer = (_question, response) => void waiting.push(() => sendJson(response, goodAnswer()))
    const rig = opaqueRig(endpoint)
    const held = Array.from({ length: 64 }, (_, index) => rig.present(`t${index}`))
    expect(await rig.present('one-more')).toEqual({ kind: 'unavailable', code: 'ERR_OVERLOADED', retryAfterSeconds: 1 })
    await expect.poll(() => waiting.length).toBe(64)
    for (const release of waiting) release()
    expect((await Promise.all(held)).every(({ kind }) => kind === 'satisfied')).toBe(true)
  })
})

describe('an issuer that is down', () => {
  it.each([401, 403, 404, 429, 502, 503])(
    'status %i is 503 with backoff for everybody, then one tries',
    async (status) => {
      const rig = opaqueRig(endpoint)
      expect((await rig.present('known')).kind).toBe('satisfied')
      says({}, status)
      const waits: number[] = []
      for (let round = 0; round < 7; round += 1) {
        const asked = endpoint.questions.length
        expect(await rig.present(`t${round}`)).toMatchObject({
          kind: 'unavailable',
          code: 'ERR_INTROSPECTION_UNAVAILABLE',
        })
        const outcomes = await Promise.all(['a', 'b', 'c'].map((token) => rig.present(token + round)))
        for (const outcome of outcomes) expect(outcome).toMatchObject({ kind: 'unavailable' })
        expect(endpoint.questions.length - asked).toBe(1)
        const wait = (outcomes[0] as { retryAfterSeconds: number }).retryAfterSeconds
        waits.push(wait)
        rig.context.now += wait * 1000
      }
      expect(waits).toEqual([1, 2, 4, 8, 16, 30, 30])
      says(goodAnswer())
      const asked = endpoint.questions.length
      const probes = await Promise.all(['x', 'y', 'z'].map((token) => rig.present(token)))
      expect(probes.map(({ kind }) => kind)).toEqual(['satisfied', 'unavailable', 'unavailable'])
      expect(endpoint.questions.length - asked).toBe(1)
      expect((await rig.present('y')).kind).toBe('satisfied')
    },
  )

  it('what was said before counts until it is old, and no longer', async () => {
    const rig = opaqueRig(endpoint)
    await rig.present('known')
    says({}, 503)
    await rig.present('other')
    expect((await rig.present('known')).kind).toBe('satisfied')
    rig.context.now += 30_000
    expect((await rig.present('known')).kind).toBe('unavailable')
  })

  it('half an answer is none', async () => {
    const rig = opaqueRig(endpoint)
    endpoint.answer = (_question, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
      response.write('{"active":true,')
      setImmediate(() => response.socket?.destroy())
    }
    expect(await rig.present('t')).toMatchObject({ kind: 'unavailable', code: 'ERR_INTROSPECTION_UNAVAILABLE' })
    expect(rig.scheme.health?.()).toMatchObject({ ok: false })
  })

  it('one token that makes it fail shuts nobody else out', async () => {
    endpoint.answer = ({ form }, response) =>
      form.get('token') === 'poison' ? sendJson(response, {}, 500) : sendJson(response, goodAnswer())
    const rig = opaqueRig(endpoint)
    for (let n = 0; n < 5; n += 1) expect((await rig.present('poison')).kind).toBe('unavailable')
    expect((await rig.present('good')).kind).toBe('satisfied')
    expect(endpoint.questions).toHaveLength(2)
    expect(rig.scheme.health?.()).toEqual({
      ok: true,
      detail: `introspection last failed at ${new Date(NOW * 1000).toISOString()}: ERR_INTROSPECTION_INVALID, url ${endpoint.origin}/introspect, reason status 500`,
    })
  })

  it('nor do many such tokens, even those that find it down', async () => {
    const rig = opaqueRig(endpoint)
    says({}, 503)
    await rig.present('first')
    rig.context.now += 1000
    says({}, 500)
    for (let n = 0; n < 10; n += 1) await rig.present(`poison-${n}`)
    says(goodAnswer())
    expect((await rig.present('good')).kind).toBe('satisfied')
  })

  it.each([400, 413, 422])(
    'status %i is about the token: 401, and a JWT it would not speak of hides no better answer',
    async (status) => {
      says({ error: 'invalid_request' }, status)
      const rig = opaqueRig(endpoint)
      for (let n = 0; n < 5; n += 1) {
        expect(await rig.present(`t${n}`)).toEqual({
          kind: 'invalid',
          code: 'ERR_TOKEN_INACTIVE',
          detail: `status ${status}`,
        })
      }
      says(goodAnswer())
      expect((await rig.present('good')).kind).toBe('satisfied')
      says({}, status)
      await expect(rig.scheme.warm?.()).rejects.toMatchObject({ code: 'ERR_INTROSPECTION_INVALID' })
    },
  )
})

describe('the start', () => {
  const warm = (change = {}) => opaqueRig(endpoint, change).scheme.warm?.()

  it('A54 asks about a token nobody has, so that a refused client is found then', async () => {
    says({ active: false })
    await warm()
    expect(endpoint.questions[0]?.form.get('token')).toMatch(/^[\w-]{43}$/)
    says({ error: 'invalid_client' }, 401)
    await expect(warm()).rejects.toMatchObject({
      code: 'ERR_INTROSPECTION_UNAVAILABLE',
      details: { reason: 'status 401' },
    })
    says(goodAnswer())
    await expect(warm()).rejects.toMatchObject({ code: 'ERR_INTROSPECTION_INVALID' })
  })

  it('A54 an issuer whose metadata names no introspection endpoint is an error; none is guessed', async () => {
    says({ issuer: ISSUER, jwks_uri: `${ISSUER}/keys` })
    const url = `${endpoint.origin}/.well-known/openid-configuration`
    await expect(warm({ endpoint: { from: 'discovery', url } })).rejects.toMatchObject({
      code: 'ERR_DISCOVERY_INVALID',
    })
    expect(endpoint.questions.map(({ path }) => path)).toEqual(['/.well-known/openid-configuration'])
  })

  it('asks where the metadata says', async () => {
    endpoint.answer = ({ path }, response) =>
      sendJson(
        response,
        path === '/meta' ? { issuer: ISSUER, introspection_endpoint: `${endpoint.origin}/ask?x=1` } : { active: false },
      )
    await warm({ endpoint: { from: 'discovery', url: `${endpoint.origin}/meta` } })
    expect(endpoint.questions.map(({ path }) => path)).toEqual(['/meta', '/ask?x=1'])
  })

  it.each([
    ['audience', { audience: [] }],
    ['issuer', { issuer: '' }],
    ['cacheSeconds', { cacheSeconds: Number.POSITIVE_INFINITY }],
    ['clockToleranceSeconds', { clockToleranceSeconds: 301 }],
    ['maxTokenBytes', { maxTokenBytes: 0 }],
    ['senderConstraint', { senderConstraint: 'on' as never }],
  ])('%s that would weaken a check is a TypeError', (option, change) => {
    expect(() => createOpaqueScheme(opaqueConfig('http://127.0.0.1:9', change), testContext(0))).toThrow(
      new RegExp(`^'${option}' of scheme 'login'`),
    )
  })
})

describe('a token that looks like a JWT', () => {
  it('is opaque all the same', async () => {
    expect((await opaqueRig(endpoint).present(await sign())).kind).toBe('satisfied')
    expect(endpoint.questions).toHaveLength(1)
  })

  it('is not shown to this issuer where it says that it is from that of another scheme', async () => {
    const rig = opaqueRig(endpoint, { otherIssuers: new Set(['https://other.test']) })
    expect(await rig.present(await sign({ iss: 'https://other.test' }))).toMatchObject({ code: 'ERR_TOKEN_ISSUER' })
    expect(endpoint.questions).toEqual([])
    expect((await rig.present(await sign())).kind).toBe('satisfied')
    expect((await rig.present('a.b.c')).kind).toBe('satisfied')
  })
})
