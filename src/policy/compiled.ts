/** A policy after loading: every reference resolved, every default filled in, compared with the card. Frozen. */
import type { KeyObject } from 'node:crypto'
import type { ClientAuthentication } from '../internal/client-authentication.ts'
import type { RevocationList } from '../internal/crl.ts'
import type { WebhookSettings } from '../internal/webhook-settings.ts'
import type { OwnershipRules } from '../ownership/register.ts'
import type { CardModel } from '../protocol/card-model.ts'
import type { Rate } from '../store/rate-limiter.ts'
import type { RevocationEntry } from '../store/stores.ts'
import type { OperationName } from '../types.ts'
import type { AccessRule, RequestMatch } from './compiled-rules.ts'
import type { Problem } from './problem.ts'

export interface CompiledPolicy {
  /** The card as served and its model. */
  readonly card: CardModel
  readonly cardJson: Readonly<Record<string, unknown>>
  readonly extendedCardJson?: Readonly<Record<string, unknown>>
  readonly audience: readonly string[]
  /** Origin (and path) callers know this agent by; from the policy, never from a header. No trailing slash. */
  readonly publicUrl?: string
  readonly anonymous: boolean
  /** By the card's scheme name; every scheme of the card is here. */
  readonly schemes: ReadonlyMap<string, SchemeConfig>
  /** Whether any credential that the schemes take can be for one tenant. */
  readonly speaksOfTenants: boolean
  readonly skills: SkillSelection
  readonly access: readonly AccessRule[] | undefined
  readonly ownership: OwnershipRules
  readonly limits: LimitConfig
  /** In the order of the file; the first that fits counts. Empty: authority goes nowhere. */
  readonly delegation: readonly DelegationRule[]
  readonly revoked: readonly RevocationEntry[]
  /** Lower case, `-` for `_`; the last character may be `*`. */
  readonly identityHeaders: readonly string[]
  readonly dpop: DpopConfig
  readonly webhooks: WebhookSettings
  readonly egress: EgressConfig
  /** Where trusted proxies put the caller's certificate: one place for all schemes. */
  readonly clientCertificate?: ClientCertificateConfig
  /** Where trusted proxies put the caller's address; absent: it is that of the connection. */
  readonly clientAddress?: ClientAddressConfig
  readonly mode: 'enforce' | 'report'
  /** Largest request body read, in bytes. */
  readonly maxBodyBytes: number
  /** Warnings found while loading; errors have already been thrown. */
  readonly warnings: readonly Problem[]
}

export type SchemeConfig =
  | ApiKeySchemeConfig
  | BasicSchemeConfig
  | JwtSchemeConfig
  | OpaqueSchemeConfig
  | MtlsSchemeConfig
  | CustomSchemeConfig
  | UnavailableSchemeConfig

export interface ApiKeySchemeConfig {
  readonly type: 'apiKey'
  readonly name: string
  readonly location: 'header' | 'query' | 'cookie'
  /** Header (lower case), query parameter or cookie name. */
  readonly parameter: string
  readonly keys: readonly ApiKeyRecord[]
}

export interface ApiKeyRecord {
  readonly id: string
  /** SHA-256 of the key's UTF-8 bytes, lower-case hex. */
  readonly sha256: string
  /** Becomes the principal's subject. */
  readonly owner: string
  readonly scopes: readonly string[]
  readonly tenant?: string
  /** Unix seconds. */
  readonly notBefore?: number
  readonly expiresAt?: number
  readonly revoked?: boolean
}

export interface BasicSchemeConfig {
  readonly type: 'basic'
  readonly name: string
  /** At least one. */
  readonly users: readonly BasicUser[]
}

export interface BasicUser {
  /** As presented, in normal form C. */
  readonly user: string
  /** PHC string, with costs within the bounds of `parsePasswordHash`. */
  readonly scrypt: string
  /** Becomes the principal's subject. */
  readonly owner: string
  readonly scopes: readonly string[]
  readonly tenant?: string
  /** Unix seconds. */
  readonly expiresAt?: number
  readonly revoked?: boolean
}

/** Checked by a function in code, `schemes.custom` of `createGuard`. */
export interface CustomSchemeConfig {
  readonly type: 'custom'
  readonly name: string
  readonly place: CustomPlace
  /** Further headers the function sees, lower case. */
  readonly headers: readonly string[]
  readonly timeoutMs: number
  /** Whether the function says whose tenant the caller is. */
  readonly tenants: boolean
}

/** Where the card says the credential is. Auth-scheme and header name in lower case. */
export type CustomPlace =
  | { readonly at: 'authorization'; readonly authScheme: string }
  | { readonly at: 'header' | 'query' | 'cookie'; readonly parameter: string }
  | { readonly at: 'tls' }

export interface JwtSchemeConfig {
  readonly type: 'jwt'
  readonly name: string
  readonly kind: 'http' | 'oauth2' | 'openIdConnect'
  /** At least one; a token is judged by the one its `iss` names. */
  readonly issuers: readonly IssuerConfig[]
  readonly audience: readonly string[]
  readonly typ: 'at+jwt' | 'any'
  readonly algorithms: readonly string[]
  readonly scopeClaims: readonly string[]
  /** Claim holding the tenant, if the issuer sets one. */
  readonly tenantClaim?: string
  /** Required claims of RFC 9068 §2.2 (iss, exp, aud, sub, client_id, iat, jti). Off only for plain bearer. */
  readonly rfc9068: boolean
  readonly clockToleranceSeconds: number
  readonly maxTokenBytes: number
  /** Oldest `iat` accepted; absent: `exp` alone decides. */
  readonly maxTokenAgeSeconds?: number
  readonly requiredScopes: readonly string[]
  readonly senderConstraint: 'off' | 'optional' | 'dpop' | 'mtls'
}

