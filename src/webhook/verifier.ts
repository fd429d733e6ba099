/**
 * The receiver's side: says who sent a webhook, that it is fresh and new, and what it tells. Nothing here throws for what
 * a sender sends, and every step that costs work comes after the ones that are free.
 */
import { type KeyObject, timingSafeEqual, verify } from 'node:crypto'
import { types } from 'node:util'
import { type ErrorCode, TrustError } from '../errors.ts'
import { decodeBase64 } from '../internal/base64.ts'
import type { HeaderView } from '../internal/headers.ts'
import { parseStrictJson } from '../internal/json.ts'
import type { WebhookKey } from '../internal/webhook-secret.ts'
import { within } from '../internal/within.ts'
import { challengeAnswer } from './challenge.ts'
import { type WebhookEvent, webhookEvent } from './event.ts'
import { JWT_HEADER, verifyWebhookJwt, type WebhookJwtCheck } from './jwt.ts'
import { viewOf, type WebhookRequest } from './request.ts'
import { MAX_TIMESTAMP, macOf, signedContent, WEBHOOK_ID } from './sign.ts'
import { sha256, type VerifierSettings, verifierSettings, type WebhookVerifierOptions } from './verifier-options.ts'

export type WebhookResult =
  | {
      readonly ok: true
      /** Stable over the attempts of one delivery. */
      readonly id: string
      readonly timestampSeconds: number
      /** Absent with `payload: 'any'`. */
      readonly event?: WebhookEvent
    }
  | {
      readonly ok: false
      readonly reason: ErrorCode
      /** What to answer: 200 for what was accepted before, so that the sender stops, and for a challenge; else 400, 401, 413, 500 or 503. */
      readonly status: number
      /** For the operator; holds no secret and nothing that was sent. */
      readonly detail: string
      readonly retryAfterSeconds?: number
      /** JSON to answer with, for `ERR_WEBHOOK_CHALLENGE` alone. */
      readonly answer?: string
    }

export interface WebhookVerifier {
  /** Never rejects for what a sender sends. A good id is claimed, so that a second call with it is `ERR_WEBHOOK_DUPLICATE`. */
  verify(request: WebhookRequest): Promise<WebhookResult>
  /**
   * As `verify`, as of the unix second at which the request arrived: for a delivery that waited in a queue of yours. The
   * time must be your own record and never come from the request.
   */
  verifyAt(request: WebhookRequest, arrivedAtSeconds: number): Promise<WebhookResult>
  readonly maxBodyBytes: number
}

const MAX_SIGNATURES = 16
const MAX_SIGNATURE_HEADER = 4096
/** A store that does not answer is one that cannot tell. */
const CLAIM_MS = 5000

type Refusal = Extract<WebhookResult, { ok: false }>

/**
 * Throws `TypeError` quoting the option, or `ERR_JWKS_INVALID` for a key set without a usable key.
 *
 * Checked: signatures over the bytes, id, time, that the id is new, the JWT with its body digest, the registered token
 * and authorization, that the body is one event, and its task. Not checked: what the event says beyond its ids, and
 * that the sender may speak for the task, unless `expectTask` says so.
 */
