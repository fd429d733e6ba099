/**
 * The guard: card and policy in, decisions out. Loading does everything that can be done once; a request costs the
 * schemes' checks, one pass over the requirements and one over the access rules.
 * May pass 300 lines, because the interface stands beside the one function that makes it.
 */
import { performance } from 'node:perf_hooks'
import { recordDecision } from './audit/decision-log.ts'
import type { ExtendedCard } from './card/extended.ts'
import { TrustError } from './errors.ts'
import { holdAuthority } from './guard/authority.ts'
import { credentialSource, type RequestSource } from './guard/credential-source.ts'
import {
  type Asked,
  causeOfHead,
  causeOfRevocation,
  causeOfUnknown,
  causeOfVerdict,
  causeOfWait,
  type DenialCause,
  denialOf,
} from './guard/denial.ts'
import { decisionEvent } from './guard/event.ts'
import { type Explanation, explain } from './guard/explain.ts'
import { causeOfCapability, causeOfExtendedCard } from './guard/extended-card-denial.ts'
import { type Loaded, load } from './guard/load.ts'
import { checkGuardOptions, type GuardOptions, givenStores } from './guard/options.ts'
import { causeOfOwnership } from './guard/ownership.ts'
import type { ResourceMetadata } from './guard/resource-metadata.ts'
import { parseRevocation } from './guard/revocation.ts'
import { inTurns } from './internal/turns.ts'
import type { WebhookSettings } from './internal/webhook-settings.ts'
import { createOwnershipRegister, type OwnershipRegister, type OwnershipRules } from './ownership/register.ts'
import { evaluate, usableSkills } from './policy/evaluate.ts'
import { principalOf } from './policy/principal.ts'
import { formatProblem } from './policy/problem.ts'
import type { Revocation } from './policy/revocation.ts'
import { type HeadIdentity, identifyHead, identifyOperation } from './protocol/identify.ts'
import { byJsonRpcMethod } from './protocol/operations.ts'
import { authenticateAll, type Credentials } from './schemes/authenticate.ts'
import { createMemoryOwnershipStore } from './store/ownership-memory.ts'
import { createMemoryReplayStore } from './store/replay-memory.ts'
import { createMemoryRevocationStore } from './store/revocation-memory.ts'
import type { Stores } from './store/stores.ts'
import type {
  AllowedDecision,
  Decision,
  DeniedDecision,
  GuardRequest,
  JsonRpcId,
  Operation,
  Principal,
  RequestHead,
  SkillGrant,
} from './types.ts'

export type { GuardOptions } from './guard/options.ts'

/** The answer to the headers alone. Good for one request. */
export interface Authentication {
  /** Set when the body need not be read: the request is refused. */
  readonly denied?: DeniedDecision
  /** Absent for an anonymous caller. */
  readonly principal?: Principal
  /** Lower-case names of headers that no handler may see, `_` counting as `-`: what proxies say of callers. */
  readonly hiddenHeaders: readonly string[]
}

