/** The `Authorization` header of an auth-scheme other than Bearer (RFC 9110 §11.6.2). */
import type { HeaderView } from '../internal/headers.ts'
import type { Outcome } from './scheme.ts'

/** What stands at a scheme's place: one text, nothing, or more than one reading. */
export type Presented =
  | { readonly kind: 'credentials'; readonly text: string }
  | Extract<Outcome, { kind: 'absent' | 'malformed' }>

/** `auth-scheme` and whatever follows, RFC 9110 §11.4. */
const AUTHORIZATION = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?: (.*))?$/s
/** Visible ASCII and single spaces: no folded line, no control character, nothing that has two encodings. */
const CREDENTIALS = /^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/

/**
 * The credentials behind `authScheme` (lower case), or why there are none: `absent` without the header or with another
 * auth-scheme; `malformed` for several header lines, for what is no auth-scheme, one space and credentials, and for
 * credentials longer than `maxLength` characters.
 */
export function readAuthorization(headers: HeaderView, authScheme: string, maxLength: number): Presented {
  const [line, ...more] = headers.all('authorization')
  if (line === undefined) return { kind: 'absent' }
  if (more.length > 0) return malformed('several Authorization header lines')
  const match = AUTHORIZATION.exec(line)
  if (match === null) return malformed('the Authorization header is not an auth-scheme and credentials')
  const [, scheme = '', text = ''] = match
  if (scheme.toLowerCase() !== authScheme) return { kind: 'absent' }
  if (text.length > maxLength) return malformed(`the credentials are longer than ${maxLength} characters`)
  return CREDENTIALS.test(text)
    ? { kind: 'credentials', text }
    : malformed('the auth-scheme is not followed by one space and credentials')
}

export function malformed(detail: string): Extract<Presented, { kind: 'malformed' }> {
  return { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED', detail }
}
