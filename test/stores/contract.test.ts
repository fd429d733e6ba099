/** The same promises of every store: in memory, on one Redis server. */
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { createRedisStores, type RedisClient } from '../../src/store/redis/index.ts'
import { createMemoryReplayStore } from '../../src/store/replay-memory.ts'
import { type StoresUnderTest, storeContract } from '../../src/testing/index.ts'
import { clientOf, elapse, type RedisServer, startRedis } from '../support/redis.ts'

interface Kind {
  open(): Promise<() => StoresUnderTest>
  close(): Promise<void>
}

const memory: Kind = {
  async open() {
    return () => {
      let nowMs = 1_800_000_000_000
      const clock = () => nowMs
      return {
        replay: createMemoryReplayStore({ clock }),
        elapse(ms) {
          nowMs += ms
        },
      }
    }
  },
  async close() {},
}

let made = 0
/** Two processes: two clients. Each case has a prefix of its own. */
function over(clients: readonly [RedisClient, RedisClient], masters: readonly Redis[]): () => StoresUnderTest {
  return () => {
    made += 1
    const prefix = `case${made}`
    const [one, other] = clients.map((client) => createRedisStores({ client, prefix })) as [
      ReturnType<typeof createRedisStores>,
      ReturnType<typeof createRedisStores>,
    ]
    return {
      ...one,
      other,
      elapse: (ms) => elapse(masters, ms),
      async close() {
        await one.close()
        await other.close()
      },
    }
  }
}

function single(): Kind {
  let server: RedisServer
  let clients: readonly [Redis, Redis]
  return {
    async open() {
      server = await startRedis()
      clients = [clientOf(server.port), clientOf(server.port)]
      return over(clients, [clients[0]])
    },
    async close() {
      for (const client of clients) client.disconnect()
      await server.close()
    },
  }
}

describe.each([
  ['memory', memory],
  ['one Redis server', single()],
])('stores: %s', (_, kind) => {
  let make: () => StoresUnderTest
  beforeAll(async () => {
    make = await kind.open()
  })
  afterAll(() => kind.close())
  for (const { name, run } of storeContract(() => make())) it(name, run)
})
