import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { generateApiKey, readApiKey } from '../../src/internal/api-key-format.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/api-keys.md'), 'utf8')
/** The expression that the page gives to secret scanners. */
const scanner = new RegExp((/^```text scanner\n(.+)\n```/m.exec(page) as RegExpExecArray)[1] as string)

describe('the form of a generated key', () => {
  it('is found by the expression of the page, in the middle of a log line, and read back', () => {
    for (const id of ['a', '0', 'partner-2026', 'x'.repeat(64)]) {
      const key = generateApiKey(id)
      expect(scanner.exec(`{"header":"${key}","next":1}`)?.[0]).toBe(key)
      expect(readApiKey(key)).toEqual({ id, intact: true })
    }
  })

  it('has another secret each time, of digits that are all as likely', () => {
    const secrets = Array.from({ length: 400 }, () => generateApiKey('k').slice(6, 49))
    expect(new Set(secrets).size).toBe(400)
    const counts = new Map<string, number>()
    for (const digit of secrets.join('')) counts.set(digit, (counts.get(digit) ?? 0) + 1)
    expect(counts.size).toBe(62)
    // 17200 draws, 277 of each on average with a deviation of 17: 8 deviations are never seen by chance.
    for (const count of counts.values()) expect(Math.abs(count - 277)).toBeLessThan(136)
  })

  it('every single wrong character and every swap of neighbours is told by the checksum or by the form', () => {
    const key = generateApiKey('partner')
    const other = (digit: string) => (digit === '7' ? '8' : '7')
    for (let i = 0; i < key.length; i += 1) {
      const digit = key[i] as string
      const wrong = key.slice(0, i) + other(digit) + key.slice(i + 1)
      expect(readApiKey(wrong)?.intact ?? false, `character ${i}`).toBe(false)
      const next = key[i + 1]
      if (next === undefined || next === digit) continue
      const swapped = key.slice(0, i) + next + digit + key.slice(i + 2)
      expect(readApiKey(swapped)?.intact ?? false, `swap at ${i}`).toBe(false)
    }
  })

  it('no other text has it', () => {
    const key = generateApiKey('partner')
    for (const text of ['', 'a2a_', key.slice(0, -1), `${key}x`, ` ${key}`, `${key}\n`, key.toUpperCase()])
      expect(readApiKey(text), text).toBeUndefined()
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 80 }), (text) => readApiKey(text) === undefined))
  })

  it('refuses an id that would not fit', () => {
    for (const id of ['', '-a', 'a-', 'A', 'a_b', 'x'.repeat(65), 'a b', 'é']) {
      expect(() => generateApiKey(id), id).toThrow(TypeError)
    }
  })
})
