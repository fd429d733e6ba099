/** Skills at the work, through the SDK's server and real requests. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard } from '@a2a-js/sdk'
import {
  AgentEvent,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  type RequestContext,
} from '@a2a-js/sdk/server'
import { jsonRpcHandler } from '@a2a-js/sdk/server/express'
import express from 'express'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { allowedSkills, authorizeSkill, guardExecutor, userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { expressGuard } from '../../src/adapters/express.ts'
import { API_KEY, makeRig, paySkill, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
let server: Server
let url: string
let ran: string[] = []
let offered: (readonly string[])[] = []
let choice: string | undefined

const handler =
  (skill: string) =>
  async ({ taskId, contextId }: RequestContext, bus: ExecutionEventBus) => {
    ran.push(skill)
    bus.publish(
      AgentEvent.message({
        messageId: 'a',
        contextId,
        taskId,
        role: 2,
        parts: [],
        metadata: undefined,
        extensions: [],
        referenceTaskIds: [],
      }),
    )
    bus.finished()
  }

beforeAll(async () => {
  const card = rigCard({ skills: [...(rigCard().skills as object[]), paySkill] })
  rig = await makeRig({ card, policy: { skills: { select: { metadata: 'skillId' }, undeclared: 'agent' } } })
  const executor = guardExecutor(rig.guard, {
    skills: { echo: handler('echo'), pay: handler('pay') },
    choose: (_, allowed) => {
      offered.push(allowed)
      return choice
    },
    cancelTask: async () => {},
  })
  const requestHandler = new DefaultRequestHandler(AgentCard.fromJSON(card), new InMemoryTaskStore(), executor)
  const app = express()
  app.use('/a2a', expressGuard(rig.guard), jsonRpcHandler({ requestHandler, userBuilder: userBuilder(rig.guard) }))
  server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/a2a`
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await rig.close()
})
beforeEach(() => {
  ran = []
  offered = []
  choice = undefined
})

async function send(headers: Record<string, string>, skill?: string): Promise<string> {
  const message = {
    messageId: crypto.randomUUID(),
    role: 'ROLE_USER',
    parts: [{ text: 'x' }],
    ...(skill === undefined ? {} : { metadata: { skillId: skill } }),
  }
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
  })
  const body = (await response.json()) as { result?: { task?: { status: { state: string } } } }
  return `${response.status} ${body.result?.task?.status.state ?? (body.result === undefined ? 'error' : 'message')}`
}
const KEY = { 'x-api-key': API_KEY }

describe('guardExecutor', () => {
  it('A53 runs the skill that was named at the door', async () => {
    expect(await send(KEY, 'echo')).toBe('200 message')
    expect(ran).toEqual(['echo'])
    expect(await send(KEY, 'pay')).toBe('403 error')
    expect(ran).toEqual(['echo'])
  })

  it('a chosen skill is checked: what the caller may not run does not run', async () => {
    choice = 'pay'
    expect(await send(KEY)).toBe('200 TASK_STATE_REJECTED')
    expect(ran).toEqual([])
    expect(offered).toEqual([['echo']])
    const payer = { authorization: `Bearer ${await rig.token({ scope: 'a2a:use a2a:pay' })}` }
    expect(await send(payer)).toBe('200 message')
    expect([ran, offered.at(-1)]).toEqual([['pay'], ['echo', 'pay']])
  })

  it('nothing chosen, or something that is no skill, is refused', async () => {
    expect(await send(KEY)).toBe('200 TASK_STATE_REJECTED')
    choice = 'constructor'
    expect(await send(KEY)).toBe('200 TASK_STATE_REJECTED')
    expect(ran).toEqual([])
  })

  it('a skill without a handler, and a handler without a skill, do not start', () => {
    const cancelTask = async () => {}
    expect(() => guardExecutor(rig.guard, { skills: { echo: handler('echo') }, cancelTask })).toThrow(
      '"skills" has no handler for pay',
    )
    expect(() =>
      guardExecutor(rig.guard, { skills: { echo: handler('e'), pay: handler('p'), pray: handler('q') }, cancelTask }),
    ).toThrow(/pray/)
  })

  it('without a guard in front nothing is allowed', () => {
    const context = { context: { user: { isAuthenticated: true, userName: 'admin' } } } as unknown as RequestContext
    expect(allowedSkills(context)).toEqual([])
    expect(() => authorizeSkill(context, 'echo')).toThrow(
      expect.objectContaining({ code: 'ERR_SKILL_FORBIDDEN' }) as Error,
    )
  })
})
