import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { root } from './source-tree.ts'

let folder: string | undefined

/** Lints one file inside the repository, where the configuration applies, and returns what Biome says. */
function lint(text: string): { status: number | null; output: string } {
  folder = mkdtempSync(join(root, 'test/gates/planted-'))
  const file = join(folder, 'planted.ts')
  writeFileSync(file, text)
  const { status, stdout, stderr } = spawnSync(join(root, 'node_modules/.bin/biome'), ['lint', file], {
    cwd: root,
    encoding: 'utf8',
  })
  return { status, output: stdout + stderr }
}
afterEach(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true })
  folder = undefined
})

describe('the type-aware lint bites', { timeout: 60_000 }, () => {
  it('on a promise nobody awaits', () => {
    const { status, output } = lint(
      'async function check(): Promise<boolean> {\n  return true\n}\nexport function door(): void {\n  check()\n}\n',
    )
    expect(output).toContain('noFloatingPromises')
    expect(status).not.toBe(0)
  })

  it('on a promise used as a condition', () => {
    const { status, output } = lint(
      'async function check(): Promise<boolean> {\n  return false\n}\nexport function door(): string {\n  if (check()) return "open"\n  return "shut"\n}\n',
    )
    expect(output).toContain('noMisusedPromises')
    expect(status).not.toBe(0)
  })

  it('on a switch that forgets a case', () => {
    const { status, output } = lint(
      'export function door(kind: "a" | "b"): number {\n  switch (kind) {\n    case "a":\n      return 1\n  }\n  return 0\n}\n',
    )
    expect(output).toContain('useExhaustiveSwitchCases')
    expect(status).not.toBe(0)
  })

  it('and is quiet on a file without them', () => {
    expect(lint('export const door = 1\n').status).toBe(0)
  })
})

/** Whole-tree checks on a busy machine with two cores. */
const LONG_MS = 180_000

it('the whole tree is clean', { timeout: LONG_MS }, () => {
  const { status, stdout, stderr } = spawnSync(
    join(root, 'node_modules/.bin/biome'),
    ['check', '--error-on-warnings'],
    { cwd: root, encoding: 'utf8' },
  )
  expect(status, stdout + stderr).toBe(0)
})

it('the whole tree type-checks, tests included', { timeout: LONG_MS }, () => {
  const { status, stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['--noEmit', '-p', 'tsconfig.test.json'], {
    cwd: root,
    encoding: 'utf8',
  })
  expect(status, stdout).toBe(0)
})
