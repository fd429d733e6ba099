import { runInNewContext } from 'node:vm'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { describe, expect, it, vi } from 'vitest'
import {
  createWebhookVerifier,
  generateWebhookSecret,
  signWebhook,
  type WebhookVerifierOptions,
} from '../../src/webhook/index.ts'
import { createWebhookJwtSigner } from '../../src/webhook/jwt.ts'

const NOW = 1_800_000_000
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const BODY = JSON.stringify({
  statusUpdate: { taskId: 't1', contextId: 'c1', status: { state: 'TASK_STATE_WORKING' } },
})

const signed = (over: Partial<Parameters<typeof signWebhook>[0]> = {}) => ({
  ...signWebhook({ secret: SECRET, id: 'msg_1', timestampSeconds: NOW, body: BODY, ...over }),
})
const verifierAt = (nowSeconds: number, options: Partial<WebhookVerifierOptions> = {}) =>
  createWebhookVerifier({ secrets: SECRET, clock: () => nowSeconds * 1000, ...options })
const reasonOf = async (headers: unknown, body: unknown = BODY, options: Partial<WebhookVerifierOptions> = {}) => {
  const result = await verifierAt(NOW, options).verify({ headers, body } as never)
  return result.ok ? 'ok' : result.reason
}

describe('what a webhook tells', () => {
  it.each([
    ['statusUpdate', '1.0', { statusUpdate: { taskId: 't1', contextId: 'c1' } }, { taskId: 't1', contextId: 'c1' }],
    ['artifactUpdate', '1.0', { artifactUpdate: { taskId: 't1', artifact: {} } }, { taskId: 't1' }],
    ['task', '1.0', { task: { id: 't1', contextId: '' } }, { taskId: 't1' }],
    ['message', '1.0', { message: { messageId: 'm', taskId: '' } }, {}],
    ['task', '0.3', { kind: 'task', id: 't1', contextId: 'c1', status: {} }, { taskId: 't1', contextId: 'c1' }],
    ['statusUpdate', '0.3', { kind: 'status-update', taskId: 't1', final: true }, { taskId: 't1' }],
    ['artifactUpdate', '0.3', { kind: 'artifact-update', taskId: 't1' }, { taskId: 't1' }],
    ['message', '0.3', { kind: 'message', messageId: 'm' }, {}],
  ])('A82 %s of version %s', async (kind, version, value, ids) => {
    const body = JSON.stringify(value)
    const result = await verifierAt(NOW).verify({ headers: signed({ body }), body })
    expect(result).toMatchObject({ ok: true, id: 'msg_1', timestampSeconds: NOW, event: { kind, version, ...ids } })
  })

  it.each([
    ['two members', '{"task":{"id":"t"},"message":{"messageId":"m"}}'],
    ['an unknown member beside', '{"task":{"id":"t"},"extra":1}'],
    ['an unknown member', '{"progress":{"taskId":"t"}}'],
    ['a member twice', '{"task":{"id":"a"},"task":{"id":"b"}}'],
    ['a task without an id', '{"task":{"id":""}}'],
    ['a task id that is no string', '{"task":{"id":["t"]}}'],
    ['a member that is null', '{"task":null}'],
    ['a member of the prototype', '{"kind":"constructor","id":"t"}'],
    ['a list', '[{"task":{"id":"t"}}]'],
    ['an empty body (P183)', ''],
    ['text', 'not json'],
    ['a v0.3 task whose id is missing', '{"kind":"task"}'],
  ])('A82 %s is no event, well signed as it is', async (_what, body) => {
    expect(await reasonOf(signed({ body }), body)).toBe('ERR_WEBHOOK_EVENT')
  })

  it('P183 an empty body that is well signed holds where the body is not looked at', async () => {
    expect(await reasonOf(signed({ body: '' }), '', { payload: 'any' })).toBe('ok')
  })
})

