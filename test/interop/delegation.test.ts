/** Three agents and a real authorization server that exchanges tokens: who C sees, and what B alone could not do. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { delegatedFetch } from '../../src/delegation/index.ts'
import { type Chain, type ChainAgent, callAgent, message, startChain } from '../support/agent-chain.ts'

let chain: Chain
let a: ChainAgent
let b: ChainAgent
let c: ChainAgent

const RIGHTS: Readonly<Record<string, readonly string[]>> = {
  alice: ['agent:use', 'invoice:read', 'invoice:pay'],
  bob: ['agent:use', 'invoice:read'],
  eve: [],
}

beforeAll(async () => {
  chain = await startChain({ rights: (user) => RIGHTS[user] ?? ['agent:use', 'invoice:read'] })
  c = await chain.agent('C', {
    scope: 'invoice:read',
    policy: {
      access: [
        { allow: { skills: ['read-invoice'] } },
        { allow: { skills: ['pay-invoice'], principals: { scopes: ['invoice:pay'] } } },
      ],
    },
  })
  b = await chain.agent('B', {
    delegation: [
      {
        to: c.url,
        obtain: 'exchange',
        client: { id: 'agent-b-client', secret: 'env:SECRET' },
        scopes: ['invoice:read', 'invoice:pay'],
      },
    ],
  })
  a = await chain.agent('A', {
    delegation: [
      { to: b.url, obtain: 'exchange', client: { id: 'agent-a-client', secret: 'env:SECRET' }, scopes: ['agent:use'] },
    ],
  })
  a.work = async (decision) => pass(b, decision.operation.declaredSkill)
  b.work = async (decision) => pass(c, decision.operation.declaredSkill)
})
afterAll(() => chain.close())

async function pass(to: ChainAgent, skill?: string) {
  const response = await delegatedFetch(to.url)(`${to.url}/a2a`, message(skill))
  return { status: response.status, body: await response.json() }
}

describe('A calls B calls C, for a user', () => {
  it('A87 A88 C sees the user, the agents that act, itself as audience and a narrower scope', async () => {
    const token = await chain.login('alice', a, 'agent:use')
    const { status, body } = await callAgent(a, token, 'read-invoice')
    expect(status).toBe(200)
    expect(body.result.body.result.body.result).toEqual({
      subject: 'alice',
      actor: { subject: 'agent-b-client', actor: { subject: 'agent-a-client' } },
      scopes: ['invoice:pay', 'invoice:read'],
    })
    const atC = decodeJwt((c.arrived.at(-1) as string).slice('Bearer '.length))
    expect(atC).toMatchObject({ sub: 'alice', aud: c.url, act: { sub: 'agent-b-client' } })
    expect(c.events.at(-1)).toMatchObject({ allowed: true, via: ['agent-b-client', 'agent-a-client'] })
    expect(c.events.at(-1)?.principal).toMatch(/:alice$/)
    // A87 A89: what the user sent to A has stayed there.
    for (const agent of [b, c]) expect(agent.arrived.join()).not.toContain(token)
  })

  it('C refuses what the user may not do, though B could be given it', async () => {
    const bob = await chain.login('bob', a)
    const { body } = await callAgent(a, bob, 'pay-invoice')
    const before = c.arrived.length
    // A got an answer of B, and B got 403 of C: bob's token has no invoice:pay, whatever B may do.
    expect(body.result.body.result.status).toBe(403)
    expect(decodeJwt((c.arrived.at(-1) as string).slice('Bearer '.length)).scope).toBe('invoice:read')
    expect((await callAgent(a, await chain.login('alice', a), 'pay-invoice')).body.result.body.result.status).toBe(200)
    expect(c.arrived.length).toBe(before + 1)
  })

  it('P189 the issuer says no: nothing is sent to the next agent', async () => {
    const eve = await chain.login('eve', a)
    const before = b.arrived.length
    const { status, body } = await callAgent(a, eve)
    expect([status, body.error, body.details.error]).toEqual([502, 'ERR_TOKEN_REQUEST', 'invalid_scope'])
    expect(b.arrived.length).toBe(before)
  })

  it('A87 the token of one agent is worth nothing at another', async () => {
    const token = await chain.login('alice', a)
    for (const other of [b, c]) expect((await callAgent(other, token)).status).toBe(401)
    await callAgent(a, token)
    const forB = (b.arrived.at(-1) as string).slice('Bearer '.length)
    for (const other of [a, c]) expect((await callAgent(other, forB)).status).toBe(401)
  })

  it('A88 users at the same time never mix', async () => {
    const users = Array.from({ length: 20 }, (_, index) => `user-${index}`)
    const tokens = await Promise.all(users.map((user) => chain.login(user, a)))
    const wrong: string[] = []
    let left = 400
    const worker = async () => {
      for (let turn = left--; turn > 0; turn = left--) {
        const user = turn % users.length
        const { body } = await callAgent(a, tokens[user])
        const seen = body.result?.body?.result?.body?.result?.subject
        if (seen !== users[user]) wrong.push(`${users[user]} was ${seen}`)
      }
    }
    await Promise.all(Array.from({ length: 16 }, worker))
    expect(wrong).toEqual([])
  }, 60_000)

  it('A102 A89 a redirect of the other agent, or of the token endpoint, takes nothing along', async () => {
    const received: string[] = []
    const evil = createServer((request, response) => {
      received.push(JSON.stringify([request.url, request.headers]))
      response.end('{}')
    })
    await new Promise<void>((resolve) => evil.listen(0, '127.0.0.1', resolve))
    const { port } = evil.address() as AddressInfo
    const away = (status: number) =>
      createServer((_request, response) => {
        response.writeHead(status, { location: `http://127.0.0.1:${port}/` }).end()
      })
    const moved = away(307)
    await new Promise<void>((resolve) => moved.listen(0, '127.0.0.1', resolve))
    const movedUrl = `http://127.0.0.1:${(moved.address() as AddressInfo).port}`
    const client = { id: 'agent-b-client', secret: 'env:SECRET' }
    const d = await chain.agent('D', {
      delegation: [
        { to: movedUrl, obtain: 'exchange', client, scopes: ['invoice:read'] },
        { to: c.url, obtain: 'exchange', client, tokenEndpoint: `${movedUrl}/token`, scopes: ['invoice:read'] },
      ],
    })
    const token = await chain.login('alice', d)
    const codes: unknown[] = []
    for (const url of [movedUrl, c.url]) {
      d.work = async () => delegatedFetch(url)(`${url}/a2a`, message())
      codes.push((await callAgent(d, token)).body.error)
    }
    expect(codes).toEqual(['ERR_EGRESS_REDIRECT', 'ERR_TOKEN_REQUEST'])
    expect(received).toEqual([])
    evil.close()
    moved.close()
  })
})
