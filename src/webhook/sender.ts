/**
 * The agent's side: every event of a task to every webhook that was registered for it, in order, signed, and to nowhere
 * that the guard does not allow.
 */
import { randomUUID } from 'node:crypto'
import { type ErrorCode, TrustError } from '../errors.ts'
import { within } from '../internal/within.ts'
import { type AttemptContext, attemptDelivery } from './attempt.ts'
import { createHosts } from './hosts.ts'
import { createWebhookJwtSigner } from './jwt.ts'
import { createMemoryQueue } from './memory-queue.ts'
import type { PushCallContext } from './push-config-store.ts'
import type { QueuedDelivery, QueueStep } from './queue.ts'
import { type DeliveryEvent, senderSettings, type WebhookSenderOptions } from './sender-options.ts'
import { serializeEvent, taskIdOf } from './serialize.ts'
import { type CurrentConfig, guardedTargets, isGuarded, laneOf, plainTargets } from './targets.ts'

/** A store that does not answer must not hold a place in the queue. */
const STORE_MS = 10_000

export interface WebhookSender {
  /** The SDK's `PushNotificationSender`: resolves when the event is queued, rejects when configs or signing key cannot be had. */
  send(streamResponse: unknown, context: PushCallContext, task?: unknown): Promise<void>
  health(): { readonly ok: boolean; readonly queued?: number; readonly openHosts: number }
  /** Delivers what is queued, for at most `timeoutMs` (default 10 000), and drops the rest, which is reported. */
  close(timeoutMs?: number): Promise<void>
}

/**
 * A drop-in for the SDK's `DefaultPushNotificationSender`. `store` is that of `createPushNotifications`, or any
 * `PushNotificationStore` of the SDK; only the first guards registration and hides secrets.
 *
 * Checked at every connection: that `egress` allows it. Events of one task and config keep their order; a retry is signed
 * anew under the same `webhook-id`. Queued events are in memory: a crash loses them, and the log says so at start.
 * Throws `TypeError` quoting the option.
 */