describe('headers', () => {
  it.each([
    ['rawHeaders', (headers: Record<string, string>) => Object.entries(headers).flat()],
    ['Headers', (headers: Record<string, string>) => new Headers(headers)],
    [
      'an object in any case',
      (headers: Record<string, string>) =>
        Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value])),
    ],
  ])('as %s', async (_what, shape) => {
    expect(await reasonOf(shape(signed()))).toBe('ok')
  })

  it.each([
    ['no headers', undefined],
    ['null', null],
    ['a number for a value', { ...signed(), 'webhook-id': 1 }],
    ['an object for a value', { ...signed(), 'webhook-signature': {} }],
    ['a list of numbers', { ...signed(), 'webhook-signature': [1] }],
    ['a list with a hole', [undefined, 'x']],
    ['a name without a value', ['webhook-id']],
    ['every header missing', {}],
    ['an id twice', { ...signed(), 'webhook-id': ['msg_1', 'msg_1'] }],
    ['two spellings of one name', { ...signed(), 'Webhook-Id': 'msg_1' }],
    ['a timestamp twice', ['webhook-timestamp', String(NOW), ...Object.entries(signed()).flat()]],
    ['an id of 257 characters', { ...signed(), 'webhook-id': 'x'.repeat(257) }],
  ])('P175 P176 %s is refused and nothing is thrown', async (_what, headers) => {
    expect(await reasonOf(headers)).toBe('ERR_WEBHOOK_HEADER')
  })

  it.each([
    ['empty', ''],
    ['one MB', `v1,${'A'.repeat(1_000_000)}`],
    ['the version and a comma', 'v1,'],
    ['one character', 'v1,K'],
    ['a NUL', 'v1,\0'],
    ['17 entries, the last of them good', `${'v1,AAAA '.repeat(16)}${signed()['webhook-signature']}`],
  ])('P175 P176 a signature header that is %s is refused', async (_what, value) => {
    expect(await reasonOf({ ...signed(), 'webhook-signature': value })).toBe('ERR_WEBHOOK_SIGNATURE')
  })

  it.each([
    ['bad bad good', (good: string) => `v1,${'A'.repeat(43)}= v1,zz ${good}`],
    ['good first', (good: string) => `${good} v1,zz`],
    ['trailing spaces', (good: string) => `${good}   `],
    ['an unknown version first', (good: string) => `v9,x ${good}`],
  ])('P177 every signature counts, wherever it stands: %s', async (_what, list) => {
    expect(await reasonOf({ ...signed(), 'webhook-signature': list(signed()['webhook-signature']) })).toBe('ok')
  })
})

describe('time', () => {
  it.each([
    ['now', 0, 'ok'],
    ['300 s ago', -300, 'ok'],
    ['301 s ago', -301, 'ERR_WEBHOOK_TIMESTAMP'],
    ['in 300 s', 300, 'ok'],
    ['in 301 s', 301, 'ERR_WEBHOOK_TIMESTAMP'],
    ['in an hour (P178)', 3600, 'ERR_WEBHOOK_TIMESTAMP'],
  ])('P178 both sides count: %s', async (_what, offset, expected) => {
    expect(await reasonOf(signed({ timestampSeconds: NOW + offset }))).toBe(expected)
  })

  it('P180 milliseconds are refused by name', async () => {
    const headers = { ...signed(), 'webhook-timestamp': String(NOW * 1000) }
    const result = await verifierAt(NOW).verify({ headers, body: BODY })
    expect(result).toMatchObject({
      ok: false,
      reason: 'ERR_WEBHOOK_TIMESTAMP',
      detail: expect.stringContaining('milliseconds'),
    })
    expect(() => signed({ timestampSeconds: NOW * 1000 })).toThrow(/milliseconds/)
  })

  it('P181 the timestamp is signed: an old body under a new one, or under none', async () => {
    const old = signed({ timestampSeconds: NOW - 900 })
    expect(await reasonOf({ ...old, 'webhook-timestamp': String(NOW) })).toBe('ERR_WEBHOOK_SIGNATURE')
    const { 'webhook-timestamp': _gone, ...without } = signed()
    expect(await reasonOf(without)).toBe('ERR_WEBHOOK_HEADER')
  })

  it('P179 a webhook from the end of the window cannot be sent again while its timestamp still holds', async () => {
    let now = NOW
    const verifier = createWebhookVerifier({ secrets: SECRET, clock: () => now * 1000, rememberSeconds: 600 })
    const request = { headers: signed({ timestampSeconds: NOW + 299 }), body: BODY }
    expect(await verifier.verify(request)).toMatchObject({ ok: true })
    for (const later of [1, 300, 598, 599]) {
      now = NOW + later
      expect(await verifier.verify(request)).toMatchObject({ ok: false, reason: 'ERR_WEBHOOK_DUPLICATE', status: 200 })
    }
    expect(() => createWebhookVerifier({ secrets: SECRET, rememberSeconds: 599 })).toThrow(/"rememberSeconds"/)
  })

  it('a retry under a new timestamp is the same delivery', async () => {
    const verifier = verifierAt(NOW)
    expect(await verifier.verify({ headers: signed(), body: BODY })).toMatchObject({ ok: true })
    const again = await verifier.verify({ headers: signed({ timestampSeconds: NOW + 60 }), body: BODY })
    expect(again).toMatchObject({ ok: false, reason: 'ERR_WEBHOOK_DUPLICATE' })
  })

  it('P188 a delivery that waited in a queue is checked as of its arrival', async () => {
    const request = { headers: signed(), body: BODY }
    const verifier = verifierAt(NOW + 86_400)
    expect(await verifier.verify(request)).toMatchObject({ reason: 'ERR_WEBHOOK_TIMESTAMP' })
    expect(await verifier.verifyAt(request, NOW + 1)).toMatchObject({ ok: true })
    await expect(verifier.verifyAt(request, NOW * 1000)).rejects.toThrow(/"arrivedAtSeconds"/)
  })
})

