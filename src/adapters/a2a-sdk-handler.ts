/**
 * The SDK's request handler behind ownership. Every binding of the SDK (JSON-RPC, HTTP+JSON, gRPC, v0.3) ends in these
 * methods, so what is checked here is checked on all of them, before anything is looked up, attached or written.
 *
 * Each method is written out: one that a later SDK adds is not there, and so cannot be called, until somebody decides
 * whose business it is.
 */
import { AgentCard, type Message, type SendMessageRequest, type StreamResponse, type Task } from '@a2a-js/sdk'
import { PushNotificationNotSupportedError, RequestMalformedError, TaskNotFoundError } from '@a2a-js/sdk/errors'
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server'
import { TrustError } from '../errors.ts'
import type { Guard } from '../guard.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { createPageTokens } from '../ownership/page-token.ts'
import type { Finding } from '../ownership/register.ts'
import { type Call, callOf, onBehalfOf } from './a2a-sdk-call.ts'
import { emptyList, listTheirs, positionOf } from './a2a-sdk-list.ts'
import { skillsOf } from './a2a-sdk-user.ts'

export interface ProtectOptions {
  /**
   * Secret of the page tokens, at least 32 bytes, where several processes serve one list. Default: random, so that a
   * token is good in the process that gave it.
   */
  readonly pageTokenSecret?: string | Uint8Array
}

/** References looked up for one message. */
const MOST_REFERENCES = 100

/**
 * `handler`, reached by a task's owner only. A task, context or configuration of somebody else is answered as one that is
 * not there, with the same text and after the same single look-up, and `handler` is not called. Give the result to
 * every handler of the SDK behind `guard`:
 *
 * ```ts
 * const requestHandler = protectRequestHandler(guard, new DefaultRequestHandler(card, new InMemoryTaskStore(), executor))
 * app.use('/a2a', expressGuard(guard), jsonRpcHandler({ requestHandler, userBuilder: userBuilder(guard) }))
 * ```
 *
 * From then on `guard` itself refuses a task that nobody has claimed, so one guard serves one agent. A task is claimed
 * when its first event leaves `handler`; with `guardExecutor` when the executor begins. Tasks made by anything else, or
 * before, are out of reach until `guard.ownership.claim` gives them to somebody. A caller whom `guard` has not let in is
 * refused with `ERR_GUARD_NOT_MOUNTED`. While the policy says `mode: report`, nothing is refused here and all is claimed.
 */
