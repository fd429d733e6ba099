/** Ownership in the decision: what the register says of the task or context that a request names. */
import { TrustError } from '../errors.ts'
import type { Finding, OwnershipRegister, OwnershipRules } from '../ownership/register.ts'
import type { Caller } from '../ownership/rules.ts'
import type { CompiledPolicy } from '../policy/compiled.ts'
import { evaluate, runsASkill, type Verdict } from '../policy/evaluate.ts'
import type { Parts } from '../policy/principal.ts'
import type { Logger, Operation } from '../types.ts'
import type { DenialCause } from './denial.ts'

export interface OwnershipQuestion {
  readonly register: OwnershipRegister
  readonly policy: CompiledPolicy
  readonly caller: Caller
  readonly operation: Operation
  readonly parts: Parts
  /** Whether whatever exists has been claimed, so that what nobody has claimed does not exist. */
  readonly complete: boolean
  readonly logger: Logger | undefined
}

const ABSENT: DenialCause = { reason: 'TASK_NOT_FOUND', code: 'ERR_TASK_NOT_OWNED' }

/**
 * Why this caller may not use the task or context; `undefined`: nothing against it. One look-up, whatever the answer. A
 * message that names both is judged by its task: whether the context is that task's is the agent's to check, and it must
 * answer the same for a context that exists and one that does not.
 */
export function causeOfOwnership(
  question: OwnershipQuestion,
): DenialCause | undefined | Promise<DenialCause | undefined> {
  const { register, caller, operation, logger } = question
  const { taskId, contextId } = operation
  const unavailable = (fault: unknown): DenialCause => {
    const code = fault instanceof TrustError ? fault.code : 'ERR_STORE_UNAVAILABLE'
    logger?.error({ code, err: fault }, 'The ownership store does not answer')
    return { reason: 'UNAVAILABLE', code: 'ERR_STORE_UNAVAILABLE', retryAfterSeconds: 1 }
  }
  try {
    let found: Finding | Promise<Finding>
    let judge: (finding: Finding) => DenialCause | undefined
    if (taskId !== undefined) {
      found = register.task(caller, taskId)
      judge = (finding) => causeOfTask(question, finding)
    } else if (contextId !== undefined && runsASkill(operation)) {
      found = register.context(caller, contextId)
      judge = (finding) => causeOfContext(question, finding)
    } else return undefined
    return found instanceof Promise ? found.then(judge, unavailable) : judge(found)
  } catch (fault) {
    return unavailable(fault)
  }
}

function causeOfTask(
  { complete, operation, policy, parts }: OwnershipQuestion,
  finding: Finding,
): DenialCause | undefined {
  const { relation, known, ownership } = finding
  if (relation === undefined) return known || complete ? ABSENT : undefined
  if (relation === 'shared' && isAboutConfigs(operation)) return ABSENT
  if (finding.meetsSkills) return undefined
  // The caller knows of the task, so what is missing may be said.
  for (const declaredSkill of ownership?.skills ?? []) {
    const verdict: Verdict = evaluate(policy, parts, { ...operation, declaredSkill })
    if (!verdict.allowed) return { reason: 'PERMISSION_DENIED', code: verdict.code, shortfalls: verdict.shortfalls }
  }
  return { reason: 'PERMISSION_DENIED', code: 'ERR_SKILL_FORBIDDEN' }
}

function causeOfContext({ complete, policy, caller }: OwnershipQuestion, finding: Finding): DenialCause | undefined {
  if (finding.relation !== undefined) return undefined
  if (finding.known) return ABSENT
  return complete && !mayBegin(caller, policy.ownership) ? ABSENT : undefined
}

/** Whether this caller may begin a context under an id nobody has. One that begins it without a name could not keep it. */
export function mayBegin({ principal }: Caller, { contexts }: OwnershipRules): boolean {
  return principal !== undefined && contexts === 'client'
}

/** Configurations hold the owner's webhook secrets: they are never shared. */
export function isAboutConfigs({ name }: Pick<Operation, 'name'>): boolean {
  return name.endsWith('TaskPushNotificationConfig') || name.endsWith('TaskPushNotificationConfigs')
}
