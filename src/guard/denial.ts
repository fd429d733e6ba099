/** From the reason for a denial to the denial: which challenges it carries, and its rendering. */
import type { ErrorCode } from '../errors.ts'
import { refusedAtTheDoor, type Shortfall, type Verdict } from '../policy/evaluate.ts'
import { isTokenScheme } from '../policy/token-schemes.ts'
import type { Requirement } from '../protocol/card-model.ts'
import { renderDenial } from '../protocol/denial.ts'
import type { Credentials, Refusal } from '../schemes/authenticate.ts'
import type { Challenge, CredentialSource, Outcome, Scheme } from '../schemes/scheme.ts'
import type {
  Binding,
  DenialReason,
  DeniedDecision,
  JsonRpcId,
  Operation,
  Principal,
  ProtocolVersion,
} from '../types.ts'
import type { Loaded } from './load.ts'

/** Why a request is denied: the caller's reason and the operator's code, with what the challenge needs. */
export interface DenialCause {
  readonly reason: DenialReason
  readonly code: ErrorCode
  readonly retryAfterSeconds?: number
  readonly shortfalls?: readonly Shortfall[]
}

/** What a denial echoes of the request. */
export interface Asked {
  readonly binding: Binding
  readonly version: ProtocolVersion
  readonly requestId: JsonRpcId
  readonly operation?: Operation
}

const REFUSED = { invalid: 'UNAUTHENTICATED', malformed: 'INVALID_REQUEST', unavailable: 'UNAVAILABLE' } as const

function causeOfRefusal({ kind, code, retryAfterSeconds }: Refusal): DenialCause {
  // A token that lacks a scope its scheme always requires is a good credential for too little (RFC 6750 §3.1).
  const reason = code === 'ERR_SCOPE_INSUFFICIENT' ? 'PERMISSION_DENIED' : REFUSED[kind]
  return { reason, code, ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }) }
}

/** What the headers alone decide, limits apart: a bad credential, or nothing that could ever be enough. */
export function causeOfHead(
  { policy }: Loaded,
  source: CredentialSource,
  { refusal, parts }: Credentials,
): DenialCause | undefined {
  if (refusal !== undefined) return causeOfRefusal(refusal)
  // A credential that no scheme reads leaves its bearer unknown: it is not nobody, and so not anonymous.
  if (parts.size === 0 && source.headers.all('authorization').length > 0) {
    return { reason: 'UNAUTHENTICATED', code: 'ERR_CREDENTIAL_MISSING' }
  }
  const verdict = refusedAtTheDoor(policy, parts)
  // A 403 waits for the body, so that its id can be echoed. A 401 does not: an anonymous body is never parsed.
  if (verdict === undefined || verdict.allowed || verdict.because === 'forbidden') return undefined
  return { reason: 'UNAUTHENTICATED', code: verdict.code, shortfalls: verdict.shortfalls }
}

/** A body may take its time, and what its headers proved may be revoked meanwhile. */
export function causeOfRevocation({ revoked }: Loaded, { parts }: Credentials): DenialCause | undefined {
  for (const part of parts.values()) {
    const refusal = revoked(part)
    if (refusal !== undefined) return causeOfRefusal(refusal)
  }
  return undefined
}

/** `undefined` when there is nothing to wait for. */
export function causeOfWait(retryAfterSeconds: number): DenialCause | undefined {
  return retryAfterSeconds > 0 ? { reason: 'RATE_LIMITED', code: 'ERR_RATE_LIMITED', retryAfterSeconds } : undefined
}

/** What was asked for could not be told, or could be told in two ways. */
export function causeOfUnknown(code: ErrorCode): DenialCause {
  return { reason: code === 'ERR_OPERATION_UNKNOWN' ? 'PERMISSION_DENIED' : 'INVALID_REQUEST', code }
}

/** `undefined`: allowed. */
export function causeOfVerdict(
  verdict: Verdict,
  operation: Operation,
  principal: Principal | undefined,
): DenialCause | undefined {
  if (!verdict.allowed) {
    const reason = verdict.because === 'forbidden' ? 'PERMISSION_DENIED' : 'UNAUTHENTICATED'
    return { reason, code: verdict.code, shortfalls: verdict.shortfalls }
  }
  // A2A §13.3: the extended card MUST require authentication, even where the agent itself is open to all.
  if (operation.name === 'GetExtendedAgentCard' && principal === undefined) {
    return { reason: 'UNAUTHENTICATED', code: 'ERR_CREDENTIAL_MISSING' }
  }
  return undefined
}