export interface Guard {
  /** Decides on a whole request. Rejects only for a fault of this process, never for what a caller sends. */
  check(request: GuardRequest): Promise<Decision>
  /**
   * Decides what headers and peer alone decide; synchronous unless a scheme has to wait. Of a body that is already
   * parsed only the JSON-RPC id is read, to echo it. Follow with `authorize` or `refuse`, once.
   */
  authenticate(request: GuardRequest): Authentication | Promise<Authentication>
  /** Decides on the operation that head and body ask for; synchronous unless a store has to wait. */
  authorize(authentication: Authentication, body?: unknown): Decision | Promise<Decision>
  /** The denial for what an adapter found wrong while reading the body. */
  refuse(authentication: Authentication, code: 'ERR_REQUEST_TOO_LARGE' | 'ERR_REQUEST_MALFORMED'): DeniedDecision
  /** What `check` would decide on card and policy, and why. Records nothing, and neither asks nor spends a limit. */
  explain(request: GuardRequest): Promise<Explanation>
  /**
   * Refuses from now on (`ERR_CREDENTIAL_REVOKED`, 401) what the revocation speaks of, requests included whose body is
   * still being read. Streams that have begun go on. Kept by `stores.revocation` and by a reload; the default store
   * forgets when the process ends: what has to last belongs into the policy's `revoked`. See `docs/revocation.md`.
   *
   * Rejects with `TypeError` for what is no revocation, and with what the store throws (`ERR_STORE_UNAVAILABLE` when full):
   * nothing is revoked then. Not checked: that any credential has the names it gives.
   */
  revoke(revocation: Revocation): Promise<void>
  /**
   * Loads the policy again and swaps it in whole, or rejects as `createGuard` does and keeps what was there. Limits start
   * anew. Rejects with `ERR_GUARD_CLOSED` after `close`.
   */
  reload(): Promise<void>
  health(): GuardHealth
  /** Every later request is refused with 503. */
  close(): Promise<void>
  /** RFC 9728 document and its path; `undefined` without `publicUrl` or without a scheme that takes OAuth tokens. */
  readonly resourceMetadata: ResourceMetadata | undefined
  /** The policy's `publicUrl`. */
  readonly publicUrl: string | undefined
  /** Largest request body an adapter should read, in bytes. */
  readonly maxBodyBytes: number
  /** Ids of the card's skills, in card order. */
  readonly skills: readonly string[]
  /** Where the schemes look for credentials: `header:x-api-key`, `query:key`, `cookie:sid`. */
  readonly credentialLocations: readonly string[]
  /** Headers that the policy says name a caller: lower case, with `-`; one may end in `*`. No handler sees them. */
  readonly identityHeaders: readonly string[]
  /** What the policy says of webhooks, for `createPushNotifications` and `createWebhookSender`. A reload changes it. */
  readonly webhooks: WebhookSettings
  /** Whose tasks and contexts are: for an agent that tells the guard itself what it makes. See docs/ownership.md. */
  readonly ownership: GuardOwnership
  /**
   * The extended card for the caller whose `GetExtendedAgentCard` this guard has allowed, with the headers to serve it
   * with. Rejects with `ERR_GUARD_NOT_MOUNTED` for any other decision, and as `signCard` where a key cannot sign it.
   */
  extendedCard(decision: Pick<AllowedDecision, 'skills'>): Promise<ExtendedCard>
}

export interface GuardOwnership extends OwnershipRegister {
  /**
   * Says that every task and context is claimed when it is made, so that one nobody has claimed is not there: from now on
   * a request for it is refused as one for somebody else's is. `protectRequestHandler` says so.
   */
  assumeComplete(): void
  /** The policy's `ownership`. */
  readonly rules: OwnershipRules
  /** Whether what is not the caller's is refused: not in `report` mode. */
  readonly enforced: boolean
}

export interface GuardHealth {
  readonly ok: boolean
  readonly mode: 'enforce' | 'report'
  readonly schemes: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[]
  /** As `formatProblem` writes them. */
  readonly warnings: readonly string[]
}

/** What `authenticate` keeps for `authorize`, unseen by callers. */
interface Pending {
  readonly loaded: Loaded
  readonly head: RequestHead
  readonly source: RequestSource
  readonly identity: HeadIdentity
  readonly requestId: JsonRpcId
  readonly credentials: Credentials
  readonly principal: Principal | undefined
  readonly startedMs: number
  /** `report` mode: the denial that the headers alone would have met. */
  readonly reported?: DenialCause
}

const NO_CREDENTIALS: Credentials = Object.freeze({ outcomes: new Map(), parts: new Map() })

/**
 * Loads card and policy, compares them, fetches the keys they point to, and returns a guard.
 *
 * Rejects with `ERR_POLICY_INVALID` (all mistakes at once; see `docs/policy.md`) or with the code of the discovery or
 * key fetch that failed, and with `TypeError` naming an option that cannot be meant. Not checked: that the guard is mounted in front of the agent; `userBuilder(guard)` checks that.
 */
