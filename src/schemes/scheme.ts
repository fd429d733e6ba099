/**
 * What every scheme is to the guard: credential material in, outcome out. A scheme never sees the body, the
 * operation or another scheme.
 */
import type { ErrorCode } from '../errors.ts'
import type { HeaderView } from '../internal/headers.ts'
import type { Stores } from '../store/stores.ts'
import type { Clock, CustomScheme, Logger, PeerCertificate, PrincipalPart, SchemeKind } from '../types.ts'
import type { DpopNonces } from './dpop-nonce.ts'

/** Credential material of a request. */
export interface CredentialSource {
  readonly headers: HeaderView
  /** Raw query string without `?`; '' when there is none. */
  readonly query: string
  /** Method and target as received, for proofs that cover them. */
  readonly method: string
  readonly target: string
  /** By what URLs callers of the card may have reached this target, normalised, without query. Never from a header. */
  urls(): readonly string[]
  /** For an explanation: nothing that may be used once is used up. */
  readonly dryRun?: true
  /** Address of the caller, from the connection or from a proxy that the policy trusts. */
  readonly address?: string
  /** The caller's certificate, from the connection or from a proxy that the policy trusts. */
  readonly certificate?: PeerCertificate | UnreadableCertificate
}

/** Something stands where a trusted proxy puts the certificate, and it is none. */
export interface UnreadableCertificate {
  readonly unreadable: string
}

export type { PrincipalPart }

export type Outcome =
  | { readonly kind: 'satisfied'; readonly part: PrincipalPart; readonly headers?: ResponseHeaders }
  /** Nothing was presented where this scheme looks. */
  | { readonly kind: 'absent' }
  /**
   * Something was presented and it does not hold: 401. `detail` is for the operator and holds no secret. `challenge`
   * says which of the scheme's challenges names which `error`; without it the one for Bearer says `invalid_token`.
   */
  | {
      readonly kind: 'invalid'
      readonly code: ErrorCode
      readonly detail?: string
      readonly challenge?: { readonly scheme: string; readonly error: string }
      readonly headers?: ResponseHeaders
    }
  /** The transport itself is ambiguous or malformed (two `Authorization` lines): 400. */
  | { readonly kind: 'malformed'; readonly code: ErrorCode; readonly detail?: string }
  /** It cannot be decided now (keys cannot be fetched, store down): 503. */
  | {
      readonly kind: 'unavailable'
      readonly code: ErrorCode
      readonly retryAfterSeconds: number
      readonly detail?: string
    }

/** What the response carries besides, whatever is decided. Lower-case names. */
export type ResponseHeaders = Readonly<Record<string, string>>

/** How a caller is told to authenticate: one challenge of `WWW-Authenticate`. */
export interface Challenge {
  /** Auth-scheme token, as in `Bearer`. */
  readonly scheme: string
  /** Parameters in order, unquoted values. The guard adds `error`, `scope`, `resource_metadata` for Bearer and DPoP. */
  readonly params: readonly (readonly [name: string, value: string])[]
}

export interface Scheme {
  /** Key in the card's `securitySchemes`. */
  readonly name: string
  readonly kind: SchemeKind
  /**
   * Where the credential sits, so that a credential that is bad for every scheme reading the same place is denied
   * even where another requirement is met: `header:authorization`, `header:x-api-key`, `query:key`, `cookie:sid`, `tls`.
   */
  readonly location: string
  /** One for each way in which the credential may be sent; at least one. */
  readonly challenges: readonly Challenge[]
  /** Synchronous wherever the answer is at hand, so that a repeated credential costs no turn of the event loop. */
  authenticate(source: CredentialSource): Outcome | Promise<Outcome>
  /**
   * Which credential the request claims to present, told without any cryptography: an API key's id, a user name. For
   * limits on failed attempts; proves nothing.
   */
  claimedId?(source: CredentialSource): string | undefined
  /** Fetch what can be fetched ahead (discovery, keys). Rejects with a coded error when that fails. */
  warm?(): Promise<void>
  /** State for `guard.health()`. */
  health?(): { readonly ok: boolean; readonly detail?: string }
  close?(): void
}

/** What the guard hands to every scheme it makes. */
export interface SchemeContext {
  readonly clock: Clock
  /** The guarded fetch; the only way a scheme reaches the network. */
  readonly fetch: typeof globalThis.fetch
  readonly stores: Omit<Stores, 'ownership'>
  /** Nonces of the whole agent, where the policy demands them in DPoP proofs. */
  readonly nonces?: DpopNonces
  /** Functions of the custom schemes, by the scheme's name. */
  readonly custom: ReadonlyMap<string, CustomScheme>
  readonly logger?: Logger
}