describe('what must belong together', () => {
  it.each([
    ['a parsed body', { task: { id: 't1' } }],
    ['a list', []],
    ['nothing', undefined],
    ['null', null],
  ])('P172 %s is refused with advice, whatever the signature', async (_what, body) => {
    const result = await verifierAt(NOW).verify({ headers: signed(), body } as never)
    expect(result).toMatchObject({ ok: false, reason: 'ERR_WEBHOOK_BODY', status: 500 })
    expect(result).toMatchObject({ detail: expect.stringContaining('before any body parser') })
  })

  it('P187 a webhook of one task does not count for another', async () => {
    expect(await reasonOf(signed(), BODY, { expectTask: 't1' })).toBe('ok')
    expect(await reasonOf(signed(), BODY, { expectTask: ['t2', 't3'] })).toBe('ERR_WEBHOOK_TASK')
    expect(await reasonOf(signed(), BODY, { expectTask: async (id) => id === 't1' })).toBe('ok')
    expect(await reasonOf(signed(), BODY, { expectTask: (() => 'yes') as never })).toBe('ERR_WEBHOOK_TASK')
    const body = '{"message":{"messageId":"m"}}'
    expect(await reasonOf(signed({ body }), body, { expectTask: 't1' })).toBe('ERR_WEBHOOK_TASK')
  })

  it('A85 the registered token and authorization are compared, once each', async () => {
    const options = { expectToken: 'tok', expectAuthorization: 'Bearer abc' }
    const good = { ...signed(), 'x-a2a-notification-token': 'tok', authorization: 'Bearer abc' }
    expect(await reasonOf(good, BODY, options)).toBe('ok')
    for (const change of [
      { 'x-a2a-notification-token': 'tok2' },
      { 'x-a2a-notification-token': '' },
      { 'x-a2a-notification-token': ['tok', 'tok'] },
      { authorization: 'Bearer abd' },
      { authorization: undefined },
    ])
      expect(await reasonOf({ ...good, ...change }, BODY, options)).toBe('ERR_WEBHOOK_TOKEN')
  })

  it('a store that is down or full is 503, never a yes', async () => {
    const down = { claim: () => Promise.reject(new Error('secret host')) }
    const result = await verifierAt(NOW, { replayStore: down }).verify({ headers: signed(), body: BODY })
    expect(result).toMatchObject({ ok: false, reason: 'ERR_STORE_UNAVAILABLE', status: 503, retryAfterSeconds: 5 })
    expect(JSON.stringify(result)).not.toContain('secret host')
  })

  it('a store that never answers is 503 after five seconds', async () => {
    vi.useFakeTimers()
    try {
      const hangs = { claim: () => new Promise<boolean>(() => undefined) }
      const result = verifierAt(NOW, { replayStore: hangs }).verify({ headers: signed(), body: BODY })
      await vi.advanceTimersByTimeAsync(5000)
      expect(await result).toMatchObject({ ok: false, reason: 'ERR_STORE_UNAVAILABLE', status: 503 })
    } finally {
      vi.useRealTimers()
    }
  })

  it('a store that answers something else than true says no', async () => {
    const odd = { claim: () => 'yes' as never }
    expect(await reasonOf(signed(), BODY, { replayStore: odd })).toBe('ERR_WEBHOOK_DUPLICATE')
  })

  it('a webhook that is refused does not use its id up', async () => {
    const verifier = verifierAt(NOW)
    const body = `${BODY} `
    expect(await verifier.verify({ headers: signed(), body })).toMatchObject({ reason: 'ERR_WEBHOOK_SIGNATURE' })
    expect(await verifier.verify({ headers: signed(), body: BODY })).toMatchObject({ ok: true })
  })

  it('a body over the limit is refused before anything is computed', async () => {
    expect(await reasonOf(signed(), BODY, { maxBodyBytes: 10 })).toBe('ERR_REQUEST_TOO_LARGE')
  })

  it('of several secrets each may have signed, an Ed25519 one as well', async () => {
    const whsk = `whsk_${Buffer.alloc(32, 7).toString('base64')}`
    const secrets = [generateWebhookSecret(), SECRET, whsk]
    for (const secret of secrets) expect(await reasonOf(signed({ secret }), BODY, { secrets })).toBe('ok')
    expect(await reasonOf(signed({ secret: generateWebhookSecret() }), BODY, { secrets })).toBe('ERR_WEBHOOK_SIGNATURE')
  })
})

