import { expect, it } from 'vitest'
import { createMemoryRateLimiter } from '../../../src/store/rate-limiter.ts'

it('a clock set back locks nobody out for longer than one window, whoever asks', () => {
  const limiter = createMemoryRateLimiter({ count: 1, windowSeconds: 60 })
  const now = 1_800_000_000_000
  expect(limiter.take('a', now)).toBe(0)
  expect(limiter.waitSeconds('a', now)).toBe(60)
  expect(limiter.waitSeconds('a', now - 1)).toBe(0)
  // To ask and to take are of one mind.
  expect(limiter.waitSeconds('a', now - 86_400_000)).toBe(0)
  expect(limiter.take('a', now - 86_400_000)).toBe(0)
  expect(limiter.waitSeconds('a', now - 86_400_000)).toBe(60)
})

it('to ask spends nothing and remembers nobody', () => {
  const limiter = createMemoryRateLimiter({ count: 2, windowSeconds: 1 }, 1)
  limiter.take('a', 0)
  limiter.take('a', 0)
  for (const other of ['b', 'c', 'd']) expect(limiter.waitSeconds(other, 0)).toBe(0)
  expect(limiter.waitSeconds('a', 0)).toBe(1)
  expect(limiter.waitSeconds('a', 999)).toBe(1)
  expect(limiter.waitSeconds('a', 1000)).toBe(0)
})

it('what is given back may be taken again, in the window it was taken in and in no other', () => {
  const limiter = createMemoryRateLimiter({ count: 1, windowSeconds: 1 })
  limiter.giveBack('a', 0)
  expect([limiter.take('a', 0), limiter.take('a', 1)]).toEqual([0, 1])
  limiter.giveBack('a', 0)
  limiter.giveBack('a', 0)
  expect([limiter.take('a', 2), limiter.take('a', 3)]).toEqual([0, 1])
  expect(limiter.take('a', 1000)).toBe(0)
  limiter.giveBack('a', 2)
  expect(limiter.take('a', 1001)).toBe(1)
})
