/**
 * `a2a-trust/webhook/bullmq`: deliveries that outlive the process. Events of a lane stand in a Redis list; a BullMQ job for
 * the lane says who is at it, waits out delays, and is taken over by another process when its own dies.
 */
import { createHash } from 'node:crypto'
import type { ConnectionOptions, Job, Queue, Worker } from 'bullmq'
import { TrustError } from '../errors.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { within } from '../internal/within.ts'
import type { Logger } from '../types.ts'
import type { DeliveryQueue, DeliveryWork, QueuedDelivery } from './queue.ts'

export interface BullQueueOptions {
  /** An ioredis client with `maxRetriesPerRequest: null`, which BullMQ asks for. The caller's: it is not closed here. */
  readonly client: BullRedisClient
  /** Separates agents that share a Redis. Default `a2a-trust-webhooks`. */
  readonly name?: string
  /** Attempts at once in this process. 1 to 10 000, default 32. */
  readonly concurrency?: number
  /** Events kept for one config; the oldest that does not end its task makes room. 2 to 100 000, default 1000. */
  readonly maxPerConfig?: number
  /** After this long without a sign of life the lanes of a process are taken over. 1000 to 600 000 ms, default 30 000. */
  readonly takeOverAfterMs?: number
  readonly logger?: Logger
}

interface LaneJob {
  readonly lane: string
  /** Attempts at the event `id`, which heads the lane. */
  id: string
  attempts: number
}

/** KEYS: the lane, the set of lanes. ARGV: the event, the limit, the lane. Returns what made room, if anything had to. */
const PUSH = `
local length = redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[2], ARGV[3])
if length <= tonumber(ARGV[2]) then return false end
local items = redis.call('LRANGE', KEYS[1], 1, -2)
for _, item in ipairs(items) do
  if string.sub(item, 1, 1) == 'n' then
    redis.call('LREM', KEYS[1], 1, item)
    return item
  end
end
if string.sub(ARGV[1], 1, 1) == 'f' and length <= 2 * tonumber(ARGV[2]) then return false end
redis.call('RPOP', KEYS[1])
return ARGV[1]`

/** Takes the head if it is still the one that was delivered: of two processes at one lane only the first moves on. */
const SHIFT = `
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
redis.call('LPOP', KEYS[1])
return 1`

/** Forgets a lane that is empty, in one step with seeing that it is. */
const FORGET = `
if redis.call('LLEN', KEYS[1]) > 0 then return 0 end
redis.call('SREM', KEYS[2], ARGV[1])
return 1`

/** What is used of ioredis. */
export interface BullRedisClient {
  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  lindex(key: string, index: number): Promise<string | null>
  lrange(key: string, start: number, stop: number): Promise<string[]>
  del(key: string): Promise<number>
  smembers(key: string): Promise<string[]>
}

const SWEEP_MS = 5000
const CLOSE_MS = 1000
/** A client that waits for its Redis must not keep the agent waiting. */
const PUSH_MS = 5000

/**
 * For `createWebhookSender({ durable })`: at least once, in order for each task and config, also over crashes. An event that
 * was under way when its process died is sent again under the same `webhook-id`, which a receiver answers without
 * running its work twice. Any number of processes may share a queue; they must share the push configs and their keys.
 *
 * Events stand in Redis as they are sent: protect it as you protect the tasks. Not in order: a lane whose process was
 * frozen for longer than `takeOverAfterMs` and then went on may send its first event twice at once.
 * Throws `TypeError` quoting the option; `push` rejects with `ERR_STORE_UNAVAILABLE` while Redis cannot be reached.
 */
