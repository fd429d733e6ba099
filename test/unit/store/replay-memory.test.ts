import { describe, expect, it } from 'vitest'
import { createMemoryReplayStore } from '../../../src/store/replay-memory.ts'

describe('memory replay store', () => {
  it('answers true once, and again when the time is up', () => {
    let now = 0
    const store = createMemoryReplayStore({ clock: () => now })
    expect([store.claim('a', 10), store.claim('a', 10), store.claim('b', 10)]).toEqual([true, false, true])
    now = 9_999
    expect(store.claim('a', 10)).toBe(false)
    now = 10_000
    expect([store.claim('a', 10), store.claim('a', 10)]).toEqual([true, false])
  })

  it('full, it refuses what is new and forgets nothing; what has ended makes room', () => {
    let now = 0
    const store = createMemoryReplayStore({ clock: () => now, maxKeys: 2 })
    store.claim('a', 1)
    store.claim('b', 60)
    for (const key of ['c', 'd']) expect(() => store.claim(key, 1)).toThrow(/store/i)
    expect([store.claim('a', 1), store.claim('b', 1)]).toEqual([false, false])
    now = 2_000
    expect([store.claim('c', 60), store.claim('b', 60)]).toEqual([true, false])
    expect(() => store.claim('a', 1)).toThrow(expect.objectContaining({ code: 'ERR_STORE_UNAVAILABLE' }))
  })
})
