/**
 * The claims of a token, in two steps. `readClaims` depends on the token and the configuration only, so its result may
 * be kept with a verified token; `judgeClaims` is the part that is asked anew on every request.
 */
import type { JwtSchemeConfig } from '../policy/compiled.ts'
import type { Actor, PrincipalPart } from '../types.ts'
import { type Confirmation, readConfirmation } from './sender-constraint.ts'
import { type Refusal, refuse } from './token.ts'

export interface ReadClaims {
  readonly issuer: string
  readonly audience: readonly string[]
  readonly expiresAt: number
  readonly notBefore: number | undefined
  readonly issuedAt: number | undefined
  /** What the token is bound to. */
  readonly confirmation: Confirmation | undefined
  readonly part: PrincipalPart
}

/** Last second of the year 9999. What is beyond it is milliseconds, or nonsense. */
const MAX_NUMERIC_DATE = 253_402_300_799
/** Furthest `exp` accepted, from now: an access token that outlives a year is a key nobody rotates. */
const MAX_REMAINING_SECONDS = 366 * 24 * 60 * 60
const MAX_IDENTIFIER_LENGTH = 1024
const MAX_ACTORS = 8
/** RFC 6749 §3.3 `scope-token`. */
const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]+$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/

/**
 * Types and presence of every claim that is used. Believes nothing yet: the signature comes later. `implied` holds what
 * goes without saying where the claim is absent.
 */
