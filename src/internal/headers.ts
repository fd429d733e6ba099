/**
 * Headers as they arrived. `IncomingMessage.headers` joins or drops repeated lines, which hides exactly what an
 * authenticator must see, so everything here reads `rawHeaders`.
 */

/** Lower-cased view of raw header lines; every line of a repeated name is kept, in order. */
export interface HeaderView {
  /** All values sent under `name` (lower case), in order; empty when there is none. */
  all(name: string): readonly string[]
}

const NONE: readonly string[] = Object.freeze([])

export function headerView(rawHeaders: readonly string[]): HeaderView {
  const lines = new Map<string, string[]>()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase()
    const values = lines.get(name)
    if (values === undefined) lines.set(name, [rawHeaders[i + 1] as string])
    else values.push(rawHeaders[i + 1] as string)
  }
  return { all: (name) => lines.get(name) ?? NONE }
}
