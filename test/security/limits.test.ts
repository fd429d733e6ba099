/** Abuse: what is counted, against whom, and that nobody can be locked out by strangers. */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { exportJWK, generateKeyPair } from 'jose'
import { describe, expect, it } from 'vitest'
import { createLimits } from '../../src/guard/limits.ts'
import type { Guard } from '../../src/guard.ts'
import { generateApiKey } from '../../src/internal/api-key-format.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import type { Credentials } from '../../src/schemes/authenticate.ts'
import type { Outcome, Scheme } from '../../src/schemes/scheme.ts'
import type { CustomScheme } from '../../src/types.ts'
import { credentials } from '../support/credentials.ts'
import { API_KEY, ISSUER, makeRig, type Rig, type RigOptions, rigCard } from '../support/rig.ts'

const GOOD = generateApiKey('partner-2')

async function withRig(options: RigOptions, use: (rig: Rig) => Promise<void>): Promise<void> {
  const rig = await makeRig(options)
  const entry = (id: string, key: string) => ({ id, owner: 'partner', scopes: ['a2a:use'], sha256: sha256Hex(key) })
  writeFileSync(join(rig.folder, 'keys.json'), JSON.stringify([entry('partner-1', API_KEY), entry('partner-2', GOOD)]))
  await rig.guard.reload()
  try {
    await use(rig)
  } finally {
    await rig.close()
  }
}

const keyed = (key: string) => ['x-api-key', key]
/** A key of the right form, for this id, that is none. */
const guess = (id = 'partner-2') => keyed(generateApiKey(id))

async function from(guard: Guard, address: string, headers: readonly string[], method = 'GetTask'): Promise<string> {
  const decision = await guard.check({
    method: 'POST',
    target: '/',
    rawHeaders: ['a2a-version', '1.0', ...headers],
    peer: { address },
    binding: 'JSONRPC',
    body: {
      jsonrpc: '2.0',
      id: 7,
      method,
      params:
        method === 'SendMessage'
          ? { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] } }
          : { id: 't' },
    },
  })
  return decision.allowed ? 'allowed' : `${decision.denial.status} ${decision.code}`
}

const LIMITED = '429 ERR_RATE_LIMITED'
const WRONG = '401 ERR_API_KEY_UNKNOWN'
const network = (n: number) => `2001:db8:${n.toString(16)}::1`

