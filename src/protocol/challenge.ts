/**
 * `WWW-Authenticate` (RFC 9110 §11.6.1): challenges as text that no value can break out of. A parameter that a header
 * cannot carry is left out; it is never cut, replaced or encoded into something that was not meant.
 */

/** One challenge: authentication scheme and parameters in order, unquoted. */
export interface ChallengeInput {
  readonly scheme: string
  readonly params: readonly (readonly [name: string, value: string])[]
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** What may stand in a quoted string (RFC 9110 §5.6.4), ASCII only; `"` and `\` need a backslash. */
const QUOTABLE = /^[\t\x20-\x7e]*$/
/** RFC 6750 §3: `error` and `error_description` are narrower, without `"` and `\`. */
const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/
/** RFC 6750 §3, `scope-token` of RFC 6749 §3.3. */
const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]+$/
/** RFC 3986 characters, so that the value needs no escape. */
const URI = /^https?:\/\/[A-Za-z0-9\-._~:/?[\]@!$&'()*+,;=%]+$/

/** Clients and proxies refuse responses whose headers grow beyond some 8 kB. */
const LONGEST = 6144

/**
 * The value of `WWW-Authenticate`: `Bearer realm="a2a", error="invalid_token"`, further challenges after a comma. The
 * same challenge is said once. Challenges that would make the value longer than 6144 characters are left out; '' when
 * there is nothing to say.
 */
export function formatChallenges(challenges: readonly ChallengeInput[]): string {
  const said = new Set<string>()
  let length = 0
  for (const { scheme, params } of challenges) {
    if (!TOKEN.test(scheme)) continue
    const written = params.map(formatParameter).filter((text) => text !== undefined)
    const text = written.length === 0 ? scheme : `${scheme} ${written.join(', ')}`
    if (said.has(text) || length + text.length + 2 > LONGEST) continue
    said.add(text)
    length += text.length + 2
  }
  return [...said].join(', ')
}

function formatParameter([name, value]: readonly [string, string]): string | undefined {
  if (!TOKEN.test(name)) return undefined
  switch (name) {
    case 'error':
    case 'error_description':
      return PLAIN.test(value) ? `${name}="${value}"` : undefined
    case 'scope': {
      const scopes = value.split(' ').filter((scope) => SCOPE_TOKEN.test(scope))
      return scopes.length === 0 ? undefined : `${name}="${scopes.join(' ')}"`
    }
    case 'resource_metadata':
      return URI.test(value) ? `${name}="${value}"` : undefined
    default:
      return QUOTABLE.test(value) ? `${name}="${value.replaceAll(/["\\]/g, '\\$&')}"` : undefined
  }
}