describe('bytes, clocks and functions of the receiver', () => {
  it.each([
    ['an ArrayBuffer, as request.arrayBuffer() gives', new TextEncoder().encode(BODY).buffer],
    ['a Uint8Array of another realm, as Jest brings', runInNewContext('Uint8Array').from(Buffer.from(BODY))],
  ])('%s is bytes', async (_what, body) => {
    expect(await reasonOf(signed(), body)).toBe('ok')
  })

  it('headers that throw are no headers', async () => {
    const throws = () => {
      throw new Error('x')
    }
    expect(await reasonOf({ [Symbol.iterator]: throws })).toBe('ERR_WEBHOOK_HEADER')
    expect(await reasonOf(Object.defineProperty({}, 'webhook-id', { enumerable: true, get: throws }))).toBe(
      'ERR_WEBHOOK_HEADER',
    )
  })

  it('a clock that gives no number lets nothing in', async () => {
    expect(await reasonOf(signed(), BODY, { clock: () => Number.NaN })).toBe('ERR_WEBHOOK_TIMESTAMP')
  })

  it('"expectTask" that fails is 503, never a yes, and the id is not used up', async () => {
    let fails = true
    const expectTask = () => (fails ? Promise.reject(new Error('database')) : Promise.resolve(true))
    const verifier = verifierAt(NOW, { expectTask })
    expect(await verifier.verify({ headers: signed(), body: BODY })).toMatchObject({
      ok: false,
      reason: 'ERR_STORE_UNAVAILABLE',
      status: 503,
      retryAfterSeconds: 5,
    })
    fails = false
    expect((await verifier.verify({ headers: signed(), body: BODY })).ok).toBe(true)
  })
})

