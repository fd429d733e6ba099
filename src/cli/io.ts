/** What a command may touch of the outside, so that tests can stand in for it. stdout is data, stderr is talk. */
export interface Io {
  readonly stdin: AsyncIterable<string | Uint8Array>
  readonly stdout: { write(text: string): unknown; readonly isTTY?: boolean }
  readonly stderr: { write(text: string): unknown }
}

/** Exit codes of every command (age-style: refused, invalid and broken are told apart). */
export const exit = { ok: 0, fault: 1, usage: 2, denied: 3, invalid: 4 } as const

/** `error:` says what happened, `hint:` what to do. */
export function fail(io: Io, error: string, hint?: string): void {
  io.stderr.write(`error: ${error}\n`)
  if (hint !== undefined) io.stderr.write(`hint: ${hint}\n`)
}

/** All of stdin as text, refused beyond `maxBytes`. Bytes that are no UTF-8 are replaced: see `readBytes`. */
export async function readAll(io: Io): Promise<string> {
  return (await readBytes(io)).toString('utf8')
}

/** All of stdin as it came, for a reader that must not overlook what is no UTF-8. */
export async function readBytes(io: Io, maxBytes = 16 * 1024 * 1024): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of io.stdin) {
    const bytes = Buffer.from(chunk as string)
    size += bytes.length
    if (size > maxBytes) throw new RangeError(`stdin is larger than ${maxBytes} bytes`)
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}

/** One item a line; a line that starts with `"` is a JSON string. Empty lines are items too, but not a last empty one. */
export function itemsOf(text: string): string[] {
  const lines = text.split(/\r?\n/)
  if (lines.at(-1) === '') lines.pop()
  return lines.map((line) => {
    if (!line.startsWith('"')) return line
    try {
      const value: unknown = JSON.parse(line)
      return typeof value === 'string' ? value : line
    } catch {
      return line
    }
  })
}
