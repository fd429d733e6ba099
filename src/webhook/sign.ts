/** Standard Webhooks signatures over the bytes that are sent. */
import { createHmac, randomBytes, sign } from 'node:crypto'
import { assertKnownOptions } from '../internal/options.ts'
import { signingKeys, type WebhookKey } from '../internal/webhook-secret.ts'

export interface SignWebhookOptions {
  /**
   * `whsec_` and base64 of 24 to 64 bytes (`v1`, HMAC-SHA256), or `whsk_` and base64 of an Ed25519 seed (`v1a`). A list,
   * of at most 8, signs with each: the current and the previous one while a secret is rotated.
   */
  readonly secret: string | readonly string[]
  /** 1 to 256 characters of `A-Z a-z 0-9 _ -`. The same over all attempts of one delivery. */
  readonly id: string
  /** Unix seconds of this attempt. */
  readonly timestampSeconds: number
  /** Exactly what is sent; text is sent as UTF-8. */
  readonly body: string | Uint8Array
}

export interface WebhookHeaders {
  readonly 'webhook-id': string
  readonly 'webhook-timestamp': string
  readonly 'webhook-signature': string
}

/** A dot would let the parts of the signed text shift (field case P185). */
export const WEBHOOK_ID = /^[A-Za-z0-9_-]{1,256}$/

/**
 * The headers of one attempt. Throws `TypeError` quoting the option; an `id` with a dot is refused, and so is a parsed
 * body: its bytes are not those that are sent. Does not check that the secret belongs to the receiver.
 */
export function signWebhook(options: SignWebhookOptions): WebhookHeaders {
  assertKnownOptions('signWebhook', options, ['secret', 'id', 'timestampSeconds', 'body'])
  return signWith(signingKeys(options.secret, 'secret'), options)
}

/** For a sender that has its keys at hand. */
export function signWith(
  keys: readonly WebhookKey[],
  { id, timestampSeconds, body }: Omit<SignWebhookOptions, 'secret'>,
): WebhookHeaders {
  if (typeof id !== 'string' || !WEBHOOK_ID.test(id))
    throw new TypeError('"id" must be 1 to 256 characters of A-Z a-z 0-9 _ -')
  if (!Number.isSafeInteger(timestampSeconds) || timestampSeconds < 0 || timestampSeconds > MAX_TIMESTAMP)
    throw new TypeError('"timestampSeconds" must be whole unix seconds, not milliseconds')
  if (typeof body !== 'string' && !(body instanceof Uint8Array))
    throw new TypeError('"body" must be the text or bytes that are sent, not an object that is serialised later')
  const signed = signedContent(id, String(timestampSeconds), body)
  return Object.freeze({
    'webhook-id': id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': keys.map((key) => `${key.version},${signatureOf(key, signed)}`).join(' '),
  })
}

/** Year 5138; anything larger is milliseconds. */
export const MAX_TIMESTAMP = 99_999_999_999

export function signedContent(id: string, timestamp: string, body: string | Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${id}.${timestamp}.`), typeof body === 'string' ? Buffer.from(body) : body])
}

function signatureOf({ version, key }: WebhookKey, signed: Buffer): string {
  return (version === 'v1' ? macOf(key, signed) : sign(null, signed, key)).toString('base64')
}

export function macOf(key: WebhookKey['key'], signed: Buffer): Buffer {
  return createHmac('sha256', key).update(signed).digest()
}

/** A new shared secret: `whsec_` and base64 of 32 random bytes. */
export function generateWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}
