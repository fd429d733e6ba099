/** The `Authorization: Bearer` header (RFC 6750 §2.1). The only place a token is read from: never query, never body. */
import type { HeaderView } from '../internal/headers.ts'
import type { Outcome } from './scheme.ts'

export type BearerToken = { readonly kind: 'token'; readonly token: string } | Exclude<Outcome, { kind: 'satisfied' }>

const ABSENT: BearerToken = { kind: 'absent' }
/** `auth-scheme SP something`, RFC 9110 §11.4, with exactly one space so that one token has one spelling. */
const CREDENTIALS = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?: (.*))?$/s
/** RFC 6750 §2.1 `b64token`. */
const B64TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/

/**
 * The token, or why there is none: `absent` without the header or with another auth-scheme; `malformed` (400) for
 * several header lines or anything that is not one auth-scheme, one space and one token; `invalid` when over the cap.
 */
export function readBearer(headers: HeaderView, maxTokenBytes: number): BearerToken {
  const lines = headers.all('authorization')
  const line = lines[0]
  if (line === undefined) return ABSENT
  if (lines.length > 1) return malformed('several Authorization header lines')
  // Sized before any pattern runs over it.
  if (line.length > maxTokenBytes + 'Bearer '.length) {
    return isBearer(line.slice(0, 7)) ? { kind: 'invalid', code: 'ERR_TOKEN_TOO_LARGE' } : ABSENT
  }
  if (!isBearer(line)) {
    const match = CREDENTIALS.exec(line)
    if (match === null) return malformed('the Authorization header is not an auth-scheme and credentials')
    return match[1]?.toLowerCase() === 'bearer' ? malformed('Bearer without a token') : ABSENT
  }
  const token = line.slice(7)
  return B64TOKEN.test(token) ? { kind: 'token', token } : malformed('Bearer is not followed by one space and a token')
}

function isBearer(line: string): boolean {
  return line.charCodeAt(6) === 0x20 && line.slice(0, 6).toLowerCase() === 'bearer'
}

function malformed(detail: string): BearerToken {
  return { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED', detail }
}
