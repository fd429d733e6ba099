/** A misspelt option must not leave something off unseen: every public entry refuses what it does not know. */

import { generateKeyPairSync } from 'node:crypto'
import Fastify from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cardSignatureGenerator, guardExecutor } from '../../src/adapters/a2a-sdk.ts'
import { agentCardHandler, expressGuard, jwksHandler } from '../../src/adapters/express.ts'
import { fastifyGuard } from '../../src/adapters/fastify.ts'
import { grpcGuard } from '../../src/adapters/grpc.ts'
import { webGuard } from '../../src/adapters/web.ts'
import {
  createCardClient,
  createServedCard,
  fetchCard,
  lintTrust,
  loadTrust,
  signCard,
  verifyCard,
} from '../../src/card/index.ts'
import { createEgress } from '../../src/egress/index.ts'
import { createGuard, type GuardOptions } from '../../src/guard.ts'
import { lintPolicy, loadPolicy } from '../../src/policy/index.ts'
import { createWebhookVerifier, signWebhook } from '../../src/webhook/index.ts'
import { makeRig, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
beforeAll(async () => {
  rig = await makeRig()
})
afterAll(() => rig.close())

const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const card = JSON.stringify(rigCard())
const trust = { version: 1, signers: [{ name: 's', origins: ['https://a.example'], jwks: 'https://a.example/jwks' }] }
/** As it comes from a caller without types. */
type Any = never

/** Each with one option misspelt, the others good. */
const CALLS: Readonly<Record<string, readonly [string, string, (wrong: object) => unknown]>> = {
  createGuard: ['onDecison', 'onDecision', (wrong) => createGuard({ policy: {}, ...wrong } as Any)],
  'createGuard stores': [
    'revocations',
    'revocation',
    (wrong) => createGuard({ policy: {}, stores: { ...wrong } } as Any),
  ],
  loadPolicy: ['basedir', 'baseDir', (wrong) => loadPolicy({ policy: {}, ...wrong } as Any)],
  lintPolicy: ['envs', 'env', (wrong) => lintPolicy({ policy: {}, ...wrong } as Any)],
  verifyCard: ['stict', 'strict', (wrong) => verifyCard(card, { jwks: { keys: [] } }, { ...wrong } as Any)],
  'verifyCard trust': ['orgin', 'origin', (wrong) => verifyCard(card, { trust, ...wrong } as Any)],
  createCardClient: ['pin', 'pins', (wrong) => createCardClient({ trust, ...wrong } as Any)],
  'createCardClient verify': [
    'onuncoverd',
    'onUncovered',
    (wrong) => createCardClient({ trust, verify: { ...wrong } } as Any),
  ],
  fetchCard: ['clok', 'clock', (wrong) => fetchCard('https://a.example', { trust, ...wrong } as Any)],
  loadTrust: ['feth', 'fetch', (wrong) => loadTrust({ trust, ...wrong } as Any)],
  lintTrust: ['base-dir', 'baseDir', (wrong) => lintTrust({ trust, ...wrong } as Any)],
  signCard: ['compact', 'compat', (wrong) => signCard(card, { key, ...wrong } as Any)],
  createServedCard: ['retired_keys', 'retiredKeys', (wrong) => createServedCard({ card, ...wrong } as Any)],
  'createServedCard keys': ['kit', 'kid', (wrong) => createServedCard({ card, keys: [{ key, ...wrong }] } as Any)],
  cardSignatureGenerator: ['algo', 'alg', (wrong) => cardSignatureGenerator({ key, ...wrong } as Any)],
  expressGuard: ['keepCredentials', 'keepCredential', (wrong) => expressGuard(rig.guard, { ...wrong } as Any)],
  agentCardHandler: ['cros', 'cors', (wrong) => agentCardHandler({ card: {}, jwks: {} } as Any, { ...wrong } as Any)],
  jwksHandler: ['CORS_', 'cors', (wrong) => jwksHandler({ card: {}, jwks: {} } as Any, { ...wrong } as Any)],
  fastifyGuard: ['mounts', 'mount', (wrong) => Fastify().register(fastifyGuard, { guard: rig.guard, ...wrong } as Any)],
  grpcGuard: ['on_fault', 'onFault', (wrong) => grpcGuard(rig.guard, { ...wrong } as Any)],
  webGuard: ['biding', 'binding', (wrong) => webGuard(rig.guard, { ...wrong } as Any)],
  guardExecutor: [
    'chose',
    'choose',
    (wrong) =>
      guardExecutor(rig.guard, { skills: { echo: async () => {} }, cancelTask: async () => {}, ...wrong } as Any),
  ],
  createEgress: ['denyHost', 'denyHosts', (wrong) => createEgress({ ...wrong } as Any)],
  createWebhookVerifier: ['secret', 'secrets', (wrong) => createWebhookVerifier({ ...wrong } as Any)],
  signWebhook: ['timestamp', 'timestampSeconds', (wrong) => signWebhook({ secret: 'x', ...wrong } as Any)],
}

async function faultOf(call: () => unknown): Promise<unknown> {
  try {
    await call()
  } catch (fault) {
    return fault
  }
  return undefined
}

describe('options', () => {
  it.each(Object.entries(CALLS))('%s refuses an option it does not know, and says which was meant', async (_, call) => {
    const [wrong, meant, run] = call
    const fault = await faultOf(() => run({ [wrong]: undefined }))
    expect(fault).toBeInstanceOf(TypeError)
    expect((fault as Error).message).toContain(`"${wrong}" is not an option of `)
    expect((fault as Error).message).toContain(`did you mean "${meant}"?`)
  })

  it('options that are no object', async () => {
    for (const call of [
      () => createGuard(undefined as Any),
      () => createGuard(null as Any),
      () => createGuard('policy.yaml' as Any),
      () => expressGuard(rig.guard, true as Any),
      () => signCard(card, 'key.pem' as Any),
    ]) {
      const fault = await faultOf(call)
      expect(fault).toBeInstanceOf(TypeError)
      expect((fault as Error).message).toMatch(/must be an object/)
    }
  })

  it.each([
    ['onDecision', 'console'],
    ['fetch', {}],
    ['logger', { info: () => undefined }],
    ['logger', console.log],
    ['clock', 0],
    ['stores', { replay: {} }],
    ['stores', []],
  ])('createGuard names "%s" when it cannot be meant', async (name, value) => {
    const options = { policy: {}, [name]: value } as unknown as GuardOptions
    const fault = await faultOf(() => createGuard(options))
    expect(fault).toBeInstanceOf(TypeError)
    expect((fault as Error).message).toContain(`"${name}`)
  })

  it('an option that is there and undefined is the default', async () => {
    const undefinedAll = { clock: undefined, logger: undefined, onDecision: undefined, stores: { replay: undefined } }
    const { guard, close } = await makeRig({ guard: undefinedAll as unknown as Partial<GuardOptions> })
    expect(guard.health().ok).toBe(true)
    await close()
    expect(() => expressGuard(guard, undefined)).not.toThrow()
  })

  it("Fastify's own options have no effect on a plugin that belongs to its context: a prefix guards nothing", async () => {
    const fault = await faultOf(() => Fastify().register(fastifyGuard, { guard: rig.guard, prefix: '/a2a' }))
    expect((fault as Error).message).toContain('"prefix" is not an option of fastifyGuard')
  })
})
