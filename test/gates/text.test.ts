import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { root } from './source-tree.ts'

const tracked = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' }).split('\0').filter(Boolean)
const contents = tracked.map((path) => ({ path, text: readFileSync(join(root, path), 'latin1') }))

describe('tracked files', () => {
  it('name no package registry and no path of one machine', () => {
    const forbidden = /registry\.[a-z]+\.org|"resolved":|\/home\/\w|\/work\/(?:main|shared)/i
    const found = contents.filter(
      ({ path, text }) =>
        path !== 'test/gates/text.test.ts' && !path.startsWith('test/vectors/') && forbidden.test(text),
    )
    expect(found.map(({ path }) => path)).toEqual([])
  })

  it('hold private keys only where examples and vectors are', () => {
    const secret = /-----BEGIN [A-Z ]*PRIVATE KEY-----|"d"\s*:\s*"[A-Za-z0-9_-]{20,}"/
    const allowed = /^(keys-example|test\/vectors)\//
    expect(
      contents.filter(({ path, text }) => !allowed.test(path) && secret.test(text)).map(({ path }) => path),
    ).toEqual([])
  })

  it('a source of over 300 lines says in its header why', () => {
    const long = contents.filter(({ path, text }) => /^src\/.*\.ts$/.test(path) && text.split('\n').length > 301)
    const header = (text: string) => /^\/\*\*[\s\S]*?\*\//.exec(text)?.[0] ?? ''
    expect(long.filter(({ text }) => !header(text).includes('300 lines')).map(({ path }) => path)).toEqual([])
  })

  it('no test is skipped, focused or left to do', () => {
    const left = /\b(?:it|test|describe)\.(?:only|skip|todo|skipIf)\b/
    expect(
      contents
        .filter(({ path, text }) => /^test\/.*\.ts$/.test(path) && !path.includes('gates/') && left.test(text))
        .map(({ path }) => path),
    ).toEqual([])
  })
})
