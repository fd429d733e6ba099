/** What a receiver expects, checked once. */
import { createHash } from 'node:crypto'
import { createEgress } from '../egress/index.ts'
import { createJwksCache } from '../internal/jwks-cache.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { verificationKeys, type WebhookKey } from '../internal/webhook-secret.ts'
import { createMemoryReplayStore } from '../store/replay-memory.ts'
import type { ReplayStore } from '../store/stores.ts'
import type { Clock } from '../types.ts'
import type { WebhookJwtCheck } from './jwt.ts'

export interface WebhookVerifierOptions {
  /** As `signWebhook` takes them, and `whpk_` public keys: 1 to 8, each of which may have signed. */
  readonly secrets?: string | readonly string[]
  /** The agent's JWK Set, or the https URL of it: turns the JWT flow on. With `secrets` too, both must hold. */
  readonly jwks?: object | string
  /** `iss` that the JWT must have. Default: any, since `jwks` are the keys of one agent. */
  readonly issuer?: string
  /** `aud` that the JWT must have: the URL as it was registered. With `jwks` this or `expectTask` must be given. */
  readonly audience?: string
  /** `a2a` (default): the body must be exactly one A2A event. `any`: it is not looked at. */
  readonly payload?: 'a2a' | 'any'
  /** The task or tasks that notifications are expected for, or a function that knows. Needs `payload: 'a2a'`. */
  readonly expectTask?: string | readonly string[] | ((taskId: string) => boolean | Promise<boolean>)
  /** The `token` of the push notification config, compared with `X-A2A-Notification-Token`. */
  readonly expectToken?: string
  /** The whole `Authorization` value that was registered, as in `Bearer abc`. */
  readonly expectAuthorization?: string
  /** Default: in memory, 100 000 ids, one process. */
  readonly replayStore?: ReplayStore
  /** How far the timestamp may lie in the past or the future. 1 to 3600, default 300. */
  readonly toleranceSeconds?: number
  /** How long an accepted id is remembered, over the retries of its sender. At least twice the tolerance; default 7200. */
  readonly rememberSeconds?: number
  /** Default 1 MiB. */
  readonly maxBodyBytes?: number
  /** Milliseconds. Default `Date.now`. */
  readonly clock?: Clock
  /** Replaces the guarded fetch that gets `jwks` from a URL. */
  readonly fetch?: typeof globalThis.fetch
}

const OPTIONS = [
  'secrets',
  'jwks',
  'issuer',
  'audience',
  'payload',
  'expectTask',
  'expectToken',
  'expectAuthorization',
  'replayStore',
  'toleranceSeconds',
  'rememberSeconds',
  'maxBodyBytes',
  'clock',
  'fetch',
] as const

export interface VerifierSettings {
  readonly keys: readonly WebhookKey[] | undefined
  readonly jwt: WebhookJwtCheck | undefined
  readonly payload: 'a2a' | 'any'
  readonly expectTask: ((taskId: string) => boolean | Promise<boolean>) | undefined
  readonly token: Buffer | undefined
  readonly authorization: Buffer | undefined
  readonly replayStore: ReplayStore
  readonly toleranceSeconds: number
  readonly rememberSeconds: number
  readonly maxBodyBytes: number
  readonly clock: Clock
}

/** Checked, copied and frozen. Throws `TypeError` quoting the option. */
export function verifierSettings(options: WebhookVerifierOptions): VerifierSettings {
  assertKnownOptions('createWebhookVerifier', options, OPTIONS)
  const { secrets, payload = 'a2a', clock = Date.now } = options
  const toleranceSeconds = wholeNumber('toleranceSeconds', options.toleranceSeconds ?? 300, 1, 3600)
  const jwt = jwtCheckOf(options, toleranceSeconds, clock)
  if (secrets === undefined && jwt === undefined)
    throw new TypeError('"secrets" or "jwks" must be given: without one nobody knows who has sent what arrives')
  if (payload !== 'a2a' && payload !== 'any') throw new TypeError('"payload" must be a2a or any')
  const replayStore = options.replayStore ?? createMemoryReplayStore({ clock })
  if (typeof replayStore.claim !== 'function') throw new TypeError('"replayStore" must have a claim(key, ttlSeconds)')
  return Object.freeze({
    keys: secrets === undefined ? undefined : verificationKeys(secrets, 'secrets'),
    jwt,
    payload,
    expectTask: expectedTask(options.expectTask, payload),
    token: expectedText('expectToken', options.expectToken),
    authorization: expectedText('expectAuthorization', options.expectAuthorization),
    replayStore,
    toleranceSeconds,
    // A timestamp from the far end of the window stays good for twice the tolerance.
    rememberSeconds: wholeNumber('rememberSeconds', options.rememberSeconds ?? 7200, 2 * toleranceSeconds, 30 * 86_400),
    maxBodyBytes: wholeNumber('maxBodyBytes', options.maxBodyBytes ?? 1024 * 1024, 1, 64 * 1024 * 1024),
    clock,
  })
}

function jwtCheckOf(
  { jwks, issuer, audience, expectTask, fetch }: WebhookVerifierOptions,
  toleranceSeconds: number,
  clock: Clock,
): WebhookJwtCheck | undefined {
  if (jwks === undefined) {
    if (issuer !== undefined || audience !== undefined) throw new TypeError('"issuer" and "audience" need "jwks"')
    return undefined
  }
  for (const [option, value] of Object.entries({ issuer, audience }))
    if (value !== undefined && (typeof value !== 'string' || value === ''))
      throw new TypeError(`"${option}" must be a non-empty string`)
  // Another receiver of the same agent could hand on what it was sent: only the URL, or the task, says whom it was for.
  if (audience === undefined && expectTask === undefined)
    throw new TypeError('"audience" or "expectTask" must be given with "jwks"')
  const source = typeof jwks === 'string' ? { url: jwks } : { jwks }
  const keys = createJwksCache({ source, fetch: fetch ?? createEgress().fetch, clock })
  return {
    keys,
    toleranceSeconds,
    ...(issuer === undefined ? {} : { issuer }),
    ...(audience === undefined ? {} : { audience }),
  }
}

function expectedTask(
  expectTask: WebhookVerifierOptions['expectTask'],
  payload: 'a2a' | 'any',
): VerifierSettings['expectTask'] {
  if (expectTask === undefined) return undefined
  if (payload === 'any') throw new TypeError('"expectTask" needs "payload": a2a, since the task stands in the body')
  if (typeof expectTask === 'function') return expectTask
  const tasks = new Set(typeof expectTask === 'string' ? [expectTask] : expectTask)
  if (tasks.size === 0 || [...tasks].some((task) => typeof task !== 'string' || task === ''))
    throw new TypeError('"expectTask" must be a task id, a list of them, or a function')
  return (taskId) => tasks.has(taskId)
}

function expectedText(option: string, value: unknown): Buffer | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || value === '') throw new TypeError(`"${option}" must be a non-empty string`)
  return sha256(value)
}

function wholeNumber(option: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw new TypeError(`"${option}" must be a whole number from ${min} to ${max}`)
}

/** Registered values are kept and compared as digests. */
export function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
