/** An agent on the SDK's own server whose work needs an approval, with the approver's pages beside it. */
import type { AddressInfo } from 'node:net'
import { AgentCard, TaskState } from '@a2a-js/sdk'
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  type RequestContext,
} from '@a2a-js/sdk/server'
import { jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express'
import express from 'express'
import {
  type AuthorizationRequest,
  approvalExecutor,
  protectRequestHandler,
  requestAuthorization,
  userBuilder,
} from '../../src/adapters/a2a-sdk.ts'
import { approvalHandler, expressGuard, guardLogin } from '../../src/adapters/express.ts'
import { type ApprovalEvent, type ApprovalGrant, type Approvals, createApprovals } from '../../src/delegation/index.ts'
import { bothVersions, userMessage } from './owned-agent.ts'
import { ISSUER, makeRig, type Rig, rigCard } from './rig.ts'

export const principal = (subject: string): string => `oauth2:${encodeURIComponent(ISSUER)}:${subject}`

/** What the agent does in every test, once it may. */
export const PAYMENT = { operation: 'invoice.pay', parameters: { invoice: 'I-7', amount: 100, currency: 'EUR' } }

export type Work = (context: RequestContext, agent: ApprovingExecutor) => Promise<void>

/** Asks Bob for `PAYMENT`, does it once, and says how it ended. */
export const payOnce: Work = async (context, { paid }) => {
  const grant = await requestAuthorization(context, ask())
  grant.use(PAYMENT.operation, PAYMENT.parameters)
  paid.push(context.taskId)
}

export function ask(changes: Partial<AuthorizationRequest> = {}): AuthorizationRequest {
  return { ...PAYMENT, summary: 'Pay invoice I-7', actor: principal('bob'), expiresInSeconds: 300, ...changes }
}

export class ApprovingExecutor implements AgentExecutor {
  /** Tasks for which the payment was made. */
  readonly paid: string[] = []
  readonly seen: string[] = []
  readonly codes: string[] = []
  readonly grants: ApprovalGrant[] = []
  work: Work = payOnce

  async execute(context: RequestContext, bus: ExecutionEventBus): Promise<void> {
    const [part] = context.userMessage.parts
    this.seen.push(part?.content?.$case === 'text' ? part.content.value : '')
    const say = (state: TaskState) =>
      bus.publish(
        AgentEvent.statusUpdate({
          taskId: context.taskId,
          contextId: context.contextId,
          status: { state, message: undefined, timestamp: new Date().toISOString() },
          metadata: undefined,
        }),
      )
    try {
      await this.work(context, this)
      say(TaskState.TASK_STATE_COMPLETED)
    } catch (fault) {
      const code = String((fault as { code?: unknown }).code ?? fault)
      this.codes.push(code)
      if (code === 'ERR_APPROVAL_CANCELLED') return
      say(code === 'ERR_APPROVAL_DENIED' ? TaskState.TASK_STATE_REJECTED : TaskState.TASK_STATE_FAILED)
    }
  }

  cancelTask = async (taskId: string, bus: ExecutionEventBus): Promise<void> => {
    const status = { state: TaskState.TASK_STATE_CANCELED, message: undefined, timestamp: new Date().toISOString() }
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId: '', status, metadata: undefined }))
  }
}

export interface ApprovingAgent {
  readonly rig: Rig
  readonly executor: ApprovingExecutor
  readonly approvals: Approvals
  readonly events: ApprovalEvent[]
  readonly url: string
  /** A token of somebody who may use the agent, and approve with `a2a:approve`. */
  token(subject: string, scope?: string, claims?: object): Promise<string>
  rpc(token: string, method: string, params: object, version?: '1.0' | '0.3'): Promise<Response>
  rest(token: string, method: string, path: string, body?: object): Promise<Response>
  /** Begins a task and returns it as it is when it waits. */
  begin(token: string, text?: string): Promise<WaitingTask>
  task(token: string, id: string): Promise<WaitingTask>
  /** Resolves when the task is in this state. */
  until(token: string, id: string, state: string): Promise<WaitingTask>
  close(): Promise<void>
}