export async function createGuard(options: GuardOptions): Promise<Guard> {
  checkGuardOptions(options)
  const { clock = Date.now, logger } = options
  const stores: Stores = {
    replay: createMemoryReplayStore({ clock }),
    revocation: createMemoryRevocationStore({ clock }),
    ownership: createMemoryOwnershipStore({ clock }),
    ...givenStores(options),
  }
  let current = await load(options, stores, clock)
  let closed = false
  const reloads = inTurns(swap)
  let complete = false
  const register = createOwnershipRegister(stores.ownership, () => current.policy.ownership)
  const pendings = new WeakMap<Authentication, Pending>()
  /** Who may see the extended card, and of which version of the policy. */
  const shown = new WeakMap<SkillGrant, { readonly loaded: Loaded; readonly principal: Principal }>()

  /** Builds the denial and records it: exactly one event for each decision. */
  function deny(pending: Pending, cause: DenialCause, asked: Partial<Asked> = {}): DeniedDecision {
    const decision = denialOf(pending.loaded, pending.credentials, cause, { ...askedByHead(pending), ...asked })
    record(pending, decision)
    return decision
  }

  function record(pending: Pending, decision: Decision): void {
    if (options.onDecision === undefined && logger === undefined) return
    const { credentials, head, source, principal, loaded, startedMs } = pending
    const durationMs = performance.now() - startedMs
    const { mode } = loaded.policy
    const nowMs = clock()
    const keysUsed = loaded.reportKeyUse(credentials.parts, nowMs)
    const event = decisionEvent({ decision, principal, credentials, keysUsed, head, source, mode, durationMs, nowMs })
    recordDecision(options, event)
  }

  function authenticate(request: GuardRequest): Authentication | Promise<Authentication> {
    const loaded = current
    const startedMs = performance.now()
    const identity = identifyHead(request, loaded.mounts)
    const source = credentialSource(request, loaded)
    const begun = { loaded, head: request, source, identity, requestId: parsedId(request, identity), startedMs }
    const settle = (credentials: Credentials, early?: DenialCause): Authentication => {
      const principal = principalOf(credentials.parts)
      const pending: Pending = { ...begun, credentials, principal }
      const asked = askedByParsedBody(request, identity)
      const atTheDoor = early ?? causeAtTheDoor(pending, clock())
      const name = identity.kind === 'operation' ? identity.operation.name : asked?.operation.name
      const cause = name === 'GetExtendedAgentCard' ? causeOfCapability(loaded, atTheDoor) : atTheDoor
      const lenient = loaded.policy.mode === 'report' && early === undefined
      const authentication: Authentication = Object.freeze({
        ...(cause === undefined || lenient ? {} : { denied: deny(pending, cause, asked) }),
        ...(principal === undefined ? {} : { principal }),
        hiddenHeaders: source.hiddenHeaders,
      })
      pendings.set(authentication, cause !== undefined && lenient ? { ...pending, reported: cause } : pending)
      return authentication
    }
    if (closed) return settle(NO_CREDENTIALS, { reason: 'UNAVAILABLE', code: 'ERR_GUARD_CLOSED', retryAfterSeconds: 1 })
    const attempt = loaded.limits.attempt(source, clock())
    // By what holds then: the policy may be another, and the guard closed.
    if (attempt.turn !== undefined) return attempt.turn.then(() => authenticate(request))
    if (attempt.waitSeconds > 0) return settle(NO_CREDENTIALS, causeOfWait(attempt.waitSeconds))
    const ended = (credentials: Credentials) => {
      attempt.end(credentials)
      return settle(credentials)
    }
    const credentials = authenticateAll(loaded.schemes, source, loaded.revoked)
    if (!(credentials instanceof Promise)) return ended(credentials)
    attempt.hold()
    return credentials.then(ended, (fault: unknown) => {
      attempt.end()
      throw fault
    })
  }

  function authorize(authentication: Authentication, body?: unknown): Decision | Promise<Decision> {
    const pending = take(authentication)
    if (authentication.denied !== undefined) return authentication.denied
    const { loaded, head, source, identity, credentials, principal, reported } = pending
    if (identity.kind === 'unknown') return deny(pending, causeOfUnknown(identity.code))
    const identified = identifyOperation({ ...head, body }, loaded.mounts, loaded.policy.skills)
    if (identified.kind === 'unknown')
      return deny(pending, reported ?? causeOfUnknown(identified.code), { requestId: identified.requestId })

    const { operation } = identified
    const { parts } = credentials
    const verdict = evaluate(loaded.policy, parts, operation)
    const isExtendedCard = operation.name === 'GetExtendedAgentCard'
    const usable = isExtendedCard ? usableSkills(loaded.policy, parts, operation) : []
    const skills = isExtendedCard ? usable : verdict.allowed ? verdict.skills : []
    const cause =
      reported ??
      // By what holds now, though the rest is judged by the policy that the request began with.
      causeOfRevocation(current, credentials) ??
      causeOfVerdict(verdict, operation, principal) ??
      causeOfWait(loaded.limits.operation(operation.name, principal, source, clock()))
    const first = isExtendedCard ? causeOfExtendedCard(loaded, cause, skills) : cause
    if (first !== undefined) return decide(pending, operation, skills, first)
    const caller = {
      ...(principal === undefined ? {} : { principal }),
      ...(operation.tenant === undefined ? {} : { tenant: operation.tenant }),
      skills,
    }
    const { policy } = loaded
    const owned = causeOfOwnership({ register, policy, caller, operation, parts, complete, logger })
    return owned instanceof Promise
      ? owned.then((found) => decide(pending, operation, skills, found))
      : decide(pending, operation, skills, owned)
  }

  function decide(
    pending: Pending,
    operation: Operation,
    skills: readonly string[],
    cause: DenialCause | undefined,
  ): Decision {
    const { loaded, credentials, principal } = pending
    const { binding, version, requestId = null } = operation
    const asked = { binding, version, requestId, operation }
    // A2A §13.3: the extended card is never let through, whatever the mode.
    const isExtendedCard = operation.name === 'GetExtendedAgentCard'
    const lenient = loaded.policy.mode === 'report' && !isExtendedCard
    if (cause !== undefined && !lenient) return deny(pending, cause, asked)

    const decision: Decision = Object.freeze({
      allowed: true,
      ...(principal === undefined ? {} : { principal }),
      operation,
      skills: Object.freeze({
        allowed: Object.freeze([...skills]),
        ...(operation.declaredSkill === undefined ? {} : { declared: operation.declaredSkill }),
      }),
      ...headersOf(credentials.headers, isExtendedCard ? loaded.extendedCard.headers : undefined),
      ...(cause === undefined
        ? {}
        : { reported: { code: cause.code, status: denialOf(loaded, credentials, cause, asked).denial.status } }),
    })
    if (isExtendedCard && principal !== undefined) shown.set(decision.skills, { loaded, principal })
    record(pending, decision)
    // What `report` mode lets through is not handed any authority.
    if (cause === undefined)
      holdAuthority({ loaded, inForce, source: pending.source, parts: credentials.parts, decision })
    return decision
  }

  function inForce(): Loaded {
    if (closed) throw new TrustError('ERR_GUARD_CLOSED')
    return current
  }

  function take(authentication: Authentication): Pending {
    const pending = pendings.get(authentication)
    if (pending === undefined) throw new TypeError('"authentication" must come from this guard and serves one request')
    pendings.delete(authentication)
    return pending
  }

  async function swap(): Promise<void> {
    const refuse = () => new TrustError('ERR_GUARD_CLOSED')
    if (closed) throw refuse()
    const loaded = await load(options, stores, clock)
    if (closed) {
      await loaded.close()
      throw refuse()
    }
    const previous = current
    current = loaded
    warnOf(loaded)
    await previous.close()
  }

  function warnOf({ policy }: Loaded): void {
    for (const problem of policy.warnings) logger?.warn({ code: problem.code }, formatProblem(problem))
  }

  warnOf(current)
  return Object.freeze({
    authenticate,
    authorize,
    async check(request: GuardRequest) {
      return authorize(await authenticate(request), request.body)
    },
    refuse(authentication: Authentication, code: 'ERR_REQUEST_TOO_LARGE' | 'ERR_REQUEST_MALFORMED') {
      const pending = take(authentication)
      return authentication.denied ?? deny(pending, { reason: 'INVALID_REQUEST', code })
    },
    async extendedCard({ skills }: Pick<AllowedDecision, 'skills'>) {
      const found = shown.get(skills)
      const views = found?.loaded.extendedCard.views
      if (found === undefined || views === undefined) throw new TrustError('ERR_GUARD_NOT_MOUNTED')
      const { card, text } = await views.of(found.principal, skills.allowed)
      const type = { 'content-type': 'application/json; charset=utf-8' }
      return Object.freeze({ card, text, headers: { ...type, ...found.loaded.extendedCard.headers } })
    },
    explain: (request: GuardRequest) => explain(current, request),
    async revoke(revocation: Revocation) {
      await stores.revocation.add(parseRevocation(revocation))
    },
    reload: () => reloads.run(),
    health() {
      const schemes = current.schemes.map((scheme) => ({ name: scheme.name, ...(scheme.health?.() ?? { ok: true }) }))
      const ok = !closed && schemes.every((scheme) => scheme.ok)
      return { ok, mode: current.policy.mode, schemes, warnings: current.policy.warnings.map(formatProblem) }
    },
    async close() {
      closed = true
      await current.close()
      await reloads.ended()
    },
    webhooks: Object.freeze({
      allows: (url: URL) => current.policy.webhooks.allows(url),
      keysFor: (origin: string) => current.policy.webhooks.keysFor(origin),
      encryptionKeys: () => current.policy.webhooks.encryptionKeys(),
    }),
    ownership: Object.freeze({
      ...register,
      assumeComplete() {
        complete = true
      },
      get rules() {
        return current.policy.ownership
      },
      get enforced() {
        return current.policy.mode === 'enforce'
      },
    }),
    get resourceMetadata() {
      return current.metadata
    },
    get publicUrl() {
      return current.policy.publicUrl
    },
    get skills() {
      return [...current.policy.card.skills.keys()]
    },
    get identityHeaders() {
      return current.policy.identityHeaders
    },
    get credentialLocations() {
      return current.credentialLocations
    },
    get maxBodyBytes() {
      return current.policy.maxBodyBytes
    },
  })
}

