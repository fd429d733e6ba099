/** The audit event of a decision: who, what, why and how long. Nothing that was presented as a credential. */
import { actorNames } from '../policy/actors.ts'
import type { Credentials } from '../schemes/authenticate.ts'
import type { Decision, DecisionEvent, Operation, Principal, RequestHead } from '../types.ts'
import type { RequestSource } from './credential-source.ts'

export interface EventSource {
  readonly decision: Decision
  readonly principal: Principal | undefined
  readonly credentials: Credentials
  readonly head: RequestHead
  readonly keysUsed: NonNullable<DecisionEvent['keysUsed']>
  readonly source: RequestSource
  readonly mode: 'enforce' | 'report'
  readonly nowMs: number
  readonly durationMs: number
}

export function decisionEvent(made: EventSource): DecisionEvent {
  const { decision, principal, credentials, keysUsed, head, source, mode, nowMs, durationMs } = made
  const { operation } = decision
  const peerAddress = head.peer?.address
  const unreadable =
    source.certificate && 'unreadable' in source.certificate ? source.certificate.unreadable : undefined
  const code = decision.allowed ? decision.reported?.code : decision.code
  const failures = []
  for (const [{ name: scheme }, outcome] of credentials.outcomes) {
    if (outcome.kind === 'satisfied' || outcome.kind === 'absent') continue
    failures.push({ scheme, code: outcome.code, ...(outcome.detail === undefined ? {} : { detail: outcome.detail }) })
  }
  return {
    time: new Date(nowMs).toISOString(),
    allowed: decision.allowed,
    ...(code === undefined ? {} : { code }),
    status: decision.allowed ? (decision.reported?.status ?? 200) : decision.denial.status,
    ...(operation === undefined ? {} : operationMembers(operation)),
    ...(principal === undefined ? {} : { principal: principal.id }),
    ...(principal?.actor === undefined ? {} : { via: actorNames(principal) }),
    schemes: principal?.schemes ?? [],
    ...(keysUsed.length === 0 ? {} : { keysUsed }),
    failures,
    ...(peerAddress === undefined ? {} : { peerAddress }),
    ...(source.address === undefined || source.address === peerAddress ? {} : { clientAddress: source.address }),
    ...(unreadable === undefined ? {} : { unreadableCertificate: unreadable }),
    ...(source.ignoredHeaders.length === 0 ? {} : { ignoredHeaders: source.ignoredHeaders }),
    durationMs,
    mode,
  }
}

/** Caller-chosen text is cut, so that one request cannot fill the log. */
const MAX_TEXT = 256

function operationMembers({ name, binding, version, declaredSkill, tenant, taskId }: Operation) {
  return {
    operation: name,
    binding,
    version,
    ...(declaredSkill === undefined ? {} : { skill: declaredSkill.slice(0, MAX_TEXT) }),
    ...(tenant === undefined ? {} : { tenant: tenant.slice(0, MAX_TEXT) }),
    ...(taskId === undefined ? {} : { taskId: taskId.slice(0, MAX_TEXT) }),
  }
}
