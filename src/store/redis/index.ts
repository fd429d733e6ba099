/** Stores that several processes share, over Redis. */
import { assertKnownOptions } from '../../internal/options.ts'
import type { ReplayStore } from '../stores.ts'
import { createConnection, type RedisClient } from './connection.ts'
import { createKeys } from './keys.ts'
import { createRedisReplayStore } from './replay.ts'

export type { RedisClient } from './connection.ts'

export interface RedisStoresOptions {
  /** An ioredis client of yours: `Redis` (one server, or by Sentinel) or `Cluster`. You end it, after these stores. */
  readonly client: RedisClient
  /** Every key begins with it. Letters, digits and `. _ : -`, at most 64. Default `a2a-trust`. */
  readonly prefix?: string
  /** How long an answer may take, in milliseconds, 10 to 60 000. Default 1000. */
  readonly commandTimeoutMs?: number
  /**
   * How many replicas must hold what is written before it counts, 0 to 8, so that a failover forgets nothing. Default 1
   * by Sentinel and in a Cluster, else 0.
   */
  readonly replicas?: number
}

export interface StoreHealth {
  readonly ok: boolean
  /** What is wrong. */
  readonly detail?: string
}

export interface RedisStores {
  readonly replay: ReplayStore
  health(): StoreHealth
  /** Ends what was opened here, not the client. Everything asked afterwards is refused. */
  close(): Promise<void>
}

/**
 * Stores for `createGuard({ stores })`, `createWebhookVerifier({ replayStore: stores.replay })` and
 * `createPushNotifications({ records: stores.pushConfigs })`.
 *
 * Throws `TypeError` quoting the option. Whatever the server does not answer in time, or cannot answer for sure, rejects
 * with `ERR_STORE_UNAVAILABLE`, and the guard says 503. Not checked: that the server is yours alone, and that its data
 * survives a loss of power; see `docs/stores.md`.
 */
export function createRedisStores(options: RedisStoresOptions): RedisStores {
  assertKnownOptions('createRedisStores', options, ['client', 'prefix', 'commandTimeoutMs', 'replicas'])
  const { client, prefix = 'a2a-trust', commandTimeoutMs = 1000 } = options
  checkClient(client)
  const { replicas = client.isCluster || isBySentinel(client) ? 1 : 0 } = options
  checkWhole('commandTimeoutMs', commandTimeoutMs, 10, 60_000)
  checkWhole('replicas', replicas, 0, 8)
  const keys = createKeys(prefix)
  const connection = createConnection({ client, commandTimeoutMs, replicas })

  return Object.freeze({
    replay: Object.freeze(createRedisReplayStore(connection, keys, replicas)),
    health() {
      const detail = connection.trouble()
      return detail === undefined ? { ok: true } : { ok: false, detail }
    },
    async close() {
      connection.close()
    },
  })
}

function checkClient(client: RedisClient): void {
  const given: unknown = client
  const isClient =
    typeof given === 'object' && given !== null && typeof (given as Partial<RedisClient>).evalsha === 'function'
  if (!isClient) throw new TypeError('"client" must be a Redis or Cluster of ioredis')
  // It would not reach channels and keys made on the server.
  if (client.options.keyPrefix !== undefined && client.options.keyPrefix !== '')
    throw new TypeError('"client" must have no keyPrefix: give "prefix" here')
}

function isBySentinel({ options }: RedisClient): boolean {
  return 'sentinels' in options && Array.isArray(options.sentinels)
}

function checkWhole(name: string, value: number, least: number, most: number): void {
  if (!Number.isSafeInteger(value) || value < least || value > most)
    throw new TypeError(`"${name}" must be a whole number from ${least} to ${most}`)
}
