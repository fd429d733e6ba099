/** From the reason for a denial to the denial. */
import type { ErrorCode } from '../errors.ts'
import { refusedAtTheDoor, type Shortfall, type Verdict } from '../policy/evaluate.ts'
import { renderDenial } from '../protocol/denial.ts'
import type { Credentials, Refusal } from '../schemes/authenticate.ts'
import type { CredentialSource } from '../schemes/scheme.ts'
import type {
  Binding,
  DenialReason,
  DeniedDecision,
  JsonRpcId,
  Operation,
  Principal,
  ProtocolVersion,
} from '../types.ts'
import { challengesOf } from './challenges.ts'
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
  // Whether or not a scheme wants it: what a proxy says and nobody can read is no reason to go on without it.
  if (source.certificate !== undefined && 'unreadable' in source.certificate) {
    return { reason: 'INVALID_REQUEST', code: 'ERR_CREDENTIAL_MALFORMED' }
  }
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
