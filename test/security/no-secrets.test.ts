/**
 * Promise 3: recognisable secrets are planted wherever a caller or operator can put one, and searched for in everything
 * that comes out: denials, events, log lines, errors, explanations, command output.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterAll, expect, it } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import { createEgress } from '../../src/egress/index.ts'
import { createGuard } from '../../src/guard.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import { lintPolicy } from '../../src/policy/index.ts'
import { createDpopNonces } from '../../src/schemes/dpop-nonce.ts'
import { createSenderConstraint } from '../../src/schemes/sender-constraint.ts'
import { createMemoryReplayStore } from '../../src/store/replay-memory.ts'
import { credentials } from '../support/credentials.ts'
import { createDpopKey } from '../support/dpop.ts'
import { MARK } from '../support/leak-watch.ts'
import { makeRig, NOW, rigCard } from '../support/rig.ts'

const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-secrets-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Everything that was said, as text. Signatures of planted tokens count too. */
function search(said: readonly unknown[], secrets: readonly string[]): string[] {
  const text = said
    .map((one) =>
      typeof one === 'string' ? one : inspect(one, { depth: 12, showHidden: true, maxStringLength: null }),
    )
    .join('\n')
  return secrets.filter((secret) => text.includes(secret))
}

it('of requests: header, query, cookie, body, in every way of being wrong', async () => {
  const said: unknown[] = []
  const say = (...parts: unknown[]) => said.push(...parts)
  const card = rigCard({
    securitySchemes: {
      ...(rigCard().securitySchemes as object),
      query: { apiKeySecurityScheme: { location: 'query', name: 'api_key' } },
      cookie: { apiKeySecurityScheme: { location: 'cookie', name: 'sid' } },
    },
    securityRequirements: [
      { schemes: { login: { list: ['a2a:use'] } } },
      { schemes: { key: { list: [] } } },
      { schemes: { query: { list: [] } } },
      { schemes: { cookie: { list: [] } } },
    ],
  })
  const keyFile = join(folder, 'keys.json')
  writeFileSync(keyFile, JSON.stringify([{ id: 'k', owner: 'o', sha256: sha256Hex(`${MARK}-good-key-0000000000`) }]))
  const rig = await makeRig({
    card,
    policy: {
      schemes: {
        login: { issuer: 'https://issuer.example', algorithms: ['ES256'], jwks: 'file:./jwks.json' },
        key: { keys: `file:${keyFile}` },
        query: { keys: `file:${keyFile}` },
        cookie: { keys: `file:${keyFile}` },
      },
      limits: { perPrincipal: '50/min', failedAuthentication: '5000/min' },
    },
    guard: { logger: { debug: say, info: say, warn: say, error: say } },
  })
  const tokens = [
    await rig.token({ [`${MARK}-claim`]: `${MARK}-value` }),
    await rig.token({ exp: NOW - 9999 }),
    await rig.token({ aud: `https://${MARK}.example` }),
    await rig.token({ iss: `https://${MARK}.example` }),
    await rig.token({ scope: 'other' }),
    await rig.token({}, { kid: `${MARK}-kid` }),
    `${await rig.token()}x`,
    `${MARK}.not.a-token`,
  ]
  const keys = [`${MARK}-good-key-0000000000`, `${MARK}-wrong-key-000000000`, `${MARK} key with spaces`]
  const body = {
    jsonrpc: '2.0',
    id: 1,
    method: 'SendMessage',
    params: {
      message: {
        messageId: 'm',
        role: 'ROLE_USER',
        parts: [{ text: `${MARK}-in-body` }],
        metadata: { skillId: 'nope' },
      },
    },
  }
  const requests = [
    ...tokens.map((token) => ({ headers: ['authorization', `Bearer ${token}`], query: '' })),
    ...tokens.map((token) => ({
      headers: ['authorization', `Bearer ${token}`, 'authorization', `Bearer ${token}`],
      query: '',
    })),
    ...keys.flatMap((key) => [
      { headers: ['x-api-key', key], query: '' },
      { headers: ['x-api-key', key, 'x-api-key', key], query: '' },
      { headers: ['cookie', `sid=${key}; other=${MARK}-cookie`], query: '' },
      { headers: [], query: `?api_key=${encodeURIComponent(key)}` },
      {
        headers: ['authorization', `Basic ${Buffer.from(`user:${key}`).toString('base64')}`],
        query: `?access_token=${encodeURIComponent(key)}`,
      },
    ]),
  ]
  for (const { headers, query } of requests) {
    for (const [method, target, payload] of [
      ['GET', `/tasks/t${query}`, undefined],
      ['POST', `/${query}`, JSON.stringify(body)],
      ['POST', `/${query}`, `{"${MARK}-broken`],
    ] as const) {
      const request = {
        method,
        target,
        rawHeaders: ['a2a-version', '1.0', ...headers],
        ...(payload === undefined ? {} : { body: payload }),
      }
      const decision = await rig.guard.check(request)
      if (!decision.allowed) said.push(decision)
      const { principal: _, ...explained } = await rig.guard.explain(request)
      said.push(explained)
    }
  }
  said.push(rig.events, rig.guard.health())
  await rig.close()
  expect(said.length).toBeGreaterThan(200)
  expect(
    search(said, [
      MARK,
      ...tokens,
      ...tokens.flatMap((token) => token.split('.').slice(1)).filter(({ length }) => length > 20),
    ]),
  ).toEqual([])
})