describe('limits.failedCredential', () => {
  it('stops guesses at one id from one address before anything is looked at; other ids and addresses go on', async () => {
    await withRig({ policy: { limits: { failedCredential: '2/min' } } }, async ({ guard, events }) => {
      for (let i = 0; i < 2; i += 1) expect(await from(guard, network(1), guess())).toBe(WRONG)
      expect(await from(guard, '2001:db8:1::ffff', guess())).toBe(LIMITED)
      expect(events.at(-1)?.failures).toEqual([])
      // Even the right key: what is refused before any look cannot be told apart.
      expect(await from(guard, network(1), keyed(GOOD))).toBe(LIMITED)
      expect(await from(guard, network(1), guess('partner-9'))).toBe(WRONG)
      expect(await from(guard, network(1), keyed(API_KEY))).toBe('allowed')
      expect(await from(guard, network(2), keyed(GOOD))).toBe('allowed')
    })
  })

  it('an id that nobody has is counted like one that somebody has', async () => {
    await withRig({ policy: { limits: { failedCredential: '1/min' } } }, async ({ guard }) => {
      for (const id of ['partner-2', 'nobody']) {
        expect(await from(guard, network(1), guess(id))).toBe(WRONG)
        expect(await from(guard, network(1), guess(id))).toBe(LIMITED)
      }
    })
  })

  it('many addresses together get ten times as much, and do not lock out the address the owner is known from', async () => {
    await withRig({ policy: { limits: { failedCredential: '2/min' } } }, async (rig) => {
      const { guard } = rig
      expect(await from(guard, network(1000), keyed(GOOD))).toBe('allowed')
      const answers: string[] = []
      for (let n = 0; n < 100; n += 1) answers.push(await from(guard, network(n), guess()))
      expect([answers.filter((one) => one === WRONG).length, answers.at(-1)]).toEqual([20, LIMITED])
      expect(await from(guard, '2001:db8:3e8::2', keyed(GOOD))).toBe('allowed')
      // From an address never seen before the owner waits, for a window at most.
      expect(await from(guard, network(2000), keyed(GOOD))).toBe(LIMITED)
      rig.now += 60
      expect(await from(guard, network(2000), keyed(GOOD))).toBe('allowed')
    })
  })

  it('from the owner’s own address, wrong guesses still count', async () => {
    await withRig({ policy: { limits: { failedCredential: '2/min' } } }, async ({ guard }) => {
      expect(await from(guard, network(1), keyed(GOOD))).toBe('allowed')
      for (let i = 0; i < 2; i += 1) expect(await from(guard, network(1), guess())).toBe(WRONG)
      expect(await from(guard, network(1), guess())).toBe(LIMITED)
    })
  })

  it('right credentials spend nothing, however many at a time', async () => {
    await withRig({ policy: { limits: { failedCredential: '2/min' } } }, async ({ guard }) => {
      const answers = await Promise.all(Array.from({ length: 100 }, () => from(guard, network(1), keyed(GOOD))))
      expect(new Set(answers)).toEqual(new Set(['allowed']))
    })
  })

  it('so does a key that one of two schemes at the same header takes; a guess is one for both', async () => {
    const header = { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } }
    const options: RigOptions = {
      card: rigCard({
        capabilities: {},
        securitySchemes: { key: header, other: header },
        securityRequirements: [{ schemes: { key: { list: [] } } }, { schemes: { other: { list: [] } } }],
      }),
      prepare: (folder) => {
        const entry = { id: 'other-1', owner: 'other', sha256: sha256Hex(generateApiKey('other-1')) }
        writeFileSync(join(folder, 'other.json'), JSON.stringify([entry]))
      },
      policy: {
        schemes: { key: { keys: 'file:./keys.json' }, other: { keys: 'file:./other.json' } },
        limits: { failedCredential: '2/min' },
      },
    }
    await withRig(options, async ({ guard }) => {
      for (let i = 0; i < 5; i += 1) expect(await from(guard, network(1), keyed(GOOD))).toBe('allowed')
      for (let i = 0; i < 2; i += 1) expect(await from(guard, network(1), guess())).toBe(WRONG)
      expect(await from(guard, network(1), guess())).toBe(LIMITED)
    })
  })

  it('guesses at the same moment are no way around: each counts from its beginning', () => {
    const scheme = { name: 'basic', claimedId: () => 'alice' } as unknown as Scheme
    const limits = createLimits({ failedCredential: { count: 2, windowSeconds: 60 } }, [scheme])
    const source = credentials([])
    const attempts = Array.from({ length: 1000 }, () => limits.attempt(source, 0))
    expect(attempts.filter(({ waitSeconds }) => waitSeconds === 0)).toHaveLength(2)
    const as = (outcome: Outcome): Credentials => ({ outcomes: new Map([[scheme, outcome]]), parts: new Map() })
    // One could not be decided and is given back, but not into another window.
    attempts[0]?.end(as({ kind: 'unavailable', code: 'ERR_OVERLOADED', retryAfterSeconds: 1 }))
    expect(limits.attempt(source, 1).waitSeconds).toBe(0)
    expect(limits.attempt(source, 2).waitSeconds).toBeGreaterThan(0)
    for (let i = 0; i < 2; i += 1) expect(limits.attempt(source, 60_000).waitSeconds).toBe(0)
    attempts[1]?.end(as({ kind: 'unavailable', code: 'ERR_OVERLOADED', retryAfterSeconds: 1 }))
    expect(limits.attempt(source, 60_001).waitSeconds).toBeGreaterThan(0)
  })
})

