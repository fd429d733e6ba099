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
  ERR_CARD_ADVICE: 'The card is valid and could be safer',
  ERR_CARD_SHAPE: 'The card has a member that this canonical form cannot express',
  ERR_CARD_REQUIRED_EMPTY: 'A REQUIRED member of the card is empty',
  ERR_CARD_SIGNING_KEY: 'The key cannot sign cards',
  ERR_CARD_UNSIGNED: 'The card has no signature',
  ERR_CARD_SIGNATURE_COUNT: 'The card has more signatures than are looked at',
  ERR_CARD_SIGNATURE_MALFORMED: 'The signature is not an object with protected header and signature',
  ERR_CARD_SIGNATURE_ENCODING: 'The signature or its header is not strict base64url',
  ERR_CARD_SIGNATURE_HEADER: 'The protected header is not strict JSON, or the unprotected one repeats it',
  ERR_CARD_SIGNATURE_CRITICAL: 'The signature header has crit or b64',
  ERR_CARD_SIGNATURE_KID: 'The protected header has no usable kid',
  ERR_CARD_SIGNATURE_ALGORITHM: 'The algorithm is not allowed, or does not fit the key',
  ERR_CARD_SIGNATURE_TYPE: 'The signature is of another type than a card signature',
  ERR_CARD_KEY_UNKNOWN: 'No trusted key has the kid of the signature',
  ERR_CARD_KEY_UNAVAILABLE: 'The key of the signature cannot be had',
  ERR_CARD_SIGNATURE_INVALID: 'The signature verifies over no canonical form of the card',
  ERR_CARD_SIGNATURE_OMITS_SECURITY_SCHEMES: 'The signature was made over a card without its security schemes',
  ERR_CARD_ORIGIN: 'The signer may not sign for this origin or interface',
  ERR_CARD_THRESHOLD: 'Fewer signers than the trust asks for have signed',
  ERR_CARD_UNCOVERED: 'The card has members that no signature covers',

  // -- trust: trust file and pins
  ERR_TRUST_PINS: 'The pin file is not one',
  ERR_CARD_FETCH: 'The card cannot be fetched',
  ERR_CARD_DRIFT: 'The card is not what was pinned',
  ERR_TRUST_NOBODY: 'The trust file trusts nobody',
  ERR_CARD_KEY_REVOKED: 'The key of the signature is revoked',
  ERR_CARD_KEY_EXPIRED: 'The signer is trusted, and not at this time',

  // -- egress: what this process may reach
  ERR_EGRESS_URL: 'The URL is too long, or can be read in more than one way',
  ERR_EGRESS_SCHEME: 'The URL scheme may not be reached',
  ERR_EGRESS_USERINFO: 'The URL has a user name or password',
  ERR_EGRESS_PORT: 'The port may not be reached',
  ERR_EGRESS_HOST: 'The host may not be reached',
  ERR_EGRESS_ADDRESS: 'The host has an address that may not be reached',
  ERR_EGRESS_DNS: 'The host has no address, or too many',
  ERR_EGRESS_REDIRECT: 'The answer is a redirect that may not be followed',
  ERR_EGRESS_TIMEOUT: 'The request took longer than the limit',
  ERR_EGRESS_RESPONSE_SIZE: 'The answer is larger than the limit',
  ERR_EGRESS_FAILED: 'The request could not be made',

  // -- protocol: what the request is
  ERR_OPERATION_UNKNOWN: 'The request is not one of the A2A operations',
  ERR_REQUEST_MALFORMED: 'The request cannot be read in one way only',
  ERR_VERSION_UNSUPPORTED: 'The request states an A2A version that is not spoken here, or states it twice',
  ERR_REQUEST_TOO_LARGE: 'The request body is larger than the limit',
  ERR_BODY_NOT_JSON: 'The request body is not JSON',
  ERR_CARD_VERSION: 'The card is neither a v1.0 nor a v0.3 card',
  ERR_CARD_VERSION_MIXED: 'The card has a security member of another protocol version',
  ERR_CARD_MEMBER: 'A member of the card is missing or of the wrong type',
  ERR_CARD_SCHEME: 'A security scheme of the card cannot be read',
  ERR_CARD_SCHEME_UNKNOWN: 'A security scheme of the card is of an unknown kind',
  ERR_CARD_REQUIREMENT: 'A security requirement of the card cannot be read',
  ERR_CARD_REQUIREMENT_UNDECLARED: 'A security requirement names a scheme that the card does not declare',
  ERR_CARD_SKILL_DUPLICATE: 'Two skills of the card have the same id',

  // -- policy: the policy file and what it refers to
  ERR_POLICY_INVALID: 'The policy has mistakes',
  ERR_POLICY_UNREADABLE: 'A file the policy needs cannot be read',
  ERR_POLICY_SYNTAX: 'A configuration file is not plain YAML or JSON',
  ERR_POLICY_UNKNOWN_KEY: 'A configuration file has a key that has no meaning there',
  ERR_POLICY_MISSING: 'A mandatory setting is missing',
  ERR_POLICY_VALUE: 'A setting has a value it cannot have',
  ERR_POLICY_REFERENCE: 'A reference does not lead to a value',
  ERR_POLICY_SECRET_WEAK: 'A secret is empty, blank, too short or not a secret',
  ERR_POLICY_KEY_FILE: 'A file of keys holds an entry that cannot be trusted',
  ERR_POLICY_EXAMPLE_KEY: 'Example keys are refused in production',
  ERR_POLICY_UNSUPPORTED: 'This version cannot enforce what is configured',
  ERR_POLICY_SCHEME_UNCONFIGURED: 'The card declares a scheme that the policy does not configure',
  ERR_POLICY_SCHEME_HIDDEN: 'The policy configures a scheme that the card does not declare',
  ERR_POLICY_SCHEME_MISMATCH: 'The settings of a scheme are those of another kind of scheme',
  ERR_POLICY_REQUIREMENT_UNSATISFIABLE: 'The card has a security requirement that no caller can meet',
  ERR_POLICY_ANONYMOUS: 'The card lets callers in without a credential and the policy does not',
  ERR_POLICY_ISSUER_MISMATCH: 'The card names another authorization server than the policy',
  ERR_POLICY_SKILL_UNKNOWN: 'The policy names a skill that the card does not have',
  ERR_POLICY_PUBLIC_URL: 'The card has an interface outside the public URL',
  ERR_POLICY_EXTENDED_CARD: 'Card and policy disagree about the extended card',
  ERR_POLICY_WEAK: 'The policy is valid and gives up a protection',

  // -- credential: what a caller presented
  ERR_CREDENTIAL_MISSING: 'No credential was presented for any accepted requirement',
  ERR_CREDENTIAL_MALFORMED: 'A credential was presented in a way that can be read in more than one way',
  ERR_CREDENTIAL_INCOMPLETE: 'A requirement needs several credentials and one is missing',
  ERR_CREDENTIAL_REVOKED: 'The credential, its key, its issuer or its owner has been revoked',
  ERR_API_KEY_UNKNOWN: 'The API key is none of the configured keys',
  ERR_API_KEY_CHECKSUM: 'The API key has the form of a generated one and a wrong checksum',
  ERR_API_KEY_NOT_YET_VALID: 'The API key is not valid yet',
  ERR_API_KEY_EXPIRED: 'The API key has expired',
  ERR_PASSWORD_INVALID: 'The user is unknown, or the password is not theirs',
  ERR_PASSWORD_EXPIRED: 'The password has expired',
  ERR_CUSTOM_REFUSED: 'The function that checks the scheme refused the credential',
  ERR_CUSTOM_FAILED: 'The function that checks the scheme threw, or gave no answer in time',
  ERR_CUSTOM_RESULT: 'The function that checks the scheme returned what is no result',
  ERR_TOKEN_TOO_LARGE: 'The token is larger than the limit',
  ERR_TOKEN_MALFORMED: 'The token is not a compact JWS with a JSON header and JSON claims',
  ERR_TOKEN_HEADER: 'The token header has a parameter that is never accepted',
  ERR_TOKEN_ALGORITHM: 'The token names an algorithm that is not configured',
  ERR_TOKEN_TYPE: 'The token is of another type than an access token',
  ERR_TOKEN_ISSUER: 'The token is from an issuer that is not configured',
  ERR_TOKEN_AUDIENCE: 'The token is meant for another audience',
  ERR_TOKEN_EXPIRED: 'The token has expired',
  ERR_TOKEN_NOT_YET_VALID: 'The token is not valid yet',
  ERR_TOKEN_LIFETIME: 'The token is too old, or valid for too long',
  ERR_TOKEN_CLAIMS: 'A claim of the token is missing or has a value it cannot have',
  ERR_TOKEN_BOUND: 'The token is bound to a key or certificate and the binding cannot be checked',
  ERR_TOKEN_UNBOUND: 'The token is not bound to what it has to be bound to',
  ERR_TOKEN_CERTIFICATE: 'The token is bound to a client certificate that was not presented',
  ERR_DPOP_PROOF: 'The DPoP proof is missing, or is none for this token and request',
  ERR_DPOP_NONCE: 'The DPoP proof has no current nonce of this agent',
  ERR_DPOP_REPLAY: 'The DPoP proof was used before',
  ERR_TOKEN_KEY_UNKNOWN: 'The issuer has no key that could have signed the token',
  ERR_TOKEN_SIGNATURE: 'The signature of the token does not verify',
  ERR_TOKEN_INACTIVE: 'The issuer says that the token is not active',
  ERR_CERTIFICATE_MALFORMED: 'The client certificate cannot be read',
  ERR_CERTIFICATE_UNTRUSTED: 'The client certificate does not lead to a configured authority',
  ERR_CERTIFICATE_PURPOSE: 'The certificate was not made for client authentication',
  ERR_CERTIFICATE_EXPIRED: 'The client certificate, or one above it, has expired',
  ERR_CERTIFICATE_NOT_YET_VALID: 'The client certificate, or one above it, is not valid yet',
  ERR_CERTIFICATE_REVOKED: 'The client certificate, or one above it, is revoked',
  ERR_CERTIFICATE_IDENTITY: 'The client certificate names nobody who is accepted, or more than one caller',
  ERR_CRL_UNAVAILABLE: 'Whether the client certificate is revoked cannot be told now',
  ERR_FETCH_FAILED: 'A document cannot be fetched',
  ERR_DISCOVERY_INVALID: 'The metadata of an issuer cannot be used',
  ERR_JWKS_INVALID: 'A JWK Set cannot be used',
  ERR_JWKS_UNAVAILABLE: 'The keys of an issuer cannot be fetched',
  ERR_INTROSPECTION_UNAVAILABLE: 'The issuer cannot be asked about a token',
  ERR_INTROSPECTION_INVALID: 'What the issuer says of a token cannot be used',
  ERR_OVERLOADED: 'Too many credentials are waiting to be checked',

  // -- access: what a valid caller may do
  ERR_SCOPE_INSUFFICIENT: 'The credential is valid and lacks a required scope',
  ERR_TENANT_FORBIDDEN: 'The credential is for another tenant than the request',
  ERR_SKILL_UNKNOWN: 'The request names a skill the card does not have',
  ERR_SKILL_UNDECLARED: 'The request names no skill and the policy requires one',
  ERR_SKILL_FORBIDDEN: 'The credential does not satisfy the requirements of the skill',
  ERR_RATE_LIMITED: 'The caller has made too many requests, or too many that failed to authenticate',
  ERR_TASK_NOT_OWNED: 'The task or context is not there for this caller',
  ERR_EXTENDED_CARD_UNSUPPORTED: 'The agent has no extended card',
  ERR_EXTENDED_CARD_NOT_CONFIGURED: 'The extended card is announced and there is none',
  ERR_ACCESS_DENIED: 'An access rule denies the request, or none allows it',

  // -- delegation: what leaves for a caller
  ERR_OUTBOUND_CREDENTIAL: 'A credential of the caller was about to leave toward another audience',
  ERR_DELEGATION_CALLER: 'There is no caller whose authority could flow on',
  ERR_DELEGATION_DENIED: 'No delegation rule lets authority of this caller flow to the destination',
  ERR_DELEGATION_SUBJECT: 'The caller has no credential that can be exchanged for one of the destination',
  ERR_DELEGATION_SCOPE: 'The caller has none of the scopes that the rule passes on',
  ERR_DELEGATION_CREDENTIAL: 'A request to another agent carries a credential of its own',
  ERR_CREDENTIALS_UNSATISFIABLE: 'No requirement of the card can be met with the credentials that are configured',
  ERR_CREDENTIALS_DESTINATION: 'The credential is bound to another destination',
  ERR_CREDENTIALS_UNAVAILABLE: 'A credential cannot be had now',
  ERR_TOKEN_REQUEST: 'The authorization server gave no token',
  ERR_TOKEN_ANSWER: 'The answer of the token endpoint cannot be used',

  // -- approval: what somebody has to allow before the agent does it
  ERR_APPROVAL_DENIED: 'The approver has said no',
  ERR_APPROVAL_EXPIRED: 'The time for the approval, or for what was approved, is over',
  ERR_APPROVAL_CANCELLED: 'The task has ended, or the process is ending, so the approval is worth nothing',
  ERR_APPROVAL_USED: 'What was approved once has been done once',
  ERR_APPROVAL_MISMATCH: 'What is to be done is not what was approved',
  ERR_APPROVAL_LIMIT: 'Too many approvals are waited for',
  ERR_APPROVAL_CREDENTIAL: 'The authorization code could not be turned into a credential',
  ERR_APPROVAL_REFUSED: 'An answer to an approval was not accepted',

  // -- store: what is remembered between requests
  ERR_STORE_UNAVAILABLE: 'A store cannot be asked, or is full',

  // -- guard: construction and life cycle
  ERR_GUARD_CLOSED: 'The guard is closed',
  ERR_GUARD_NOT_MOUNTED: 'A handler was reached by a request that its guard did not allow',

  // -- webhook: signing and verifying push notifications
  ERR_WEBHOOK_SIGNING_KEY: 'The key cannot sign webhook tokens',
  ERR_WEBHOOK_BODY: 'The body is not the bytes that arrived, so no signature over it can be checked',
  ERR_WEBHOOK_HEADER: 'A webhook header is missing, repeated or malformed',
  ERR_WEBHOOK_TIMESTAMP: 'The webhook timestamp is not whole unix seconds, or is outside the tolerance',
  ERR_WEBHOOK_SIGNATURE: 'No signature of the webhook verifies under a configured secret',
  ERR_WEBHOOK_JWT: 'The token of the webhook does not verify',
  ERR_WEBHOOK_TOKEN: 'The webhook does not carry the token or authorization that was registered',
  ERR_WEBHOOK_EVENT: 'The webhook body is not exactly one A2A event',
  ERR_WEBHOOK_TASK: 'The webhook is about a task that is not expected',
  ERR_PUSH_CONFIG: 'The push notification config cannot be accepted',
  ERR_PUSH_CONFIG_LIMIT: 'There are too many push notification configs',
  ERR_PUSH_CONFIG_SEALED: 'What is secret in a push notification config cannot be decrypted',
  ERR_WEBHOOK_SENDER_CLOSED: 'The webhook sender is closed',
  ERR_WEBHOOK_DUPLICATE: 'The webhook was accepted before',
  ERR_WEBHOOK_CHALLENGE: 'The webhook is a challenge to be answered, and no event',
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
