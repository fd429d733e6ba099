/** Writing what must not be overwritten or read by others. */
import { open } from 'node:fs/promises'

/** Creates `path` for the owner only (0600) or for all to read (0644). An existing file is never touched: `EEXIST`. */
export async function writeNewFile(path: string, text: string, access: 'secret' | 'public'): Promise<void> {
  const file = await open(path, 'wx', access === 'secret' ? 0o600 : 0o644)
  try {
    await file.writeFile(text)
  } finally {
    await file.close()
  }
}
