import { describe, expect, it } from 'vitest'
import { findFault } from '../../src/internal/plain-data.ts'

const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) })

describe('findFault', () => {
  it.each([
    undefined,
    null,
    'text',
    { a: [1, true, null, undefined, 'x'], b: Buffer.from('x'), c: Object.create(null) },
    nested(127),
  ])('%#: what a decoder makes of a message is plain', (value) => {
    expect(findFault(value, 10_000)).toBeUndefined()
  })

  it.each([
    ['a prototype from the wire', Object.setPrototypeOf({ a: 1 }, { skillId: 'pay' })],
    ['a class', new (class Message {})()],
    ['a function', { a: () => {} }],
    ['NaN', { a: Number.NaN }],
    ['infinity', [Number.POSITIVE_INFINITY]],
    ['too deep', nested(200)],
  ])('%s is not plain', (_, value) => {
    expect(findFault(value, 10_000)).toBe('not plain')
  })

  it.each([
    ['text', { a: 'x'.repeat(1000) }],
    ['text beyond ASCII', { a: '\u20ac'.repeat(400) }],
    ['bytes', { a: Buffer.alloc(1000) }],
    ['names', { ['x'.repeat(1000)]: 1 }],
    ['members', Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, '']))],
    ['items', Array.from({ length: 1001 }, () => null)],
  ])('%s counts', (_, value) => {
    expect(findFault(value, 1000)).toBe('too large')
    expect(findFault(value, 5000)).toBeUndefined()
  })

  it('stops at the limit: what comes after it is not looked at', () => {
    let seen = 0
    const items = Array.from({ length: 1_000_000 }, () => 1)
    const counted = new Proxy(items, {
      get(target, name) {
        seen += 1
        return Reflect.get(target, name)
      },
    })
    expect(findFault({ counted }, 100)).toBe('too large')
    expect(seen).toBeLessThan(1000)
  })
})
