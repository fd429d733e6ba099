/**
 * The extended card, from policy to wire: who gets it, in which order it is refused, what each caller sees of it, signed,
 * and in nobody's cache. Through the SDK's own server on both bindings and versions.
 */
import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createServedCard, verifyCard } from '../../src/card/index.ts'
import { publicJwkOf } from '../../src/card/sign.ts'
import type { Binding, Decision } from '../../src/types.ts'
import { bothVersions, type OwnedAgent, ownedAgent } from '../support/owned-agent.ts'
import { API_KEY, makeRig, NOW, paySkill, type Rig, type RigOptions, rigCard } from '../support/rig.ts'

const auditSkill = { ...paySkill, id: 'audit', name: 'Audit' }
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const publicCard = () => rigCard(bothVersions)
const extendedCard = () => ({ ...publicCard(), skills: [...(publicCard().skills as object[]), paySkill, auditSkill] })

const asks: readonly {
  readonly spelled: string
  readonly version: '1.0' | '0.3'
  readonly binding: Binding
  readonly method: string
  readonly target: string
  readonly body?: object
}[] = [
  {
    spelled: 'GET /extendedAgentCard',
    version: '1.0',
    binding: 'HTTP+JSON',
    method: 'GET',
    target: '/extendedAgentCard',
  },
  { spelled: 'GET /v1/card', version: '0.3', binding: 'HTTP+JSON', method: 'GET', target: '/v1/card' },
  {
    spelled: 'gRPC GetExtendedAgentCard',
    version: '1.0',
    binding: 'GRPC',
    method: 'POST',
    target: '/lf.a2a.v1.A2AService/GetExtendedAgentCard',
    body: {},
  },
  {
    spelled: 'gRPC v0.3 GetAgentCard',
    version: '0.3',
    binding: 'GRPC',
    method: 'POST',
    target: '/a2a.v1.A2AService/GetAgentCard',
    body: {},
  },
  {
    spelled: 'JSON-RPC GetExtendedAgentCard',
    version: '1.0',
    binding: 'JSONRPC',
    method: 'POST',
    target: '/',
    body: { jsonrpc: '2.0', id: 0, method: 'GetExtendedAgentCard' },
  },
  {
    spelled: 'JSON-RPC agent/getAuthenticatedExtendedCard',
    version: '0.3',
    binding: 'JSONRPC',
    method: 'POST',
    target: '/',
    body: { jsonrpc: '2.0', id: 0, method: 'agent/getAuthenticatedExtendedCard' },
  },
]

