/** What the report of uncovered members says, and what nobody can hide from it. */
import { describe, expect, it } from 'vitest'
import { isCoveredBy, isSecurityMember, uncoveredPointers } from '../../../src/card/uncovered.ts'

const many = (count: number, name = 'k') =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${name}${index}`, 1]))

describe('uncovered members', () => {
  it('are named by JSON Pointer, the outermost of each', () => {
    expect(
      uncoveredPointers(
        {
          same: [1, { a: 0 }],
          'a/b~c': 1,
          gone: { deep: 1 },
          list: [1, 2],
          other: { in: { here: 1, there: 2 } },
          type: [],
        },
        { same: [1, { a: -0 }], list: [1], other: { in: { here: 1, there: 3 } }, type: {} },
      ),
    ).toEqual(['/a~1b~0c', '/gone', '/list', '/other/in/there', '/type'])
  })

  it('an integer that no double is differs from its double', () => {
    expect(uncoveredPointers({ n: 9007199254740993n }, { n: 9007199254740992 })).toEqual(['/n'])
  })

  it.each([
    ['at the top', { ...many(5000), url: 'https://evil.example' }, {}],
    ['in a member before it', { capabilities: many(5000), url: 'https://evil.example' }, { capabilities: {} }],
    [
      'by long names',
      { capabilities: { ['n'.repeat(100_000)]: many(100) }, url: 'https://evil.example' },
      { capabilities: { ['n'.repeat(100_000)]: {} } },
    ],
    [
      'inside of what it is in',
      { supportedInterfaces: [{ ...many(5000), url: 'a' }] },
      { supportedInterfaces: [{ url: 'b' }] },
    ],
  ])('A11 a security member is not hidden by many others %s', (_, served, covered) => {
    const pointers = uncoveredPointers(served, covered)
    expect(pointers.filter(isSecurityMember)).toEqual([Object.hasOwn(served, 'url') ? '/url' : '/supportedInterfaces'])
  })

  it('the report stays within the size of the card', () => {
    const name = 'n'.repeat(10_000)
    const served = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`m${index}`, { [name]: many(1000) }]))
    const covered = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`m${index}`, { [name]: {} }]))
    const pointers = uncoveredPointers(served, covered)
    expect(pointers).toEqual(Object.keys(served).map((key) => `/${key}`))
  })

  it.each([
    ['/url', true],
    ['/skills', true],
    ['/skills/0', true],
    ['/skills/0/securityRequirements/0', true],
    ['/skills/0/description', false],
    ['/supported_interfaces/0/url', true],
    ['/securitySchemesOfMine', false],
    ['/capabilities/url', false],
  ])('%s decides about security: %s', (pointer, expected) => expect(isSecurityMember(pointer)).toBe(expected))
})

describe('one card inside of another', () => {
  it('holds when every member is there and the same', () => {
    expect(isCoveredBy({ a: { b: 1 } }, { a: { b: 1, c: 2 }, d: 3 })).toBe(true)
    expect(isCoveredBy({ a: { b: 1, c: 2 } }, { a: { b: 1 } })).toBe(false)
    expect(isCoveredBy({ a: [1] }, { a: [1, 2] })).toBe(false)
    expect(isCoveredBy({}, {})).toBe(true)
  })
})