export function createBullQueue(options: BullQueueOptions): DeliveryQueue {
  assertKnownOptions('createBullQueue', options, OPTIONS)
  const { client, name = 'a2a-trust-webhooks', logger } = options
  const concurrency = whole('concurrency', options.concurrency ?? 32, 1, 10_000)
  const maxPerConfig = whole('maxPerConfig', options.maxPerConfig ?? 1000, 2, 100_000)
  const takeOverAfterMs = whole('takeOverAfterMs', options.takeOverAfterMs ?? 30_000, 1000, 600_000)
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) throw new TypeError('"name" must be 1 to 64 of A-Z a-z 0-9 _ -')
  if (typeof (client as Partial<BullRedisClient> | undefined)?.eval !== 'function')
    throw new TypeError('"client" must be an ioredis client')
  const connection = client as unknown as ConnectionOptions
  // One hash slot for all keys of the queue, BullMQ's own included.
  const prefix = `{${name}}`
  const lanesKey = `${prefix}:lanes`
  const keyOf = (lane: string) => `${prefix}:lane:${jobIdOf(lane)}`
  // Loaded with the first queue: this file is read by whoever looks at what the package has.
  const bull = import('bullmq')
  const opened = bull.then(({ Queue: BullQueue }) => {
    const queue: Queue<LaneJob> = new BullQueue(name, { connection, prefix })
    queue.on('error', (error) => logger?.warn({ error: error.name }, 'the webhook queue has lost its Redis'))
    return queue
  })
  opened.catch((error: unknown) =>
    logger?.error({ error: error instanceof Error ? error.name : 'not an Error' }, 'BullMQ cannot be loaded'),
  )
  const running = new Map<string, AbortController>()
  let working: Promise<Worker<LaneJob>> | undefined
  let sweep: NodeJS.Timeout | undefined
  let closed = false
  let report: DeliveryWork['dropped'] | undefined

  /** Nothing happens where the lane has a job already: waiting, delayed or under way. */
  async function offer(lane: string): Promise<void> {
    const queue = await opened
    await queue.add(
      'lane',
      { lane, id: '', attempts: 0 },
      { jobId: jobIdOf(lane), removeOnComplete: true, removeOnFail: true },
    )
  }

  /** Lanes whose job ended, or was never made, between a push and the end of the job before. */
  async function offerWaiting(): Promise<void> {
    for (const lane of await client.smembers(lanesKey)) {
      if ((await client.eval(FORGET, 2, keyOf(lane), lanesKey, lane)) === 0) await offer(lane)
    }
  }

  async function work(job: Job<LaneJob>, token: string | undefined, { attempt, dropped }: DeliveryWork): Promise<void> {
    const { lane } = job.data
    const key = keyOf(lane)
    for (;;) {
      const text = closed ? null : await client.lindex(key, 0)
      if (text === null) return
      const item = parse(text)
      item.attempts = job.data.id === item.message.id ? job.data.attempts : 0
      const controller = new AbortController()
      running.set(lane, controller)
      const step = await attempt(item, controller.signal)
      running.delete(lane)
      if (step.next === 'wait') {
        await job.updateData({ lane, id: item.message.id, attempts: item.attempts })
        await job.moveToDelayed(Date.now() + step.delayMs, token)
        throw new (await bull).DelayedError()
      }
      await client.eval(SHIFT, 1, key, text)
      if (step.next === 'clear') {
        for (const rest of await client.lrange(key, 0, -1)) dropped(parse(rest))
        await client.del(key)
      }
    }
  }

  return {
    durable: true,
    start(delivery) {
      report = delivery.dropped
      working = bull.then(({ Worker: BullWorker }) => {
        const worker: Worker<LaneJob> = new BullWorker(
          name,
          (job, token) => work(job as Job<LaneJob>, token, delivery),
          {
            connection,
            prefix,
            concurrency,
            lockDuration: takeOverAfterMs,
            stalledInterval: Math.max(500, Math.floor(takeOverAfterMs / 2)),
            maxStalledCount: Number.MAX_SAFE_INTEGER,
          },
        )
        worker.on('error', (error) => logger?.warn({ error: error.name }, 'the webhook worker has lost its Redis'))
        worker.on('completed', ({ data: { lane } }) => {
          void client
            .eval(FORGET, 2, keyOf(lane), lanesKey, lane)
            .then((forgotten) => (forgotten === 0 && !closed ? offer(lane) : undefined))
            .catch(() => undefined)
        })
        return worker
      })
      working.catch(() => undefined)
      const sweepOnce = () => void offerWaiting().catch(() => undefined)
      sweepOnce()
      sweep = setInterval(sweepOnce, SWEEP_MS).unref()
    },
    async push(item) {
      const stored = (async () => {
        const text = `${item.final ? 'f' : 'n'}${JSON.stringify(item)}`
        const dropped = await client.eval(PUSH, 2, keyOf(item.lane), lanesKey, text, maxPerConfig, item.lane)
        if (typeof dropped === 'string') report?.(parse(dropped))
        await offer(item.lane)
      })()
      await within(stored, PUSH_MS).catch((cause: unknown) => {
        throw new TrustError('ERR_STORE_UNAVAILABLE', { cause })
      })
    },
    interrupt(lane) {
      running.get(lane)?.abort()
      void opened.then((queue) => wake(queue, lane)).catch(() => undefined)
    },
    wake: (lane) => void opened.then((queue) => wake(queue, lane)).catch(() => undefined),
    queued: undefined,
    async drain(timeoutMs) {
      closed = true
      clearInterval(sweep)
      const timer = setTimeout(() => {
        for (const controller of running.values()) controller.abort()
      }, timeoutMs)
      const worker = await working
      // Without its Redis a worker waits for ever: what it has not ended is taken over, as after a crash.
      const late = () => logger?.warn({}, 'the webhook queue did not end in time')
      if (worker !== undefined) {
        await within(worker.pause(), timeoutMs + CLOSE_MS).catch(late)
        await within(worker.close(true), CLOSE_MS).catch(late)
      }
      clearTimeout(timer)
      await within((await opened).close(), CLOSE_MS).catch(late)
    },
  }
}

const OPTIONS = ['client', 'name', 'concurrency', 'maxPerConfig', 'takeOverAfterMs', 'logger'] as const

async function wake(queue: Queue<LaneJob>, lane: string): Promise<void> {
  const job = await queue.getJob(jobIdOf(lane))
  if ((await job?.getState()) === 'delayed') await job?.promote()
}

/** BullMQ allows no colon in an id, and a lane may be of any length. */
function jobIdOf(lane: string): string {
  return createHash('sha256').update(lane).digest('base64url')
}

function parse(text: string): QueuedDelivery {
  return JSON.parse(text.slice(1)) as QueuedDelivery
}

function whole(option: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw new TypeError(`"${option}" must be a whole number from ${min} to ${max}`)
}