it('of configuration: a secret in the wrong place is refused without being repeated', async () => {
  const said: unknown[] = []
  const attempt = async (policy: object) =>
    createGuard({ policy, baseDir: folder, env: { WEAK: `${MARK}` } }).then(
      () => said.push('started'),
      (fault: unknown) => said.push(fault),
    )
  const base = { version: 1, card: rigCard(), audience: 'https://agent.example' }
  writeFileSync(join(folder, 'clear.json'), JSON.stringify([{ id: 'k', owner: 'o', key: `${MARK}-clear-text-key` }]))
  writeFileSync(
    join(folder, 'private.json'),
    JSON.stringify({ keys: [{ kty: 'EC', crv: 'P-256', kid: 'k', x: `${MARK}x`, y: `${MARK}y`, d: `${MARK}d` }] }),
  )
  await attempt({
    ...base,
    schemes: {
      login: { issuer: `https://user:${MARK}@issuer.example`, algorithms: ['ES256'], jwks: 'file:private.json' },
      key: { keys: 'file:clear.json' },
    },
  })
  await attempt({
    ...base,
    schemes: {
      login: { issuer: 'https://issuer.example', algorithms: [`${MARK}`], jwks: `${MARK}` },
      key: { keys: `${MARK}` },
    },
    stores: { url: `redis://:${MARK}@host` },
    webhooks: { secrets: { 'https://h.example': { current: `${MARK}` } } },
  })
  await attempt({ ...base, webhooks: { secrets: { 'https://h.example': { current: 'env:WEAK' } } } })
  expect(said).toHaveLength(3)
  expect(said).not.toContain('started')
  expect(search(said, [MARK])).toEqual([])
})

const GRANTED = { kind: 'absent' } as const

it('of DPoP: neither the secret of nonces nor a proof', async () => {
  const key = await createDpopKey({ htu: `https://agent.example/${MARK}`, now: () => NOW })
  const token = `${MARK}.${MARK}.${MARK}`
  const { login } = rigCard().securitySchemes as Record<string, unknown>
  const { problems, policy } = await lintPolicy({
    policy: {
      version: 1,
      card: rigCard({ securitySchemes: { login }, securityRequirements: [{ schemes: { login: { list: [] } } }] }),
      audience: 'https://agent.example',
      schemes: { login: { issuer: 'https://issuer.example', algorithms: ['ES256'], senderConstraint: 'optional' } },
      dpop: { nonce: 'required', nonceSecret: 'env:NONCES' },
    },
    env: { NONCES: `${MARK}-nonces-0123456789` },
  })
  const nonceKey = policy?.dpop.nonceKey
  if (nonceKey === undefined) throw new Error(inspect(problems))
  const nonces = createDpopNonces(() => NOW * 1000, nonceKey)
  const said: unknown[] = [problems, policy, JSON.stringify(policy), nonces.current()]
  const stores = { replay: createMemoryReplayStore({ clock: () => NOW * 1000 }) }
  const constraint = createSenderConstraint('dpop', { clock: () => NOW * 1000, stores, nonces })
  for (const claims of [{}, { jti: MARK }, { nonce: MARK }, { htm: MARK }, { ath: MARK }, { iat: MARK }]) {
    for (const urls of [[], [`https://agent.example/${MARK}`]]) {
      const proof = await key.proof(token, claims, { [MARK]: MARK })
      const source = { ...credentials(['DPoP', proof]), urls: () => urls }
      said.push(await constraint.judge({ kind: 'token', as: 'DPoP', token }, { jkt: key.jkt }, source, GRANTED))
    }
  }
  expect(said).toHaveLength(16)
  expect(said).not.toContain(GRANTED)
  expect(search(said, [MARK])).toEqual([])
})
it('of URLs: what is fetched is named by its origin alone', async () => {
  const egress = createEgress({ resolver: async () => ['127.0.0.1'] })
  const said: unknown[] = []
  for (const url of [
    `https://api.example.com/${MARK}?token=${MARK}#${MARK}`,
    `https://${MARK}:${MARK}@api.example.com/`,
    `ftp://api.example.com/${MARK}`,
    `https://10.0.0.1/?k=${MARK}`,
  ]) {
    await egress
      .fetch(url, { headers: { authorization: `Bearer ${MARK}` } })
      .catch((fault: unknown) => said.push(fault))
  }
  await egress.close()
  expect(said).toHaveLength(4)
  expect(search(said, [MARK])).toEqual([])
})