/** What the headers alone decide, and the limit on requests. Nothing is spent for strangers who get in nowhere. */
function causeAtTheDoor({ loaded, source, credentials, principal }: Pending, nowMs: number): DenialCause | undefined {
  const cause = causeOfHead(loaded, source, credentials)
  if (credentials.refusal !== undefined || (principal === undefined && cause !== undefined)) return cause
  return causeOfWait(loaded.limits.request(principal, source, nowMs)) ?? cause
}

function askedByHead({ identity, requestId }: Pending): Asked {
  const { binding, version = '1.0' } = identity.kind === 'operation' ? identity.operation : identity
  return { binding, version, requestId, ...(identity.kind === 'operation' ? { operation: identity.operation } : {}) }
}

/** What a JSON-RPC body asks for that somebody has parsed already. Nothing is parsed here. */
function askedByParsedBody({ body }: GuardRequest, { kind }: HeadIdentity) {
  if (kind !== 'body' || typeof body !== 'object' || body === null || ArrayBuffer.isView(body)) return undefined
  const method = Object.hasOwn(body, 'method') ? (body as { method: unknown }).method : undefined
  const spelled = typeof method === 'string' ? byJsonRpcMethod.get(method) : undefined
  return spelled === undefined
    ? undefined
    : { version: spelled.version, operation: { ...spelled, binding: 'JSONRPC' as const } }
}

function headersOf(...parts: (Readonly<Record<string, string>> | undefined)[]): Pick<AllowedDecision, 'headers'> {
  const headers = Object.assign({}, ...parts) as Record<string, string>
  return Object.keys(headers).length === 0 ? {} : { headers: Object.freeze(headers) }
}

/** The id of a body somebody has parsed already. Nothing is parsed here. */
function parsedId({ body }: GuardRequest, { kind }: HeadIdentity): JsonRpcId {
  if (kind !== 'body' || typeof body !== 'object' || body === null || ArrayBuffer.isView(body)) return null
  const id = Object.hasOwn(body, 'id') ? (body as { id: unknown }).id : null
  return typeof id === 'string' || (typeof id === 'number' && Number.isSafeInteger(id)) ? id : null
}
