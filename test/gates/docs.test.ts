import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import type { Io } from '../../src/cli/io.ts'
import { filesUnder, root } from './source-tree.ts'

interface Block {
  readonly place: string
  readonly language: string
  readonly text: string
}

const blocks: Block[] = ['README.md', 'keys-example/README.md', ...filesUnder('docs', '.md')].flatMap((path) => {
  const lines = readFileSync(join(root, path), 'utf8').split('\n')
  const found: Block[] = []
  for (let start = 0; start < lines.length; start += 1) {
    const [, language] = /^\s*```(\w+)/.exec(lines[start] as string) ?? []
    if (language === undefined) continue
    const end = lines.findIndex((line, index) => index > start && /^\s*```\s*$/.test(line))
    found.push({ place: `${path}:${start + 1}`, language, text: lines.slice(start + 1, end).join('\n') })
    start = end
  }
  return found
})

/** What a reader has at hand in every example. */
const PRELUDE = `
import type { Guard } from 'a2a-trust'
import type { DefaultRequestHandler } from '@a2a-js/sdk/server'
import type { Express } from 'express'
`
const AMBIENT = `
declare global {
  const guard: Guard
  const requestHandler: DefaultRequestHandler
  const app: Express
}
export {}
`

describe('README', () => {
  it('shows every command there is', async () => {
    let usage = ''
    const stdout = { write: (text: string) => (usage += text) }
    await runCommandLine(['--help'], { stdout, stderr: stdout } as unknown as Io)
    const commands = [...usage.matchAll(/^ {2}a2a-trust ([a-z]+(?: [a-z]+)?)/gm)].map(
      ([, command]) => command as string,
    )
    expect(commands.length).toBeGreaterThan(10)
    const readme = readFileSync(join(root, 'README.md'), 'utf8')
    expect(commands.filter((command) => !readme.includes(`\na2a-trust ${command}`))).toEqual([])
  })
})

describe('code blocks in the documents', () => {
  it('are in languages a test knows what to do with', () => {
    const known = ['ts', 'sh', 'yaml', 'json', 'mermaid', 'text', 'http', 'console']
    expect(
      blocks.filter(({ language }) => !known.includes(language)).map(({ place, language }) => `${place} ${language}`),
    ).toEqual([])
  })

  it('ts: each compiles against the built package, as a reader would write it', { timeout: 180_000 }, () => {
    const folder = mkdtempSync(join(root, 'test/gates/planted-'))
    try {
      const examples = blocks.filter(({ language }) => language === 'ts')
      expect(examples.length).toBeGreaterThan(0)
      mkdirSync(join(folder, 'docs'))
      writeFileSync(join(folder, 'docs/ambient.ts'), PRELUDE + AMBIENT)
      for (const [index, { place, text }] of examples.entries()) {
        writeFileSync(join(folder, `docs/example-${index}.ts`), `// ${place}\n${text}\nexport {}\n`)
      }
      const { compilerOptions: strict } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')) as {
        compilerOptions: Record<string, unknown>
      }
      // Without the two directories the package's own name leads to what was built, as it does for a reader.
      const { rootDir: _, outDir: __, ...rest } = strict
      const compilerOptions = { ...rest, noEmit: true, noUnusedLocals: false, noUnusedParameters: false }
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['docs'] }))
      const { status, stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', folder], {
        cwd: root,
        encoding: 'utf8',
      })
      const places = stdout.replace(/\S*example-(\d+)\.ts/g, (_, index: string) => examples[Number(index)]?.place ?? '')
      expect(status, places).toBe(0)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('json: each parses', () => {
    for (const { place, text } of blocks.filter(({ language }) => language === 'json')) {
      expect(() => JSON.parse(text) as unknown, place).not.toThrow()
    }
  })

  it('sh: every a2a-trust command named exists', () => {
    const usage = execFileSync(process.execPath, ['dist/cli/main.js', '--help'], { cwd: root, encoding: 'utf8' })
    const named = blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ place, text }) =>
        [...text.matchAll(/^(?:\$ |npx )?a2a-trust ([a-z]+(?: [a-z]+)?)/gm)].map(([, command]) => ({
          place,
          command: command as string,
        })),
      )
    const missing = named.filter(
      ({ command }) =>
        !usage.includes(`a2a-trust ${command}`) && !usage.includes(`a2a-trust ${command.split(' ')[0]} [`),
    )
    expect(missing).toEqual([])
  })
})
