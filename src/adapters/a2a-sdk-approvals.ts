/** In-task authorization (A2A §7.6) for the SDK's executors: the task says `AUTH_REQUIRED`, and its stream stays open. */
import { type Message, Role, TaskState } from '@a2a-js/sdk'
import {
  AgentEvent,
  type AgentExecutionEvent,
  type AgentExecutor,
  type ExecutionEventBus,
  type RequestContext,
} from '@a2a-js/sdk/server'
import type { ApprovalGrant } from '../delegation/approval-grant.ts'
import type { ApprovalRequest } from '../delegation/approval-options.ts'
import type { Approvals, PendingApproval } from '../delegation/approvals.ts'
import { GuardedUser } from './a2a-sdk-user.ts'

export type AuthorizationRequest = Omit<ApprovalRequest, 'taskId' | 'requester'>

/** What is known of a task while its bus lives. */
interface Authorizing {
  readonly bus: ExecutionEventBus
  /** Not answered yet. */
  readonly waiting: Map<PendingApproval, string>
  /** Answered or not: all that ends with the task. */
  readonly asked: Set<PendingApproval>
  /** Task events so far. */
  introductions: number
  hasEnded: boolean
}

/** One message to the task. */
interface Run {
  readonly context: RequestContext
  readonly task: Authorizing
  /** Task events before it. */
  readonly before: number
}

const ENDED: readonly TaskState[] = [
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
]

const running = new WeakMap<RequestContext, Run & { readonly approvals: Approvals }>()

/**
 * An executor that may call `requestAuthorization`. While a task waits for an approval, messages to it are answered with
 * what is waited for and do not reach `executor`, whatever they say; when the task ends or is cancelled, so do its
 * approvals. Wraps `guardExecutor`, too.
 */
export function approvalExecutor(approvals: Approvals, executor: AgentExecutor): AgentExecutor {
  if (typeof approvals.request !== 'function') throw new TypeError('"approvals" must come from createApprovals')
  const tasks = new WeakMap<ExecutionEventBus, Authorizing>()
  return {
    async execute(context, bus) {
      const known = tasks.get(bus)
      const task = known === undefined || known.hasEnded ? watch(bus) : known
      tasks.set(bus, task)
      const run = { approvals, context, task, before: task.introductions }
      if (task.waiting.size > 0) return publishWaiting(run)
      running.set(context, run)
      await executor.execute(context, bus)
    },
    async cancelTask(taskId, bus) {
      // It may wait for an execution that waits for an approval.
      const cancelled = executor.cancelTask(taskId, bus)
      const task = tasks.get(bus)
      if (task !== undefined) end(task)
      await cancelled
    },
  }
}

/**
 * Asks `actor` to approve one operation of this task, tells the client where, and waits. Resolves with a grant to `use`
 * once, right before the operation.
 *
 * Rejects with `ERR_APPROVAL_DENIED` or `ERR_APPROVAL_EXPIRED` (the task is `WORKING` again, and goes on as the executor
 * says), with `ERR_APPROVAL_CANCELLED` (the task is over: publish nothing more), `ERR_APPROVAL_CREDENTIAL`,
 * `ERR_APPROVAL_LIMIT`, or what the store rejects with; with `TypeError` for what cannot be meant, and where the executor
 * is not inside `approvalExecutor`.
 */
export async function requestAuthorization(
  context: RequestContext,
  request: AuthorizationRequest,
): Promise<ApprovalGrant> {
  const run = running.get(context)
  if (run === undefined) throw new TypeError('requestAuthorization needs an executor made by approvalExecutor')
  const { approvals, task } = run
  const { user } = context.context
  const requester = user instanceof GuardedUser ? user.principal?.id : undefined
  const pending = await approvals.request({
    ...request,
    taskId: context.taskId,
    ...(requester === undefined ? {} : { requester }),
  })
  task.asked.add(pending)
  if (task.hasEnded) pending.cancel()
  else {
    task.waiting.set(pending, request.operation)
    publishWaiting(run)
  }
  try {
    return await pending.granted
  } finally {
    task.waiting.delete(pending)
    // Others are still waited for, or the task is over: its status is right as it is.
    if (task.waiting.size === 0 && !task.hasEnded) publish(run, TaskState.TASK_STATE_WORKING)
  }
}

function watch(bus: ExecutionEventBus): Authorizing {
  const task: Authorizing = { bus, waiting: new Map(), asked: new Set(), introductions: 0, hasEnded: false }
  bus.on('event', (event: AgentExecutionEvent) => {
    if (event.kind === 'task') task.introductions += 1
    if (
      (event.kind === 'task' || event.kind === 'statusUpdate') &&
      ENDED.includes(event.data.status?.state as TaskState)
    )
      end(task)
  })
  bus.on('finished', () => end(task))
  return task
}

function end(task: Authorizing): void {
  task.hasEnded = true
  for (const pending of task.asked) pending.cancel()
  task.asked.clear()
}

function publishWaiting(run: Run): void {
  const lines = [...run.task.waiting].map(
    ([{ url, expiresAt }, operation]) => `${operation}: ${url} (until ${new Date(expiresAt * 1000).toISOString()})`,
  )
  const text = `This needs an approval, which no message can give. Whoever may give it opens:\n${lines.join('\n')}`
  publish(run, TaskState.TASK_STATE_AUTH_REQUIRED, text)
}

function publish({ context, task, before }: Run, state: TaskState, text?: string): void {
  const { taskId, contextId } = context
  const timestamp = new Date().toISOString()
  const message = text === undefined ? undefined : messageOf(taskId, contextId, text)
  const status = { state, message, timestamp }
  // The SDK takes no status before a task, neither in its store nor on the stream of this message.
  if (task.introductions === before) {
    const first = { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp }
    const fresh = { id: taskId, contextId, artifacts: [], history: [context.userMessage], metadata: undefined }
    const known = context.task === undefined ? undefined : { ...context.task, status }
    task.bus.publish(AgentEvent.task(known ?? { ...fresh, status: first }))
  }
  task.bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }))
}

function messageOf(taskId: string, contextId: string, text: string): Message {
  return {
    messageId: crypto.randomUUID(),
    contextId,
    taskId,
    role: Role.ROLE_AGENT,
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: 'text/plain' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  }
}
