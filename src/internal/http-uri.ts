/** One spelling for an http or https URI without query and fragment (RFC 3986 §6.2.2 and §6.2.3). */

/** RFC 3986 characters: what the URL parser would silently drop or repair is refused before it sees it. */
const URI = /^https?:\/\/(?:[A-Z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-F]{2})+$/i
const UNRESERVED = /[A-Za-z0-9\-._~]/
const LONGEST = 8192

/**
 * Scheme and host in lower case, no default port, no dot segments, `/` for an empty path, escapes in upper case and none
 * for a character that needs none. `undefined` for text that is no such URI, or that holds user information.
 */
export function normalizeHttpUri(text: string): string | undefined {
  if (text.length > LONGEST || !URI.test(text) || !URL.canParse(text)) return undefined
  const { protocol, host, pathname, username, password } = new URL(text)
  if (username !== '' || password !== '') return undefined
  const path = pathname.replace(/%[0-9A-Fa-f]{2}/g, (encoded) => {
    const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16))
    return UNRESERVED.test(character) ? character : encoded.toUpperCase()
  })
  return `${protocol}//${host}${path}`
}
