/** The Standard Webhooks collection, and the reference library in both directions. */
import { readFileSync } from 'node:fs'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { createWebhookVerifier, generateWebhookSecret, signWebhook } from '../../src/webhook/index.ts'

interface SignCase {
  readonly id: string
  readonly secret: string
  readonly msgId: string
  readonly timestamp: number
  readonly payload: string
  readonly payloadHex?: string
  readonly signature: string
}
interface VerifyCase {
  readonly id: string
  readonly secret: string
  readonly now: number
  readonly toleranceSeconds: number
  readonly headers: Readonly<Record<string, string>>
  readonly payload: string
  readonly payloadHex?: string
  readonly expect: 'valid' | 'invalid' | 'invalid-or-valid'
}
const vectors = JSON.parse(
  readFileSync(new URL('../vectors/standard-webhooks/standard-webhooks.json', import.meta.url), 'utf8'),
) as {
  readonly sign: readonly SignCase[]
  readonly verify: readonly VerifyCase[]
  readonly secrets: readonly { readonly id: string; readonly secret: string }[]
  readonly v1a: {
    readonly whpk: string
    readonly whskSeed: string
    readonly whsk64: string
    readonly msgId: string
    readonly timestamp: number
    readonly payload: string
    readonly signature: string
    readonly cases: readonly Omit<VerifyCase, 'secret' | 'toleranceSeconds'>[]
  }
}

const bodyOf = ({ payload, payloadHex }: { payload: string; payloadHex?: string }) =>
  payloadHex === undefined ? payload : Buffer.from(payloadHex, 'hex')
/** The dot that a strict signer refuses (P185). */
const DOTTED = vectors.sign.filter(({ msgId }) => msgId.includes('.'))

describe('Standard Webhooks: sign', () => {
  it.each(vectors.sign.filter((one) => !DOTTED.includes(one)))('$id', ({ secret, msgId, timestamp, ...rest }) => {
    const headers = signWebhook({ secret, id: msgId, timestampSeconds: timestamp, body: bodyOf(rest) })
    expect(headers).toEqual({
      'webhook-id': msgId,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': rest.signature,
    })
  })

  it.each(DOTTED)(
    'P185 $id is refused: the parts of the signed text could shift',
    ({ secret, msgId, timestamp, payload }) => {
      expect(() => signWebhook({ secret, id: msgId, timestampSeconds: timestamp, body: payload })).toThrow(/"id"/)
    },
  )

  it.each(vectors.secrets)('$id: neither signs nor verifies', ({ secret }) => {
    expect(() => signWebhook({ secret, id: 'a', timestampSeconds: 1, body: '' })).toThrow(/"secret"/)
    if (!secret.startsWith('whpk_')) expect(() => createWebhookVerifier({ secrets: [secret] })).toThrow(/"secrets"/)
  })

  it.each(['whskSeed', 'whsk64'] as const)('v1a: %s', (form) => {
    const { [form]: secret, msgId: id, timestamp: timestampSeconds, payload: body, signature } = vectors.v1a
    expect(signWebhook({ secret, id, timestampSeconds, body })['webhook-signature']).toBe(signature)
  })
})

describe('Standard Webhooks: verify', () => {
  it.each([
    ...vectors.verify,
    ...vectors.v1a.cases.map((one) => ({ ...one, secret: vectors.v1a.whpk, toleranceSeconds: 300 })),
  ])('$id', async ({ secret, now, toleranceSeconds, headers, expect: expected, ...rest }) => {
    const verifier = createWebhookVerifier({
      secrets: [secret],
      payload: 'any',
      toleranceSeconds,
      clock: () => now * 1000,
    })
    const result = await verifier.verify({ headers, body: bodyOf(rest) })
    expect(result.ok ? 'valid' : 'invalid').toBe(expected === 'valid' ? 'valid' : 'invalid')
    if (!result.ok) expect(result).toMatchObject({ status: expect.any(Number), detail: expect.any(String) })
  })
})

describe('the standardwebhooks package', () => {
  const now = Math.floor(Date.now() / 1000)
  const body = '{"task":{"id":"t1"}}'

  it('verifies what is signed here', () => {
    const secret = generateWebhookSecret()
    const headers = signWebhook({ secret, id: 'msg_1', timestampSeconds: now, body })
    expect(new Webhook(secret).verify(body, { ...headers })).toEqual({ task: { id: 't1' } })
  })

  it('verifies each of two signatures made during a rotation', () => {
    const [current, previous] = [generateWebhookSecret(), generateWebhookSecret()]
    const headers = { ...signWebhook({ secret: [current, previous], id: 'msg_1', timestampSeconds: now, body }) }
    for (const secret of [current, previous]) expect(() => new Webhook(secret).verify(body, headers)).not.toThrow()
  })

  it('signs what verifies here', async () => {
    const secret = generateWebhookSecret()
    const signature = new Webhook(secret).sign('msg_1', new Date(now * 1000), body)
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': String(now), 'webhook-signature': signature }
    expect(await createWebhookVerifier({ secrets: secret }).verify({ headers, body })).toMatchObject({ ok: true })
  })

  it.each([
    ['a timestamp with text after it', { 'webhook-timestamp': `${now}abc` }],
    ['a timestamp as a float', { 'webhook-timestamp': `${now}.0` }],
  ])('accepts %s, and this does not', async (_what, change) => {
    const secret = generateWebhookSecret()
    const headers: Record<string, string> = {
      ...signWebhook({ secret, id: 'msg_1', timestampSeconds: now, body }),
      ...change,
    }
    expect(() => new Webhook(secret).verify(body, headers)).not.toThrow()
    expect(await createWebhookVerifier({ secrets: secret }).verify({ headers, body })).toMatchObject({ ok: false })
  })
})
