/** The values that travel through the guard. Every object here is plain data; the guard freezes what it returns. */
import type { ErrorCode } from './errors.ts'

/** The three protocol bindings of A2A v1.0 (§5), spelled as an Agent Card's `protocolBinding` spells them. */
export type Binding = 'JSONRPC' | 'HTTP+JSON' | 'GRPC'

/** A2A protocol versions this package speaks. A request without `A2A-Version` is 0.3 (A2A §3.6.2). */
export type ProtocolVersion = '1.0' | '0.3'

/** The eleven operations of A2A v1.0 (§3.1); v0.3 spellings map onto these. */
export type OperationName =
  | 'SendMessage'
  | 'SendStreamingMessage'
  | 'GetTask'
  | 'ListTasks'
  | 'CancelTask'
  | 'SubscribeToTask'
  | 'CreateTaskPushNotificationConfig'
  | 'GetTaskPushNotificationConfig'
  | 'ListTaskPushNotificationConfigs'
  | 'DeleteTaskPushNotificationConfig'
  | 'GetExtendedAgentCard'

/** The connection the request arrived on. Never taken from a header. */
export interface Peer {
  /** Remote IP address of the socket. */
  readonly address?: string
  /** Client certificate of the TLS connection, as the TLS stack saw it. */
  readonly certificate?: PeerCertificate
}

export interface PeerCertificate {
  /** DER of the leaf. */
  readonly raw: Uint8Array
  /** Whether the TLS stack verified the chain (`tlsSocket.authorized`). */
  readonly authorized: boolean
  /** Why not (`tlsSocket.authorizationError`). Absent while not authorized: the certificate is refused. */
  readonly authorizationError?: string
  /** DER of further certificates the peer sent, leaf excluded. */
  readonly chain?: readonly Uint8Array[]
}

/** Method, target, headers and peer: everything known before a body byte is read. */
export interface RequestHead {
  readonly method: string
  /** Request target as received (origin form): path and query, percent-encoding intact, relative to the mount. */
  readonly target: string
  /** Alternating names and values, as `IncomingMessage.rawHeaders` gives them. */
  readonly rawHeaders: readonly string[]
  readonly peer?: Peer
  /** Set where the mount serves one binding only; otherwise the binding is read off the target. */
  readonly binding?: Binding
}

export interface GuardRequest extends RequestHead {
  /** The body: bytes, text, or already parsed JSON. `undefined`: none. */
  readonly body?: unknown
}

/** A JSON-RPC 2.0 id. `null` also where the request carried none or was not read. */
export type JsonRpcId = string | number | null

/** What the request asks for. */
export interface Operation {
  readonly name: OperationName
  readonly version: ProtocolVersion
  readonly binding: Binding
  readonly taskId?: string
  readonly contextId?: string
  readonly configId?: string
  readonly tenant?: string
  /** The skill the caller named, where the policy's `skills.select` looks. Can only add requirements. */
  readonly declaredSkill?: string
  /** JSON-RPC id, echoed in a denial. */
  readonly requestId?: JsonRpcId
}

/** What a credential was checked as. `http` is a signed bearer token, `custom` whatever a function in code checked. */
export type SchemeKind = 'apiKey' | 'http' | 'oauth2' | 'openIdConnect' | 'mtls' | 'basic' | 'custom'

/**
 * Checks the credential of a scheme whose policy says `custom: true`. As an object it can also say what the challenge of
 * a 401 carries, such as the nonce of Digest: asked for at each denial that names the scheme, synchronous, names and
 * values as in `WWW-Authenticate`, unquoted; a `realm` takes the place of the guard's.
 */
export type CustomScheme =
  | CustomAuthenticate
  | { readonly authenticate: CustomAuthenticate; readonly challenge?: () => Readonly<Record<string, string>> }

/**
 * Answers who the caller is, or `null`: the credential does not hold (401). It is called only when there is a credential
 * at the scheme's place. What it throws, and no answer before `signal` aborts, is a 503; `undefined` or a result of
 * another shape is a fault of this process (500). Neither is ever an allow.
 */
export type CustomAuthenticate = (
  material: CustomMaterial,
  options: { readonly signal: AbortSignal },
) => CustomResult | null | Promise<CustomResult | null>

/** What the caller presented. Frozen. */
export interface CustomMaterial {
  /** Name of the scheme in the card. */
  readonly scheme: string
  /** What follows the auth-scheme in `Authorization`, or the value of the header, parameter or cookie; '' for mtls. */
  readonly credentials: string
  /** The headers that the policy lists for this scheme, lower case, with every value sent; empty lists where absent. */
  readonly headers: Readonly<Record<string, readonly string[]>>
  readonly method: string
  /** As received, with the query. */
  readonly target: string
  readonly address?: string
  /** Only one that the TLS stack, or a trusted proxy, has verified. */
  readonly certificate?: PeerCertificate
}

/** Who the caller is. Members other than these are a fault. */
export interface CustomResult {
  readonly subject: string
  readonly scopes?: readonly string[]
  /** Only with `tenants: true` in the policy. */
  readonly tenant?: string
  readonly clientId?: string
  /** JSON, at most 16384 characters. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** Unix seconds. */
  readonly expiresAt?: number
  readonly credential?: CredentialName
}

