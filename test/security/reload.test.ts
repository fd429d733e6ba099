/** Reloads while requests run: none sees half a policy, none is lost, none is wrongly allowed. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { exportJWK, generateKeyPair } from 'jose'
import { expect, it, vi } from 'vitest'
import { createGuard } from '../../src/guard.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import { API_KEY, AUDIENCE, ISSUER, makeRig, NOW, rigCard } from '../support/rig.ts'

/** Key sets behind a URL whose fetch the test lets through one by one. */
async function heldRig() {
  const held: (() => void)[] = []
  let fetching = false
  const { publicKey } = await generateKeyPair('ES256')
  const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256', use: 'sig' }] }
  const warnings: string[] = []
  const silent = () => undefined
  const rig = await makeRig({
    login: { jwks: 'https://issuer.example/jwks.json' },
    policy: { mode: 'report' },
    guard: {
      fetch: async () => {
        if (fetching) await new Promise<void>((resolve) => held.push(resolve))
        return new Response(JSON.stringify(jwks))
      },
      logger: { debug: silent, info: silent, error: silent, warn: (_, text) => warnings.push(text) },
    },
  })
  fetching = true
  const settled = () => vi.waitUntil(() => held.length > 0, { interval: 1 })
  return { ...rig, held, settled, warnings, health: () => rig.guard.health() }
}

it('reloads follow one another, and each asks for what is there when its turn comes', async () => {
  const { guard, held, settled, close } = await heldRig()
  const done: string[] = []
  const first = guard.reload().then(() => done.push('first'))
  await settled()
  // Those who come while one is running share the next, which starts after they asked.
  const later = Array.from({ length: 50 }, (_, index) => guard.reload().then(() => done.push(`later ${index}`)))
  await new Promise((resolve) => setImmediate(resolve))
  expect(held.length).toBe(1)
  held.shift()?.()
  await first
  await settled()
  expect(held.length).toBe(1)
  expect(done).toEqual(['first'])
  held.shift()?.()
  await Promise.all(later)
  expect(done.length).toBe(51)
  expect(held.length).toBe(0)
  await close()
})

it.each<[string, object, object]>([
  ['the policy', { revoked: [{ key: { issuer: 'key', id: 'partner-1' } }] }, {}],
  ['the key file', {}, { revoked: true }],
  ['the key file, which no longer has the key,', {}, { id: 'partner-2' }],
])('what %s revokes reaches a request whose body is still on its way', async (_, revoked, change) => {
  const rig = await makeRig()
  const policy = join(rig.folder, 'policy.json')
  const write = (section: object, entry: object) => {
    const schemes = { key: { keys: 'file:./keys.json' }, login: { issuer: ISSUER, algorithms: ['ES256'], jwks: 'file:./jwks.json' } } // biome-ignore format: short
    const [card, key] = [rigCard(), { id: 'partner-1', sha256: sha256Hex(API_KEY), owner: 'partner', scopes: [] }]
    writeFileSync(policy, JSON.stringify({ version: 1, card, audience: AUDIENCE, schemes, ...section }))
    writeFileSync(join(rig.folder, 'keys.json'), JSON.stringify([{ ...key, ...entry }]))
  }
  write({}, {})
  const guard = await createGuard({ policy, clock: () => NOW * 1000 })
  const rawHeaders = ['a2a-version', '1.0', 'x-api-key', API_KEY]
  const begun = await guard.authenticate({ method: 'POST', target: '/a2a', rawHeaders })
  expect(begun.denied).toBeUndefined()
  write(revoked, change)
  await guard.reload()
  const body = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } }
  expect(await guard.authorize(begun, body)).toMatchObject({ allowed: false, code: 'ERR_CREDENTIAL_REVOKED' })
  await guard.close()
  await rig.close()
})

it('a reload that fails does not stop the next one', async () => {
  const rig = await makeRig()
  const good = readFileSync(join(rig.folder, 'keys.json'))
  writeFileSync(join(rig.folder, 'keys.json'), '[{')
  const failed = rig.guard.reload()
  await expect(failed).rejects.toMatchObject({ code: 'ERR_POLICY_INVALID' })
  writeFileSync(join(rig.folder, 'keys.json'), good)
  await rig.guard.reload()
  await rig.close()
})

it('a guard closed while it reloads stays closed, and keeps nothing open', async () => {
  const { guard, held, settled, close } = await heldRig()
  const before = guard.health().schemes
  const reload = guard.reload()
  await settled()
  const closing = guard.close()
  held.shift()?.()
  await expect(reload).rejects.toMatchObject({ code: 'ERR_GUARD_CLOSED' })
  await closing
  await expect(guard.reload()).rejects.toMatchObject({ code: 'ERR_GUARD_CLOSED' })
  expect(held.length).toBe(0)
  expect(guard.health()).toMatchObject({ ok: false, schemes: before })
  await close()
})

it('warnings of the policy are logged on a reload as at the start', async () => {
  const { guard, held, settled, warnings, close } = await heldRig()
  const atStart = [...warnings]
  expect(atStart.join()).toContain('mode: report')
  const reload = guard.reload()
  await settled()
  held.shift()?.()
  await reload
  expect(warnings).toEqual([...atStart, ...atStart])
  await close()
})

it('200 reloads under load', async () => {
  const rig = await makeRig()
  const { guard, folder } = rig
  const always = await rig.token()
  const entry = (id: string, key: string) => ({ id, sha256: sha256Hex(key), owner: id })
  /** Key A with odd versions, key B with even ones; written beside and moved, as an editor or a secret mount does. */
  const write = (version: number) => {
    const keys = [
      entry('partner', API_KEY),
      version % 2 === 1 ? entry('a', 'the-key-of-odd-versions-0001') : entry('b', 'the-key-of-even-versions-0002'),
    ]
    writeFileSync(join(folder, 'next.json'), JSON.stringify(keys))
    renameSync(join(folder, 'next.json'), join(folder, 'keys.json'))
  }
  let running = true
  let asked = 0
  const wrong: string[] = []
  const ask = async (headers: readonly string[], expected: readonly string[]) => {
    const decision = await guard.check({
      method: 'GET',
      target: '/tasks',
      rawHeaders: ['a2a-version', '1.0', ...headers],
    })
    const told = decision.allowed
      ? `allowed ${decision.principal?.subject}`
      : `${decision.denial.status} ${decision.code}`
    asked += 1
    if (!expected.includes(told)) wrong.push(told)
  }
  const load = async () => {
    while (running) {
      await ask(['authorization', `Bearer ${always}`], ['allowed alice'])
      await ask(['x-api-key', API_KEY], ['allowed partner'])
      await ask(['x-api-key', 'the-key-of-odd-versions-0001'], ['allowed a', '401 ERR_API_KEY_UNKNOWN'])
      await ask(['x-api-key', 'a-key-of-no-version-00000003'], ['401 ERR_API_KEY_UNKNOWN'])
      await ask([], ['401 ERR_CREDENTIAL_MISSING'])
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const loads = [load(), load(), load()]
  for (let version = 1; version <= 200; version += 1) {
    write(version)
    await guard.reload()
    // What was loaded is in force as soon as the reload has ended.
    await ask(
      ['x-api-key', 'the-key-of-odd-versions-0001'],
      [version % 2 === 1 ? 'allowed a' : '401 ERR_API_KEY_UNKNOWN'],
    )
  }
  running = false
  await Promise.all(loads)
  expect(wrong).toEqual([])
  expect(asked).toBeGreaterThan(1000)
  await rig.close()
})