export function createWebhookVerifier(options: WebhookVerifierOptions): WebhookVerifier {
  const settings = verifierSettings(options)

  async function judge(request: WebhookRequest, nowSeconds: number): Promise<WebhookResult> {
    const body = bytesOf(request.body)
    if (body === undefined) return refuse('ERR_WEBHOOK_BODY', 500, PARSED_BODY_ADVICE)
    if (body.byteLength > settings.maxBodyBytes) return refuse('ERR_REQUEST_TOO_LARGE', 413, 'the body is too large')
    const headers = viewOf(request.headers)
    if (headers === undefined) return refuse('ERR_WEBHOOK_HEADER', 400, 'the headers are not text')

    const registered = checkRegistered(headers, settings)
    if (registered !== undefined) return registered
    const signed = settings.keys === undefined ? undefined : checkSignature(headers, body, nowSeconds, settings)
    if (signed?.ok === false) return signed
    const token = settings.jwt === undefined ? undefined : await checkJwt(headers, body, nowSeconds, settings.jwt)
    if (token?.ok === false) return token
    const { id, timestampSeconds } = (signed ?? token) as Extract<WebhookResult, { ok: true }>
    if (signed !== undefined && token !== undefined && token.id !== id)
      return refuse('ERR_WEBHOOK_JWT', 401, '"jti" is not the webhook-id')

    const answer = challengeAnswer(headers, body)
    if (answer !== undefined)
      return { ...refuse('ERR_WEBHOOK_CHALLENGE', 200, 'a challenge and no event: send "answer" back'), answer }

    const event = settings.payload === 'any' ? undefined : eventOf(body)
    if (event === undefined && settings.payload === 'a2a')
      return refuse(
        'ERR_WEBHOOK_EVENT',
        400,
        'not a JSON object with exactly one of task, message, statusUpdate, artifactUpdate',
      )
    const wrongTask = await checkTask(event, token?.taskId, settings)
    if (wrongTask !== undefined) return wrongTask

    try {
      const claim = Promise.resolve(settings.replayStore.claim(`webhook:${id}`, settings.rememberSeconds))
      if ((await within(claim, CLAIM_MS)) !== true)
        return refuse('ERR_WEBHOOK_DUPLICATE', 200, 'this id was accepted before')
    } catch (error) {
      const reason = error instanceof TrustError ? error.code : 'ERR_STORE_UNAVAILABLE'
      return { ...refuse(reason, 503, 'the replay store cannot tell whether the id is new'), retryAfterSeconds: 5 }
    }
    return Object.freeze({ ok: true, id, timestampSeconds, ...(event === undefined ? {} : { event }) })
  }

  return Object.freeze({
    verify: (request: WebhookRequest) => judge(request, Math.floor(settings.clock() / 1000)),
    async verifyAt(request: WebhookRequest, arrivedAtSeconds: number) {
      if (!Number.isSafeInteger(arrivedAtSeconds) || arrivedAtSeconds < 0 || arrivedAtSeconds > MAX_TIMESTAMP)
        throw new TypeError('"arrivedAtSeconds" must be whole unix seconds, not milliseconds')
      return judge(request, arrivedAtSeconds)
    },
    maxBodyBytes: settings.maxBodyBytes,
  })
}

/** By what the bytes are, not by whose class: a test runner or a worker may bring a `Uint8Array` of its own. */
function bytesOf(body: unknown): Uint8Array | undefined {
  if (typeof body === 'string') return Buffer.from(body)
  if (types.isUint8Array(body)) return body
  return types.isArrayBuffer(body) ? new Uint8Array(body) : undefined
}

const PARSED_BODY_ADVICE =
  'the body was parsed before it came here, and serialising it again makes other bytes: mount the receiver before any ' +
  'body parser, or take the raw bytes (express.raw({ type: () => true }), request.arrayBuffer())'

function checkRegistered(headers: HeaderView, { token, authorization }: VerifierSettings): Refusal | undefined {
  for (const [name, expected] of [
    ['x-a2a-notification-token', token],
    ['authorization', authorization],
  ] as const) {
    if (expected === undefined) continue
    const [value, ...more] = headers.all(name)
    if (value === undefined || more.length > 0 || !timingSafeEqual(sha256(value), expected))
      return refuse('ERR_WEBHOOK_TOKEN', 401, `${name} is not the registered one`)
  }
  return undefined
}

type Proven = { readonly ok: true; readonly id: string; readonly timestampSeconds: number; readonly taskId?: string }