describe('A61 refusals, in the order of A2A §3.3.4', () => {
  const capability = (extendedAgentCard: boolean | undefined) => ({
    ...publicCard(),
    capabilities: { streaming: true, ...(extendedAgentCard === undefined ? {} : { extendedAgentCard }) },
  })
  const rigs = new Map<string, Rig>()
  const setUps: Record<string, RigOptions> = {
    absent: { card: capability(undefined) },
    false: { card: capability(false) },
    'true, and none configured': { card: capability(true), extendedCard: false },
    'true, and configured': { card: capability(true) },
    'report mode, none configured': { card: capability(true), extendedCard: false, policy: { mode: 'report' } },
  }
  beforeAll(async () => {
    for (const [name, options] of Object.entries(setUps)) rigs.set(name, await makeRig(options))
  })
  afterAll(async () => {
    for (const rig of rigs.values()) await rig.close()
  })

  const OFF = [-32004, 'UNSUPPORTED_OPERATION']
  const NONE = [-32007, 'EXTENDED_AGENT_CARD_NOT_CONFIGURED']
  const WHO = [-32050, 'UNAUTHENTICATED']
  const cases: [string, 'nobody' | 'junk' | 'expired' | 'valid', unknown[] | undefined][] = [
    ...(['absent', 'false'] as const).flatMap((card) =>
      (['nobody', 'junk', 'expired', 'valid'] as const).map(
        (who) => [card, who, OFF] as [string, typeof who, unknown[]],
      ),
    ),
    ...(['true, and none configured', 'true, and configured', 'report mode, none configured'] as const).flatMap(
      (card) =>
        (['nobody', 'junk', 'expired'] as const).map((who) => [card, who, WHO] as [string, typeof who, unknown[]]),
    ),
    ['true, and none configured', 'valid', NONE],
    ['report mode, none configured', 'valid', NONE],
    ['true, and configured', 'valid', undefined],
  ]
  describe.each(asks)('$spelled', ({ version, binding, method, target, body }) => {
    it.each(cases)('A60 P140 capability %s, %s', async (card, who, refusal) => {
      const rig = rigs.get(card) as Rig
      const token =
        who === 'junk'
          ? 'junk'
          : who === 'nobody'
            ? undefined
            : await rig.token(who === 'expired' ? { exp: NOW - 900 } : {})
      const decision: Decision = await rig.guard.check({
        binding,
        method,
        target,
        rawHeaders: ['a2a-version', version, ...(token === undefined ? [] : ['authorization', `Bearer ${token}`])],
        ...(body === undefined ? {} : { body }),
      })
      if (refusal === undefined) return expect(decision).toMatchObject({ allowed: true })
      if (decision.allowed) throw new Error('allowed')
      expect(decision.denial.reason).toBe(refusal[1])
      expect(decision.denial.status).toBe(binding === 'JSONRPC' && refusal !== WHO ? 200 : refusal === WHO ? 401 : 400)
      if (binding === 'JSONRPC') {
        expect(JSON.parse(decision.denial.body)).toMatchObject({ id: 0, error: { code: refusal[0] } })
      }
      return undefined
    })
  })

  it('A58 an anonymous JSON-RPC body that nobody has parsed stays unread: 401, whatever it asks for', async () => {
    const rig = rigs.get('false') as Rig
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'GetExtendedAgentCard' }))
    const decision = await rig.guard.check({ method: 'POST', target: '/', rawHeaders: ['a2a-version', '1.0'], body })
    expect(decision).toMatchObject({ allowed: false, denial: { status: 401 } })
  })
})

