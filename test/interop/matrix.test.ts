/**
 * The whole matrix: operations x bindings and versions x callers x servers, over real sockets and the SDK's own servers.
 * Each cell says what came of the request and whether the agent's code ran (A37, A38, A50, P136).
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { OperationName } from '../../src/types.ts'
import { type ContractRequest, contractRequests } from '../contract/operations.ts'
import { hosts, type MatrixAgent, type MatrixHost, matrixAgent, type Outcome } from '../support/matrix-hosts.ts'
import { NOW } from '../support/rig.ts'

/** The method of the SDK's handler that each operation is. The extended card is the guard's own to serve. */
const METHODS: Readonly<Partial<Record<OperationName, string>>> = {
  SendMessage: 'sendMessage',
  SendStreamingMessage: 'sendMessageStream',
  GetTask: 'getTask',
  ListTasks: 'listTasks',
  CancelTask: 'cancelTask',
  SubscribeToTask: 'resubscribe',
  CreateTaskPushNotificationConfig: 'createTaskPushNotificationConfig',
  GetTaskPushNotificationConfig: 'getTaskPushNotificationConfig',
  ListTaskPushNotificationConfigs: 'listTaskPushNotificationConfigs',
  DeleteTaskPushNotificationConfig: 'deleteTaskPushNotificationConfig',
}
const REFUSED: Readonly<Record<string, Outcome>> = {
  none: 'unauthenticated',
  bad: 'unauthenticated',
  insufficient: 'denied',
}

/** The row with another task in place of its `t-1`. */
function about(request: ContractRequest, taskId: string): ContractRequest {
  return JSON.parse(JSON.stringify(request).replaceAll('t-1', taskId)) as ContractRequest
}

/** The row with another text in place of its "hello": what the agent does depends on it. */
function saying(text: string, request: ContractRequest): ContractRequest {
  return JSON.parse(JSON.stringify(request).replaceAll('"hello"', JSON.stringify(text))) as ContractRequest
}

const titleOf = ({ operation, binding, version }: ContractRequest) => `${operation} on ${binding} ${version}`

const isMessage = ({ operation }: ContractRequest) => operation.startsWith('Send')
const isAboutATask = (request: ContractRequest) =>
  !isMessage(request) && request.operation !== 'ListTasks' && request.operation !== 'GetExtendedAgentCard'

/** A message to a task that is there. */
function toTask(request: ContractRequest, taskId: string): ContractRequest {
  const text = JSON.stringify(request)
  return JSON.parse(
    text.includes('"taskId":""')
      ? text.replace('"taskId":""', `"taskId":"${taskId}"`)
      : text.replaceAll('"messageId":"m-1"', `"messageId":"m-1","taskId":"${taskId}"`),
  ) as ContractRequest
}

describe.each(Object.keys(hosts))('behind %s', (name) => {
  const { bindings, start } = hosts[name] as (typeof hosts)[string]
  const rows = contractRequests.filter(({ binding }) => bindings.includes(binding))
  const starter = rows.find(({ operation, version }) => operation === 'SendStreamingMessage' && version === '1.0')
  let agent: MatrixAgent
  let host: MatrixHost
  const credentials: Record<string, string[]> = { none: [] }

  beforeAll(async () => {
    vi.spyOn(console, 'error').mockImplementation(() => {})
    agent = await matrixAgent()
    host = await start(agent)
    const bearer = async (claims: object) => ['authorization', `Bearer ${await agent.rig.token({ ...claims })}`]
    credentials.bad = await bearer({ exp: NOW - 3600 })
    credentials.insufficient = await bearer({ scope: 'a2a:other' })
    credentials.alice = await bearer({})
    credentials.bob = await bearer({ sub: 'bob' })
  })
  afterAll(async () => {
    agent.executor.finishAll()
    await host.close()
    await agent.rig.close()
    vi.restoreAllMocks()
  })
  beforeEach(() => {
    agent.executor.finishAll()
    agent.calls.length = 0
  })

  /** Alice's task, at work until it is finished, with one webhook configuration. */
  async function begin(): Promise<string> {
    const live = saying('live', starter as ContractRequest)
    const before = agent.executor.seen.length
    // The stream stays open as long as the task does.
    await new Promise<void>((resolve) => {
      host.send(live, credentials.alice as string[], resolve).catch(() => {})
    })
    const id = agent.executor.seen[before]?.taskId as string
    const create = rows.find(
      ({ operation, version }) => operation === 'CreateTaskPushNotificationConfig' && version === '1.0',
    ) as ContractRequest
    expect(await host.send(about(create, id), credentials.alice as string[])).toBe('ok')
    agent.calls.length = 0
    return id
  }

  describe.each(rows.map((request) => ({ title: titleOf(request), request })))('$title', ({ request }) => {
    it.each(Object.entries(REFUSED))('A50 %s: refused, and the agent does not run', async (credential, outcome) => {
      const runs = agent.executor.seen.length
      expect(await host.send(request, credentials[credential] as string[])).toBe(outcome)
      expect(agent.calls).toEqual([])
      expect(agent.executor.seen.length).toBe(runs)
    })

    it('P138 a version that nobody speaks: refused, and the agent does not run', async () => {
      const asked = { ...request, headers: { ...request.headers, 'a2a-version': '2.0' } }
      expect(await host.send(asked, credentials.alice as string[])).toMatch(/^other: (?:400|3) .*malformed/)
      expect(agent.calls).toEqual([])
    })

    it('valid: it works, and it is this operation that runs', async () => {
      const id = isAboutATask(request) ? await begin() : 't-1'
      const runs = agent.executor.seen.length
      const done = () => agent.executor.finish(id)
      const outcome = await host.send(saying('message', about(request, id)), credentials.alice as string[], done)
      // P139: the SDK has no `tasks/list`, so what is allowed is answered as an unknown method.
      if (request.operation === 'ListTasks' && request.version === '0.3') {
        expect([outcome, agent.calls]).toEqual([expect.stringContaining('-32601'), []])
        return
      }
      expect(outcome).toBe('ok')
      expect(agent.calls).toEqual([METHODS[request.operation] ?? []].flat())
      expect(agent.executor.seen.length).toBe(isMessage(request) ? runs + 1 : runs)
    })

    if (isAboutATask(request) || isMessage(request)) {
      it('A40 P133 the task of another owner: as one that is not there, and the agent does not run', async () => {
        const id = await begin()
        const runs = agent.executor.seen.length
        const asked = isMessage(request) ? toTask(request, id) : about(request, id)
        expect(await host.send(asked, credentials.bob as string[])).toBe('not found')
        expect(agent.calls).toEqual([])
        expect(agent.executor.seen.length).toBe(runs)
        expect(agent.executor.cancelled).not.toContain(id)
      })
    }
  })
})
