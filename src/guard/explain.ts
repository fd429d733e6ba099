/** The same evaluation, told step by step for the operator. */
import type { ErrorCode } from '../errors.ts'
import type { Shortfall, Verdict } from '../policy/evaluate.ts'
import type { Identified } from '../protocol/identify.ts'
import type { Credentials } from '../schemes/authenticate.ts'
import type { Operation, Principal } from '../types.ts'

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

export function explanationOf(
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
