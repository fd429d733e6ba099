import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { errorCodes, TrustError } from '../../src/errors.ts'
import { root, sourceFiles } from './source-tree.ts'

const page = readFileSync(join(root, 'docs/errors.md'), 'utf8')

describe('error codes', () => {
  it('docs/errors.md has one section for each code, and no other', () => {
    const documented = [...page.matchAll(/^### `?(ERR_\w+)`?$/gm)].map(([, code]) => code)
    expect(documented.toSorted()).toEqual(errorCodes.toSorted())
  })

  it('each section says when, the smallest input, the fix and what not to do', () => {
    const wrong = page
      .split(/^### /m)
      .slice(1)
      .filter(
        (section) => !['When', 'Smallest input', 'Fix', 'Do not'].every((label) => section.includes(`**${label}**`)),
      )
      .map((section) => section.split('\n')[0])
    expect(wrong).toEqual([])
  })

  it('each code is used outside the registry', () => {
    const source = sourceFiles()
      .filter(({ path }) => path !== 'src/errors.ts')
      .map(({ text }) => text)
      .join('\n')
    expect(errorCodes.filter((code) => !source.includes(`'${code}'`))).toEqual([])
  })

  it('instanceof holds across two copies of the package, and for nothing else', () => {
    const foreign = new Error('x')
    Object.defineProperty(foreign, Symbol.for('a2a-trust.TrustError'), { value: true })
    expect(foreign instanceof TrustError).toBe(true)
    for (const other of [new Error('x'), {}, null, 'ERR_X'])
      expect((other as unknown) instanceof TrustError).toBe(false)
  })
})
