/** Callers for whom somebody acts (RFC 8693 `act`): who they are, what a policy can say of the chain, what is recorded. */
import { afterEach, describe, expect, it } from 'vitest'
import type { Decision } from '../../src/types.ts'
import { makeRig, type Rig } from '../support/rig.ts'

let rig: Rig
afterEach(() => rig.close())

const B = { sub: 'agent-b' }
const B_VIA_A = { sub: 'agent-b', act: { sub: 'agent-a' } }
const chain = (length: number): object | undefined =>
  length === 0 ? undefined : { sub: `agent-${length}`, act: chain(length - 1) }

async function rigWith(access?: readonly object[]): Promise<void> {
  rig = await makeRig({ policy: access === undefined ? {} : { access } })
}
async function call(act: unknown): Promise<Decision> {
  const token = await rig.token({ act })
  return rig.guard.check({
    method: 'GET',
    target: '/rest/tasks',
    rawHeaders: ['A2A-Version', '1.0', 'Authorization', `Bearer ${token}`],
  })
}
const isAllowed = async (act: unknown) => (await call(act)).allowed

describe('who calls', () => {
  it('A88 the principal is the subject, however many act for them; the event says via whom', async () => {
    await rigWith()
    const decision = await call(B_VIA_A)
    expect(decision).toMatchObject({
      allowed: true,
      principal: { subject: 'alice', actor: { subject: 'agent-b', actor: { subject: 'agent-a' } } },
    })
    expect(rig.events.at(-1)?.via).toEqual(['agent-b', 'agent-a'])
    expect(rig.events.at(-1)?.principal).toMatch(/:alice$/)
    await call(undefined)
    expect(rig.events.at(-1)).not.toHaveProperty('via')
  })

  it('an actor of another issuer has another name', async () => {
    await rigWith([{ allow: { principals: { actor: 'agent-b' } } }])
    expect(await isAllowed(B)).toBe(true)
    expect(await isAllowed({ ...B, iss: 'https://issuer.example' })).toBe(true)
    expect(await isAllowed({ ...B, iss: 'https://evil.example' })).toBe(false)
    expect(rig.events.at(-1)).toMatchObject({
      code: 'ERR_ACCESS_DENIED',
      via: ['https://evil.example#agent-b'],
    })
  })

  it.each<[string, unknown]>([
    ['no object', 'agent-b'],
    ['a list', [B]],
    ['null', null],
    ['no sub', { client_id: 'agent-b' }],
    ['an empty sub', { sub: '' }],
    ['a sub that forges a line', { sub: 'b\nlevel=info' }],
    ['a malformed one inside', { sub: 'b', act: { sub: 7 } }],
    ['more than eight', chain(9)],
  ])('an act that is %s is refused', async (_name, act) => {
    await rigWith()
    expect(await call(act)).toMatchObject({ allowed: false, code: 'ERR_TOKEN_CLAIMS', denial: { status: 401 } })
  })
})

describe('what a policy says of the chain', () => {
  it.each<[string, object[], boolean[]]>([
    // In person, via B, via B via A, via C via A.
    ['nobody may act', [{ deny: { principals: { actors: { atLeast: 1 } } } }], [true, false, false, false]],
    ['only in person', [{ allow: { principals: { actors: { atMost: 0 } } } }], [true, false, false, false]],
    ['somebody must act', [{ allow: { principals: { actors: { atLeast: 1 } } } }], [false, true, true, true]],
    [
      'one and no more',
      [{ allow: { principals: { actors: { atLeast: 1, atMost: 1 } } } }],
      [false, true, false, false],
    ],
    ['no chains', [{ deny: { principals: { actors: { atLeast: 2 } } } }], [true, true, false, false]],
    ['B alone may act', [{ allow: { principals: { actor: 'agent-b' } } }], [false, true, true, false]],
    [
      'all of them known',
      [{ allow: { principals: { actors: { among: ['agent-a', 'agent-b'] } } } }],
      [true, true, true, false],
    ],
    ['not through A', [{ deny: { principals: { actors: { through: 'agent-a' } } } }], [true, true, false, false]],
    ['not through C', [{ deny: { principals: { actors: { through: ['agent-c'] } } } }], [true, true, true, false]],
  ])('%s', async (_name, access, expected) => {
    await rigWith(access)
    const seen: boolean[] = []
    for (const act of [undefined, B, B_VIA_A, { sub: 'agent-c', act: { sub: 'agent-a' } }])
      seen.push(await isAllowed(act))
    expect(seen).toEqual(expected)
  })

  it.each<[string, unknown]>([
    ['nothing', {}],
    ['a misspelt member', { atleast: 1 }],
    ['more than there can be', { atMost: 9 }],
    ['a range of none', { atLeast: 2, atMost: 1 }],
    ['through nobody', { atMost: 0, through: 'agent-a' }],
    ['an empty list', { among: [] }],
  ])('%s is refused at start', async (_name, actors) => {
    const fault = await makeRig({ policy: { access: [{ deny: { principals: { actors } } }] } }).catch(
      (error: unknown) => error,
    )
    expect(fault).toMatchObject({ code: 'ERR_POLICY_INVALID' })
    await rigWith()
  })
})
