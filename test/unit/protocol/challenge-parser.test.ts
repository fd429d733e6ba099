import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatChallenges } from '../../../src/protocol/challenge.ts'
import { parseChallenges } from '../../../src/protocol/challenge-parser.ts'

/** As [scheme, parameters or token68], to be read. */
function read(value: string): unknown {
  return parseChallenges(value)?.map(({ scheme, params, token68 }) => [scheme, token68 ?? Object.fromEntries(params)])
}

describe('P102 reading WWW-Authenticate', () => {
  it.each<[string, unknown]>([
    [
      'Basic realm="a,b", Bearer scope="x y", error=invalid_token',
      [
        ['Basic', { realm: 'a,b' }],
        ['Bearer', { scope: 'x y', error: 'invalid_token' }],
      ],
    ],
    ['Bearer', [['Bearer', {}]]],
    ['', []],
    [' , ,', []],
    ['Negotiate YIIB/abc+def==', [['Negotiate', 'YIIB/abc+def==']]],
    [
      'Negotiate YII=, Basic realm="x"',
      [
        ['Negotiate', 'YII='],
        ['Basic', { realm: 'x' }],
      ],
    ],
    [
      'Negotiate, Basic realm=x',
      [
        ['Negotiate', {}],
        ['Basic', { realm: 'x' }],
      ],
    ],
    ['Digest  realm = "a\\"b\\\\c" ,\tnonce=n', [['Digest', { realm: 'a"b\\c', nonce: 'n' }]]],
    ['Bearer REALM="", Error="e"', [['Bearer', { realm: '', error: 'e' }]]],
    [',, Bearer a=1,,b=2,,', [['Bearer', { a: '1', b: '2' }]]],
    ['DPoP algs="ES256 EdDSA"', [['DPoP', { algs: 'ES256 EdDSA' }]]],
    // Two readings, or half of one.
    ['Bearer realm="a', undefined],
    ['Bearer realm="a" error="b"', undefined],
    ['Bearer realm="a", realm="b"', undefined],
    ['Bearer realm=a, Realm=b', undefined],
    ['"quoted"', undefined],
    ['Bearer =x', undefined],
    ['Bearer realm="a\u0001"', undefined],
    ['Bearer realm="a";x', undefined],
    [`Bearer ${'a=b,'.repeat(5000)}`, undefined],
  ])('%j', (value, expected) => {
    expect(read(value)).toEqual(expected)
  })

  it('reads back what formatChallenges writes', () => {
    const name = fc
      .stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,8}$/)
      .filter((text) => !/^(?:error.*|scope|resource_m.*)$/i.test(text))
    const challenge = fc.record({
      scheme: fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,8}$/),
      params: fc.uniqueArray(fc.tuple(name, fc.stringMatching(/^[\t\x20-\x7e]{0,12}$/)), {
        selector: ([one]) => one.toLowerCase(),
        maxLength: 4,
      }),
    })
    fc.assert(
      fc.property(fc.array(challenge, { maxLength: 4 }), (challenges) => {
        const parsed = parseChallenges(formatChallenges(challenges)) ?? []
        const written = challenges.map(({ scheme, params }) =>
          JSON.stringify([scheme, params.map(([key, text]) => [key.toLowerCase(), text])]),
        )
        expect(parsed.map(({ scheme, params }) => JSON.stringify([scheme, [...params]]))).toEqual([...new Set(written)])
      }),
      { numRuns: 500 },
    )
  })

  it('never throws, and takes no time over hostile text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        parseChallenges(text)
      }),
    )
    const started = performance.now()
    for (const piece of ['Bearer ', '"', 'a=', 'a="\\', ',', ' ', 'a=b ', 'a b '])
      parseChallenges(piece.repeat(16_384 / piece.length))
    expect(performance.now() - started).toBeLessThan(1000)
  })
})
