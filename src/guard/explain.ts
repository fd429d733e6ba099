/** The same evaluation, told step by step for the operator. */
import type { ErrorCode } from '../errors.ts'
import { evaluate, type Shortfall, usableSkills, type Verdict } from '../policy/evaluate.ts'
import { principalOf } from '../policy/principal.ts'
import { type Identified, identifyOperation } from '../protocol/identify.ts'
import { authenticateAll, type Credentials } from '../schemes/authenticate.ts'
import type { GuardRequest, Operation, Principal } from '../types.ts'
import { credentialSource } from './credential-source.ts'
import { causeOfHead, causeOfVerdict } from './denial.ts'
import { causeOfExtendedCard } from './extended-card-denial.ts'
import type { Loaded } from './load.ts'

export interface Explanation {
  readonly allowed: boolean
  readonly code?: ErrorCode
  readonly operation?: Operation
  readonly principal?: Principal
  readonly schemes: readonly {
    readonly scheme: string
    readonly outcome: 'satisfied' | 'absent' | 'invalid' | 'malformed' | 'unavailable'
    readonly code?: ErrorCode
    readonly detail?: string
  }[]
  /** Alternatives of the requirement list that decided, each with what it lacks. */
  readonly shortfalls: readonly Shortfall[]
  /** Skills these credentials may run. */
  readonly skills: readonly string[]
  /** Index of the access rule that decided, in file order. */
  readonly rule?: number
}

/** What `check` would say, limits apart: the same causes, in the same order. */
export async function explain(loaded: Loaded, request: GuardRequest): Promise<Explanation> {
  const { schemes, mounts, policy, revoked } = loaded
  const source = { ...credentialSource(request, loaded), dryRun: true } as const
  const credentials = await authenticateAll(schemes, source, revoked)
  const principal = principalOf(credentials.parts)
  const identified = identifyOperation(request, mounts, policy.skills)
  const head = causeOfHead(loaded, source, credentials)
  if (identified.kind === 'unknown')
    return explanationOf(credentials, principal, identified, undefined, head?.code ?? identified.code)
  const verdict = evaluate(policy, credentials.parts, identified.operation)
  const plain = head ?? causeOfVerdict(verdict, identified.operation, principal)
  const isExtendedCard = identified.operation.name === 'GetExtendedAgentCard'
  const cause = isExtendedCard
    ? causeOfExtendedCard(loaded, plain, usableSkills(policy, credentials.parts, identified.operation))
    : plain
  return explanationOf(credentials, principal, identified, verdict, cause?.code)
}

function explanationOf(
  credentials: Credentials,
  principal: Principal | undefined,
  identified: Identified,
  verdict: Verdict | undefined,
  code: ErrorCode | undefined,
): Explanation {
  return {
    allowed: code === undefined,
    ...(code === undefined ? {} : { code }),
    ...(identified.kind === 'operation' ? { operation: identified.operation } : {}),
    ...(principal === undefined ? {} : { principal }),
    schemes: [...credentials.outcomes].map(([{ name: scheme }, outcome]) => ({
      scheme,
      outcome: outcome.kind,
      ...('code' in outcome ? { code: outcome.code } : {}),
      ...('detail' in outcome && outcome.detail !== undefined ? { detail: outcome.detail } : {}),
    })),
    shortfalls: verdict !== undefined && !verdict.allowed ? verdict.shortfalls : [],
    skills: verdict?.allowed === true ? verdict.skills : [],
    ...(verdict?.rule === undefined ? {} : { rule: verdict.rule }),
  }
}
