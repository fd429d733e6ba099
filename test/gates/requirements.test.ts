/**
 * Every requirement is cited by a test, or stands in the one list of known gaps. A citation is the id in a string of a
 * test file: a title, or a table that titles are made from. Comments do not count.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesUnder, root } from './source-tree.ts'

const read = (path: string): unknown => JSON.parse(readFileSync(join(root, path), 'utf8'))
const rooms = read('test/requirements.json') as Record<string, Record<string, string>>
const gaps = read('test/known-gaps.json') as Record<string, string>

/** How many gaps there are at most. Lower it with every gap that closes; it never grows. */
const MOST_GAPS = 1

const ids = Object.values(rooms).flatMap((requirements) => Object.keys(requirements))
const cited = new Set(
  filesUnder('test', '.test.ts')
    .map((path) => readFileSync(join(root, path), 'utf8').replace(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, ''))
    .flatMap((code) => code.match(/\b[AP]\d{2,3}(?:-[a-z]+)?\b/g) ?? []),
)

describe('requirements', () => {
  it('each has one id and says what it is', () => {
    expect(new Set(ids).size).toBe(ids.length)
    const texts = Object.values(rooms).flatMap((requirements) => Object.values(requirements))
    expect(texts.filter((text) => text.length < 10)).toEqual([])
  })

  it('each is cited by a test, or is a known gap', () => {
    expect(ids.filter((id) => !cited.has(id) && !Object.hasOwn(gaps, id))).toEqual([])
  })

  it('a known gap is a requirement, has a reason, and leaves the list when a test cites it', () => {
    const listed = Object.entries(gaps)
    expect(listed.filter(([id]) => !ids.includes(id)).map(([id]) => `${id} is no requirement`)).toEqual([])
    expect(listed.filter(([id]) => cited.has(id)).map(([id]) => `${id} is cited: remove it`)).toEqual([])
    expect(listed.filter(([, reason]) => reason.length < 10)).toEqual([])
  })

  it('the list of known gaps only shrinks', () => {
    expect(Object.keys(gaps).length).toBeLessThanOrEqual(MOST_GAPS)
  })
})
