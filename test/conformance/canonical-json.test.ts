import { readFileSync } from 'node:fs'
import reference from 'canonicalize'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalizeJson } from '../../src/card/canonicalize.ts'
import { parseStrictJson } from '../../src/internal/json.ts'

function read<T>(path: string): T {
  return JSON.parse(readFileSync(new URL(`../vectors/${path}`, import.meta.url), 'utf8')) as T
}
const codeOf = (run: () => unknown): string => {
  try {
    run()
    return 'accepted'
  } catch (fault) {
    return String((fault as { code?: unknown }).code)
  }
}

describe('RFC 8785 vectors (jcs)', () => {
  const file = read<{
    cases: { id: string; input: string; expected: string }[]
    numbers: { ieeeHex: string; expected: string | null; comment: string }[]
    mustFail: { id: string; input?: string; inputBase64?: string; reason: string; verdict: string }[]
  }>('jcs/jcs.json')

  it.each(file.cases)('$id', ({ input, expected }) => expect(canonicalizeJson(input)).toBe(expected))

  it.each(file.numbers)('$ieeeHex $comment', ({ ieeeHex, expected }) => {
    const number = Buffer.from(ieeeHex, 'hex').readDoubleBE()
    if (expected === null || !Number.isFinite(number))
      expect(codeOf(() => canonicalizeJson(`[${number}]`))).toMatch(/^ERR_JSON_/)
    else expect(canonicalizeJson(`[${number}]`)).toBe(`[${expected}]`)
  })

  it.each(file.mustFail)('$id fails: $reason', ({ input, inputBase64 }) => {
    expect(
      codeOf(() =>
        canonicalizeJson(inputBase64 === undefined ? (input as string) : Buffer.from(inputBase64, 'base64')),
      ),
    ).toMatch(/^ERR_JSON_/)
  })
})

describe('JSON edge cases (json-edge)', () => {
  const { cases } = read<{ cases: { id: string; base64: string; signing: 'accept' | 'reject'; canonical?: string }[] }>(
    'json-edge/json-edge.json',
  )
  /** Deeper than 128: refused by limit, which the vectors allow. */
  const TOO_DEEP = new Set(['test_parsing/i_structure_500_nested_arrays', 'own/depth-1000'])

  it('has all of them', () => expect(cases).toHaveLength(232))

  it.each(cases)('$id: $signing', ({ id, base64, signing, canonical }) => {
    const bytes = Buffer.from(base64, 'base64')
    if (TOO_DEEP.has(id)) expect(codeOf(() => canonicalizeJson(bytes))).toBe('ERR_JSON_DEPTH')
    else if (signing === 'accept') expect(canonicalizeJson(bytes)).toBe(canonical)
    else expect(codeOf(() => canonicalizeJson(bytes))).toMatch(/^ERR_JSON_/)
  })
})

describe('parseStrictJson', () => {
  it('refuses integers beyond 2^53-1 unless told otherwise', () => {
    for (const text of ['9007199254740992', '-9007199254740992', '100000000000000000000']) {
      expect(codeOf(() => parseStrictJson(text))).toBe('ERR_JSON_UNSAFE_NUMBER')
      expect(parseStrictJson(text, { unsafeIntegers: 'round' })).toBe(Number(text))
    }
    expect(parseStrictJson('[9007199254740991,1e300,-0]')).toEqual([9007199254740991, 1e300, -0])
    expect(codeOf(() => parseStrictJson('1e400', { unsafeIntegers: 'round' }))).toBe('ERR_JSON_UNSAFE_NUMBER')
  })

  it('A26 __proto__ is data, and nothing is polluted', () => {
    const value = parseStrictJson('{"__proto__":{"admin":true},"constructor":1}') as Record<string, unknown>
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor'])
    expect(Object.getPrototypeOf(value)).toBeNull()
    expect(({} as { admin?: unknown }).admin).toBeUndefined()
  })

  it('limits size and depth', () => {
    expect(codeOf(() => parseStrictJson('[1,2,3]', { maxBytes: 6 }))).toBe('ERR_JSON_SIZE')
    expect(codeOf(() => parseStrictJson('"ééé"', { maxBytes: 7 }))).toBe('ERR_JSON_SIZE')
    expect(codeOf(() => parseStrictJson('['.repeat(129) + ']'.repeat(129)))).toBe('ERR_JSON_DEPTH')
    expect(codeOf(() => parseStrictJson('['.repeat(128) + ']'.repeat(128)))).toBe('accepted')
    expect(codeOf(() => parseStrictJson('['.repeat(1_000_000)))).toBe('ERR_JSON_DEPTH')
  })

  it('agrees with JSON.parse on everything JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary', maxDepth: 6 }), (value) => {
        const text = JSON.stringify(value)
        expect(JSON.stringify(parseStrictJson(text, { unsafeIntegers: 'round' }))).toBe(text)
      }),
      { numRuns: 500, interruptAfterTimeLimit: 10_000 },
    )
  })

  it('never throws anything but a coded error', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.uint8Array()), (input) => {
        expect(codeOf(() => parseStrictJson(input))).toMatch(/^(?:accepted|ERR_JSON_\w+)$/)
      }),
      { numRuns: 2000, interruptAfterTimeLimit: 10_000 },
    )
  })
})

describe('RFC 8785 properties', () => {
  // The package's types and its CommonJS form disagree about where the function is.
  const canonicalize = reference as unknown as (value: unknown) => string
  /** Any code point in names and strings: the order by UTF-16 code unit is not that by code point. */
  const values = fc.jsonValue({ maxDepth: 5, stringUnit: 'binary' })

  it('equal to a second, independent implementation', () => {
    fc.assert(
      fc.property(values, (value) => {
        expect(canonicalizeJson(JSON.stringify(value))).toBe(canonicalize(JSON.parse(JSON.stringify(value))))
      }),
      { numRuns: 500, interruptAfterTimeLimit: 10_000 },
    )
  })

  it('idempotent', () => {
    fc.assert(
      fc.property(values, (value) => {
        const once = canonicalizeJson(JSON.stringify(value))
        expect(canonicalizeJson(once)).toBe(once)
      }),
      { numRuns: 500, interruptAfterTimeLimit: 10_000 },
    )
  })

  it('the order of members does not matter, at any depth', () => {
    const reversed = (value: unknown): string => {
      if (Array.isArray(value)) return `[${value.map(reversed).join(',')}]`
      if (typeof value !== 'object' || value === null) return JSON.stringify(value)
      const members = Object.entries(value).map(([name, content]) => `${JSON.stringify(name)}:${reversed(content)}`)
      return `{${members.reverse().join(',')}}`
    }
    fc.assert(
      fc.property(values, (value) => {
        expect(canonicalizeJson(reversed(value))).toBe(canonicalizeJson(JSON.stringify(value)))
      }),
      { numRuns: 500, interruptAfterTimeLimit: 10_000 },
    )
  })
})
