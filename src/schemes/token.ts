/** Reading a JWT: from text to header and claims, before anything is believed. Pure. */
import type { ErrorCode } from '../errors.ts'
import { decodeBase64url } from '../internal/base64url.ts'
import { parseStrictJson } from '../internal/json.ts'

export interface DecodedToken {
  readonly alg: string
  readonly kid: string | undefined
  readonly claims: Readonly<Record<string, unknown>>
  /** What the signature covers: header and payload as sent. */
  readonly signingInput: string
  readonly signature: Buffer
}

export interface Refusal {
  readonly kind: 'invalid'
  readonly code: ErrorCode
  readonly detail?: string
}

export function refuse(code: ErrorCode, detail?: string): Refusal {
  return detail === undefined ? { kind: 'invalid', code } : { kind: 'invalid', code, detail }
}

export interface TokenRules {
  /** Asymmetric algorithms only. */
  readonly algorithms: ReadonlySet<string>
  readonly typ: 'at+jwt' | 'any' | 'token-introspection+jwt'
}

/**
 * Header parameters that change what the token means or where its key comes from. A token that carries one is refused
 * even where ignoring it would be safe, because another reader of the same token may not ignore it.
 */
export const refusedParameters: readonly string[] = [
  'crit', // RFC 7515 §4.1.11: no extension is understood here
  'b64', // RFC 7797 §7: JWTs must not use it
  'jku', // keys come from configuration, never from the token (RFC 8725 §3.10)
  'jwk',
  'x5u',
  'x5c',
  'zip', // no meaning in a JWS
  'enc',
  'cty', // RFC 7519 §5.2: nested tokens are not accepted
]
const MAX_KID_LENGTH = 512

/** Checks the form and the header; looks at no claim and no signature. */
export function decodeToken(token: string, rules: TokenRules): DecodedToken | Refusal {
  const parts = splitJws(token)
  if (parts === undefined) return refuse('ERR_TOKEN_MALFORMED', 'not three parts')
  const header = decodeObject(parts.header)
  if (header === undefined) return refuse('ERR_TOKEN_MALFORMED', 'the header is not base64url of one JSON object')

  for (const name of refusedParameters) if (Object.hasOwn(header, name)) return refuse('ERR_TOKEN_HEADER', name)
  const { alg, kid, typ } = header
  if (typeof alg !== 'string' || !rules.algorithms.has(alg)) return refuse('ERR_TOKEN_ALGORITHM')
  if (kid !== undefined && (typeof kid !== 'string' || kid === '' || kid.length > MAX_KID_LENGTH)) {
    return refuse('ERR_TOKEN_HEADER', 'kid is not a short string')
  }
  if (typ !== undefined && typeof typ !== 'string') return refuse('ERR_TOKEN_TYPE', 'typ is not a string')
  if (!isWantedType(typ, rules.typ)) return refuse('ERR_TOKEN_TYPE')

  const claims = decodeObject(parts.payload)
  if (claims === undefined) return refuse('ERR_TOKEN_MALFORMED', 'the claims are not base64url of one JSON object')
  const signature = decodeBase64url(parts.signature)
  if (signature === undefined || signature.length === 0)
    return refuse('ERR_TOKEN_MALFORMED', 'the signature is not base64url')
  return { alg, kid, claims, signature, signingInput: parts.signingInput }
}

/** Three parts exactly: a JWE has five (RFC 7516 §9), a detached payload is empty. Still encoded. */
export function splitJws(text: string) {
  const first = text.indexOf('.')
  const second = text.indexOf('.', first + 1)
  if (first < 0 || second < 0 || text.indexOf('.', second + 1) >= 0) return undefined
  return {
    header: text.slice(0, first),
    payload: text.slice(first + 1, second),
    signature: text.slice(second + 1),
    signingInput: text.slice(0, second),
  }
}

/**
 * RFC 9068 §4, RFC 9701 §5 and RFC 8725 §3.11. `any` still refuses an explicit `…+jwt` type of another kind (logout,
 * DPoP proof, ID token, entity statement): whoever wrote it says that this is no access token.
 */
function isWantedType(typ: string | undefined, rule: TokenRules['typ']): boolean {
  if (typ === undefined) return rule === 'any'
  // RFC 7515 §4.1.9: `application/` may be left out; media types compare case-insensitively.
  const type = typ.toLowerCase().replace(/^application\//, '')
  return rule === 'any' ? type === 'at+jwt' || !/[+;]/.test(type) : type === rule
}

/**
 * What a JWT says its issuer is, for choosing whom not to ask. Nothing is verified. `undefined` for anything that is not
 * three parts with claims in the middle.
 */
export function claimedIssuer(token: string): string | undefined {
  const parts = splitJws(token)
  const claims = parts === undefined ? undefined : decodeObject(parts.payload)
  return claims !== undefined && typeof claims.iss === 'string' ? claims.iss : undefined
}

/** One strict JSON object in strict base64url. */
export function decodeObject(text: string): Record<string, unknown> | undefined {
  const bytes = text === '' ? undefined : decodeBase64url(text)
  if (bytes === undefined) return undefined
  try {
    const value = parseStrictJson(bytes)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}