describe('a challenge', () => {
  const body = JSON.stringify({ challenge: 'c'.repeat(43) })
  const asked = (over = {}) => ({ ...signed({ body }), 'webhook-challenge': '1', ...over })

  it.each([{}, { payload: 'any' as const }, { expectTask: 't1' }])('well signed is answered: %j', async (options) => {
    expect(await verifierAt(NOW, options).verify({ headers: asked(), body })).toMatchObject({
      ok: false,
      reason: 'ERR_WEBHOOK_CHALLENGE',
      status: 200,
      answer: body,
    })
  })

  it.each<[what: string, headers: object, text: string, reason: string]>([
    ['not signed', { 'webhook-challenge': '1' }, body, 'ERR_WEBHOOK_HEADER'],
    ['signed over something else', asked({ ...signed() }), body, 'ERR_WEBHOOK_SIGNATURE'],
    ['without its header', signed({ body }), body, 'ERR_WEBHOOK_EVENT'],
    ['an event under its header', { ...signed(), 'webhook-challenge': '1' }, BODY, 'ok'],
    ...[
      '{"challenge":"short"}',
      '{"challenge":1}',
      `{"challenge":"${'c'.repeat(300)}"}`,
      `{"challenge":"${'c'.repeat(43)}","x":1}`,
      `{"challenge":"<script>${'c'.repeat(43)}"}`,
    ].map(
      (text) =>
        [text, { ...signed({ body: text }), 'webhook-challenge': '1' }, text, 'ERR_WEBHOOK_EVENT'] as [
          string,
          object,
          string,
          string,
        ],
    ),
  ])('%s is not answered', async (_what, headers, text, reason) => {
    const result = await verifierAt(NOW).verify({ headers, body: text } as never)
    expect(result.ok ? 'ok' : result.reason).toBe(reason)
    expect(result).not.toHaveProperty('answer')
  })
})

describe('options', () => {
  it.each([
    [{}, /"secrets" or "jwks"/],
    [{ secrets: [] }, /"secrets"/],
    [{ secrets: Array.from({ length: 9 }, generateWebhookSecret) }, /"secrets"/],
    [{ secrets: SECRET, tolerance: 1 }, /"tolerance"/],
    [{ secrets: SECRET, toleranceSeconds: 0 }, /"toleranceSeconds"/],
    [{ secrets: SECRET, toleranceSeconds: '300' }, /"toleranceSeconds"/],
    [{ secrets: SECRET, payload: 'A2A' }, /"payload"/],
    [{ secrets: SECRET, expectTask: '' }, /"expectTask"/],
    [{ secrets: SECRET, expectTask: [] }, /"expectTask"/],
    [{ secrets: SECRET, expectTask: 't', payload: 'any' }, /"expectTask"/],
    [{ secrets: SECRET, expectToken: '' }, /"expectToken"/],
    [{ secrets: SECRET, replayStore: {} }, /"replayStore"/],
    [{ secrets: SECRET, issuer: 'x' }, /"jwks"/],
    [{ jwks: { keys: [] }, issuer: '' }, /"issuer"/],
    [{ jwks: 'https://a.example/jwks.json', issuer: 'x' }, /"audience"/],
    [{ secrets: `whsk_${Buffer.alloc(64, 1).toString('base64')}` }, /halves/],
  ])('%j is refused at construction', (options, message) => {
    expect(() => createWebhookVerifier(options as never)).toThrow(message)
  })

  it('an error about a secret does not hold it', () => {
    expect(() => createWebhookVerifier({ secrets: 'whsec_c2VjcmV0c2VjcmV0' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('c2Vj') }),
    )
  })
})