/** Who the caller is, once verified. Built only from verified credentials. */
export interface Principal {
  /**
   * Owner key, rate-limit key and audit key: scheme kind, issuer, subject (and tenant), each escaped, so that two
   * different callers never share one.
   */
  readonly id: string
  readonly issuer: string
  readonly subject: string
  readonly clientId?: string
  readonly tenant?: string
  /** Who acts for the principal (RFC 8693 `act`), outermost actor. */
  readonly actor?: Actor
  /** Sorted, without duplicates. */
  readonly scopes: readonly string[]
  /** Verified claims of the credential that named the principal. */
  readonly claims: Readonly<Record<string, unknown>>
  /** Names of the card's schemes that were satisfied, sorted. */
  readonly schemes: readonly string[]
  /** Unix seconds at which the earliest of the credentials ends. */
  readonly expiresAt?: number
}

export interface Actor {
  readonly subject: string
  readonly issuer?: string
  readonly actor?: Actor
}

/** What one satisfied scheme says about the caller. */
export interface PrincipalPart {
  readonly scheme: string
  readonly kind: SchemeKind
  readonly issuer: string
  readonly subject: string
  readonly clientId?: string
  readonly tenant?: string
  readonly actor?: Actor
  readonly scopes: ReadonlySet<string>
  readonly claims: Readonly<Record<string, unknown>>
  /** Unix seconds. */
  readonly expiresAt?: number
  /** What names the credential itself, so that it can be revoked. */
  readonly credential: CredentialName
}

/** Names a credential without being one. */
export interface CredentialName {
  /** `jti` of a token. Unique per issuer. */
  readonly id?: string
  /** `kid` of the key that signed a token, id of an API key, SHA-256 of a certificate in lower-case hex. */
  readonly keyId?: string
  /** Unix seconds at which it was issued, where it says so. */
  readonly issuedAt?: number
}

/** ErrorInfo `reason` of a denial: what the caller is told. */
export type DenialReason =
  | 'UNAUTHENTICATED'
  | 'PERMISSION_DENIED'
  | 'INVALID_REQUEST'
  | 'TASK_NOT_FOUND'
  | 'RATE_LIMITED'
  | 'UNAVAILABLE'
  | 'UNSUPPORTED_OPERATION'
  | 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'

/** A denial, rendered for its binding. An adapter writes it unchanged. */
export interface Denial {
  /** HTTP status. */
  readonly status: number
  /** Lower-case names; every value already safe to send. */
  readonly headers: Readonly<Record<string, string>>
  /** The whole body as text. */
  readonly body: string
  readonly reason: DenialReason
  /**
   * The same denial for gRPC: canonical status number and name, text, and the metadata to send with it (`-bin` keys
   * hold bytes): challenges, and `google.rpc.Status` with its ErrorInfo.
   */
  readonly grpc: {
    readonly code: number
    readonly status: string
    readonly message: string
    readonly metadata: Readonly<Record<string, string | Uint8Array>>
  }
}

/** The skills an allowed request may run. */
export interface SkillGrant {
  /** Ids of the card's skills whose requirements and access rules these credentials satisfy, in card order. */
  readonly allowed: readonly string[]
  /** The skill the caller named, if any; always one of `allowed`. */
  readonly declared?: string
}

/** The answer to a request. A value, never an exception. */
export type Decision = AllowedDecision | DeniedDecision

export interface AllowedDecision {
  readonly allowed: true
  /** Absent for an anonymous caller. */
  readonly principal?: Principal
  readonly operation: Operation
  readonly skills: SkillGrant
  /** Response headers that an adapter sets before the handler runs; lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** `report` mode only: what would have been denied, and why. */
  readonly reported?: { readonly code: ErrorCode; readonly status: number }
}

export interface DeniedDecision {
  readonly allowed: false
  readonly denial: Denial
  /** The operator's reason. Never sent to the caller. */
  readonly code: ErrorCode
  readonly operation?: Operation
}

/** One event per decision, for audit. Holds no credential, no secret and no query string. */
export interface DecisionEvent {
  readonly time: string
  readonly allowed: boolean
  readonly code?: ErrorCode
  readonly status: number
  readonly operation?: OperationName
  readonly binding?: Binding
  readonly version?: ProtocolVersion
  readonly skill?: string
  readonly tenant?: string
  readonly taskId?: string
  readonly principal?: string
  /** Who acts for the principal, the one who called first: `[B, A]` is "via B via A". Absent: in person. */
  readonly via?: readonly string[]
  readonly schemes: readonly string[]
  /** API keys of this request whose use was not reported in the last hour: for a "last used" column. Absent: none. */
  readonly keysUsed?: readonly { readonly scheme: string; readonly keyId: string }[]
  /** Per scheme that was presented and refused: why. */
  readonly failures: readonly { readonly scheme: string; readonly code: ErrorCode; readonly detail?: string }[]
  /** Address of the connection. */
  readonly peerAddress?: string
  /** The caller's address, where trusted proxies say that it is another. */
  readonly clientAddress?: string
  /** Headers in which only a trusted proxy may describe the caller, and somebody else did: they were not read. */
  readonly ignoredHeaders?: readonly string[]
  /** What is wrong with the certificate that a trusted proxy sent. */
  readonly unreadableCertificate?: string
  readonly durationMs: number
  readonly mode: 'enforce' | 'report'
}

/** Wall clock in milliseconds. The only source of time. */
export type Clock = () => number

/** The part of a pino logger this package uses: object first, text second. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
