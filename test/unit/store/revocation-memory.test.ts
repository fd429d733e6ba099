import { describe, expect, it } from 'vitest'
import { createMemoryRevocationStore } from '../../../src/store/revocation-memory.ts'

const ALWAYS = Number.NEGATIVE_INFINITY

function storeAt(now: number, maxEntries?: number) {
  const time = { now }
  const clock = () => time.now * 1000
  return { time, store: createMemoryRevocationStore({ clock, ...(maxEntries === undefined ? {} : { maxEntries }) }) }
}

describe('memory revocation store', () => {
  it('reaches the names it was given, and no other', () => {
    const { store } = storeAt(0)
    expect(store.revokes(['a'], 5)).toBe(false)
    store.add({ name: 'a' })
    expect([store.revokes(['x', 'a'], 5), store.revokes(['A', 'a ', ''], 5), store.revokes([], 5)]).toEqual([
      true,
      false,
      false,
    ])
  })

  it('reaches what was issued before, to the second; what says nothing was issued before everything', () => {
    const { store } = storeAt(0)
    store.add({ name: 'a', issuedBefore: 100 })
    expect([99.999, 100, 101, ALWAYS].map((at) => store.revokes(['a'], at))).toEqual([true, false, false, true])
    store.add({ name: 'b', issuedBefore: 0 })
    expect([store.revokes(['b'], 0), store.revokes(['b'], ALWAYS)]).toEqual([false, true])
  })

  it('adding never takes anything back', () => {
    const { store, time } = storeAt(0)
    store.add({ name: 'a', issuedBefore: 100, expiresAt: 50 })
    store.add({ name: 'a', issuedBefore: 10, expiresAt: 20 })
    time.now = 49
    expect(store.revokes(['a'], 99)).toBe(true)
    store.add({ name: 'a' })
    store.add({ name: 'a', issuedBefore: 1, expiresAt: 1 })
    time.now = 1e9
    expect(store.revokes(['a'], 1e8)).toBe(true)
  })

  it('ends when it says, and a later entry starts afresh', () => {
    const { store, time } = storeAt(0)
    store.add({ name: 'a', expiresAt: 10 })
    time.now = 9.999
    expect(store.revokes(['a'], 5)).toBe(true)
    time.now = 10
    expect(store.revokes(['a'], 5)).toBe(false)
    store.add({ name: 'a', issuedBefore: 3, expiresAt: 20 })
    expect([store.revokes(['a'], 2), store.revokes(['a'], 5)]).toEqual([true, false])
  })

  it('full, it refuses what is new and forgets nothing; what has ended makes room', () => {
    const { store, time } = storeAt(0, 2)
    store.add({ name: 'a', expiresAt: 10 })
    store.add({ name: 'b' })
    expect(() => store.add({ name: 'c' })).toThrow(expect.objectContaining({ code: 'ERR_STORE_UNAVAILABLE' }))
    store.add({ name: 'b', expiresAt: 99 })
    expect(['a', 'b', 'c'].map((name) => store.revokes([name], 0))).toEqual([true, true, false])
    time.now = 10
    store.add({ name: 'c' })
    expect(['a', 'b', 'c'].map((name) => store.revokes([name], 0))).toEqual([false, true, true])
  })
})