export interface WaitingTask {
  readonly id: string
  readonly contextId: string
  readonly status: {
    readonly state: string
    readonly message?: { readonly parts: readonly { readonly text: string }[] }
  }
}

/** The links of a status message. */
export function linksOf({ status }: Pick<WaitingTask, 'status'>): string[] {
  return (status.message?.parts ?? []).flatMap(({ text }) => text.match(/http\S+/g) ?? [])
}

export async function approvingAgent(work?: Work): Promise<ApprovingAgent> {
  const card = rigCard(bothVersions)
  const rig = await makeRig({ card })
  const app = express()
  app.set('env', 'test')
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const events: ApprovalEvent[] = []
  const approvals = createApprovals({
    url: `${url}/approvals`,
    clock: () => rig.now * 1000,
    onApproval: (event) => events.push(event),
  })
  const executor = new ApprovingExecutor()
  if (work !== undefined) executor.work = work
  const store = new InMemoryTaskStore()
  const inner = new DefaultRequestHandler(AgentCard.fromJSON(card), store, approvalExecutor(approvals, executor))
  const requestHandler = protectRequestHandler(rig.guard, inner)
  const common = { requestHandler, userBuilder: userBuilder(rig.guard), legacyCompat: { enabled: true } }
  app.use('/approvals', approvalHandler(approvals, { login: guardLogin(rig.guard, { scope: 'a2a:approve' }) }))
  app.use('/rpc', expressGuard(rig.guard, { binding: 'JSONRPC' }), jsonRpcHandler(common))
  app.use('/rest', expressGuard(rig.guard, { binding: 'HTTP+JSON' }), restHandler(common))

  const send = (token: string, path: string, method: string, version: string, body?: object) =>
    fetch(`${url}${path}`, {
      method,
      headers: { 'a2a-version': version, authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })

  const agent: ApprovingAgent = {
    rig,
    executor,
    approvals,
    events,
    url,
    token: (sub, scope = 'a2a:use', claims = {}) => rig.token({ sub, scope, client_id: `${sub}-client`, ...claims }),
    rpc: (token, method, params, version = '1.0') =>
      send(token, '/rpc', 'POST', version, { jsonrpc: '2.0', id: 1, method, params }),
    rest: (token, method, path, body) => send(token, `/rest${path}`, method, '1.0', body),
    async begin(token, text = 'pay') {
      const response = await agent.rpc(token, 'SendMessage', { message: userMessage(text) })
      const { result } = (await response.json()) as { result?: { task?: WaitingTask } }
      if (result?.task === undefined) throw new Error('no task')
      return result.task
    },
    async task(token, id) {
      const response = await agent.rpc(token, 'GetTask', { id })
      return ((await response.json()) as { result: WaitingTask }).result
    },
    async until(token, id, state) {
      for (;;) {
        const task = await agent.task(token, id)
        if (task.status.state === state) return task
      }
    },
    async close() {
      approvals.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await rig.close()
    },
  }
  return agent
}

export interface Page {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** What the form carries. */
  readonly form: string
}

export async function openPage(link: string, token?: string): Promise<Page> {
  const response = await fetch(link, {
    redirect: 'manual',
    ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    form: /name="form" value="([^"]*)"/.exec(text)?.[1] ?? '',
  }
}

export function press(
  link: string,
  token: string | undefined,
  fields: string | Record<string, string>,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(link, {
    method: 'POST',
    redirect: 'manual',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: typeof fields === 'string' ? fields : new URLSearchParams(fields).toString(),
  })
}

/** What somebody does who reads the page and presses a button. */
export async function decide(link: string, token: string, decision: 'approve' | 'deny'): Promise<number> {
  const { form } = await openPage(link, token)
  return (await press(link, token, { form, decision })).status
}