describe('A85 the JWT flow', async () => {
  const ISSUER = 'https://agent.example'
  const HOOK = 'https://hooks.example/a2a'
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k1' } as JWK] }
  const sign = await createWebhookJwtSigner({ key: privateKey, kid: 'k1', issuer: ISSUER })
  const options: WebhookVerifierOptions = { jwks, issuer: ISSUER, audience: HOOK, clock: () => NOW * 1000 }
  const claims = { audience: HOOK, id: 'msg_1', taskId: 't1', timestampSeconds: NOW, body: BODY }
  const verify = async (token: string, over: Partial<WebhookVerifierOptions> = {}, headers: object = {}) => {
    const request = { headers: { authorization: `Bearer ${token}`, ...headers } as Record<string, string>, body: BODY }
    return createWebhookVerifier({ ...options, ...over }).verify(request)
  }

  it('holds for the body it was made over', async () => {
    expect(await verify(await sign(claims))).toMatchObject({ ok: true, id: 'msg_1', event: { taskId: 't1' } })
  })

  it('stands in a header of its own where Authorization is what was registered', async () => {
    const headers = { authorization: 'Bearer abc', 'x-a2a-notification-jwt': await sign(claims) }
    expect(await verify('', { expectAuthorization: 'Bearer abc' }, headers)).toMatchObject({ ok: true })
  })

  it('and with secrets both must hold, for one delivery', async () => {
    const token = await sign(claims)
    expect(await verify(token, { secrets: SECRET })).toMatchObject({ reason: 'ERR_WEBHOOK_HEADER' })
    expect(await verify(token, { secrets: SECRET }, signed())).toMatchObject({ ok: true })
    expect(await verify(token, { secrets: SECRET }, signed({ id: 'msg_2' }))).toMatchObject({
      reason: 'ERR_WEBHOOK_JWT',
    })
  })

  it.each([
    ['a token over another body', { body: `${BODY} ` }],
    ['a token for another receiver', { audience: 'https://other.example/a2a' }],
    ['a token issued 10 minutes ago', { timestampSeconds: NOW - 600 }],
    ['a token from the future', { timestampSeconds: NOW + 600 }],
  ])('%s is refused', async (_what, change) => {
    expect(await verify(await sign({ ...claims, ...change }))).toMatchObject({
      ok: false,
      reason: 'ERR_WEBHOOK_JWT',
      status: 401,
    })
  })

  it('a token for another task is refused', async () => {
    expect(await verify(await sign({ ...claims, taskId: 't2' }))).toMatchObject({ reason: 'ERR_WEBHOOK_TASK' })
  })

  it('needs no issuer, and no audience where the task is expected', async () => {
    const bare = { issuer: undefined, audience: undefined }
    const token = await sign(claims)
    expect(await verify(token, { ...bare, expectTask: 't1' } as never)).toMatchObject({ ok: true })
    expect(await verify(token, { ...bare, expectTask: 't2' } as never)).toMatchObject({ reason: 'ERR_WEBHOOK_TASK' })
    await expect(verify(token, bare as never)).rejects.toThrow(/"audience"/)
  })

  it('is good once', async () => {
    const verifier = createWebhookVerifier(options)
    const request = { headers: { authorization: `Bearer ${await sign(claims)}` }, body: BODY }
    expect(await verifier.verify(request)).toMatchObject({ ok: true })
    expect(await verifier.verify(request)).toMatchObject({ reason: 'ERR_WEBHOOK_DUPLICATE' })
  })

  it.each(['not a jwt', '', 'a.b.c', `${'a'.repeat(9000)}`])('%s is refused and nothing is thrown', async (token) => {
    expect(await verify(token)).toMatchObject({ ok: false })
  })

  it('a key of the token itself is never looked at, nor one without kid, nor alg none or HMAC', async () => {
    const own = await generateKeyPair('ES256', { extractable: true })
    const payload = { taskId: 't1', request_body_sha256: '' }
    const forge = (header: Record<string, unknown>, key: Parameters<SignJWT['sign']>[0]) =>
      new SignJWT(payload)
        .setProtectedHeader(header as never)
        .setIssuer(ISSUER)
        .setAudience(HOOK)
        .setIssuedAt(NOW)
        .setExpirationTime(NOW + 60)
        .setJti('x')
        .sign(key)
    const jwk = await exportJWK(own.publicKey)
    const forged = [
      await forge({ alg: 'ES256', kid: 'k1', jwk }, own.privateKey),
      await forge({ alg: 'ES256', kid: 'k2', jku: 'https://evil.example/jwks' }, own.privateKey),
      await forge({ alg: 'ES256' }, privateKey),
      await forge({ alg: 'HS256', kid: 'k1' }, Buffer.from(JSON.stringify(jwks.keys[0]))),
      `${Buffer.from('{"alg":"none","kid":"k1"}').toString('base64url')}.${Buffer.from(JSON.stringify({ ...payload, iss: ISSUER, aud: HOOK, iat: NOW, exp: NOW + 60, jti: 'x' })).toString('base64url')}.`,
    ]
    for (const token of forged) expect(await verify(token)).toMatchObject({ ok: false, reason: 'ERR_WEBHOOK_JWT' })
  })

  it('keys that cannot be had are 503', async () => {
    const fetch = () => Promise.reject(new Error('down'))
    const result = await verify(await sign(claims), { jwks: 'https://agent.example/jwks.json', fetch })
    expect(result).toMatchObject({ ok: false, reason: 'ERR_JWKS_UNAVAILABLE', status: 503 })
  })
})