/** Tokens that only their issuer can read, so that it is asked about each (RFC 7662). */
export interface OpaqueSchemeConfig
  extends Pick<
    JwtSchemeConfig,
    | 'name'
    | 'kind'
    | 'audience'
    | 'scopeClaims'
    | 'tenantClaim'
    | 'clockToleranceSeconds'
    | 'maxTokenBytes'
    | 'maxTokenAgeSeconds'
    | 'requiredScopes'
    | 'senderConstraint'
  > {
  readonly type: 'opaque'
  /** Byte-exact: what the answer must name, where it names one. */
  readonly issuer: string
  readonly endpoint:
    | { readonly from: 'policy'; readonly url: string }
    | { readonly from: 'discovery'; readonly url: string }
  readonly client: ClientAuthentication
  /** Set where answers must be signed (RFC 9701): with one of these algorithms and a key from here. */
  readonly signed?: { readonly algorithms: readonly string[]; readonly keys: IssuerConfig['keys'] }
  /** Longest time an answer that says yes is kept. 0: not at all. */
  readonly cacheSeconds: number
  /** Whether an answer may leave `aud` out. */
  readonly acceptMissingAudience: boolean
  /** Issuers of the policy's other schemes: a JWT that names one of them is not shown to this one. */
  readonly otherIssuers: ReadonlySet<string>
}

export interface IssuerConfig {
  /** Byte-exact. */
  readonly issuer: string
  readonly keys:
    | { readonly from: 'file'; readonly jwks: { readonly keys: readonly Readonly<Record<string, unknown>>[] } }
    | { readonly from: 'url'; readonly url: string }
    | { readonly from: 'discovery'; readonly url: string }
}

export interface MtlsSchemeConfig {
  readonly type: 'mtls'
  readonly name: string
  /** PEM, one CA certificate each; at least one. */
  readonly ca: readonly string[]
  /** SPIFFE IDs, https URIs, DNS names (`*`: one whole segment, or the first label) and key pins. In order of precedence. */
  readonly identities: readonly string[]
  /** Absent: nothing is looked up. */
  readonly crl?: readonly RevocationList[]
}

export interface ClientCertificateConfig {
  /** Lower case. */
  readonly header: string
  readonly format: 'rfc9440' | 'xfcc' | 'pem'
  /** Addresses and CIDR ranges. */
  readonly trustedProxies: readonly string[]
}

export interface ClientAddressConfig {
  readonly header: 'x-forwarded-for' | 'forwarded'
  readonly trustedProxies: readonly string[]
}

/** A scheme that is configured but that this version cannot check: never satisfied. Start-up refuses it. */
export interface UnavailableSchemeConfig {
  readonly type: 'unavailable'
  readonly name: string
  readonly why: string
}

export interface SkillSelection {
  /** Where a caller may name a skill; absent: nowhere. */
  readonly select?: { readonly metadata?: string; readonly extension?: boolean; readonly tenant?: boolean }
  readonly undeclared: 'deny' | 'agent'
  readonly combine: 'add' | 'override'
}

export type DelegationRule = SilentRule | ObtainingRule

interface RuleHead {
  /** Position in the file. */
  readonly index: number
  /** Origin or beginning of a URL, as `URL` writes it. Whole path segments. */
  readonly to: string
  readonly match: RequestMatch
}

export interface SilentRule extends RuleHead {
  readonly obtain: 'none'
}

export interface ObtainingRule extends RuleHead {
  readonly obtain: 'exchange' | 'client_credentials'
  /** Byte-exact. */
  readonly issuer: string
  readonly endpoint: OpaqueSchemeConfig['endpoint']
  readonly client: ClientAuthentication
  /** At least one. */
  readonly scopes: readonly string[]
  /** Those of them that only a caller who has them passes on. */
  readonly heldScopes: ReadonlySet<string>
  readonly audience?: string
  readonly resource?: string
  readonly actor: 'token' | 'client'
  readonly maxActors: number
}

export interface LimitConfig {
  readonly perPrincipal?: Rate
  readonly failedAuthentication?: Rate
  readonly failedCredential?: Rate
  readonly perOperation?: ReadonlyMap<OperationName, Rate>
}

export interface DpopConfig {
  readonly nonce: 'required' | 'off'
  /** As a key object, so that no log and no dump of the policy shows it. Absent: random, one process. */
  readonly nonceKey?: KeyObject
}

/** As `createEgress` takes them, minus functions. */
export interface EgressConfig {
  readonly requireHttps?: boolean
  readonly ports?: readonly number[]
  readonly allowHosts?: readonly string[]
  readonly denyHosts?: readonly string[]
  readonly allowAddresses?: readonly string[]
  readonly timeoutMs?: number
  readonly maxResponseBytes?: number
}