describe('what leaves', () => {
  let agent: OwnedAgent
  let plain: string
  let payer: string
  beforeAll(async () => {
    vi.spyOn(console, 'error').mockImplementation(() => {})
    agent = await ownedAgent({
      card: publicCard(),
      policy: {
        extendedCard: extendedCard(),
        access: [{ allow: { operations: ['*'] } }, { deny: { skills: ['audit'], principals: { subject: 'alice' } } }],
      },
      guard: { extendedCard: { keys: [{ key, kid: 'k-1' }] } },
    })
    plain = await agent.rig.token()
    payer = await agent.rig.token({ scope: 'a2a:use a2a:pay' })
  })
  afterAll(async () => {
    await agent.close()
    vi.restoreAllMocks()
  })
  const skillsOf = (card: unknown) => (card as { skills: { id: string }[] }).skills.map(({ id }) => id)

  it('A60 each caller sees the skills they may use, and no others, in every spelling', async () => {
    const auditor = await agent.rig.token({ sub: 'bob', scope: 'a2a:use a2a:pay' })
    const views: [string, string[]][] = [
      [plain, ['echo']],
      [payer, ['echo', 'pay']],
      [auditor, ['echo', 'pay', 'audit']],
    ]
    for (const [token, skills] of views) {
      expect(skillsOf((await agent.rpc(token, 'GetExtendedAgentCard')).json.result)).toEqual(skills)
      expect(skillsOf((await agent.rest(token, 'GET', '/extendedAgentCard')).json)).toEqual(skills)
      const legacy = await agent.rpc(token, 'agent/getAuthenticatedExtendedCard', {}, '0.3')
      expect(skillsOf(legacy.json.result)).toEqual(skills)
      expect(skillsOf((await agent.rest(token, 'GET', '/v1/card', undefined, '0.3')).json)).toEqual(skills)
      // The SDK turns it into a v0.3 card, which the signature would not cover.
      expect(legacy.json.result).not.toHaveProperty('signatures')
    }
    expect(agent.calls).not.toContain('getAuthenticatedExtendedAgentCard')
  })

  it('it is signed as it leaves', async () => {
    const jwks = { keys: [await publicJwkOf({ key, kid: 'k-1' })] }
    const { json } = await agent.rpc(payer, 'GetExtendedAgentCard')
    const { text } = await agent.rest(plain, 'GET', '/extendedAgentCard')
    for (const served of [JSON.stringify(json.result), text]) {
      expect(await verifyCard(served, { jwks })).toMatchObject({ ok: true, uncovered: [] })
      expect(await verifyCard(served.replace('"Echo"', '"Ekko"'), { jwks })).toMatchObject({ ok: false })
    }
  })

  it('A63 it is in nobody’s cache, and no condition of another caller gets a 304', async () => {
    // `fetch` makes a conditional request unconditional.
    const ask = (token: string, headers: Record<string, string> = {}) =>
      new Promise<{ status: number | undefined; headers: Headers }>((resolve, reject) => {
        request(
          `${agent.url}/rest/extendedAgentCard`,
          { headers: { 'a2a-version': '1.0', authorization: `Bearer ${token}`, ...headers } },
          (response) => {
            response.resume()
            resolve({ status: response.statusCode, headers: new Headers(response.headers as Record<string, string>) })
          },
        )
          .on('error', reject)
          .end()
      })
    const first = await ask(payer)
    expect(first.headers.get('cache-control')).toBe('private, no-store')
    expect(first.headers.get('vary')).toMatch(/authorization, x-api-key, a2a-version/i)
    const etag = first.headers.get('etag') ?? '*'
    for (const condition of [
      { 'if-none-match': etag },
      { 'if-none-match': '*' },
      { 'if-modified-since': new Date().toUTCString() },
    ]) {
      expect((await ask(payer, condition)).status).toBe(200)
      expect((await ask(plain, condition)).status).toBe(200)
    }
    expect((await ask('junk', { 'if-none-match': etag })).status).toBe(401)
    const rpc = await fetch(`${agent.url}/rpc`, {
      method: 'POST',
      headers: { 'a2a-version': '1.0', 'content-type': 'application/json', authorization: `Bearer ${payer}` },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetExtendedAgentCard' }),
    })
    expect(rpc.headers.get('cache-control')).toBe('private, no-store')
  })

  it('A63 the public card that is cached holds nothing of it', async () => {
    const served = await createServedCard({ card: publicCard() })
    expect(served.card.headers['cache-control']).toMatch(/^public/)
    expect(served.card.body).not.toContain('audit')
  })

  it('a skill that only the extended card lists is enforced, and is not told from one that does not exist', async () => {
    const send = (token: string, skillId: string) =>
      agent.rpc(token, 'SendMessage', {
        message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }], metadata: { skillId } },
        configuration: { returnImmediately: true },
      })
    const [hidden, unknown] = [await send(plain, 'pay'), await send(plain, 'nope')]
    expect([hidden.status, hidden.text]).toEqual([unknown.status, unknown.text])
    expect(hidden.status).toBe(403)
    expect((await send(payer, 'pay')).json.error).toBeUndefined()
    expect(agent.rig.events.filter(({ allowed }) => !allowed).map(({ code }) => code)).toContain('ERR_SKILL_FORBIDDEN')
    const documents = agent.rig.guard.resourceMetadata?.body
    expect(documents).not.toContain('a2a:pay')
  })

  it('only the decision of this guard on this operation opens it', async () => {
    const other = await agent.rig.guard.check({
      method: 'GET',
      target: '/tasks',
      rawHeaders: ['a2a-version', '1.0', 'authorization', `Bearer ${payer}`],
    })
    if (!other.allowed) throw new Error('denied')
    for (const decision of [other, { skills: { allowed: ['echo', 'pay', 'audit'] } }]) {
      await expect(agent.rig.guard.extendedCard(decision)).rejects.toMatchObject({ code: 'ERR_GUARD_NOT_MOUNTED' })
    }
  })
})

