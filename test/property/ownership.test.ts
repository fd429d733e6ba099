/**
 * Random sequences of operations by several callers on one agent whose own stores keep nobody apart: no answer ever holds
 * anything of somebody else's, and an id of somebody else's is answered as one that is not there.
 */
import { AgentCard, type SendMessageRequest, type Task } from '@a2a-js/sdk'
import {
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
  ServerCallContext,
} from '@a2a-js/sdk/server'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { GuardedUser, protectRequestHandler } from '../../src/adapters/a2a-sdk.ts'
import { createGuard, type Guard } from '../../src/guard.ts'
import type { Principal } from '../../src/types.ts'
import { OwnedExecutor } from '../support/owned-agent.ts'
import { makeRig, type Rig, rigCard } from '../support/rig.ts'

const PEOPLE = ['alice', 'bob', 'carol'] as const
type Person = (typeof PEOPLE)[number]

const person = fc.constantFrom(...PEOPLE)
/** A task by its place among those begun so far; far beyond them is one that was never begun. */
const place = fc.nat({ max: 12 })
const step = fc.oneof(
  fc.record({
    kind: fc.constant('begin' as const),
    who: person,
    context: fc.option(place),
    refer: fc.array(place, { maxLength: 3 }),
  }),
  fc.record({
    kind: fc.constantFrom('continue', 'get', 'cancel', 'subscribe', 'setHook', 'getHook', 'listHooks', 'deleteHook'),
    who: person,
    task: place,
  }),
  fc.record({
    kind: fc.constant('list' as const),
    who: person,
    context: fc.option(place),
    pageSize: fc.integer({ min: 1, max: 3 }),
  }),
)

let rig: Rig
beforeAll(async () => {
  for (const name of ['error', 'warn'] as const) vi.spyOn(console, name).mockImplementation(() => {})
  rig = await makeRig()
})
afterAll(async () => {
  await rig.close()
  vi.restoreAllMocks()
})

function agentOf(own: Guard) {
  const executor = new OwnedExecutor()
  const everybody = () => 'everybody'
  const configs = new InMemoryPushNotificationStore(everybody)
  const card = AgentCard.fromJSON(rigCard())
  const store = new InMemoryTaskStore(everybody)
  const inner = new DefaultRequestHandler(card, store, executor, undefined, configs, { send: async () => {} })
  const contextOf = (who: Person) =>
    new ServerCallContext({
      user: new GuardedUser(
        { id: `oauth2:i:${who}`, issuer: 'i', subject: who, scopes: [], claims: {}, schemes: [] } as Principal,
        { allowed: ['echo'] },
        own,
      ),
      requestedVersion: '1.0',
    })
  return { executor, handler: protectRequestHandler(own, inner), contextOf }
}

