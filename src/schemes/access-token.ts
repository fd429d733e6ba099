/**
 * The `Authorization` header with an access token: `Bearer` (RFC 6750 §2.1) or `DPoP` (RFC 9449 §7.1). The only place a
 * token is read from: never query, never body.
 */
import type { HeaderView } from '../internal/headers.ts'
import type { Outcome } from './scheme.ts'

/** A token and the auth-scheme it came with, which says whether a proof has to stand beside it. */
export interface PresentedToken {
  readonly kind: 'token'
  readonly as: 'Bearer' | 'DPoP'
  readonly token: string
}

type NoToken = Exclude<Outcome, { kind: 'satisfied' }>

const ABSENT: NoToken = { kind: 'absent' }
/** `auth-scheme SP something`, RFC 9110 §11.4, with exactly one space so that one token has one spelling. */
const CREDENTIALS = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?: (.*))?$/s
/** RFC 6750 §2.1 `b64token`, RFC 9449 §7.1 `token68`: the same characters. */
const B64TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/

/**
 * The token, or why there is none: `absent` without the header or with another auth-scheme; `malformed` (400) for
 * several header lines, anything that is not one auth-scheme, one space and one token, or a second one in the query
 * (RFC 6750 §2: one method in each request); `invalid` when over the cap.
 */
export function readAccessToken(headers: HeaderView, maxTokenBytes: number, query = ''): PresentedToken | NoToken {
  const lines = headers.all('authorization')
  const line = lines[0]
  if (line === undefined) return ABSENT
  if (lines.length > 1) return malformed('several Authorization header lines')
  const as = schemeOf(line)
  // Sized before any pattern runs over it.
  if (line.length > maxTokenBytes + 'Bearer '.length) {
    return as === undefined ? ABSENT : { kind: 'invalid', code: 'ERR_TOKEN_TOO_LARGE' }
  }
  if (as === undefined) {
    const match = CREDENTIALS.exec(line)
    if (match === null) return malformed('the Authorization header is not an auth-scheme and credentials')
    return /^(?:bearer|dpop)$/i.test(match[1] as string) ? malformed('an auth-scheme without a token') : ABSENT
  }
  if (query !== '' && new URLSearchParams(query).has('access_token')) return malformed('access_token in the query too')
  const token = line.slice(as.length + 1)
  if (token.length > maxTokenBytes) return { kind: 'invalid', code: 'ERR_TOKEN_TOO_LARGE' }
  return B64TOKEN.test(token)
    ? { kind: 'token', as, token }
    : malformed(`${as} is not followed by one space and a token`)
}

function schemeOf(line: string): PresentedToken['as'] | undefined {
  if (line.charCodeAt(6) === 0x20 && line.slice(0, 6).toLowerCase() === 'bearer') return 'Bearer'
  if (line.charCodeAt(4) === 0x20 && line.slice(0, 4).toLowerCase() === 'dpop') return 'DPoP'
  return undefined
}

function malformed(detail: string): NoToken {
  return { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED', detail }
}