it('of providers and the environment: what an issuer answers, and what it is asked with', async () => {
  const said: unknown[] = []
  const say = (...parts: unknown[]) => said.push(...parts)
  const logger = { debug: say, info: say, warn: say, error: say }
  const issuer = 'https://issuer.example'
  const policy = {
    version: 1,
    card: rigCard(),
    audience: 'https://agent.example',
    schemes: {
      login: {
        issuer,
        token: 'opaque',
        introspection: {
          endpoint: `${issuer}/introspect`,
          client: { id: 'agent', auth: 'post', secret: 'env:CLIENT_SECRET' },
        },
      },
      key: { keys: 'file:k2.json' },
    },
  }
  writeFileSync(join(folder, 'k2.json'), JSON.stringify([{ id: 'k', owner: 'o', sha256: sha256Hex('x') }]))
  const env = { CLIENT_SECRET: `${MARK}-client-secret-0123456789` }
  let asked = ''
  const json = (value: unknown, status = 200) =>
    new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json' } })
  const answers: (() => Response)[] = [
    () => json({ error: 'invalid_client', error_description: MARK }, 401),
    () => json({ error: MARK }, 500),
    () => new Response(`<html>${MARK}</html>`, { headers: { 'content-type': 'text/html', 'x-debug': MARK } }),
    () => new Response(`{"active":"${MARK}`, { headers: { 'content-type': 'application/json' } }),
    () => json({ active: MARK }),
    () => json({ active: true, iss: MARK, sub: MARK, aud: MARK, scope: MARK, exp: NOW + 60, [MARK]: MARK }),
    () => json({ active: false, [MARK]: MARK }),
    () => new Response(null, { status: 302, headers: { location: `https://${MARK}.example/?${MARK}` } }),
    () => {
      throw new Error('socket hang up')
    },
  ]
  for (const answer of answers) {
    let warm = true
    const guard = await createGuard({
      policy,
      baseDir: folder,
      env,
      logger,
      clock: () => NOW * 1000,
      onDecision: say,
      fetch: async (_, init) => {
        asked += String(init?.body)
        // At start the issuer is asked about nothing in particular.
        const reply = warm ? () => json({ active: false }) : answer
        warm = false
        return reply()
      },
    })
    const rawHeaders = ['a2a-version', '1.0', 'authorization', `Bearer ${MARK}-opaque-token-0123456789`]
    const decision = await guard.check({ method: 'GET', target: '/tasks/t', rawHeaders })
    expect(decision.allowed).toBe(false)
    said.push(decision, guard.health())
    await guard.close()
  }
  const keys = { issuer, algorithms: ['ES256'] }
  for (const [login, document] of [
    [{ ...keys }, { issuer: MARK, jwks_uri: `https://${MARK}.example/?${MARK}` }],
    [{ ...keys }, { issuer, jwks_uri: `http://user:${MARK}@issuer.example/${MARK}` }],
    [
      { ...keys, jwks: `${issuer}/jwks` },
      { keys: [{ kty: 'EC', crv: MARK, kid: 'a-public-name', d: MARK, x: MARK, y: MARK }] },
    ],
    [{ ...keys, jwks: `${issuer}/jwks?${MARK}` }, { keys: MARK }],
  ] as const) {
    const schemes = { ...policy.schemes, login }
    await createGuard({
      policy: { ...policy, schemes },
      baseDir: folder,
      logger,
      fetch: async () => json(document),
    }).then(async (guard) => {
      said.push(guard.health())
      await guard.close()
    }, say)
  }
  expect(asked).toContain(env.CLIENT_SECRET)
  expect(said.length).toBeGreaterThan(30)
  expect(search(said, [MARK])).toEqual([])
})

it('of the command line: neither token nor key is printed', async () => {
  const rig = await makeRig()
  const token = await rig.token({ sub: 'alice' })
  await rig.close()
  const policy = join(folder, 'policy.json')
  writeFileSync(join(folder, 'card.json'), JSON.stringify(rigCard()))
  writeFileSync(join(folder, 'k.json'), JSON.stringify([{ id: 'k', owner: 'o', sha256: sha256Hex('x') }]))
  writeFileSync(
    policy,
    JSON.stringify({
      version: 1,
      card: 'card.json',
      audience: 'https://agent.example',
      schemes: {
        login: { issuer: 'https://issuer.example', algorithms: ['ES256'], jwks: 'file:../nowhere.json' },
        key: { keys: 'file:k.json' },
      },
    }),
  )
  const said: string[] = []
  const write = (text: string) => said.push(text)
  for (const args of [
    ['token', 'check', token, '--policy', policy],
    ['token', 'check', token],
    ['keys', 'hash'],
  ]) {
    await runCommandLine(args, {
      stdin: (async function* () {
        yield `${MARK}-some-key-000000`
      })(),
      stdout: { write },
      stderr: { write },
    })
  }
  expect(said.length).toBeGreaterThan(2)
  expect(search(said, [MARK, token, ...token.split('.')])).toEqual([])
})
