/**
 * Headers as they arrived. `IncomingMessage.headers` joins or drops repeated lines, which hides exactly what an
 * authenticator must see, so everything here reads `rawHeaders`.
 */

/** Every line of a repeated name is kept, in order. */
export interface HeaderView {
  /** All values sent under `name` (lower case), in order; empty when there is none. */
  all(name: string): readonly string[]
}

const NONE: readonly string[] = Object.freeze([])

/** Looks names up where they stand: a request has few headers and is asked for fewer, so an index would cost more. */
export function headerView(rawHeaders: readonly string[]): HeaderView {
  return {
    all(name) {
      let found: string[] | undefined
      for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
        const candidate = rawHeaders[i] as string
        if (candidate.length !== name.length || candidate.toLowerCase() !== name) continue
        found ??= []
        found.push(rawHeaders[i + 1] as string)
      }
      return found ?? NONE
    },
  }
}
