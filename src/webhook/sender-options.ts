/** Options of `createWebhookSender`: checked, copied and frozen once. */
import type { Egress } from '../egress/index.ts'
import type { ErrorCode } from '../errors.ts'
import { assertKnownOptions } from '../internal/options.ts'
import type { WebhookSettings } from '../internal/webhook-settings.ts'
import type { Clock, Logger } from '../types.ts'
import { type AttemptContext, TOKEN_HEADER } from './attempt.ts'
import type { HostLimits } from './hosts.ts'
import type { WebhookJwtOptions } from './jwt.ts'
import type { PushConfig } from './push-config.ts'
import type { PushCallContext, PushNotifications } from './push-config-store.ts'
import type { DeliveryQueue, QueueLimits } from './queue.ts'
import { keysByOrigin, type WebhookSigning } from './signing.ts'

/** What is used of the SDK's `PushNotificationStore`. */
export interface PlainPushStore {
  load(taskId: string, context: PushCallContext): Promise<PushConfig[]>
  loadWithMetadata?(taskId: string, context: PushCallContext): Promise<{ config: PushConfig; wireVersion: string }[]>
  delete(taskId: string, context: PushCallContext, configId?: string): Promise<void>
}

/** One per attempt and one for each event that is given up; the end of a secret-free trail. */
export interface DeliveryEvent {
  /** `webhook-id`. */
  readonly id: string
  readonly taskId: string
  readonly configId: string
  /** Scheme, host and port of the receiver. */
  readonly origin: string
  readonly attempt: number
  /**
   * `delivered`; `retry` and another attempt follows; `failed` and none does; `expired` after too long; `gone` when the
   * receiver answered 410; `revoked` when its config was deleted; `dropped` for want of room or at the end of the process.
   */
  readonly outcome: 'delivered' | 'retry' | 'failed' | 'expired' | 'gone' | 'revoked' | 'dropped'
  readonly status?: number
  readonly reason?: ErrorCode
}

export interface WebhookSenderOptions {
  readonly store: PushNotifications | PlainPushStore
  /** `createEgress(...)`: where a webhook may go, and for how long one attempt may take. */
  readonly egress: Pick<Egress, 'fetch'>
  /** `guard.webhooks`: the secrets of the policy, and its `allow`, asked again at each attempt. */
  readonly policy?: WebhookSettings
  readonly signing?: WebhookSigning
  /** First delay at most `baseMs` (1000), doubled up to `maxMs` (300 000), given up after `maxAgeMs` (3 600 000). */
  readonly retry?: { readonly baseMs?: number; readonly maxMs?: number; readonly maxAgeMs?: number }
  /** Where events wait, in place of memory: `createBullQueue` of `a2a-trust/webhook/bullmq`. Needs a store that is shared. */
  readonly durable?: DeliveryQueue
  /** Events queued: `maxQueued` in all (10 000), with bodies of `maxBytes` (64 MiB), `maxPerConfig` for one config (100); `concurrency` attempts at once (32). */
  readonly queue?: {
    readonly maxQueued?: number
    readonly maxBytes?: number
    readonly maxPerConfig?: number
    readonly concurrency?: number
  }
  /** For one host: `concurrency` (4), `perSecond` (50), and no attempt for `openMs` (30 000) after `failures` (5) in a row. */
  readonly host?: Partial<HostLimits>
  /** Header of the config's `token`. Default `X-A2A-Notification-Token`. */
  readonly tokenHeaderName?: string
  readonly onDelivery?: (event: DeliveryEvent) => void
  readonly clock?: Clock
  readonly logger?: Logger
  /** From 0 to 1, for the jitter. Default `Math.random`. */
  readonly random?: () => number
}

export interface SenderSettings {
  readonly store: PushNotifications | PlainPushStore
  readonly attempt: Omit<AttemptContext, 'signJwt'>
  readonly jwt: WebhookJwtOptions | undefined
  readonly retry: { readonly baseMs: number; readonly maxMs: number; readonly maxAgeMs: number }
  readonly durable: DeliveryQueue | undefined
  readonly queue: QueueLimits
  readonly host: HostLimits
  readonly onDelivery: ((event: DeliveryEvent) => void) | undefined
  readonly clock: Clock
  readonly logger: Logger | undefined
  readonly random: () => number
}