describe('limits.failedAuthentication, while something is being checked', () => {
  const TWO = { failedAuthentication: { count: 2, windowSeconds: 60 } }
  const wrong: Credentials = {
    outcomes: new Map(),
    parts: new Map(),
    refusal: { kind: 'invalid', code: 'ERR_PASSWORD_INVALID' },
  }
  const right: Credentials = { outcomes: new Map(), parts: new Map() }
  const source = credentials([])
  const held = (limits: ReturnType<typeof createLimits>, nowMs = 0) => {
    const attempt = limits.attempt(source, nowMs)
    expect([attempt.waitSeconds, attempt.turn]).toEqual([0, undefined])
    attempt.hold()
    return attempt
  }

  it('the next wait, and each end lets as many in as may still fail', async () => {
    const limits = createLimits(TWO, [])
    const [first, second] = [held(limits), held(limits)]
    const woken: string[] = []
    const line = ['third', 'fourth'].map((name) => limits.attempt(source, 0).turn?.then(() => woken.push(name)))
    expect(line.every((turn) => turn !== undefined)).toBe(true)
    first.end(wrong)
    await new Promise((resolve) => setImmediate(resolve))
    // One has failed and one may: nobody else can be let in.
    expect(woken).toEqual([])
    second.end(right)
    await Promise.all(line)
    expect(woken).toEqual(['third', 'fourth'])
    held(limits).end(wrong)
    expect(limits.attempt(source, 0)).toMatchObject({ waitSeconds: 60 })
  })

  it('all who wait are told when all have failed, and when nothing could be told', async () => {
    const limits = createLimits(TWO, [])
    const both = [held(limits), held(limits)]
    const { turn } = limits.attempt(source, 0)
    for (const each of both) each.end(wrong)
    await turn
    const other = createLimits(TWO, [])
    const again = [held(other), held(other)]
    const waiting = other.attempt(source, 0).turn
    again[0]?.end()
    await waiting
    expect([limits.attempt(source, 0).waitSeconds, other.attempt(source, 0).waitSeconds]).toEqual([60, 0])
  })

  it('waiting is bounded, and what fails late counts in the window it began in', () => {
    const limits = createLimits(TWO, [])
    const both = [held(limits), held(limits)]
    const line = Array.from({ length: 300 }, () => limits.attempt(source, 0))
    expect(line.filter(({ turn }) => turn !== undefined)).toHaveLength(256)
    expect(line.at(-1)?.waitSeconds).toBe(1)
    const later = held(limits, 60_000)
    for (const each of both) each.end(right)
    held(limits, 60_001).end(wrong)
    later.end(wrong)
    expect(limits.attempt(source, 60_002).waitSeconds).toBeGreaterThan(0)
  })
})

it('a function that fails, a reload and the end of the guard leave nobody waiting', async () => {
  const answers: ((result: unknown) => void)[] = []
  const legacy = () => new Promise((resolve) => answers.push(resolve))
  const rig = await makeRig({
    card: rigCard({
      capabilities: {},
      securitySchemes: { legacy: { httpAuthSecurityScheme: { scheme: 'Digest' } } },
      securityRequirements: [{ schemes: { legacy: { list: [] } } }],
    }),
    policy: { schemes: { legacy: { custom: true } }, limits: { failedAuthentication: '1/min' } },
    guard: { schemes: { custom: { legacy: legacy as CustomScheme } } },
  })
  const ask = () => from(rig.guard, '192.0.2.1', ['authorization', 'Digest x'])
  const settled = () => new Promise((resolve) => setImmediate(resolve))
  const faulty = ask().catch(({ code }: { code: string }) => code)
  const next = ask()
  await settled()
  expect(answers).toHaveLength(1)
  answers[0]?.(undefined)
  expect(await faulty).toBe('ERR_CUSTOM_RESULT')
  await settled()
  expect(answers).toHaveLength(2)
  const [third, fourth] = [ask(), ask()]
  await rig.guard.reload()
  answers[1]?.(null)
  expect(await next).toBe('401 ERR_CUSTOM_REFUSED')
  await settled()
  // Limits start anew with a reload: one of those who waited is let in, the other waits for it.
  expect(answers).toHaveLength(3)
  await rig.close()
  answers[2]?.({ subject: 'alice' })
  expect((await Promise.all([third, fourth])).at(-1)).toBe('503 ERR_GUARD_CLOSED')
})

