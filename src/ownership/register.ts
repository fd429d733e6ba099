/** Tasks and contexts, and whose they are: one look-up for each question, whatever the answer. */
import type { Ownership, OwnershipStore } from '../store/stores.ts'
import type { Principal } from '../types.ts'
import { type Caller, meetsSkills, ownershipOf, type Relation, relationOf, type SharingRules } from './rules.ts'

/** The policy's `ownership`. */
export interface OwnershipRules {
  readonly share: SharingRules
  /** Whether a context may be begun under an id that the client made up, or only under one the agent gave out. */
  readonly contexts: 'client' | 'agent'
}

/** An answer about a task or context. */
export interface Finding {
  /** Absent: as good as not there. */
  readonly relation?: Relation
  /** Whether it is known at all. For the operator: it must make no difference to the caller. */
  readonly known: boolean
  readonly ownership?: Ownership
  /** Whether the caller meets what the task's skills ask for. */
  readonly meetsSkills: boolean
}

export interface Claim {
  readonly taskId?: string
  readonly contextId?: string
  /** Skills the task runs under. */
  readonly skills?: readonly string[]
}

export interface OwnershipRegister {
  task(caller: Caller, taskId: string): Finding | Promise<Finding>
  context(caller: Caller, contextId: string): Finding | Promise<Finding>
  /**
   * Makes task and context the caller's. `false`: one of them is somebody else's already, or the caller is anonymous.
   * A context is claimed before its task, so that a task never stands in a context of somebody else.
   */
  claim(caller: Caller, claim: Claim): Promise<boolean>
  /** A task that is gone for good. Its context stays its owner's. */
  forgetTask(taskId: string): void | Promise<void>
  forgetContext(contextId: string): void | Promise<void>
}

/** Longer ids are nobody's: what a client makes up must not fill the store. */
export const LONGEST_ID = 256

const NOTHING: Finding = Object.freeze({ known: false, meetsSkills: true })

export function createOwnershipRegister(store: OwnershipStore, rules: () => OwnershipRules): OwnershipRegister {
  const judge = (ownership: Ownership | undefined, caller: Caller): Finding => {
    if (ownership === undefined) return NOTHING
    const relation = relationOf(ownership, caller, rules().share)
    if (relation === undefined) return { known: true, meetsSkills: true }
    return { known: true, relation, ownership, meetsSkills: meetsSkills(ownership, caller) }
  }
  const find = (kind: Kind, caller: Caller, id: string): Finding | Promise<Finding> => {
    const key = keyOf(kind, id)
    if (key === undefined) return NOTHING
    const found = store.find(key)
    return found instanceof Promise ? found.then((ownership) => judge(ownership, caller)) : judge(found, caller)
  }
  const take = async (kind: Kind, caller: Caller & { principal: Principal }, id: string, claim: Claim) => {
    const key = keyOf(kind, id)
    if (key === undefined) return false
    const { contextId, skills = [] } = claim
    const claimant = ownershipOf(
      caller,
      rules().share,
      kind === 'context' ? {} : { skills, ...(contextId === undefined ? {} : { contextId }) },
    )
    return relationOf(await store.claim(key, claimant), caller, rules().share) !== undefined
  }
  return {
    task: (caller, taskId) => find('task', caller, taskId),
    context: (caller, contextId) => find('context', caller, contextId),
    async claim(caller, claim) {
      const { principal } = caller
      if (principal === undefined) return false
      const known = { ...caller, principal }
      if (claim.contextId !== undefined && !(await take('context', known, claim.contextId, claim))) return false
      return claim.taskId === undefined || (await take('task', known, claim.taskId, claim))
    },
    forgetTask: (taskId) => store.forget(`task:${taskId}`),
    forgetContext: (contextId) => store.forget(`context:${contextId}`),
  }
}

type Kind = 'task' | 'context'

function keyOf(kind: Kind, id: string): string | undefined {
  return id === '' || id.length > LONGEST_ID ? undefined : `${kind}:${id}`
}
