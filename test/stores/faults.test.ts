/** What becomes of the stores when their server fails. A fault never becomes an allow, and ends without a restart. */
import type { Redis } from 'ioredis'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createRedisStores, type RedisStores } from '../../src/store/redis/index.ts'
import { clientOf, type RedisServer, startRedis, until } from '../support/redis.ts'

let server: RedisServer
const opened: { client: Redis; stores: RedisStores }[] = []

function open(options: { commandTimeoutMs?: number } = {}): RedisStores {
  const client = clientOf(server.port)
  const stores = createRedisStores({ client, commandTimeoutMs: 200, ...options })
  opened.push({ client, stores })
  return stores
}

beforeEach(async () => {
  server = await startRedis()
})
afterEach(async () => {
  for (const { client, stores } of opened.splice(0)) {
    await stores.close()
    client.disconnect()
  }
  await server.close()
})

const unavailable = expect.objectContaining({ code: 'ERR_STORE_UNAVAILABLE' })
async function outcome(stores: RedisStores, key: string, ttlSeconds = 60): Promise<'allowed' | 'denied' | '503'> {
  try {
    return (await stores.replay.claim(key, ttlSeconds)) ? 'allowed' : 'denied'
  } catch (fault) {
    expect(fault).toEqual(unavailable)
    return '503'
  }
}
const back = (stores: RedisStores) =>
  until(async () => (await outcome(stores, `probe ${Math.random()}`, 0.001)) === 'allowed')

it('a server that lost its memory takes nothing for new that may have been used before', async () => {
  const stores = open()
  expect(await outcome(stores, 'a')).toBe('allowed')
  await server.restart('empty')
  // One that starts now knows of no loss, until one that does has spoken.
  await back(stores)
  const fresh = open()
  const answers = await Promise.all([stores, fresh].flatMap((each) => [outcome(each, 'a'), outcome(each, 'b')]))
  expect(answers).toEqual(['503', '503', '503', '503'])
  expect(await outcome(fresh, 'c', 0.001)).toBe('allowed')
})

it('the same after FLUSHALL, with the connection alive', async () => {
  const stores = open()
  expect(await outcome(stores, 'a')).toBe('allowed')
  await opened[0]?.client.flushall()
  expect(await outcome(stores, 'a')).toBe('503')
})

it('a process that began on the empty server first does not make the loss forgotten', async () => {
  const stores = open()
  expect(await outcome(stores, 'a')).toBe('allowed')
  await opened[0]?.client.flushall()
  const fresh = open()
  await outcome(fresh, 'x')
  expect(await outcome(stores, 'a')).toBe('503')
  expect(await outcome(fresh, 'b')).toBe('503')
})

it('a server that evicts is refused', async () => {
  const stores = open()
  await until(() => opened[0]?.client.status === 'ready')
  await opened[0]?.client.config('SET', 'maxmemory', '100mb', 'maxmemory-policy', 'allkeys-lru')
  await expect(Promise.resolve(stores.replay.claim('a', 60))).rejects.toMatchObject({
    code: 'ERR_STORE_UNAVAILABLE',
    details: { reason: expect.stringContaining('noeviction') },
  })
})

it('killed: 503 at once, and back without a restart', async () => {
  const stores = open()
  expect(await outcome(stores, 'a')).toBe('allowed')
  await server.kill()
  await until(async () => (await outcome(stores, 'a')) === '503')
  expect(stores.health()).toMatchObject({ ok: false })
  await server.restart()
  await back(stores)
  expect(stores.health()).toEqual({ ok: true })
})

it('paused: one deadline, then refused without being asked, and back', async () => {
  const stores = open()
  expect(await outcome(stores, 'a')).toBe('allowed')
  server.pause()
  const sent = vi.spyOn(opened[0]!.client, 'evalsha')
  expect(new Set(await Promise.all(Array.from({ length: 20 }, () => outcome(stores, 'a'))))).toEqual(new Set(['503']))
  expect(sent).toHaveBeenCalledTimes(20)
  for (let i = 0; i < 20; i += 1) expect(await outcome(stores, `new ${i}`)).toBe('503')
  expect(sent).toHaveBeenCalledTimes(20)
  server.resume()
  await until(async () => (await outcome(stores, `new ${Math.random()}`)) === 'allowed')
  expect(await outcome(stores, 'a')).toBe('denied')
})
