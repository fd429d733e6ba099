import { describe, expect, it } from 'vitest'
import { createMemoryOwnershipStore } from '../../../src/store/ownership-memory.ts'
import type { Ownership } from '../../../src/store/stores.ts'

const of = (owner: string, skills: string[] = []): Ownership => ({ owner, issuer: 'i', member: {}, skills })

describe('memory ownership store', () => {
  it('the first claim wins, and later ones add nothing but skills', () => {
    const store = createMemoryOwnershipStore()
    expect(store.claim('task:t', of('alice', ['echo']))).toEqual(of('alice', ['echo']))
    expect(store.claim('task:t', of('bob', ['pay']))).toEqual(of('alice', ['echo', 'pay']))
    expect(store.find('task:t')).toEqual(of('alice', ['echo', 'pay']))
    store.forget('task:t')
    expect(store.find('task:t')).toBeUndefined()
    expect(store.claim('task:t', of('bob')).owner).toBe('bob')
  })

  it('full, it refuses what is new, forgets nothing, and one owner cannot use up the room of all', () => {
    const store = createMemoryOwnershipStore({ maxEntries: 3, maxPerOwner: 2 })
    const refused = expect.objectContaining({ code: 'ERR_STORE_UNAVAILABLE' }) as Error
    store.claim('a', of('alice'))
    store.claim('b', of('alice'))
    expect(() => store.claim('c', of('alice'))).toThrow(refused)
    store.claim('c', of('bob'))
    expect(() => store.claim('d', of('carol'))).toThrow(refused)
    expect(['a', 'b', 'c'].map((key) => store.find(key)?.owner)).toEqual(['alice', 'alice', 'bob'])
    expect(store.claim('a', of('alice')).owner).toBe('alice')
    store.forget('a')
    store.forget('a')
    store.claim('d', of('alice'))
    expect(() => store.claim('e', of('alice'))).toThrow(refused)
  })

  it('an entry lives from its owner’s last claim; a stranger’s claim keeps nothing alive', () => {
    let now = 0
    const store = createMemoryOwnershipStore({ clock: () => now * 1000, ttlSeconds: 10, maxEntries: 2, maxPerOwner: 2 })
    store.claim('a', of('alice'))
    store.claim('b', of('alice'))
    now = 9
    store.claim('a', of('alice'))
    store.claim('b', of('bob'))
    now = 11
    expect(store.find('b')).toBeUndefined()
    expect(store.find('a')?.owner).toBe('alice')
    store.claim('c', of('carol'))
    now = 30
    expect(store.claim('d', of('dave')).owner).toBe('dave')
    expect(store.find('c')).toBeUndefined()
  })

  it('what is no bound is refused at construction', () => {
    for (const wrong of [{ maxEntries: 0 }, { maxPerOwner: 1.5 }, { ttlSeconds: -1 }, { maxKeys: 5 }])
      expect(() => createMemoryOwnershipStore(wrong as never)).toThrow(TypeError)
  })
})
