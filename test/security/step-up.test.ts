/** A 403 that tells a client what to ask for: it asks for exactly that, and is let in (RFC 6750 §3.1). */
import { afterEach, describe, expect, it } from 'vitest'
import { ISSUER, makeRig, paySkill, type Rig, type RigOptions, rigCard } from '../support/rig.ts'

const rigs: Rig[] = []
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close()
})
async function start(options: RigOptions): Promise<Rig> {
  const rig = await makeRig(options)
  rigs.push(rig)
  return rig
}

const key = { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } }
const { login } = (rigCard() as { securitySchemes: { login: object } }).securitySchemes
const skill = (list: string[], ...others: object[]) => ({
  ...paySkill,
  securityRequirements: [{ schemes: { login: { list } } }, ...others],
})
const card = (skills: object[], ...requirements: object[]) =>
  rigCard({
    skills,
    securitySchemes: { login, key },
    ...(requirements.length === 0 ? {} : { securityRequirements: requirements }),
  })

/** Status, code, and the challenges as [scheme, parameters]. */
async function pay(rig: Rig, ...headers: string[]) {
  const decision = await rig.guard.check({
    method: 'POST',
    target: '/',
    rawHeaders: ['a2a-version', '1.0', ...headers],
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: {
        message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }], metadata: { skillId: 'pay' } },
      },
    },
  })
  if (decision.allowed) return { status: 200, challenges: [] }
  const header = decision.denial.headers['www-authenticate'] ?? ''
  const challenges = header.split(/, (?=[A-Za-z]+ realm=)/).filter((one) => one !== '')
  return { status: decision.denial.status, challenges }
}

const bearer = (token: string) => ['authorization', `Bearer ${token}`]
const scopeIn = (challenge = '') => /scope="([^"]*)"/.exec(challenge)?.[1]

describe('P97 a client that asks for exactly the scopes of the challenge is let in', () => {
  it.each<[string, RigOptions]>([
    ['a skill above the agent', { card: card([skill(['a2a:pay'])]) }],
    ['several scopes', { card: card([skill(['a2a:pay', 'a2a:more'])]) }],
    [
      'with scopes the policy always asks',
      { card: card([skill(['a2a:pay'])]), login: { requiredScopes: ['a2a:base'] } },
    ],
    ['an agent without scopes of its own', { card: card([skill(['a2a:pay'])], { schemes: { login: { list: [] } } }) }],
    [
      'a skill in place of the agent',
      { card: card([skill(['a2a:pay'])]), policy: { skills: { combine: 'override' } } },
    ],
  ])('%s', async (_, options) => {
    const rig = await start(options)
    const { requiredScopes = [] } = (options.login ?? {}) as { requiredScopes?: string[] }
    const before = await pay(rig, ...bearer(await rig.token({ scope: ['a2a:use', ...requiredScopes].join(' ') })))
    expect(before.status).toBe(403)
    expect(before.challenges[0]).toContain('error="insufficient_scope"')
    const scope = scopeIn(before.challenges[0])
    expect(await pay(rig, ...bearer(await rig.token({ scope })))).toEqual({ status: 200, challenges: [] })
  })

  it.each([
    ['no scope', undefined],
    ['what only the agent asks', 'a2a:use'],
    ['what only the policy asks', 'a2a:base'],
  ])('from %s, within two steps', async (_, first) => {
    const rig = await start({ card: card([skill(['a2a:pay'])]), login: { requiredScopes: ['a2a:base'] } })
    let scope = first
    for (let step = 0; step < 2; step += 1) {
      const { status, challenges } = await pay(rig, ...bearer(await rig.token({ scope })))
      expect([status, challenges[0]]).toEqual([403, expect.stringContaining('error="insufficient_scope"')])
      scope = scopeIn(challenges[0])
      if (scope === 'a2a:use a2a:pay a2a:base') break
    }
    expect(await pay(rig, ...bearer(await rig.token({ scope })))).toEqual({ status: 200, challenges: [] })
  })
})

describe('every alternative is there', () => {
  const either = card([skill(['a2a:pay'], { schemes: { key: { list: [] } } })])

  it('in a 403: the token that lacks a scope with its error, the others without', async () => {
    const rig = await start({ card: either })
    const { challenges } = await pay(rig, ...bearer(await rig.token()))
    expect(challenges).toEqual([
      expect.stringMatching(/^Bearer realm="a2a", error="insufficient_scope", scope="a2a:use a2a:pay"/),
      'ApiKey realm="a2a", in="header", name="x-api-key"',
    ])
  })

  it('also where the scheme itself always asks for a scope that the token lacks', async () => {
    const rig = await start({ login: { requiredScopes: ['a2a:base'] } })
    const { status, challenges } = await pay(rig, ...bearer(await rig.token()))
    expect(status).toBe(403)
    expect(challenges).toEqual([
      expect.stringMatching(/^Bearer realm="a2a", error="insufficient_scope", scope="a2a:use a2a:base"/),
      'ApiKey realm="a2a", in="header", name="x-api-key"',
    ])
  })

  it('in a 401: each with all that a token needs, and an error only for what was sent', async () => {
    const rig = await start({ login: { requiredScopes: ['a2a:base'] } })
    expect((await pay(rig)).challenges).toEqual([
      expect.stringMatching(/^Bearer realm="a2a", scope="a2a:use a2a:base"/),
      'ApiKey realm="a2a", in="header", name="x-api-key"',
    ])
    const { challenges } = await pay(rig, ...bearer(await rig.token({ iss: `${ISSUER}/x` })))
    expect(challenges[0]).toContain('error="invalid_token"')
    expect(challenges[1]).not.toContain('error=')
  })

  it('but none where an access rule decides: no credential is promised to help', async () => {
    const access = [{ deny: { skills: ['pay'] } }]
    const rig = await start({ card: either, policy: { access } })
    const token = await rig.token({ scope: 'a2a:use a2a:pay' })
    expect(await pay(rig, ...bearer(token))).toEqual({ status: 403, challenges: [] })
  })
})
