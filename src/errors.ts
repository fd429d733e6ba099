/**
 * Every code this package reports, with its static message. A code names either a fault that is thrown
 * (`TrustError.code`) or the operator's reason inside a value (a denied decision, a card that did not verify,
 * a URL that may not be fetched). The same registry makes the `ErrorCode` type and is kept equal to
 * `docs/errors.md` by a gate.
 *
 * Messages are static: evidence goes to `details` or `cause`, never a token, secret, key or query string.
 */
const CODES = {
  // -- json: strict JSON and canonical form
  ERR_JSON_SYNTAX: 'The text is not valid JSON',
  ERR_JSON_ENCODING: 'The text is not valid UTF-8',
  ERR_JSON_BOM: 'The text starts with a byte order mark',
  ERR_JSON_DUPLICATE_NAME: 'An object has the same member name twice',
  ERR_JSON_LONE_SURROGATE: 'A string contains an unpaired surrogate',
  ERR_JSON_UNSAFE_NUMBER: 'A number cannot be represented exactly',
  ERR_JSON_DEPTH: 'The value is nested too deeply',
  ERR_JSON_SIZE: 'The text is larger than the limit',
  ERR_JSON_TRAILING_DATA: 'The text continues after the value',

  // -- card: shape, signatures, trust

  // -- trust: trust file and pins

  // -- egress: what this process may reach

  // -- protocol: what the request is
  ERR_OPERATION_UNKNOWN: 'The request is not one of the A2A operations',
  ERR_REQUEST_MALFORMED: 'The request cannot be read in one way only',
  ERR_REQUEST_TOO_LARGE: 'The request body is larger than the limit',
  ERR_BODY_NOT_JSON: 'The request body is not JSON',

  // -- policy: the policy file and what it refers to

  // -- credential: what a caller presented
  ERR_CREDENTIAL_MISSING: 'No credential was presented for any accepted requirement',
  ERR_CREDENTIAL_MALFORMED: 'A credential was presented in a way that can be read in more than one way',
  ERR_CREDENTIAL_INCOMPLETE: 'A requirement needs several credentials and one is missing',

  // -- access: what a valid caller may do
  ERR_SCOPE_INSUFFICIENT: 'The credential is valid and lacks a required scope',
  ERR_SKILL_UNKNOWN: 'The request names a skill the card does not have',
  ERR_SKILL_UNDECLARED: 'The request names no skill and the policy requires one',
  ERR_SKILL_FORBIDDEN: 'The credential does not satisfy the requirements of the skill',
  ERR_ACCESS_DENIED: 'An access rule denies the request, or none allows it',

  // -- guard: construction and life cycle
  ERR_GUARD_CLOSED: 'The guard is closed',
} as const

/** One of the codes in `docs/errors.md`. */
export type ErrorCode = keyof typeof CODES

/** The static message of `code`. */
export function messageOf(code: ErrorCode): string {
  return CODES[code]
}

/** All codes, in the order of the registry. */
export const errorCodes: readonly ErrorCode[] = Object.freeze(Object.keys(CODES) as ErrorCode[])

const BRAND = Symbol.for('a2a-trust.TrustError')

/** Evidence for the operator: short facts (a file, a limit, a path, a host), never a secret. */
export type ErrorDetails = Readonly<Record<string, string | number | boolean | readonly string[]>>

/**
 * What this package throws for a fault it can name. `code` is stable; `message` is the static text of the code,
 * followed by `hint` where there is one. `instanceof` works across two copies of the package.
 */
export class TrustError extends Error {
  override readonly name: string = 'TrustError'
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(code: ErrorCode, options: { details?: ErrorDetails; cause?: unknown; hint?: string } = {}) {
    super(
      options.hint === undefined ? CODES[code] : `${CODES[code]}: ${options.hint}`,
      options.cause === undefined ? undefined : { cause: options.cause },
    )
    this.code = code
    this.details = Object.freeze({ ...options.details })
    Object.defineProperty(this, BRAND, { value: true })
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: subclasses keep the ordinary prototype check
    if (this !== TrustError) return Function.prototype[Symbol.hasInstance].call(this, value)
    return typeof value === 'object' && value !== null && (value as { [BRAND]?: unknown })[BRAND] === true
  }
}