describe('where it comes from', () => {
  interface Shown {
    readonly card: { readonly description: string; readonly skills: readonly { readonly id: string }[] }
    readonly headers: object
  }
  const ask = async (rig: Rig, credential: string[] = ['x-api-key', API_KEY]) => {
    const decision = await rig.guard.check({
      method: 'GET',
      target: '/extendedAgentCard',
      rawHeaders: ['a2a-version', '1.0', ...credential],
    })
    if (!decision.allowed) return { reason: decision.denial.reason }
    return rig.guard.extendedCard(decision) as unknown as Promise<Shown>
  }

  it('the public card and a file of additions', async () => {
    const additions = {
      description: 'For partners',
      skills: [{ id: 'more', name: 'More', description: 'm', tags: ['t'] }],
    }
    const rig = await makeRig({ extendedCard: false, policy: { extendedCardAdditions: additions } })
    const { card, headers } = (await ask(rig)) as Shown
    expect(card).toMatchObject({ name: 'Rig', description: 'For partners' })
    expect(card.skills.map(({ id }) => id)).toEqual(['echo', 'more'])
    expect(headers).toMatchObject({ 'cache-control': 'private, no-store', 'content-type': /json/ as never })
    await rig.close()
  })

  it('a mistake in the additions is shown where it is', async () => {
    const wrong = makeRig({
      extendedCard: false,
      policy: { extendedCardAdditions: { skills: [{ id: 'a', name: 'A' }, { id: 'echo' }] } },
    })
    await expect(wrong).rejects.toMatchObject({
      problems: [
        expect.objectContaining({ code: 'ERR_CARD_SKILL_DUPLICATE', pointer: '/extendedCardAdditions/skills/1/id' }),
      ],
    })
    await expect(
      makeRig({ policy: { extendedCardAdditions: { description: 'x' }, extendedCard: rigCard() } }),
    ).rejects.toMatchObject({ problems: [expect.objectContaining({ pointer: '/extendedCardAdditions' })] })
  })

  it('a function, whose skills are judged like any other', async () => {
    const asked: string[] = []
    const rig = await makeRig({
      extendedCard: false,
      guard: {
        extendedCard: {
          card: ({ principal }) => {
            asked.push(principal.subject)
            return { ...extendedCard(), description: `For ${principal.subject}` }
          },
          keys: [{ key }],
        },
      },
    })
    const { card } = (await ask(rig)) as Shown
    expect(card).toMatchObject({ description: 'For partner', skills: [{ id: 'echo' }] })
    expect(card.skills).toHaveLength(1)
    expect(asked).toEqual(['partner'])
    expect(rig.guard.health().warnings.join()).not.toContain('ERR_POLICY_EXTENDED_CARD')
    await rig.close()
  })

  it('a function that makes no card is a fault, and nothing is served', async () => {
    for (const made of [undefined, null, 'card', { name: 'x' }, { ...extendedCard(), skills: 'all' }]) {
      const rig = await makeRig({
        extendedCard: false,
        guard: { extendedCard: { card: () => made as never } },
      })
      await expect(ask(rig)).rejects.toThrow()
      await rig.close()
    }
  })

  it('A64 a function for a card that the public card does not announce does not start', async () => {
    const card = { ...publicCard(), capabilities: { extendedAgentCard: false } }
    await expect(makeRig({ card, guard: { extendedCard: { card: () => extendedCard() } } })).rejects.toThrow(
      '"extendedCard" makes a card that the public card does not announce',
    )
    await expect(makeRig({ guard: { extendedCard: { cards: [] } as never } })).rejects.toThrow(
      '"cards" is not an option',
    )
  })

  it('a caller who may use no skill at all is refused', async () => {
    const access = [{ allow: { operations: ['*'] } }, { deny: { skills: ['echo'], principals: { scheme: 'key' } } }]
    const rig = await makeRig({ policy: { access } })
    expect(await ask(rig)).toEqual({ reason: 'PERMISSION_DENIED' })
    await rig.close()
  })

  it('a card that is shown whole keeps the signatures it has; one that is cut has none', async () => {
    const rig = await makeRig({
      card: publicCard(),
      policy: { extendedCard: './extended.json' },
      prepare: (folder) => {
        writeFileSync(
          join(folder, 'extended.json'),
          JSON.stringify({ ...extendedCard(), signatures: [{ protected: 'e30', signature: 'AA' }] }),
        )
      },
    })
    const cut = (await ask(rig)) as Shown
    expect(cut.card).not.toHaveProperty('signatures')
    const payer = await rig.token({ scope: 'a2a:use a2a:pay' })
    const whole = (await ask(rig, ['authorization', `Bearer ${payer}`])) as Shown
    expect(whole.card).toHaveProperty('signatures')
    await rig.close()
  })
})
