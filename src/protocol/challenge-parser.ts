/**
 * Reads `WWW-Authenticate` (RFC 9110 §11.2, §11.6.1), as a client must: several challenges in one value, commas inside
 * quoted strings, token68. The inverse of `formatChallenges`.
 */

export interface ParsedChallenge {
  /** As written; compare without case. */
  readonly scheme: string
  /** By lower-case name, unquoted. Empty where there is a `token68` or nothing. */
  readonly params: ReadonlyMap<string, string>
  readonly token68?: string
}

/** Clients and proxies refuse longer headers. */
const LONGEST = 16_384

const OWS = /[\t ]*/y
const SPACES = / +/y
const SEPARATOR = /[\t ]*(?:,[\t ]*)+/y
const TOKEN = /[!#$%&'*+\-.^_`|~0-9A-Za-z]+/y
const QUOTED = /"((?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*)"/y
const TOKEN68 = /[A-Za-z0-9\-._~+/]+=*(?=[\t ]*(?:,|$))/y
const EQUALS = /[\t ]*=[\t ]*/y

/**
 * The challenges in order, or `undefined` for what is no list of challenges: a client that guesses at half a header may
 * send a credential to whoever wrote the other half. A parameter that a challenge has twice makes it none (RFC 9110 §11.2).
 */
export function parseChallenges(value: string): readonly ParsedChallenge[] | undefined {
  if (value.length > LONGEST) return undefined
  let at = 0
  const read = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const match = pattern.exec(value)
    if (match !== null) at = pattern.lastIndex
    return match
  }
  /** A parameter, or `undefined` and nothing read: what begins here is the next challenge. */
  const readParameter = (): readonly [string, string] | undefined => {
    const start = at
    const name = read(TOKEN)?.[0]
    if (name !== undefined && read(EQUALS) !== null) {
      const text = read(QUOTED)?.[1]?.replaceAll(/\\(.)/g, '$1') ?? read(TOKEN)?.[0]
      if (text !== undefined) return [name.toLowerCase(), text]
    }
    at = start
    return undefined
  }

  /** `undefined`: the same one twice. */
  const readParameters = (): ReadonlyMap<string, string> | undefined => {
    const params = new Map<string, string>()
    for (let parameter = readParameter(); parameter !== undefined; ) {
      if (params.has(parameter[0])) return undefined
      params.set(...parameter)
      const end = at
      parameter = read(SEPARATOR) === null ? undefined : readParameter()
      if (parameter === undefined) at = end
    }
    return params
  }

  const found: ParsedChallenge[] = []
  read(SEPARATOR)
  read(OWS)
  while (at < value.length) {
    const scheme = read(TOKEN)?.[0]
    if (scheme === undefined) return undefined
    const token68 = read(SPACES) === null ? undefined : read(TOKEN68)?.[0]
    const params = token68 === undefined ? readParameters() : NONE
    if (params === undefined) return undefined
    found.push({ scheme, params, ...(token68 === undefined ? {} : { token68 }) })
    if (read(SEPARATOR) !== null) continue
    read(OWS)
    if (at < value.length) return undefined
  }
  return found
}

const NONE: ReadonlyMap<string, string> = new Map()
