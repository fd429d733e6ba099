/** What the guard remembers between requests, and what several processes have to share. */

/** Remembers what may be used once. */
export interface ReplayStore {
  /**
   * Whether `key` is new, atomically: of any number of concurrent calls with one key exactly one is answered `true`,
   * until `ttlSeconds` have passed. Throws, or rejects, when it cannot tell (down, or full): never `true` by default.
   * The guard waits as long as it takes: a store on a network needs a time limit of its own.
   */
  claim(key: string, ttlSeconds: number): boolean | Promise<boolean>
}

/** One thing that is revoked. */
export interface RevocationEntry {
  /** What the credentials that it speaks of have in common. Opaque to a store, up to some 8 kB. */
  readonly name: string
  /** Unix seconds: only credentials issued before. Absent: whenever they were issued. */
  readonly issuedBefore?: number
  /** Unix seconds from which it may be forgotten. Absent: never. */
  readonly expiresAt?: number
}

/** Remembers what is revoked, for as long as each entry says. */
export interface RevocationStore {
  /**
   * From its return (or resolution) on, `revokes` of this store answers accordingly; other processes that share it follow
   * as fast as it can tell them. Throws, or rejects, when it cannot promise that (down, or full).
   */
  add(entry: RevocationEntry): void | Promise<void>
  /**
   * Whether an entry in force has one of `names` and reaches a credential issued at `issuedAt` (unix seconds;
   * -Infinity where the credential does not say). Asked on every request, so it is synchronous: a store that is shared
   * keeps its own copy, filled when it starts and pushed to. Throws when that copy is too old to tell.
   */
  revokes(names: readonly string[], issuedAt: number): boolean
}

/** Whose a task or a context is, as its first caller was. Plain data: a store may keep it as JSON. */
export interface Ownership {
  /** `Principal.id`. */
  readonly owner: string
  readonly issuer: string
  /** Who acted for the owner, if anybody did. */
  readonly actor?: string
  /** The tenant the request was for. */
  readonly tenant?: string
  /** What the credential said of its bearer, for sharing: its tenant, and its team where the policy names a claim. */
  readonly member: { readonly tenant?: string; readonly team?: string }
  /** Of a task: the context it belongs to. */
  readonly contextId?: string
  /** Skills the task has run under. */
  readonly skills: readonly string[]
}

/** Remembers whose tasks and contexts are. All methods throw, or reject, when they cannot tell: never "nobody's" by default. */
export interface OwnershipStore {
  find(key: string): Ownership | undefined | Promise<Ownership | undefined>
  /**
   * Makes `key` the claimant's unless it is somebody's already, atomically, and returns what holds from then on. Of any
   * number of concurrent claims exactly one wins. The skills of later claims are added to those of the first; nothing
   * else of them is kept. Refuses, by throwing, to take what it has no room for, and forgets nothing to make room.
   */
  claim(key: string, claimant: Ownership): Ownership | Promise<Ownership>
  /** Afterwards `key` is nobody's. */
  forget(key: string): void | Promise<void>
}

/** A push notification config at rest. Everything that is secret is in `sealed`. */
export interface PushConfigRecord {
  readonly taskId: string
  readonly id: string
  /** Who registered it; only they see it. */
  readonly owner: string
  readonly url: string
  /** A2A version that the config was registered in, and its notifications are sent in. */
  readonly version: string
  readonly tenant: string
  /** Scheme of `authentication`; '' for none. */
  readonly scheme: string
  /** Encrypted; '' where there is nothing to hide. */
  readonly sealed: string
  /** Which registration this is: a replaced config has another. */
  readonly revision: string
}

export interface PushConfigLimits {
  readonly perTask: number
  readonly perOwner: number
  /** Configs that post to one host. */
  readonly perHost: number
}

/** Remembers where notifications are sent. */
export interface PushConfigStore {
  /**
   * Adds the record, or replaces the one with its task, owner and id; `full` where it would exceed a limit. Counting and
   * storing are one step. Throws, or rejects, when it cannot.
   */
  put(record: PushConfigRecord, limits: PushConfigLimits): 'stored' | 'full' | Promise<'stored' | 'full'>
  /** All records of a task, whoever owns them, in order of registration. */
  list(taskId: string): readonly PushConfigRecord[] | Promise<readonly PushConfigRecord[]>
  delete(taskId: string, owner: string, id: string): void | Promise<void>
}

/** An approval that is waited for. Plain data: a store may keep it as JSON. */
export interface ApprovalRecord {
  readonly taskId: string
  /** What may be done once it is approved. */
  readonly operation: string
  /** Canonical JSON (RFC 8785) of what it is to be done with. */
  readonly parameters: string
  /** What the approver is told of it. */
  readonly summary: string
  /** The one principal who may answer. */
  readonly actor: string
  /** `Principal.id` of the caller whose task it is, where there is one. */
  readonly requester?: string
  /** Unix seconds from which nobody may answer any more. */
  readonly expiresAt: number
  /** What a form has to carry to show that it was the approver's own page that sent it. Secret. */
  readonly formToken: string
  /** Where an approval is an authorization code: whom to ask, all of it decided when the request was made. */
  readonly authorization?: {
    readonly issuer: string
    /** The whole authorization request. Holds the state, so it is secret. */
    readonly url: string
    /** SHA-256 of the state, in lower-case hex. */
    readonly stateHash: string
    /** Whether the issuer names itself in its answers (RFC 9207). */
    readonly namesIssuer: boolean
  }
}

/** What became of an approval. `code` is the authorization code where there is one: worth nothing without its verifier. */
export type ApprovalVerdict =
  | { readonly verdict: 'approved'; readonly code?: string }
  | { readonly verdict: 'denied' | 'cancelled' }

/**
 * Remembers what waits for an approval, and carries the answer to whoever waits. All methods throw, or reject, when they
 * cannot do so: never "approved", and never "nobody has taken it", by default. Keys are digests: who reads the store
 * cannot open a page.
 */
export interface ApprovalStore {
  /** Until `expiresAt`. Refuses, by throwing, what it has no room for, and forgets nothing to make room. */
  put(key: string, record: ApprovalRecord): void | Promise<void>
  /** `undefined` once taken or expired. */
  find(key: string): ApprovalRecord | undefined | Promise<ApprovalRecord | undefined>
  /** Removes the record and returns it, atomically: of any number of concurrent calls exactly one gets it. */
  take(key: string): ApprovalRecord | undefined | Promise<ApprovalRecord | undefined>
  /** Tells whoever listens for `key`, in any process. Called at most once a key, by the one who has taken it. */
  announce(key: string, verdict: ApprovalVerdict): void | Promise<void>
  /** From its return (or resolution) on, `heard` is called with the verdict on `key`. What it returns ends that. */
  listen(key: string, heard: (verdict: ApprovalVerdict) => void): (() => void) | Promise<() => void>
}

export interface Stores {
  readonly replay: ReplayStore
  readonly revocation: RevocationStore
  readonly ownership: OwnershipStore
}