describe('A40 A42 A43 A44 P133 P135 whoever does whatever', () => {
  it('sees nothing of anybody else', { timeout: 120_000 }, async () => {
    const seed = Date.now() % 2 ** 31
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 40 }), async (steps) => {
        // A store of its own for each run.
        const own = await createGuard({ policy: rigPolicy(), baseDir: rig.folder })
        const { executor, handler, contextOf } = agentOf(own)
        const begun: { id: string; contextId: string; owner: Person }[] = []
        const secretOf = (who: Person) => `secret-of-${who}`
        const idAt = (at: number) => begun[at]?.id ?? `absent-${at}`

        const answer = async (who: Person, ask: () => Promise<unknown>, asked: string[] = []): Promise<unknown> => {
          let result: unknown
          try {
            result = await ask()
          } catch (fault) {
            result = { name: (fault as Error).name, message: (fault as Error).message }
          }
          let text = JSON.stringify(result) ?? ''
          for (const id of asked)
            if ((result as { name?: string })?.name !== undefined) text = text.replaceAll(id, 'ID')
          for (const other of PEOPLE.filter((one) => one !== who)) expect(text).not.toContain(secretOf(other))
          for (const { id, owner } of begun) if (owner !== who) expect(text).not.toContain(id)
          return result
        }
        const message = (who: Person, more: object): SendMessageRequest =>
          ({
            tenant: '',
            message: {
              messageId: crypto.randomUUID(),
              role: 1,
              taskId: '',
              contextId: '',
              extensions: [],
              metadata: undefined,
              referenceTaskIds: [],
              parts: [
                { content: { $case: 'text', value: secretOf(who) }, metadata: undefined, filename: '', mediaType: '' },
              ],
              ...more,
            },
            configuration: { acceptedOutputModes: [], returnImmediately: true, taskPushNotificationConfig: undefined },
            metadata: undefined,
          }) as unknown as SendMessageRequest

        for (const one of steps) {
          const { who } = one
          const context = () => contextOf(who)
          if (one.kind === 'begin') {
            const joined = one.context === null ? undefined : begun[one.context]
            const refer = one.refer.map(idAt)
            const runs = executor.seen.length
            const result = await answer(who, () =>
              handler.sendMessage(
                message(who, { contextId: joined?.contextId ?? '', referenceTaskIds: refer }),
                context(),
              ),
            )
            if (joined !== undefined && joined.owner !== who) {
              expect(result).toMatchObject({ name: 'TaskNotFoundError' })
              expect(executor.seen.length).toBe(runs)
              continue
            }
            const { id, contextId } = result as Task
            begun.push({ id, contextId, owner: who })
            const seen = executor.seen.at(-1)?.userMessage.referenceTaskIds ?? []
            for (const ref of seen) expect(begun.find((task) => task.id === ref)?.owner).toBe(who)
            continue
          }
          if (one.kind === 'list') {
            const contextId = one.context === null ? '' : (begun[one.context]?.contextId ?? 'absent')
            let pageToken = ''
            const found: string[] = []
            do {
              const params = { tenant: '', contextId, pageSize: one.pageSize, pageToken, status: 0 }
              const page = (await answer(who, () => handler.listTasks(params as never, context()))) as {
                tasks: Task[]
                nextPageToken: string
                totalSize: number
              }
              found.push(...page.tasks.map(({ id }) => id))
              const theirs = begun.filter(
                (task) => task.owner === who && (contextId === '' || task.contextId === contextId),
              )
              expect(page.totalSize).toBe(theirs.length)
              pageToken = page.nextPageToken
              if (pageToken === '') expect(found.toSorted()).toEqual(theirs.map(({ id }) => id).toSorted())
            } while (pageToken !== '')
            continue
          }
          const id = idAt(one.task)
          const hook = {
            tenant: '',
            taskId: id,
            id: 'hook',
            url: `https://${secretOf(who)}.example`,
            token: '',
            authentication: undefined,
          }
          const calls: Record<typeof one.kind, () => Promise<unknown>> = {
            continue: () => handler.sendMessage(message(who, { taskId: id }), context()),
            get: () => handler.getTask({ tenant: '', id } as never, context()),
            cancel: () => handler.cancelTask({ tenant: '', id, metadata: undefined }, context()),
            subscribe: () => handler.resubscribe({ tenant: '', id }, context()).next(),
            setHook: () => handler.createTaskPushNotificationConfig(hook, context()),
            getHook: () => handler.getTaskPushNotificationConfig({ tenant: '', taskId: id, id: 'hook' }, context()),
            listHooks: () =>
              handler.listTaskPushNotificationConfigs(
                { tenant: '', taskId: id, pageSize: 0, pageToken: '' },
                context(),
              ),
            deleteHook: () =>
              handler.deleteTaskPushNotificationConfig({ tenant: '', taskId: id, id: 'hook' }, context()),
          }
          const result = await answer(who, calls[one.kind], [id])
          if (begun[one.task]?.owner !== who)
            expect(result).toEqual({ name: 'TaskNotFoundError', message: `Task not found: ${id}` })
          else expect(result ?? {}).not.toMatchObject({ message: `Task not found: ${id}` })
        }
        executor.finishAll()
        await own.close()
      }),
      { numRuns: 60, seed, interruptAfterTimeLimit: 60_000 },
    )
  })
})

function rigPolicy(): object {
  return {
    version: 1,
    card: rigCard(),
    extendedCard: rigCard(),
    audience: 'https://agent.example',
    schemes: {
      login: { issuer: 'https://issuer.example', algorithms: ['ES256'], jwks: 'file:./jwks.json' },
      key: { keys: 'file:./keys.json' },
    },
  }
}
