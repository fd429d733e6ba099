/** Writing what must not be overwritten or read by others. */
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { exit, fail, type Io } from './io.ts'

export interface NewFile {
  readonly path: string
  readonly text: string
  /** `secret` is for the owner only (0600), `public` for all to read (0644). */
  readonly access: 'secret' | 'public'
}

/**
 * Creates all files, or none: an existing file is never touched, and a half-written set would hold a certificate
 * without its key. Returns an exit code, and says on stderr why it is not 0.
 */
export async function createFiles(io: Io, files: readonly NewFile[]): Promise<number> {
  const created: { file: FileHandle; path: string; text: string }[] = []
  try {
    for (const { path, text, access } of files) {
      created.push({ file: await open(path, 'wx', access === 'secret' ? 0o600 : 0o644), path, text })
    }
    for (const { file, text } of created) await file.writeFile(text)
    return exit.ok
  } catch (fault) {
    for (const { path } of created) await unlink(path)
    const refused = files[created.length]?.path
    const { code } = fault as NodeJS.ErrnoException
    if (code === 'EEXIST') fail(io, `${refused} exists already and is left as it is`)
    else if (code === 'ENOENT') fail(io, `the folder of ${refused} does not exist`, 'make it first, with mkdir -m 700')
    else throw fault
    return exit.invalid
  } finally {
    for (const { file } of created) await file.close()
  }
}
