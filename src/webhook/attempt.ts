/** One attempt at one delivery: the headers, the request, and what its answer means. */
import type { Egress } from '../egress/index.ts'
import { type ErrorCode, TrustError } from '../errors.ts'
import { signingKeys, type WebhookKey } from '../internal/webhook-secret.ts'
import { JWT_HEADER, type WebhookJwtSigner } from './jwt.ts'
import { IN_BAND_SECRET } from './push-config.ts'
import { signWith } from './sign.ts'

/** A2A §4.3.3. */
export const TOKEN_HEADER = 'X-A2A-Notification-Token'

export interface AttemptConfig {
  readonly url: string
  readonly token: string
  readonly scheme: string
  readonly credentials: string
}

export interface AttemptContext {
  readonly egress: Pick<Egress, 'fetch'>
  readonly allows: (url: URL) => boolean
  readonly keysFor: (origin: string) => readonly WebhookKey[]
  readonly signJwt: WebhookJwtSigner | undefined
  readonly tokenHeader: string
}

export interface AttemptMessage {
  readonly id: string
  readonly taskId: string
  readonly version: string
  readonly body: string
  readonly contentType: string
}

export type AttemptResult =
  | { readonly kind: 'delivered' | 'gone'; readonly status: number }
  /** Worth another attempt; `retryAfterMs` is what the receiver asked for. */
  | { readonly kind: 'retry'; readonly status?: number; readonly reason?: ErrorCode; readonly retryAfterMs?: number }
  /** Another attempt would end in the same way. */
  | { readonly kind: 'failed'; readonly status?: number; readonly reason?: ErrorCode }

/** Not reached, or not in time: the network may be better next time. Everything else the guard says is final. */
const PASSING: readonly string[] = ['ERR_EGRESS_TIMEOUT', 'ERR_EGRESS_FAILED', 'ERR_EGRESS_DNS']
const PASSING_STATUS = new Set([408, 425, 429])

/** Never rejects. Nothing of the answer is read but its status and `Retry-After`. */
export async function attemptDelivery(
  message: AttemptMessage,
  config: AttemptConfig,
  { egress, ...context }: AttemptContext,
  nowMs: number,
  signal: AbortSignal,
): Promise<AttemptResult> {
  try {
    // What the policy allowed at registration it may have ceased to allow.
    if (!context.allows(new URL(config.url))) return { kind: 'failed', reason: 'ERR_PUSH_CONFIG' }
    const headers = await headersOf(message, config, context, Math.floor(nowMs / 1000))
    const { body } = message
    const response = await egress.fetch(config.url, { method: 'POST', headers, body, redirect: 'error', signal })
    await response.body?.cancel().catch(() => undefined)
    return resultOf(response.status, response.headers.get('retry-after'), nowMs)
  } catch (error) {
    if (!(error instanceof TrustError)) return { kind: 'retry' }
    return { kind: PASSING.includes(error.code) ? 'retry' : 'failed', reason: error.code }
  }
}

/** What an attempt carries: the registered authorization and token, and signatures. */
export async function headersOf(
  { id, taskId, version, body, contentType }: AttemptMessage,
  { url, token, scheme, credentials }: AttemptConfig,
  { keysFor, signJwt, tokenHeader }: Pick<AttemptContext, 'keysFor' | 'signJwt' | 'tokenHeader'>,
  timestampSeconds: number,
): Promise<Record<string, string>> {
  const headers: Record<string, string> = { 'content-type': contentType, 'a2a-version': version, 'webhook-id': id }
  if (token !== '') headers[tokenHeader] = token
  const isInBand = scheme.toLowerCase() === IN_BAND_SECRET
  // A2A §4.3.3: the configured scheme and credentials, as they are. A key to sign with is not one to send.
  if (scheme !== '' && !isInBand) headers.authorization = `${scheme} ${credentials}`
  const keys = [...(isInBand ? signingKeys(credentials, 'credentials') : []), ...keysFor(new URL(url).origin)]
  if (keys.length > 0) Object.assign(headers, signWith(keys, { id, timestampSeconds, body }))
  if (signJwt !== undefined) {
    const jwt = await signJwt({ audience: url, id, taskId, timestampSeconds, body })
    if (Object.hasOwn(headers, 'authorization')) headers[JWT_HEADER] = jwt
    else headers.authorization = `Bearer ${jwt}`
  }
  return headers
}

function resultOf(status: number, retryAfter: string | null, nowMs: number): AttemptResult {
  if (status >= 200 && status < 300) return { kind: 'delivered', status }
  if (status === 410) return { kind: 'gone', status }
  if (status < 500 && !PASSING_STATUS.has(status)) return { kind: 'failed', status }
  const retryAfterMs = retryAfter === null ? undefined : retryAfterOf(retryAfter, nowMs)
  return { kind: 'retry', status, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}

/** RFC 9110 §10.2.3: seconds or a date. */
function retryAfterOf(text: string, nowMs: number): number | undefined {
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  const atMs = Date.parse(text)
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}
