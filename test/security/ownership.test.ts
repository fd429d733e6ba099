/** Sharing, skills, tenants, anonymous callers, foreign stores and the bare guard: what decides whose a task is. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { InMemoryTaskStore, type RequestContext, type TaskStore } from '@a2a-js/sdk/server'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { guardExecutor } from '../../src/adapters/a2a-sdk.ts'
import { createMemoryOwnershipStore } from '../../src/store/ownership-memory.ts'
import {
  bothVersions,
  type OwnedAgent,
  type OwnedAgentOptions,
  onATask,
  ownedAgent,
  userMessage,
} from '../support/owned-agent.ts'
import { API_KEY, makeRig, NOW, paySkill, rigCard } from '../support/rig.ts'

const open: OwnedAgent[] = []
async function start(options: OwnedAgentOptions = {}): Promise<OwnedAgent> {
  const agent = await ownedAgent(options)
  open.push(agent)
  return agent
}
beforeAll(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  vi.spyOn(console, 'warn').mockImplementation(() => {})
})
afterEach(async () => {
  for (const agent of open.splice(0)) await agent.close()
})
afterAll(() => vi.restoreAllMocks())

const sees = async (agent: OwnedAgent, token: string, id: string) =>
  (await agent.rpc(token, 'GetTask', { id })).json.error === undefined

describe('sharing is by policy, and exact', () => {
  const people = {
    owner: { sub: 'alice', team: 'red', tid: 'acme' },
    teammate: { sub: 'bob', team: 'red', tid: 'other' },
    colleague: { sub: 'carol', team: 'blue', tid: 'acme' },
    stranger: { sub: 'dave', team: 'blue', tid: 'other' },
    grouped: { sub: 'erin', team: ['red'], tid: 'other' },
    delegate: { sub: 'alice', team: 'red', tid: 'acme', act: { sub: 'agent-x' } },
    actor: { sub: 'agent-x', team: 'green', tid: 'other' },
  }
  const cases: [string, object | undefined, Record<string, unknown>, string[]][] = [
    ['nobody by default', undefined, {}, ['owner']],
    ['a team', { share: { team: 'team' } }, {}, ['owner', 'teammate']],
    ['delegates', { share: { delegates: true } }, {}, ['owner', 'delegate']],
    ['a tenant', { share: { tenant: true } }, { tenantClaim: 'tid' }, ['owner', 'colleague']],
    ['a team never reaches over tenants', { share: { team: 'team' } }, { tenantClaim: 'tid' }, ['owner']],
  ]
  it.each(cases)('%s', async (_, ownership, login, allowed) => {
    const agent = await start({ policy: ownership === undefined ? {} : { ownership }, login })
    const { id } = await agent.begin(await agent.rig.token(people.owner))
    await agent.rpc(await agent.rig.token(people.owner), 'CreateTaskPushNotificationConfig', {
      taskId: id,
      id: 'c-1',
      url: 'https://h.example',
    })
    const found: string[] = []
    for (const [name, claims] of Object.entries(people)) {
      const token = await agent.rig.token(claims)
      if (await sees(agent, token, id)) found.push(name)
      // A webhook's secrets are the owner's alone.
      const configs = await agent.rpc(token, 'ListTaskPushNotificationConfigs', { taskId: id })
      expect(configs.json.error === undefined).toBe(name === 'owner')
    }
    expect(found).toEqual(allowed)
  })

  it('who works on a shared task is who calls; it stays its owner’s, and no webhook comes with it', async () => {
    const agent = await start({ policy: { ownership: { share: { team: 'team' } } } })
    const [alice, bob] = [await agent.rig.token(people.owner), await agent.rig.token(people.teammate)]
    const { id } = await agent.begin(alice)
    expect((await agent.begin(bob, 'more', { taskId: id })).id).toBe(id)
    const user = agent.executor.seen.at(-1)?.context.user as unknown as {
      principal: { subject: string }
      userName: string
    }
    expect([user.principal.subject, user.userName]).toEqual(['bob', expect.stringMatching(/:alice$/)])
    expect(await sees(agent, alice, id)).toBe(true)
    const planted = await agent.rpc(bob, 'SendMessage', {
      message: userMessage('x', { taskId: id }),
      configuration: { returnImmediately: true, taskPushNotificationConfig: { url: 'https://evil.example' } },
    })
    expect(planted.json.error?.code).toBe(-32003)
  })
})

describe('skills', () => {
  it('a task needs the skills it ran under, from its owner too, now', async () => {
    const card = rigCard({ ...bothVersions, skills: [...(rigCard().skills as object[]), paySkill] })
    const agent = await start({ card })
    const payer = await agent.rig.token({ scope: 'a2a:use a2a:pay' })
    const weaker = await agent.rig.token()
    const paid = await agent.begin(payer, 'x', { metadata: { skillId: 'pay' } })
    const echoed = await agent.begin(payer, 'x', { metadata: { skillId: 'echo' } })
    const refused = await agent.rpc(weaker, 'GetTask', { id: paid.id })
    expect(refused).toMatchObject({ status: 403, json: { error: { code: -32051 } } })
    const listed = async (token: string) =>
      ((await agent.rpc(token, 'ListTasks')).json.result as { tasks: { id: string }[] }).tasks
        .map(({ id }) => id)
        .toSorted()
    expect(await listed(weaker)).toEqual([echoed.id])
    expect(await listed(payer)).toEqual([paid.id, echoed.id].toSorted())
    // Once it has run a stricter skill, it is that skill's as well.
    await agent.begin(payer, 'y', { taskId: echoed.id, metadata: { skillId: 'pay' } })
    expect((await agent.rpc(weaker, 'GetTask', { id: echoed.id })).status).toBe(403)
    const stranger = await agent.rig.token({ sub: 'bob' })
    expect((await agent.rpc(stranger, 'GetTask', { id: paid.id })).json.error?.code).toBe(-32001)
  })
})

describe('A46 tenants of path, body, credential and card agree', () => {
  it('a task belongs to the tenant it was begun for, and the SDK’s store is told which', async () => {
    const agent = await start({ login: { tenantClaim: 'tid' } })
    const alice = await agent.rig.token({ tid: 'acme' })
    const { id } = await agent.begin(alice)
    expect(agent.executor.seen.at(-1)?.context.tenant).toBe('acme')
    expect((await agent.rest(alice, 'GET', `/acme/tasks/${id}`)).status).toBe(200)
    expect((await agent.rest(alice, 'GET', `/other/tasks/${id}`)).status).toBe(403)
    expect((await agent.rpc(alice, 'GetTask', { id, tenant: 'other' })).status).toBe(403)
    const elsewhere = await agent.rig.token({ tid: 'other' })
    expect((await agent.rpc(elsewhere, 'GetTask', { id })).json.error?.code).toBe(-32001)
  })

  it('where nothing speaks of tenants, a task is found only under the tenant of its path', async () => {
    const agent = await start()
    const alice = await agent.rig.token()
    const { id } = await agent.begin(alice)
    expect((await agent.rest(alice, 'GET', `/other/tasks/${id}`)).status).toBe(404)
    expect((await agent.rest(alice, 'GET', `/tasks/${id}`)).status).toBe(200)
  })

  it('a tenant that no interface of the card names is refused where each names one', async () => {
    const supportedInterfaces = bothVersions.supportedInterfaces.map((one) => ({ ...one, tenant: 'acme' }))
    const agent = await start({ card: rigCard({ supportedInterfaces }) })
    const alice = await agent.rig.token()
    expect((await agent.rest(alice, 'GET', '/acme/tasks')).status).toBe(200)
    expect((await agent.rest(alice, 'GET', '/other/tasks')).status).toBe(403)
  })
})

describe('A45 anonymous callers own nothing', () => {
  it('what they begin is out of reach of everybody, and they name no context and no webhook', async () => {
    const card = rigCard({ ...bothVersions, securityRequirements: [] })
    const agent = await start({ card, policy: { anonymous: true } })
    const { id, contextId } = await agent.begin('')
    const alice = await agent.rig.token()
    const [seen, absent] = [await agent.rpc('', 'GetTask', { id }), await agent.rpc('', 'GetTask', { id: 'none' })]
    expect(seen.text.replace(id, 'none')).toBe(absent.text)
    expect(await sees(agent, alice, id)).toBe(false)
    const { id: hers } = await agent.begin(alice)
    for (const { send } of onATask) expect((await send(agent, '', hers)).text).toContain('Task not found')
    expect((await agent.rpc('', 'ListTasks')).json.result).toMatchObject({ tasks: [], totalSize: 0 })
    const runs = agent.executor.seen.length
    const named = await agent.rpc('', 'SendMessage', { message: userMessage('x', { contextId }) })
    expect(named.json.error?.code).toBe(-32001)
    const hook = { taskPushNotificationConfig: { url: 'https://h.example' } }
    const planted = await agent.rpc('', 'SendMessage', { message: userMessage('x'), configuration: hook })
    expect(planted.json.error?.code).toBe(-32003)
    expect(agent.executor.seen.length).toBe(runs)
  })
})

describe('A42 a store that keeps nobody apart', () => {
  it('gives each caller only their own, with their own total, and no token that tells of others', async () => {
    const shared = new InMemoryTaskStore(() => 'everybody')
    const agent = await start({ store: shared as TaskStore })
    const [alice, bob] = [await agent.rig.token(), await agent.rig.token({ sub: 'bob' })]
    const own = { alice: [] as string[], bob: [] as string[] }
    for (let i = 0; i < 5; i += 1) {
      own.alice.push((await agent.begin(alice)).id)
      own.bob.push((await agent.begin(bob)).id)
    }
    for (const [token, ids] of [
      [alice, own.alice],
      [bob, own.bob],
    ] as const) {
      const found: string[] = []
      let pageToken = ''
      do {
        const { json } = await agent.rpc(token, 'ListTasks', { pageSize: 2, pageToken })
        const page = json.result as { tasks: { id: string }[]; nextPageToken: string; totalSize: number }
        expect(page.totalSize).toBe(5)
        found.push(...page.tasks.map(({ id }) => id))
        pageToken = page.nextPageToken
        const plain = Buffer.from(pageToken, 'base64url').toString('latin1')
        for (const id of [...own.alice, ...own.bob]) expect(plain).not.toContain(id)
      } while (pageToken !== '')
      expect(found.toSorted()).toEqual(ids.toSorted())
    }
    expect(await sees(agent, bob, own.alice[0] as string)).toBe(false)
  })
})

describe('P141 deliveries', () => {
  it('reach the owner’s webhook, also when somebody it is shared with goes on with the task', async () => {
    const delivered: string[] = []
    let arrived = () => {}
    const receiver = createServer((req, res) => {
      delivered.push(req.url ?? '')
      res.end()
      arrived()
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => receiver.once('listening', resolve))
    const base = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
    const agent = await start({ deliver: true, policy: { ownership: { share: { team: 'team' } } } })
    const [alice, bob] = [await agent.rig.token({ team: 'red' }), await agent.rig.token({ sub: 'bob', team: 'red' })]
    const next = () => new Promise<void>((resolve) => (arrived = resolve))
    let delivery = next()
    const { id } = await agent.begin(alice, 'x', {}, { taskPushNotificationConfig: { url: `${base}/alice` } })
    await delivery
    delivery = next()
    await agent.begin(bob, 'y', { taskId: id })
    await delivery
    expect(new Set(delivered)).toEqual(new Set(['/alice']))
    receiver.closeAllConnections()
    await new Promise((resolve) => receiver.close(resolve))
  })
})

describe('a full or broken store', () => {
  it('lets nothing begin that could not be kept, and nothing be read that cannot be judged', async () => {
    const agent = await start({
      guard: {
        stores: { ownership: createMemoryOwnershipStore({ maxEntries: 2, maxPerOwner: 2, clock: () => NOW * 1000 }) },
      },
    })
    const alice = await agent.rig.token()
    const { id } = await agent.begin(alice)
    const runs = agent.executor.seen.length
    const refused = await agent.rpc(alice, 'SendMessage', { message: userMessage('x', { contextId: 'mine' }) })
    expect(refused.json.error).toBeDefined()
    expect(agent.executor.seen.length).toBe(runs)
    expect(await sees(agent, alice, id)).toBe(true)
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('down')
      },
    ],
    ['rejects', () => Promise.reject(new Error('down'))],
  ])('%s: 503, whoever asks', async (_, find) => {
    const rig = await makeRig({ guard: { stores: { ownership: { find, claim: find, forget: () => {} } as never } } })
    const decision = await rig.guard.check({
      method: 'GET',
      target: '/tasks/t-1',
      rawHeaders: ['a2a-version', '1.0', 'x-api-key', API_KEY],
    })
    expect(decision).toMatchObject({ allowed: false, code: 'ERR_STORE_UNAVAILABLE', denial: { status: 503 } })
    await rig.close()
  })
})

describe('the bare guard', () => {
  it('A40 refuses a task that it knows to be somebody else’s, and one that nobody claimed once all are claimed', async () => {
    const rig = await makeRig({ policy: { ownership: { contexts: 'agent' } } })
    const get = async (claims: object, id: string) =>
      rig.guard.check({
        method: 'GET',
        target: `/tasks/${id}`,
        rawHeaders: ['a2a-version', '1.0', 'authorization', `Bearer ${await rig.token({ ...claims })}`],
      })
    const made = await get({}, 'unclaimed')
    if (!made.allowed) throw new Error('denied')
    const caller = { principal: made.principal as NonNullable<typeof made.principal>, skills: made.skills.allowed }
    expect(await rig.guard.ownership.claim(caller, { taskId: 't-1', contextId: 'c-1' })).toBe(true)
    expect(await get({}, 't-1')).toMatchObject({ allowed: true })
    const foreign = await get({ sub: 'bob' }, 't-1')
    expect(foreign).toMatchObject({
      allowed: false,
      code: 'ERR_TASK_NOT_OWNED',
      denial: { status: 404, grpc: { code: 5 } },
    })
    expect(await get({ sub: 'bob' }, 'unclaimed')).toMatchObject({ allowed: true })
    rig.guard.ownership.assumeComplete()
    const absent = await get({ sub: 'bob' }, 't-9')
    if (foreign.allowed || absent.allowed) throw new Error('allowed')
    expect(foreign.denial.body.replaceAll('t-1', 't-9')).toBe(absent.denial.body)
    const send = async (contextId: string) =>
      rig.guard.check({
        method: 'POST',
        target: '/',
        rawHeaders: ['a2a-version', '1.0', 'authorization', `Bearer ${await rig.token()}`],
        body: { jsonrpc: '2.0', id: 0, method: 'SendMessage', params: { message: userMessage('x', { contextId }) } },
      })
    expect(await send('c-1')).toMatchObject({ allowed: true })
    expect(await send('made-up')).toMatchObject({ allowed: false, code: 'ERR_TASK_NOT_OWNED', denial: { status: 200 } })
    await rig.close()
  })
})

describe('report mode', () => {
  it('refuses nothing, says what it would have refused, and claims what is made', async () => {
    const agent = await start({ policy: { mode: 'report' }, store: new InMemoryTaskStore(() => 'everybody') })
    const [alice, bob] = [await agent.rig.token(), await agent.rig.token({ sub: 'bob' })]
    const { id } = await agent.begin(alice)
    expect(await sees(agent, bob, id)).toBe(true)
    expect(agent.rig.events.at(-1)).toMatchObject({ allowed: true, code: 'ERR_TASK_NOT_OWNED' })
    expect(await sees(agent, alice, id)).toBe(true)
    expect(agent.rig.events.at(-1)?.code).toBeUndefined()
  })
})

describe('a task that guardExecutor runs', () => {
  it('is its owner’s before the work begins, so that it is within reach while a blocking call waits', async () => {
    const agent = await start()
    const [alice, bob] = [await agent.rig.token(), await agent.rig.token({ sub: 'bob' })]
    let begun = (_: RequestContext) => {}
    const running = new Promise<RequestContext>((resolve) => (begun = resolve))
    const plain = agent.executor.execute.bind(agent.executor)
    const { execute } = guardExecutor(agent.rig.guard, {
      skills: {
        echo: (context, bus) => {
          begun(context)
          return plain(context, bus)
        },
      },
      choose: () => 'echo',
      cancelTask: agent.executor.cancelTask,
    })
    agent.executor.execute = execute
    const call = agent.rpc(alice, 'SendMessage', { message: userMessage('live') })
    const { taskId: id } = await running
    expect(await sees(agent, alice, id)).toBe(true)
    expect(await sees(agent, bob, id)).toBe(false)
    agent.executor.finish(id)
    expect((await call).json.result).toMatchObject({ task: { id } })
  })
})
