/**
 * The JWT flow of the A2A documentation: the agent signs a short-lived token about one notification and publishes its
 * keys. Beyond the published sample the digest is over the bytes that are sent, and the token names its task.
 */
import { createHash } from 'node:crypto'
import { importJWK, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import type { ErrorCode } from '../errors.ts'
import type { JwksCache } from '../internal/jwks-cache.ts'
import { type SigningKeyOptions, signingKey } from '../internal/signing-key.ts'

export interface WebhookJwtOptions extends SigningKeyOptions {
  /** `iss`: what the receiver pins, as a URL of this agent. */
  readonly issuer: string
}

export interface WebhookJwtClaims {
  /** `aud`: the webhook's URL as it was registered. */
  readonly audience: string
  /** `jti`: the id of the delivery. */
  readonly id: string
  readonly taskId: string
  readonly timestampSeconds: number
  readonly body: string | Uint8Array
}

export const JWT_LIFETIME_SECONDS = 300
const MAX_JWT_LENGTH = 8192

/** Where the token stands when `Authorization` carries what the receiver has configured. */
export const JWT_HEADER = 'x-a2a-notification-jwt'

export type WebhookJwtSigner = (claims: WebhookJwtClaims) => Promise<string>

/** Rejects with `ERR_WEBHOOK_SIGNING_KEY`, or with `ERR_POLICY_EXAMPLE_KEY` for an example key in production. */
export async function createWebhookJwtSigner({ issuer, ...options }: WebhookJwtOptions): Promise<WebhookJwtSigner> {
  if (typeof issuer !== 'string' || issuer === '') throw new TypeError('"issuer" must be the URL of this agent')
  const { jwk, alg, kid } = await signingKey(options, 'ERR_WEBHOOK_SIGNING_KEY')
  const key = await importJWK(jwk, alg)
  return ({ audience, id, taskId, timestampSeconds, body }) =>
    new SignJWT({ taskId, request_body_sha256: digestOf(body) })
      .setProtectedHeader({ alg, kid, typ: 'JWT' })
      .setIssuer(issuer)
      .setAudience(audience)
      .setIssuedAt(timestampSeconds)
      .setExpirationTime(timestampSeconds + JWT_LIFETIME_SECONDS)
      .setJti(id)
      .sign(key)
}

export interface WebhookJwtCheck {
  readonly keys: JwksCache
  readonly issuer?: string
  readonly audience?: string
  readonly toleranceSeconds: number
}

export type WebhookJwtResult =
  | { readonly ok: true; readonly id: string; readonly timestampSeconds: number; readonly taskId: string | undefined }
  | { readonly ok: false; readonly reason: ErrorCode; readonly detail: string; readonly retryAfterSeconds?: number }

export async function verifyWebhookJwt(
  token: string,
  body: Uint8Array,
  nowSeconds: number,
  { keys, issuer, audience, toleranceSeconds }: WebhookJwtCheck,
): Promise<WebhookJwtResult> {
  const refuse = (detail: string): WebhookJwtResult => ({ ok: false, reason: 'ERR_WEBHOOK_JWT', detail })
  if (token.length > MAX_JWT_LENGTH) return refuse('the token is too long')
  let unavailable: WebhookJwtResult | undefined
  let payload: JWTPayload
  try {
    const verified = await jwtVerify(
      token,
      async ({ alg, kid }) => {
        // No key may be meant: `jwk`, `jku` and `x5u` of the header are never looked at.
        if (typeof kid !== 'string') throw new Error('no kid')
        const found = await keys.find(kid, alg)
        if (found.kind === 'found') return found.key.keyObject
        if (found.kind === 'unavailable') {
          const { code, detail, retryAfterSeconds } = found
          unavailable = { ok: false, reason: code, detail, retryAfterSeconds }
        }
        throw new Error(found.detail)
      },
      {
        ...(issuer === undefined ? {} : { issuer }),
        ...(audience === undefined ? {} : { audience }),
        clockTolerance: toleranceSeconds,
        currentDate: new Date(nowSeconds * 1000),
        requiredClaims: ['iat', 'exp', 'jti'],
      },
    )
    payload = verified.payload
  } catch (error) {
    return unavailable ?? refuse(error instanceof Error ? reasonOf(error) : 'the token does not hold')
  }
  const { iat = 0, exp = 0, jti = '', aud, taskId, request_body_sha256: digest } = payload
  if (Array.isArray(aud) && aud.length > 1) return refuse('the token is meant for others too')
  if (!(Math.abs(nowSeconds - iat) <= toleranceSeconds)) return refuse('"iat" is outside the tolerance')
  if (exp - iat > 2 * JWT_LIFETIME_SECONDS) return refuse('the token lives too long')
  if (digest !== digestOf(body)) return refuse('"request_body_sha256" is not the digest of the body')
  if (jti === '' || jti.length > 256) return refuse('"jti" must have 1 to 256 characters')
  if (taskId !== undefined && typeof taskId !== 'string') return refuse('"taskId" must be a string')
  return { ok: true, id: jti, timestampSeconds: iat, taskId }
}

/** Lower-case hex, as in the sample of the A2A documentation. */
function digestOf(body: string | Uint8Array): string {
  return createHash('sha256').update(body).digest('hex')
}

/** jose's codes are static; its messages name claims, never their values. */
function reasonOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message
}
