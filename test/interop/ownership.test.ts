/**
 * Two callers of one agent, through the SDK's own server on every binding and version it serves over HTTP: what is
 * Alice's is, to Bob, not there.
 */
import { DefaultRequestHandler } from '@a2a-js/sdk/server'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { protectRequestHandler } from '../../src/adapters/a2a-sdk.ts'
import { createMemoryOwnershipStore } from '../../src/store/ownership-memory.ts'
import type { OwnershipStore } from '../../src/store/stores.ts'
import { type OwnedAgent, onATask, ownedAgent, userMessage } from '../support/owned-agent.ts'
import { NOW } from '../support/rig.ts'

/** Counts look-ups, which are what the caller could measure. */
let lookups: string[] = []
function countingStore(): OwnershipStore {
  const store = createMemoryOwnershipStore({ clock: () => NOW * 1000 })
  return {
    find: (key) => {
      lookups.push(`find ${key}`)
      return store.find(key)
    },
    claim: (key, claimant) => {
      lookups.push(`claim ${key}`)
      return store.claim(key, claimant)
    },
    forget: (key) => store.forget(key),
  }
}

let agent: OwnedAgent
let alice: string
let bob: string
beforeAll(async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  agent = await ownedAgent({ guard: { stores: { ownership: countingStore() } } })
  alice = await agent.rig.token()
  bob = await agent.rig.token({ sub: 'bob' })
})
afterAll(async () => {
  await agent.close()
  vi.restoreAllMocks()
})
beforeEach(() => {
  agent.calls.length = 0
  lookups = []
})

/** The id in an answer replaced, so that answers about two ids can be compared. */
const withoutId = <T extends { text: string }>({ text, ...rest }: T, id: string) => ({
  ...rest,
  json: undefined,
  text: text.replaceAll(id, 'ID'),
})

describe('A40 P133 a task of somebody else is a task that is not there', () => {
  describe.each(['live', 'resting'])('a %s task', (kind) => {
    it.each(onATask)('$operation on $spelled', async ({ send }) => {
      const { id } = await agent.begin(alice, kind)
      await agent.rpc(alice, 'CreateTaskPushNotificationConfig', { taskId: id, id: 'c-1', url: 'https://h.example' })
      const absent = crypto.randomUUID()
      agent.calls.length = 0
      const cancelled = agent.executor.cancelled.length
      const runs = agent.executor.seen.length

      lookups = []
      const foreign = await send(agent, bob, id)
      const foreignWork = lookups.length
      lookups = []
      const missing = await send(agent, bob, absent)

      expect(withoutId(foreign, id)).toEqual(withoutId(missing, absent))
      expect(foreign.text).toContain('Task not found')
      expect([foreignWork, lookups.length]).toEqual([1, 1])
      // A41: nothing was attached to or cancelled in the registry of live tasks either.
      expect(agent.calls).toEqual([])
      expect([agent.executor.cancelled.length, agent.executor.seen.length]).toEqual([cancelled, runs])
      // And to its owner it is all there.
      expect((await agent.rpc(alice, 'GetTask', { id })).json.result).toMatchObject({ id })
      expect((await agent.rpc(alice, 'ListTaskPushNotificationConfigs', { taskId: id })).json.result).toMatchObject({
        configs: [{ id: 'c-1', url: 'https://h.example' }],
      })
    })
  })

  it('A41 a live task is watched and cancelled by its owner', async () => {
    const { id } = await agent.begin(alice, 'live')
    const watching = agent.rpc(alice, 'SubscribeToTask', { id })
    expect((await agent.rpc(alice, 'CancelTask', { id })).json.result).toMatchObject({
      status: { state: 'TASK_STATE_CANCELED' },
    })
    expect((await watching).text).toContain('TASK_STATE_CANCELED')
    expect(agent.executor.cancelled).toContain(id)
  })
})

describe('A44 P135 contexts', () => {
  it('a context of somebody else is not joined, and nothing runs', async () => {
    const { contextId } = await agent.begin(alice)
    const runs = agent.executor.seen.length
    for (const method of ['SendMessage', 'SendStreamingMessage']) {
      const answer = await agent.rpc(bob, method, { message: userMessage('x', { contextId }) })
      expect(answer.json.error).toMatchObject({ code: -32001, message: 'Task not found' })
    }
    const rest = await agent.rest(bob, 'POST', '/message:send', { message: userMessage('x', { contextId }) })
    expect(rest.status).toBe(404)
    expect(agent.executor.seen.length).toBe(runs)
    expect((await agent.begin(alice, 'again', { contextId })).contextId).toBe(contextId)
  })

  it('the first to use an id of their own making keeps it, whoever else tries at the same time', async () => {
    const contextId = crypto.randomUUID()
    const tries = await Promise.all(
      [alice, bob, alice, bob].map((token) =>
        agent.rpc(token, 'SendMessage', {
          message: userMessage('x', { contextId }),
          configuration: { returnImmediately: true },
        }),
      ),
    )
    const won = tries.map(({ json }) => json.error === undefined)
    expect(won[0]).toBe(won[2])
    expect(won[1]).toBe(won[3])
    expect(won[0]).not.toBe(won[1])
  })

  it('a context begun by a message without a task is its caller’s too', async () => {
    const { json } = await agent.rpc(alice, 'SendMessage', { message: userMessage('message') })
    const { contextId } = (json.result as { message: { contextId: string } }).message
    expect((await agent.rpc(bob, 'SendMessage', { message: userMessage('x', { contextId }) })).json.error?.code).toBe(
      -32001,
    )
  })

  it('a context that is not the task’s is malformed, the same whoever has it', async () => {
    const { id: taskId } = await agent.begin(alice)
    const { contextId } = await agent.begin(bob)
    const runs = agent.executor.seen.length
    const foreign = await agent.rpc(alice, 'SendMessage', { message: userMessage('x', { taskId, contextId }) })
    const missing = await agent.rpc(alice, 'SendMessage', { message: userMessage('x', { taskId, contextId: 'none' }) })
    expect(foreign.text).toBe(missing.text)
    expect(foreign.json.error?.code).toBe(-32602)
    expect(agent.executor.seen.length).toBe(runs)
  })
})