export function denialOf(loaded: Loaded, credentials: Credentials, cause: DenialCause, asked: Asked): DeniedDecision {
  const { binding, version, requestId, operation } = asked
  return Object.freeze({
    allowed: false,
    code: cause.code,
    denial: renderDenial({
      reason: cause.reason,
      binding,
      version,
      requestId,
      ...(operation === undefined ? {} : { operation: operation.name }),
      ...(operation?.taskId === undefined ? {} : { taskId: operation.taskId }),
      challenges: challengesOf(loaded, credentials, cause),
      ...(credentials.headers === undefined ? {} : { headers: credentials.headers }),
      ...(cause.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: cause.retryAfterSeconds }),
      ...(cause.code === 'ERR_REQUEST_TOO_LARGE' ? { status: 413 } : {}),
    }),
    ...(operation === undefined ? {} : { operation }),
  })
}

/** One protection space for the whole agent (RFC 9110 §11.5); a constant, so that it tells nothing. */
const REALM = 'a2a'

/** A response header has to fit a client's buffer; alternatives beyond these are not announced. */
const MAX_CHALLENGES = 16

/** Every alternative that failed contributes the schemes it lacks, in card order, each challenge once. */
function challengesOf(loaded: Loaded, credentials: Credentials, cause: DenialCause): Challenge[] {
  if (cause.reason !== 'UNAUTHENTICATED' && cause.reason !== 'PERMISSION_DENIED') return []
  const found = new Map<string, Challenge>()
  const add = (scheme: Scheme, scopes: readonly string[], error: ChallengeError | undefined) => {
    for (const challenge of challengesFor(loaded, scheme, scopes, error)) {
      if (found.size < MAX_CHALLENGES) found.set(JSON.stringify(challenge), challenge)
    }
  }
  if (cause.reason === 'PERMISSION_DENIED') {
    for (const { missing } of cause.shortfalls ?? []) {
      for (const { scheme, scopes, lacking } of missing) {
        const known = loaded.byName.get(scheme)
        if (known !== undefined) add(known, scopes, lacking === undefined ? undefined : LACKS_SCOPE)
      }
    }
    for (const [scheme, outcome] of credentials.outcomes) {
      if (outcome.kind !== 'invalid' || outcome.code !== 'ERR_SCOPE_INSUFFICIENT') continue
      const config = loaded.policy.schemes.get(scheme.name)
      add(scheme, config !== undefined && isTokenScheme(config) ? config.requiredScopes : [], LACKS_SCOPE)
    }
    return [...found.values()]
  }
  const alternatives: readonly Requirement[] =
    cause.shortfalls?.map(({ requirement }) => requirement) ?? loaded.policy.card.requirements
  for (const { schemes } of alternatives) {
    for (const { name, scopes } of schemes) {
      const scheme = loaded.byName.get(name)
      const outcome = scheme === undefined ? undefined : credentials.outcomes.get(scheme)
      if (scheme === undefined || outcome?.kind === 'satisfied') continue
      add(scheme, scopes, errorOf(outcome))
    }
  }
  // A 401 always says how to authenticate (RFC 9110 §15.5.2), even where every alternative was met but a stray credential is bad.
  if (found.size === 0)
    for (const [scheme, outcome] of credentials.outcomes)
      if (outcome.kind !== 'satisfied') add(scheme, [], errorOf(outcome))
  if (found.size === 0) for (const scheme of loaded.schemes) add(scheme, [], undefined)
  return [...found.values()]
}

interface ChallengeError {
  /** The challenge it stands in. Absent, or none of the scheme's: all of them. */
  readonly scheme?: string
  readonly error: string
}

const INVALID: ChallengeError = { scheme: 'Bearer', error: 'invalid_token' }
const LACKS_SCOPE: ChallengeError = { error: 'insufficient_scope' }

/** RFC 6750 §3.1: no error code when no credential was sent. */
function errorOf(outcome: Outcome | undefined): ChallengeError | undefined {
  return outcome?.kind === 'invalid' ? (outcome.challenge ?? INVALID) : undefined
}

function challengesFor(
  loaded: Loaded,
  scheme: Scheme,
  scopes: readonly string[],
  error: ChallengeError | undefined,
): Challenge[] {
  const isNamed = scheme.challenges.some((challenge) => challenge.scheme === error?.scheme)
  return scheme.challenges.map((challenge) => {
    const params = [['realm', REALM] as const, ...challenge.params]
    if (challenge.scheme !== 'Bearer' && challenge.scheme !== 'DPoP') return { scheme: challenge.scheme, params }
    return {
      scheme: challenge.scheme,
      params: [
        ...params,
        ...(error === undefined || (isNamed && challenge.scheme !== error.scheme)
          ? []
          : [['error', error.error] as const]),
        ...(scopes.length === 0 ? [] : [['scope', scopes.join(' ')] as const]),
        ...(loaded.metadata === undefined || scheme.kind === 'http'
          ? []
          : [['resource_metadata', loaded.metadata.url] as const]),
      ],
    }
  })
}