export function protectRequestHandler(
  guard: Guard,
  handler: A2ARequestHandler,
  options: ProtectOptions = {},
): A2ARequestHandler {
  assertKnownOptions('protectRequestHandler', options, ['pageTokenSecret'])
  const { ownership } = guard
  const tokens = createPageTokens(options.pageTokenSecret)
  ownership.assumeComplete()

  /** The context to call the handler with, or the answer for a task that is not there. */
  async function own(call: Call, taskId: string, shared: 'shared' | 'unshared' = 'shared'): Promise<ServerCallContext> {
    if (taskId.trim() === '') throw new RequestMalformedError('Task ID is required')
    const found = await ownership.task(call.caller, taskId)
    if (!ownership.enforced) return call.context
    if (!isOpen(found) || (found.relation === 'shared' && shared === 'unshared')) throw notFound(taskId)
    return contextOf(call, found)
  }

  /** What a message may refer to: anything else is dropped, as what does not exist is. */
  async function references(call: Call, ids: readonly string[]): Promise<string[]> {
    if (ids.length > MOST_REFERENCES) throw new RequestMalformedError('Too many referenceTaskIds')
    if (!ownership.enforced) return [...ids]
    const kept: string[] = []
    for (const id of new Set(ids)) if (isOpen(await ownership.task(call.caller, id))) kept.push(id)
    return kept
  }

  async function beginContext(call: Call, contextId: string): Promise<void> {
    const isTheirs =
      ownership.rules.contexts === 'client'
        ? await ownership.claim(call.caller, { contextId })
        : (await ownership.context(call.caller, contextId)).relation !== undefined
    if (!isTheirs && ownership.enforced) throw new TaskNotFoundError()
  }

  /** What the handler is given of a message, and how what comes of it is claimed. */
  async function admit(params: SendMessageRequest, context: ServerCallContext) {
    const config = params.configuration?.taskPushNotificationConfig
    const call = callOf(guard, context, params.tenant, config?.tenant)
    const { message } = params
    let inner = call.context
    if (message?.taskId) {
      const found = await ownership.task(call.caller, message.taskId)
      if (ownership.enforced) {
        if (!isOpen(found)) throw notFound(message.taskId)
        if (message.contextId && message.contextId !== found.ownership?.contextId) {
          throw new RequestMalformedError('contextId is not that of the task')
        }
        if (config !== undefined && found.relation !== 'owner') throw new PushNotificationNotSupportedError()
        inner = contextOf(call, found)
      }
      await claim(call, { taskId: message.taskId })
    } else if (message?.contextId) await beginContext(call, message.contextId)
    // Nobody could ever take the webhook of an anonymous caller away again.
    if (config !== undefined && call.caller.principal === undefined && ownership.enforced) {
      throw new PushNotificationNotSupportedError()
    }
    const admitted =
      message === undefined
        ? params
        : { ...params, message: { ...message, referenceTaskIds: await references(call, message.referenceTaskIds) } }
    let last: Ids = {}
    return {
      params: admitted,
      context: inner,
      async record(result: Message | Task | StreamResponse): Promise<void> {
        const ids = idsOf(result)
        if (ids.taskId === last.taskId && ids.contextId === last.contextId) return
        last = ids
        await claim(call, ids)
      },
    }
  }

  async function claim({ caller, user }: Call, ids: Ids): Promise<void> {
    // What an anonymous caller makes is nobody's.
    if (caller.principal === undefined || (ids.taskId === undefined && ids.contextId === undefined)) return
    const isTheirs = await ownership.claim(caller, { ...ids, skills: skillsOf(user) })
    if (!isTheirs && ownership.enforced) throw new TrustError('ERR_TASK_NOT_OWNED')
  }

  return {
    getAgentCard: () => handler.getAgentCard(),

    async getAuthenticatedExtendedAgentCard(params, context) {
      const { user } = callOf(guard, context, params.tenant)
      const { card } = await guard.extendedCard(user)
      // The SDK writes it in v0.3 form, which no signature covers.
      return AgentCard.fromJSON(context.requestedVersion === '1.0' ? card : { ...card, signatures: [] })
    },

    async sendMessage(params, context) {
      const admitted = await admit(params, context)
      const result = await handler.sendMessage(admitted.params, admitted.context)
      await admitted.record(result)
      return result
    },

    async *sendMessageStream(params, context) {
      const admitted = await admit(params, context)
      for await (const event of handler.sendMessageStream(admitted.params, admitted.context)) {
        await admitted.record(event)
        yield event
      }
    },

    async getTask(params, context) {
      const call = callOf(guard, context, params.tenant)
      return handler.getTask(params, await own(call, params.id))
    },

    async listTasks(params, context) {
      const call = callOf(guard, context, params.tenant)
      const { caller } = call
      if (!ownership.enforced) return handler.listTasks(params, call.context)
      const { contextId, status, statusTimestampAfter } = params
      const hasNone =
        caller.principal === undefined ||
        (contextId ? (await ownership.context(caller, contextId)).relation === undefined : false)
      if (hasNone) return emptyList(params)
      return listTheirs(params, {
        tokens,
        bound: ['tasks', ...nameOf(call), contextId, String(status), statusTimestampAfter],
        ask: (page) => handler.listTasks(page, call.context),
        isTheirs: async ({ id }) => isOpen(await ownership.task(caller, id)),
      })
    },

    async cancelTask(params, context) {
      const call = callOf(guard, context, params.tenant)
      return handler.cancelTask(params, await own(call, params.id))
    },

    async *resubscribe(params, context) {
      const call = callOf(guard, context, params.tenant)
      for await (const event of handler.resubscribe(params, await own(call, params.id))) {
        const { taskId } = idsOf(event)
        if (taskId === undefined || taskId === params.id) yield event
      }
    },

    async createTaskPushNotificationConfig(params, context) {
      const call = callOf(guard, context, params.tenant)
      return handler.createTaskPushNotificationConfig(params, await own(call, params.taskId, 'unshared'))
    },

    async getTaskPushNotificationConfig(params, context) {
      const call = callOf(guard, context, params.tenant)
      return handler.getTaskPushNotificationConfig(params, await own(call, params.taskId, 'unshared'))
    },

    async listTaskPushNotificationConfigs(params, context) {
      const call = callOf(guard, context, params.tenant)
      const inner = await own(call, params.taskId, 'unshared')
      const bound = ['configs', ...nameOf(call), params.taskId]
      const { cursor } = positionOf(tokens, bound, params.pageToken)
      const { configs, nextPageToken } = await handler.listTaskPushNotificationConfigs(
        { ...params, pageToken: cursor },
        inner,
      )
      return {
        configs: configs.filter(({ taskId }) => taskId === params.taskId),
        nextPageToken: nextPageToken === '' ? '' : tokens.seal(bound, { cursor: nextPageToken, total: 0 }),
      }
    },

    async deleteTaskPushNotificationConfig(params, context) {
      const call = callOf(guard, context, params.tenant)
      return handler.deleteTaskPushNotificationConfig(params, await own(call, params.taskId, 'unshared'))
    },
  }
}

function isOpen({ relation, meetsSkills }: Finding): boolean {
  return relation !== undefined && meetsSkills
}

/** Word for word what the SDK's own handler says of a task it does not have. */
function notFound(taskId: string): TaskNotFoundError {
  return new TaskNotFoundError(`Task not found: ${taskId}`)
}

function contextOf(call: Call, { relation, ownership }: Finding): ServerCallContext {
  return relation === 'shared' && ownership !== undefined ? onBehalfOf(call, ownership.owner) : call.context
}

/** The caller, as page tokens are bound to one. */
function nameOf({ caller: { principal, tenant } }: Call): (string | undefined)[] {
  return [principal?.id, principal?.actor?.issuer, principal?.actor?.subject, tenant]
}

interface Ids {
  readonly taskId?: string
  readonly contextId?: string
}

/** Task and context of a result. A message that answers directly belongs to a context and to no task. */
function idsOf(result: Message | Task | StreamResponse): Ids {
  if ('payload' in result) return result.payload === undefined ? {} : idsOfValue(result.payload.value)
  return idsOfValue(result)
}

function idsOfValue(value: object): Ids {
  const { id, taskId = id, contextId } = value as { id?: string; taskId?: string; contextId?: string }
  const isMessage = 'messageId' in value
  return { ...(taskId && !isMessage ? { taskId } : {}), ...(contextId ? { contextId } : {}) }
}