describe('A43 references', () => {
  it('only the caller’s own tasks are referred to; another’s is dropped as one that is not there', async () => {
    const theirs = await agent.begin(alice)
    const own = await agent.begin(bob)
    await agent.begin(bob, 'refer', { referenceTaskIds: [theirs.id, own.id, crypto.randomUUID()] })
    const context = agent.executor.seen.at(-1)
    expect(context?.userMessage.referenceTaskIds).toEqual([own.id])
    expect(context?.referenceTasks?.map(({ id }) => id)).toEqual([own.id])
  })

  it('too many are refused before they are looked up', async () => {
    const referenceTaskIds = Array.from({ length: 101 }, (_, i) => `t-${i}`)
    const answer = await agent.rpc(bob, 'SendMessage', { message: userMessage('x', { referenceTaskIds }) })
    expect(answer.json.error?.code).toBe(-32602)
    expect(lookups).toEqual([])
  })
})

describe('A42 lists', () => {
  interface Page {
    tasks: { id: string; contextId: string }[]
    nextPageToken: string
    totalSize: number
    pageSize: number
  }
  const list = async (token: string, params: object = {}) => {
    const { json } = await agent.rpc(token, 'ListTasks', params)
    return (json.result ?? json.error) as Page
  }

  it('without a filter only the caller’s own, and with another’s context none', async () => {
    const carol = await agent.rig.token({ sub: 'carol' })
    const theirs = await agent.begin(alice)
    const own = await agent.begin(carol)
    expect(await list(carol)).toMatchObject({ tasks: [{ id: own.id }], totalSize: 1, nextPageToken: '' })
    const foreign = await list(carol, { contextId: theirs.contextId })
    expect(foreign).toEqual(await list(carol, { contextId: crypto.randomUUID() }))
    expect(foreign).toMatchObject({ tasks: [], totalSize: 0 })
    expect(await list(carol, { contextId: own.contextId })).toMatchObject({ tasks: [{ id: own.id }] })
  })

  it('a page token serves the caller and query it was made for, and nobody else', async () => {
    const dave = await agent.rig.token({ sub: 'dave' })
    const ids = []
    for (let i = 0; i < 3; i += 1) ids.push((await agent.begin(dave)).id)
    const first = await list(dave, { pageSize: 2 })
    expect(first).toMatchObject({ totalSize: 3, pageSize: 2 })
    const second = await list(dave, { pageSize: 2, pageToken: first.nextPageToken })
    expect(second).toMatchObject({ totalSize: 3, nextPageToken: '' })
    expect([...first.tasks, ...second.tasks].map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    const pageToken = first.nextPageToken
    agent.calls.length = 0
    const refused = [
      await list(bob, { pageSize: 2, pageToken }),
      await list(dave, { pageSize: 2, pageToken: `${pageToken}A` }),
      await list(dave, { pageSize: 2, pageToken: Buffer.from('2026-01-01|task').toString('base64') }),
      await list(dave, { pageSize: 2, pageToken, status: 'TASK_STATE_WORKING' }),
    ]
    for (const answer of refused) expect(answer).toMatchObject({ code: -32602, message: 'Invalid page token' })
    expect(agent.calls).toEqual([])
  })
})

describe('whoever is not let in by this guard', () => {
  it('A29 reaches nothing through the protected handler', async () => {
    const calls: string[] = []
    const inner = new Proxy({}, { get: (_, name) => () => calls.push(String(name)) })
    const requestHandler = protectRequestHandler(agent.rig.guard, inner as never)
    const context = { user: { isAuthenticated: true, userName: 'alice' } }
    for (const [name, method] of Object.entries(requestHandler)) {
      if (name === 'getAgentCard') continue
      const answer = (method as (...given: unknown[]) => unknown)({ id: 't', message: userMessage('x') }, context)
      const result = name === 'sendMessageStream' || name === 'resubscribe' ? (answer as AsyncGenerator).next() : answer
      await expect(result).rejects.toMatchObject({ code: 'ERR_GUARD_NOT_MOUNTED' })
    }
    expect(calls).toEqual([])
  })

  it('the protected handler has every method of the SDK’s, and passes on none it does not know', () => {
    const requestHandler = protectRequestHandler(agent.rig.guard, { later: async () => 'secret' } as never)
    const known = Object.getOwnPropertyNames(DefaultRequestHandler.prototype).filter(
      (name) => name !== 'constructor' && !name.startsWith('_'),
    )
    expect(Object.keys(requestHandler).toSorted()).toEqual(known.toSorted())
    expect('later' in requestHandler).toBe(false)
  })
})
