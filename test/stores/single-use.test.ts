/** Promise 6: nothing single-use is accepted twice, on one process or many. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { root } from '../gates/source-tree.ts'
import { clientOptions, type RedisServer, startRedis } from '../support/redis.ts'

const PROCESSES = 8
const VALUES = 10_000
const ATTEMPTS = 100_000

interface Result {
  readonly accepted: readonly number[]
  readonly refused: number
  readonly failed: number
}

interface Process {
  readonly ready: Promise<void>
  go(): void
  readonly result: Promise<Result>
}

function start(target: object): Process {
  const { retryStrategy, ...options } = clientOptions
  const task = { target, prefix: 'once', values: VALUES, attempts: ATTEMPTS / PROCESSES, from: 0, options }
  const child = spawn(process.execPath, [join(root, 'test/support/claims.mjs'), JSON.stringify(task)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ready = lines.next().then(({ value }) => expect(value).toBe('ready'))
  return {
    ready,
    go: () => void child.stdin.write('go'),
    result: ready.then(async () => JSON.parse((await lines.next()).value as string) as Result),
  }
}

async function all(target: object): Promise<void> {
  const processes = Array.from({ length: PROCESSES }, () => start(target))
  await Promise.all(processes.map(({ ready }) => ready))
  for (const { go } of processes) go()
  const results = await Promise.all(processes.map(({ result }) => result))
  const accepted = results.flatMap((result) => result.accepted)
  expect(results.map(({ failed }) => failed)).toEqual(results.map(() => 0))
  expect(accepted.toSorted((a, b) => a - b)).toEqual(Array.from({ length: VALUES }, (_, value) => value))
  expect(results.reduce((sum, { refused }) => sum + refused, 0)).toBe(ATTEMPTS - VALUES)
  // They did run against each other.
  expect(results.filter((result) => result.accepted.length > 0).length).toBeGreaterThan(1)
}

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.close())

it(
  'P116 eight processes, 100 000 attempts at 10 000 values: each is accepted once, on one server',
  { timeout: 60_000 },
  () => all({ port: server.port, host: '127.0.0.1' }),
)
