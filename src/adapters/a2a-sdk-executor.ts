/**
 * Skills at the work (A2A requests name none, so the door cannot know what the agent will run): the executor asks, or is
 * made of handlers that are asked for.
 */
import { type Message, Role, TaskState } from '@a2a-js/sdk'
import { AgentEvent, type AgentExecutor, type ExecutionEventBus, type RequestContext } from '@a2a-js/sdk/server'
import { TrustError } from '../errors.ts'
import type { Guard } from '../guard.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { GuardedUser, rememberSkill, skillsOf } from './a2a-sdk-user.ts'

/** The skills this caller may run, in card order: what a planner may be shown. Empty without a guard in front. */
export function allowedSkills(context: Pick<RequestContext, 'context'>): readonly string[] {
  const { user } = context.context
  return user instanceof GuardedUser ? user.skills.allowed : []
}

/**
 * Throws `ERR_SKILL_FORBIDDEN` unless this caller's credentials satisfy the skill's requirements and access rules. Call
 * it when the executor has decided what to run, before it runs. A request that named a skill may run that one only.
 */
export function authorizeSkill(context: Pick<RequestContext, 'context'>, skill: string): void {
  const { user } = context.context
  const declared = user instanceof GuardedUser ? user.skills.declared : undefined
  if (!allowedSkills(context).includes(skill) || (declared !== undefined && declared !== skill)) {
    throw new TrustError('ERR_SKILL_FORBIDDEN', { details: { skill } })
  }
  if (user instanceof GuardedUser) rememberSkill(user, skill)
}

export type SkillHandler = (context: RequestContext, bus: ExecutionEventBus) => Promise<void>

export interface GuardExecutorOptions {
  /** A handler for each skill of the card, by id. */
  readonly skills: Readonly<Record<string, SkillHandler>>
  /**
   * Chooses where the request named no skill, among those this caller may run; `undefined` refuses. Without it such a
   * request is refused. What it returns is checked like everything else.
   */
  readonly choose?: (
    context: RequestContext,
    allowed: readonly string[],
  ) => string | undefined | Promise<string | undefined>
  readonly cancelTask: AgentExecutor['cancelTask']
}

/**
 * An executor made of skill handlers, each of which runs only for a caller who may use it. A refused request ends as a
 * rejected task that says no more than that; the reason goes to no caller.
 *
 * Throws `TypeError` when the card has a skill without a handler, or the handlers have one the card does not.
 */
export function guardExecutor(guard: Guard, options: GuardExecutorOptions): AgentExecutor {
  assertKnownOptions('guardExecutor', options, ['skills', 'choose', 'cancelTask'])
  const handlers = new Map(Object.entries(options.skills))
  const missing = guard.skills.filter((id) => !handlers.has(id))
  const unknown = [...handlers.keys()].filter((id) => !guard.skills.includes(id))
  if (missing.length > 0) throw new TypeError(`"skills" has no handler for ${missing.join(', ')}`)
  if (unknown.length > 0)
    throw new TypeError(`"skills" has handlers for ${unknown.join(', ')}, which the card does not list`)
  const { choose, cancelTask } = options
  return {
    cancelTask,
    async execute(context, bus) {
      const { user } = context.context
      const declared = user instanceof GuardedUser ? user.skills.declared : undefined
      const skill = declared ?? (await choose?.(context, allowedSkills(context)))
      try {
        if (skill === undefined) throw new TrustError('ERR_SKILL_UNDECLARED')
        authorizeSkill(context, skill)
        await claimTask(guard, context)
      } catch (fault) {
        if (!(fault instanceof TrustError)) throw fault
        return reject(context, bus)
      }
      await (handlers.get(skill) as SkillHandler)(context, bus)
    },
  }
}

/** Before the work, so that its owner can reach the task while it runs, and a full store costs no work. */
async function claimTask(guard: Guard, { taskId, contextId, context }: RequestContext): Promise<void> {
  const { user, tenant } = context
  if (!(user instanceof GuardedUser) || user.principal === undefined) return
  const { principal, skills } = user
  const caller = { principal, skills: skills.allowed, ...(tenant ? { tenant } : {}) }
  const isTheirs = await guard.ownership.claim(caller, { taskId, contextId, skills: skillsOf(user) })
  if (!isTheirs && guard.ownership.enforced) throw new TrustError('ERR_TASK_NOT_OWNED')
}

function reject({ taskId, contextId }: RequestContext, bus: ExecutionEventBus): void {
  const message: Message = {
    messageId: crypto.randomUUID(),
    contextId,
    taskId,
    role: Role.ROLE_AGENT,
    parts: [
      {
        content: { $case: 'text', value: 'Permission denied' },
        metadata: undefined,
        filename: '',
        mediaType: 'text/plain',
      },
    ],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  }
  const status = { state: TaskState.TASK_STATE_REJECTED, message, timestamp: new Date().toISOString() }
  bus.publish(AgentEvent.task({ id: taskId, contextId, status, artifacts: [], history: [], metadata: undefined }))
  bus.finished()
}
