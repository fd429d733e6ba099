/** The source files and what they import, read as text. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix, relative } from 'node:path'

export const root = join(import.meta.dirname, '../..')

export interface SourceFile {
  /** Relative to the repository, with `/`. */
  readonly path: string
  readonly text: string
  /** `names` is the clause as written, such as `{ isIP }`; empty for `import('x')`. */
  readonly imports: readonly { readonly from: string; readonly typeOnly: boolean; readonly names: string }[]
}

const IMPORT = /^(?:import|export)\s+(type\s)?([^'"`;]*?)\bfrom\s+'([^']+)'|^import\s+'([^']+)'|\bimport\('([^']+)'\)/gm

export function filesUnder(directory: string, ending: string): string[] {
  return readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => posix.join(directory, ...name.split(/[\\/]/)))
    .sort()
}

export function sourceFiles(): SourceFile[] {
  return filesUnder('src', '.ts').map((path) => {
    const text = readFileSync(join(root, path), 'utf8')
    const imports = [...text.matchAll(IMPORT)].map(([, typeOnly, names = '', from, bare, dynamic]) => {
      const target = from ?? bare ?? dynamic ?? ''
      return {
        from: target.startsWith('.') ? relative(root, join(root, dirname(path), target)).replaceAll('\\', '/') : target,
        typeOnly: typeOnly !== undefined,
        names: names.trim(),
      }
    })
    return { path, text, imports }
  })
}