function checkSignature(
  headers: HeaderView,
  body: Uint8Array,
  nowSeconds: number,
  { keys = [], toleranceSeconds }: VerifierSettings,
): Proven | Refusal {
  const [id, timestamp, list] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => {
    const [value, ...more] = headers.all(name)
    return more.length > 0 ? undefined : value
  })
  if (id === undefined || timestamp === undefined || list === undefined)
    return refuse('ERR_WEBHOOK_HEADER', 401, 'webhook-id, webhook-timestamp and webhook-signature must each stand once')
  if (!WEBHOOK_ID.test(id))
    return refuse('ERR_WEBHOOK_HEADER', 400, 'webhook-id must be 1 to 256 characters of A-Z a-z 0-9 _ -')
  if (!/^(?:0|[1-9]\d{0,15})$/.test(timestamp))
    return refuse('ERR_WEBHOOK_TIMESTAMP', 400, 'webhook-timestamp must be whole unix seconds')
  const timestampSeconds = Number(timestamp)
  if (timestampSeconds > MAX_TIMESTAMP)
    return refuse('ERR_WEBHOOK_TIMESTAMP', 400, 'webhook-timestamp is in milliseconds; unix seconds are asked for')
  // The other way round, so that a clock that gives no number refuses.
  if (!(Math.abs(nowSeconds - timestampSeconds) <= toleranceSeconds)) {
    const side = timestampSeconds < nowSeconds ? 'past' : 'future'
    return refuse('ERR_WEBHOOK_TIMESTAMP', 401, `webhook-timestamp is too far in the ${side}`)
  }
  const entries = list.length > MAX_SIGNATURE_HEADER ? [] : list.split(' ').filter((entry) => entry !== '')
  if (entries.length === 0 || entries.length > MAX_SIGNATURES)
    return refuse('ERR_WEBHOOK_SIGNATURE', 401, `webhook-signature must hold 1 to ${MAX_SIGNATURES} signatures`)

  const signed = signedContent(id, timestamp, body)
  // Every pair is compared before deciding, so that the time taken does not tell which one fits.
  let matches = 0
  for (const { version, key } of keys) {
    const mac = version === 'v1' ? macOf(key, signed) : undefined
    for (const entry of entries) if (holds(entry, version, key, signed, mac)) matches += 1
  }
  return matches > 0
    ? { ok: true, id, timestampSeconds }
    : refuse('ERR_WEBHOOK_SIGNATURE', 401, 'no signature verifies under a configured secret')
}

/** An entry of another version, or one that is not strict base64, is no match and no error. */
function holds(
  entry: string,
  version: WebhookKey['version'],
  key: KeyObject,
  signed: Buffer,
  mac: Buffer | undefined,
): boolean {
  if (!entry.startsWith(`${version},`)) return false
  const signature = decodeBase64(entry.slice(version.length + 1))
  if (signature === undefined) return false
  if (mac !== undefined) return signature.length === mac.length && timingSafeEqual(signature, mac)
  return signature.length === 64 && verify(null, signed, key, signature)
}

async function checkJwt(
  headers: HeaderView,
  body: Uint8Array,
  nowSeconds: number,
  check: WebhookJwtCheck,
): Promise<Proven | Refusal> {
  const own = headers.all(JWT_HEADER)
  const found = own.length > 0 ? own : headers.all('authorization').map((value) => /^Bearer +(\S+)$/i.exec(value)?.[1])
  const [token] = found
  if (token === undefined || found.length > 1)
    return refuse('ERR_WEBHOOK_HEADER', 401, 'exactly one JWT must stand in X-A2A-Notification-JWT or Authorization')
  const result = await verifyWebhookJwt(token, body, nowSeconds, check)
  if (!result.ok) {
    const { reason, detail, retryAfterSeconds } = result
    const wait = retryAfterSeconds === undefined ? {} : { retryAfterSeconds }
    return { ...refuse(reason, retryAfterSeconds === undefined ? 401 : 503, detail), ...wait }
  }
  const { id, timestampSeconds, taskId } = result
  return { ok: true, id, timestampSeconds, ...(taskId === undefined ? {} : { taskId }) }
}

async function checkTask(
  event: WebhookEvent | undefined,
  signedTask: string | undefined,
  { expectTask }: VerifierSettings,
): Promise<Refusal | undefined> {
  if (event === undefined) return undefined
  if (signedTask !== undefined && signedTask !== event.taskId)
    return refuse('ERR_WEBHOOK_TASK', 401, 'the JWT was signed for another task')
  if (expectTask === undefined) return undefined
  let expected = false
  try {
    expected = event.taskId !== undefined && (await expectTask(event.taskId))
  } catch {
    return { ...refuse('ERR_STORE_UNAVAILABLE', 503, '"expectTask" failed'), retryAfterSeconds: 5 }
  }
  return expected === true ? undefined : refuse('ERR_WEBHOOK_TASK', 401, 'the event is of a task that is not expected')
}

function eventOf(body: Uint8Array): WebhookEvent | undefined {
  try {
    return webhookEvent(parseStrictJson(body))
  } catch {
    return undefined
  }
}

function refuse(reason: ErrorCode, status: number, detail: string): Refusal {
  return Object.freeze({ ok: false, reason, status, detail })
}