const OPTIONS = [
  'store',
  'egress',
  'policy',
  'signing',
  'retry',
  'durable',
  'queue',
  'host',
  'tokenHeaderName',
  'onDelivery',
  'clock',
  'logger',
  'random',
] as const

const HOUR_MS = 3_600_000
/** RFC 9110 §5.1, and none that the sender sets itself. */
const HEADER_NAME =
  /^(?!(?:authorization|content-type|content-length|host|connection|transfer-encoding|webhook-.*|a2a-version|x-a2a-notification-jwt)$)[a-z0-9-]{1,64}$/i

/** Throws `TypeError` quoting the option. */
export function senderSettings(options: WebhookSenderOptions): SenderSettings {
  assertKnownOptions('createWebhookSender', options, OPTIONS)
  const {
    store,
    egress,
    policy,
    signing = {},
    retry = {},
    queue = {},
    host = {},
    clock = Date.now,
    random = Math.random,
  } = options
  const { tokenHeaderName = TOKEN_HEADER, onDelivery, logger } = options
  if (typeof (store as Partial<PlainPushStore> | undefined)?.load !== 'function')
    throw new TypeError('"store" must come from createPushNotifications, or be a PushNotificationStore of the SDK')
  if (typeof (egress as Partial<Egress> | undefined)?.fetch !== 'function')
    throw new TypeError('"egress" must come from createEgress')
  if (typeof tokenHeaderName !== 'string' || !HEADER_NAME.test(tokenHeaderName))
    throw new TypeError('"tokenHeaderName" must be the name of a header that is not used otherwise')
  if (options.durable !== undefined && !('records' in store))
    throw new TypeError(
      '"durable" needs the store of createPushNotifications: another cannot be asked by the next process',
    )
  return Object.freeze({
    store,
    attempt: {
      egress,
      allows: (url: URL) => policy?.allows(url) ?? true,
      keysFor: keysByOrigin(signing, policy),
      tokenHeader: tokenHeaderName,
    },
    jwt: signing.jwt,
    retry: wholeNumbers('retry', retry, {
      baseMs: [1000, 1, HOUR_MS],
      maxMs: [300_000, 1, 24 * HOUR_MS],
      maxAgeMs: [HOUR_MS, 1, 7 * 24 * HOUR_MS],
    }),
    durable: options.durable,
    queue: queueOf(queue),
    host: wholeNumbers('host', host, {
      concurrency: [4, 1, 1000],
      perSecond: [50, 1, 100_000],
      failures: [5, 1, 1000],
      openMs: [30_000, 1, HOUR_MS],
    }),
    onDelivery,
    clock,
    logger,
    random,
  })
}

function queueOf(queue: NonNullable<WebhookSenderOptions['queue']>): SenderSettings['queue'] {
  const { maxPerConfig: maxPerLane, ...rest } = wholeNumbers('queue', queue, {
    maxQueued: [10_000, 1, 1_000_000],
    maxBytes: [64 * 1024 * 1024, 1, 4 * 1024 ** 3],
    maxPerConfig: [100, 2, 100_000],
    concurrency: [32, 1, 10_000],
  })
  return { ...rest, maxPerLane }
}

function wholeNumbers<N extends string>(
  option: string,
  given: Partial<Record<N, number>>,
  ranges: Readonly<Record<N, readonly [usual: number, min: number, max: number]>>,
): Readonly<Record<N, number>> {
  const names = Object.keys(ranges) as N[]
  assertKnownOptions(option, given, names)
  const entries = names.map((name) => {
    const [usual, min, max] = ranges[name]
    const value = given[name] ?? usual
    if (!Number.isSafeInteger(value) || value < min || value > max)
      throw new TypeError(`"${option}.${name}" must be a whole number from ${min} to ${max}`)
    return [name, value] as const
  })
  return Object.freeze(Object.fromEntries(entries) as Record<N, number>)
}
