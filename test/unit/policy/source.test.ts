import { describe, expect, it } from 'vitest'
import { formatProblem } from '../../../src/policy/index.ts'
import { readSource } from '../../../src/policy/source.ts'

/** What a text that must be read says, and where. */
function read(text: string, file = 'f.yaml') {
  const result = readSource(text, file)
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'))
  return result.source
}

function refusal(text: string, file = 'f.yaml'): string[] {
  const result = readSource(text, file, { maxLength: 100_000 })
  return result.ok ? [] : result.problems.map(formatProblem)
}

describe('positions', () => {
  const yaml = 'a: 1\nlist:\n  - x\n  - { k: v, "odd/~name": 2 }\nempty:\n'
  const json = '{\n  "a": 1,\n  "list": ["x", {"k": "v", "odd/~name": 2}],\n\t"esc\\u0061pe": null\n}\n'

  it('are those of the value, or of its key', () => {
    const source = read(yaml)
    expect(source.locate('/a')).toEqual({ line: 1, column: 4 })
    expect(source.locate('/a', 'key')).toEqual({ line: 1, column: 1 })
    expect(source.locate('/list/0')).toEqual({ line: 3, column: 5 })
    expect(source.locate('/list/1/odd~1~0name')).toEqual({ line: 4, column: 26 })
    expect(source.locate('/list/1/odd~1~0name', 'key')).toEqual({ line: 4, column: 13 })
  })

  it('are right in JSON too, with tabs and escaped names', () => {
    const source = read(json, 'f.json')
    expect(source.locate('/list/1/odd~1~0name')).toEqual({ line: 3, column: 41 })
    expect(source.locate('/escape', 'key')).toEqual({ line: 4, column: 2 })
    expect(source.locate('/escape')).toEqual({ line: 4, column: 17 })
  })

  it('of what is absent are those of the nearest parent', () => {
    expect(read(yaml).locate('/list/1/missing/deeper')).toEqual({ line: 4, column: 5 })
    expect(read(yaml).locate('/nothing')).toEqual({ line: 1, column: 1 })
  })
})

describe('values', () => {
  it('mean what YAML 1.2 says: words stay words, in objects without a prototype', () => {
    const { value } = read('country: no\non: off\nversion: 1.10\noctal: 0o17\ndate: 2027-01-01\nnothing: ~\n')
    expect(Object.getPrototypeOf(value)).toBeNull()
    expect(value).toEqual(
      Object.assign(Object.create(null), {
        country: 'no',
        on: 'off',
        version: 1.1,
        octal: 15,
        date: '2027-01-01',
        nothing: null,
      }),
    )
  })

  it('A26 a key twice is refused wherever it stands, with the place of both', () => {
    expect(refusal('a:\n  b: 1\n  c: 2\n  "b": 3\n')).toEqual([
      'f.yaml:4:3  ERR_POLICY_SYNTAX "b" is here twice, first on line 2: keep one',
    ])
    expect(refusal('{"a": {"b": 1, "\\u0062": 2}}', 'f.json')).toEqual([
      'f.json:1:16  ERR_POLICY_SYNTAX not valid JSON: an object has the same member name twice',
    ])
  })
})

describe('bombs', () => {
  it('aliases are refused before anything is expanded', () => {
    const lines = ['a: &a [x, x, x, x, x, x, x, x, x]']
    for (let i = 1; i < 12; i++)
      lines.push(
        `b${i}: &b${i} [${Array(9)
          .fill(`*${i === 1 ? 'a' : `b${i - 1}`}`)
          .join(', ')}]`,
      )
    expect(refusal(lines.join('\n'))[0]).toMatch(/^f\.yaml:1:7 {2}ERR_POLICY_SYNTAX an anchor \(&\) is not accepted/)
  })

  it('depth and size are bounded in both formats', () => {
    for (const file of ['f.yaml', 'f.json']) {
      expect(refusal(`${'['.repeat(20_000)}${']'.repeat(20_000)}`, file)[0]).toMatch(/ERR_POLICY_SYNTAX/)
      expect(refusal(`${'['.repeat(70)}${']'.repeat(70)}`, file)[0]).toMatch(/nested (?:too )?deep/)
      expect(refusal(' '.repeat(100_001), file)).toEqual([
        `${file}:1:1  ERR_POLICY_SYNTAX the text is longer than 100000 characters`,
      ])
    }
  })

  it('what is printed of a name is one bounded line without control characters', () => {
    const [message] = refusal(`"a\\u202e\\n${'x'.repeat(500)}": 1\n"a\\u202e\\n${'x'.repeat(500)}": 2\n`)
    expect(message).toHaveLength(message!.replace(/[\n\u202e]/g, '').length)
    expect(message!.length).toBeLessThan(250)
  })
})