export function createWebhookSender(options: WebhookSenderOptions): WebhookSender {
  const settings = senderSettings(options)
  const { store, clock, retry, logger } = settings
  const hosts = createHosts(settings.host)
  const signer = settings.jwt === undefined ? undefined : createWebhookJwtSigner(settings.jwt)
  let isSigner = true
  signer?.catch((error: unknown) => {
    isSigner = false
    logger?.error({ code: codeOf(error) }, 'webhooks cannot be signed')
  })
  const context: AttemptContext = {
    ...settings.attempt,
    signJwt: signer === undefined ? undefined : async (claims) => (await signer)(claims),
  }
  const queue = settings.durable ?? createMemoryQueue(settings.queue)
  queue.start({ attempt, dropped: (item) => report(item, 'dropped') })
  const targetsOf = isGuarded(store) ? guardedTargets(store) : plainTargets(store)
  const stopListening = isGuarded(store) ? store.onChange((record) => queue.interrupt(laneOf(record))) : () => undefined
  /** The events of one task are queued in the order in which they came, however long each look-up takes. */
  const turns = new Map<string, Promise<void>>()
  let closed = false
  if (!queue.durable) logger?.info({}, 'webhooks wait in memory: a crash loses what is queued')

  async function attempt(item: QueuedDelivery, signal: AbortSignal): Promise<QueueStep> {
    const config = await currentConfig(item)
    if ('next' in config) {
      call(hosts.leave(item.lane))
      return config
    }
    const startMs = clock()
    const { host } = new URL(config.url)
    const waitMs = hosts.take(host, item.lane, startMs)
    if (waitMs > 0) return { next: 'wait', delayMs: waitMs }
    item.attempts += 1
    const result = await attemptDelivery(item.message, config, context, startMs, signal)
    const isFault = result.kind === 'retry' && !signal.aborted
    call(hosts.release(host, isFault ? 'failed' : result.kind === 'delivered' ? 'ok' : 'neither', clock()))
    // Whatever ended this attempt was about a config that is another now.
    if (signal.aborted && result.kind !== 'delivered') return { next: 'wait', delayMs: 0 }
    if (result.kind === 'retry') return again(item, result)
    // What else is queued finds its config gone, or replaced by another process meanwhile.
    if (result.kind === 'gone') await within(config.end(), STORE_MS).catch(() => undefined)
    return finish(item, result.kind, 'done', result)
  }

  /** The config as it is now, or what becomes of the event without one. */
  async function currentConfig(item: QueuedDelivery): Promise<CurrentConfig | QueueStep> {
    if (clock() - item.queuedMs > retry.maxAgeMs) return finish(item, 'expired')
    try {
      const config = await within(targetsOf.find(item), STORE_MS)
      return config ?? finish(item, 'revoked', 'clear')
    } catch (error) {
      const reason = codeOf(error)
      return reason === 'ERR_PUSH_CONFIG' ? finish(item, 'failed', 'done', { reason }) : again(item, { reason })
    }
  }

  function call(waiters: readonly string[]): void {
    for (const waiter of waiters) queue.wake(waiter)
  }

  function finish(
    item: QueuedDelivery,
    outcome: DeliveryEvent['outcome'],
    next: 'done' | 'clear' = 'done',
    facts: { status?: number; reason?: ErrorCode } = {},
  ): QueueStep {
    report(item, outcome, facts)
    return { next }
  }

  /** Exponential backoff with full jitter, never sooner than the receiver asked. */
  function again(
    item: QueuedDelivery,
    { retryAfterMs = 0, ...facts }: { status?: number; reason?: ErrorCode; retryAfterMs?: number },
  ): QueueStep {
    const ceilingMs = Math.min(retry.maxMs, retry.baseMs * 2 ** Math.max(0, Math.min(item.attempts - 1, 30)))
    const delayMs = Math.max(retryAfterMs, Math.ceil(settings.random() * ceilingMs))
    if (clock() + delayMs - item.queuedMs > retry.maxAgeMs) return finish(item, 'expired', 'done', facts)
    report(item, 'retry', facts)
    return { next: 'wait', delayMs }
  }

  function report(
    { message: { id, taskId }, configId, origin, attempts }: QueuedDelivery,
    outcome: DeliveryEvent['outcome'],
    { status, reason }: { status?: number; reason?: ErrorCode } = {},
  ): void {
    const facts = { ...(status === undefined ? {} : { status }), ...(reason === undefined ? {} : { reason }) }
    const event: DeliveryEvent = Object.freeze({ id, taskId, configId, origin, attempt: attempts, outcome, ...facts })
    if (outcome !== 'delivered') logger?.warn({ ...event }, 'a webhook was not delivered')
    // In a promise, so that a function that is async takes the process down no more than one that throws.
    new Promise((resolve) => resolve(settings.onDelivery?.(event))).catch((error: unknown) => {
      logger?.error({ error: error instanceof Error ? error.name : 'not an Error' }, '"onDelivery" threw')
    })
  }

  async function enqueue(event: unknown, task: unknown, context: PushCallContext, taskId: string): Promise<void> {
    const targets = await within(targetsOf.list(taskId, context), STORE_MS)
    if (targets.length === 0) return
    // What can never be signed is not queued (field case P167).
    await signer
    const written = await serializeEvent(event, task)
    for (const { configId, version, url, ...rest } of targets) {
      const { body, contentType, final } = written.as(version)
      const message = { id: `msg_${randomUUID().replaceAll('-', '')}`, taskId, version, body, contentType }
      const origin = URL.canParse(url) ? new URL(url).origin : 'invalid URL'
      const lane = laneOf({ taskId, id: configId, ...rest })
      const item = { lane, message, configId, ...rest, origin, final, queuedMs: clock(), attempts: 0 }
      targetsOf.queued?.(item, context)
      await queue.push(item)
    }
  }

  /** Known at once for a store in memory, so that a task without webhooks costs nothing. */
  function hasNone(taskId: string): boolean {
    const known = isGuarded(store) && !turns.has(taskId) ? store.records(taskId) : undefined
    return Array.isArray(known) && known.length === 0
  }

  return Object.freeze({
    async send(streamResponse: unknown, context: PushCallContext, task?: unknown) {
      const taskId = taskIdOf(streamResponse)
      if (taskId === '' || hasNone(taskId)) return
      if (closed) throw new TrustError('ERR_WEBHOOK_SENDER_CLOSED')
      // The agent goes on with its objects while earlier events are looked up.
      const [event, taskNow] = structuredClone([streamResponse, task])
      const turn = (turns.get(taskId) ?? Promise.resolve())
        .catch(() => undefined)
        .then(() => enqueue(event, taskNow, context, taskId))
      turns.set(taskId, turn)
      await turn.finally(() => {
        if (turns.get(taskId) === turn) turns.delete(taskId)
      })
    },
    health: () => ({
      ok: !closed && isSigner && hosts.open === 0,
      ...(queue.queued === undefined ? {} : { queued: queue.queued }),
      openHosts: hosts.open,
    }),
    async close(timeoutMs = 10_000) {
      closed = true
      const endMs = performance.now() + timeoutMs
      await within(Promise.allSettled(turns.values()), timeoutMs).catch(() => undefined)
      await queue.drain(Math.max(0, endMs - performance.now()))
      stopListening()
    },
  })
}

function codeOf(error: unknown): ErrorCode {
  return error instanceof TrustError ? error.code : 'ERR_STORE_UNAVAILABLE'
}