describe('limits.perOperation', () => {
  it('counts one operation of one principal; the id is echoed and the handler’s turn never comes', async () => {
    await withRig({ policy: { limits: { perOperation: { SendMessage: '2/min' } } } }, async (rig) => {
      const { guard } = rig
      for (let i = 0; i < 2; i += 1) expect(await from(guard, '192.0.2.1', keyed(GOOD), 'SendMessage')).toBe('allowed')
      expect(await from(guard, '192.0.2.2', keyed(GOOD), 'SendMessage')).toBe(LIMITED)
      expect(await from(guard, '192.0.2.1', keyed(GOOD), 'GetTask')).toBe('allowed')
      const alice = ['authorization', `Bearer ${await rig.token()}`]
      expect(await from(guard, '192.0.2.1', alice, 'SendMessage')).toBe('allowed')
      rig.now += 60
      expect(await from(guard, '192.0.2.1', keyed(GOOD), 'SendMessage')).toBe('allowed')
    })
  })

  it('what is refused anyway spends nothing', async () => {
    const access = [{ deny: { operations: ['SendMessage'], principals: { issuer: ISSUER } } }]
    const policy = { access, limits: { perOperation: { SendMessage: '1/min' } } }
    await withRig({ policy }, async (rig) => {
      const alice = ['authorization', `Bearer ${await rig.token()}`]
      for (let i = 0; i < 3; i += 1)
        expect(await from(rig.guard, '192.0.2.1', alice, 'SendMessage')).toBe('403 ERR_ACCESS_DENIED')
    })
  })

  it('429 is a whole JSON-RPC answer with Retry-After', async () => {
    await withRig({ policy: { limits: { perOperation: { GetTask: '1/hour' } } } }, async ({ guard }) => {
      await from(guard, '192.0.2.1', keyed(GOOD))
      const decision = await guard.check({
        method: 'POST',
        target: '/',
        rawHeaders: ['a2a-version', '1.0', ...keyed(GOOD)],
        body: { jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't' } },
      })
      if (decision.allowed) throw new Error('allowed')
      expect(decision.denial.headers).toMatchObject({ 'retry-after': '3600' })
      expect(JSON.parse(decision.denial.body)).toMatchObject({ id: 7, error: { code: -32052 } })
    })
  })
})

describe('anonymous callers', () => {
  const open = rigCard({ securityRequirements: [{ schemes: { key: { list: [] } } }, { schemes: {} }] })

  it('are counted by address, by perPrincipal and by perOperation', async () => {
    const limits = { perPrincipal: '3/min', perOperation: { SendMessage: '1/min' } }
    await withRig({ card: open, policy: { anonymous: true, limits } }, async ({ guard }) => {
      expect(await from(guard, network(1), [], 'SendMessage')).toBe('allowed')
      expect(await from(guard, network(1), [], 'SendMessage')).toBe(LIMITED)
      expect(await from(guard, network(1), [])).toBe('allowed')
      expect(await from(guard, network(1), [])).toBe(LIMITED)
      expect(await from(guard, network(2), [])).toBe('allowed')
      expect(await from(guard, network(1), keyed(GOOD))).toBe('allowed')
    })
  })

  it('who get in nowhere spend nothing, so that the challenge stays reachable', async () => {
    await withRig({ policy: { limits: { perPrincipal: '1/min' } } }, async ({ guard }) => {
      for (let i = 0; i < 5; i += 1) expect(await from(guard, network(1), [])).toBe('401 ERR_CREDENTIAL_MISSING')
    })
  })
})

it('P48 tokens with unknown kids, hundreds a second: one fetch, and good tokens go on being accepted', async () => {
  const { publicKey } = await generateKeyPair('ES256')
  let fetched = 0
  let jwks = ''
  const server = createServer((_, response) => {
    fetched += 1
    response.setHeader('content-type', 'application/json').end(jwks)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  jwks = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'other', alg: 'ES256' }] })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`
  try {
    const policy = {
      egress: { requireHttps: false, ports: [Number(new URL(url).port)], allowAddresses: ['127.0.0.1'] },
    }
    await withRig({ login: { jwks: url }, policy }, async (rig) => {
      const { readFileSync } = await import('node:fs')
      jwks = readFileSync(join(rig.folder, 'jwks.json'), 'utf8')
      rig.now += 31
      const good = ['authorization', `Bearer ${await rig.token()}`]
      expect(await from(rig.guard, '192.0.2.1', good)).toBe('allowed')
      rig.now += 31
      fetched = 0
      const bad = await Promise.all(Array.from({ length: 300 }, (_, n) => rig.token({}, { kid: `random-${n}` })))
      const answers = await Promise.all(
        bad.flatMap((token) => [
          from(rig.guard, '192.0.2.9', ['authorization', `Bearer ${token}`]),
          from(rig.guard, '192.0.2.1', good),
        ]),
      )
      expect(new Set(answers.filter((_, index) => index % 2 === 0))).toEqual(new Set(['401 ERR_TOKEN_KEY_UNKNOWN']))
      expect(new Set(answers.filter((_, index) => index % 2 === 1))).toEqual(new Set(['allowed']))
      expect(fetched).toBe(1)
    })
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
})