export function readClaims(
  config: Pick<JwtSchemeConfig, 'name' | 'kind' | 'rfc9068' | 'scopeClaims' | 'tenantClaim'>,
  claims: Readonly<Record<string, unknown>>,
  kid?: string,
  implied: Readonly<Record<string, unknown>> = {},
): ReadClaims | Refusal {
  const own = (name: string): unknown =>
    Object.hasOwn(claims, name) ? claims[name] : Object.hasOwn(implied, name) ? implied[name] : undefined
  const bad = (name: string): Refusal => refuse('ERR_TOKEN_CLAIMS', name)

  const confirmation = readConfirmation(own('cnf'))
  if (confirmation !== undefined && 'kind' in confirmation) return confirmation

  const issuer = own('iss')
  if (!isIdentifier(issuer)) return bad('iss')
  const subject = own('sub')
  if (!isIdentifier(subject)) return bad('sub')
  const aud = own('aud')
  const audience: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  if (audience.length === 0 || !audience.every((entry) => typeof entry === 'string' && entry !== '')) return bad('aud')

  const expiresAt = own('exp')
  if (!isNumericDate(expiresAt)) return bad('exp')
  const notBefore = own('nbf')
  if (notBefore !== undefined && !isNumericDate(notBefore)) return bad('nbf')
  const issuedAt = own('iat')
  if (issuedAt !== undefined && !isNumericDate(issuedAt)) return bad('iat')

  const clientId = own('client_id')
  if (clientId !== undefined && !isIdentifier(clientId)) return bad('client_id')
  const tokenId = own('jti')
  if (tokenId !== undefined && !isIdentifier(tokenId)) return bad('jti')
  if (config.rfc9068) {
    // RFC 9068 §2.2; iss, exp, aud and sub are required of every token above.
    if (clientId === undefined) return bad('client_id')
    if (issuedAt === undefined) return bad('iat')
    if (tokenId === undefined) return bad('jti')
  }
  const tenant = config.tenantClaim === undefined ? undefined : own(config.tenantClaim)
  if (tenant !== undefined && !isIdentifier(tenant)) return bad(config.tenantClaim as string)

  const actor = own('act') === undefined ? undefined : readActor(own('act'), MAX_ACTORS)
  if (actor === null) return bad('act')
  const scopes = readScopes(config.scopeClaims, own)
  if (scopes === undefined) return bad('scope')

  const part: PrincipalPart = Object.freeze({
    scheme: config.name,
    kind: config.kind,
    issuer,
    subject,
    ...(clientId === undefined ? {} : { clientId }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(actor === undefined ? {} : { actor }),
    scopes,
    claims: deepFreeze(claims),
    expiresAt,
    credential: Object.freeze({
      ...(tokenId === undefined ? {} : { id: tokenId }),
      ...(kid === undefined ? {} : { keyId: kid }),
      ...(issuedAt === undefined ? {} : { issuedAt }),
    }),
  })
  return { issuer, audience: audience as readonly string[], expiresAt, notBefore, issuedAt, confirmation, part }
}

export interface ClaimRules {
  readonly audience: ReadonlySet<string>
  readonly clockToleranceSeconds: number
  readonly maxTokenAgeSeconds: number | undefined
}

/** Whether the claims hold now and here; `undefined` when they do. `now` in unix seconds. The caller checks `iss`. */
export function judgeClaims(claims: ReadClaims, rules: ClaimRules, now: number): Refusal | undefined {
  const tolerance = rules.clockToleranceSeconds
  if (!claims.audience.some((entry) => rules.audience.has(entry))) return refuse('ERR_TOKEN_AUDIENCE')
  // RFC 7519 §4.1.4: on or after `exp` a token is not accepted.
  if (claims.expiresAt <= now - tolerance) return refuse('ERR_TOKEN_EXPIRED')
  if (claims.expiresAt > now + MAX_REMAINING_SECONDS + tolerance) {
    return refuse('ERR_TOKEN_LIFETIME', 'exp is more than a year ahead')
  }
  if (claims.notBefore !== undefined && claims.notBefore > now + tolerance)
    return refuse('ERR_TOKEN_NOT_YET_VALID', 'nbf')
  if (claims.issuedAt !== undefined && claims.issuedAt > now + tolerance)
    return refuse('ERR_TOKEN_NOT_YET_VALID', 'iat')
  const maxAge = rules.maxTokenAgeSeconds
  if (maxAge !== undefined) {
    if (claims.issuedAt === undefined) return refuse('ERR_TOKEN_CLAIMS', 'iat')
    if (now - claims.issuedAt > maxAge + tolerance) return refuse('ERR_TOKEN_LIFETIME', 'iat is too old')
  }
  return undefined
}

/** RFC 7519 §2: a JSON number of seconds, possibly fractional. */
function isNumericDate(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MAX_NUMERIC_DATE
}

/** What names somebody: text that cannot be misread in a log, a key or a header. */
function isIdentifier(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_IDENTIFIER_LENGTH && !CONTROL.test(value)
}

/** RFC 8693 §4.1. `null` for a chain that is malformed or longer than the bound. */
function readActor(value: unknown, remaining: number): Actor | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || remaining === 0) return null
  const { sub, iss, act } = value as Record<string, unknown>
  if (!isIdentifier(sub) || (iss !== undefined && !isIdentifier(iss))) return null
  const inner = act === undefined ? undefined : readActor(act, remaining - 1)
  if (inner === null) return null
  return Object.freeze({
    subject: sub,
    ...(iss === undefined ? {} : { issuer: iss }),
    ...(inner === undefined ? {} : { actor: inner }),
  })
}

/**
 * A space-separated string (RFC 8693 §4.2) or an array of strings (as some issuers send). Where two of the configured
 * claims are present they must say the same, for which of them counts is not ours to choose.
 */
function readScopes(names: readonly string[], own: (name: string) => unknown): ReadonlySet<string> | undefined {
  let found: ReadonlySet<string> | undefined
  for (const name of names) {
    const value = own(name)
    if (value === undefined) continue
    const list: unknown = value === '' ? [] : typeof value === 'string' ? value.split(' ') : value
    if (!Array.isArray(list) || !list.every((scope) => typeof scope === 'string' && SCOPE_TOKEN.test(scope))) {
      return undefined
    }
    const scopes = new Set<string>(list as string[])
    if (found !== undefined && !sameMembers(found, scopes)) return undefined
    found ??= scopes
  }
  return found ?? new Set()
}

function sameMembers(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every((member) => b.has(member))
}

/** Cached claims are handed to many requests; none of them may change what the next one sees. */
function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const member of Object.values(value)) deepFreeze(member)
  }
  return value
}
