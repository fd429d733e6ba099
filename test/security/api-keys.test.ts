/** API keys through the whole guard: in every place, in use, revoked without a restart. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { generateApiKey } from '../../src/internal/api-key-format.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import { makeRig, NOW, type Rig, type RigOptions, rigCard } from '../support/rig.ts'

const KEY = generateApiKey('partner-1')
const SECOND = generateApiKey('partner-2')
const entry = (key: string, change: Record<string, unknown> = {}) => ({
  id: key.split('_')[1],
  sha256: sha256Hex(key),
  owner: 'partner',
  ...change,
})

const rigs: Rig[] = []
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close()
})

async function rigWith(entries: readonly object[], options: RigOptions = {}) {
  const rig = await makeRig(options)
  rigs.push(rig)
  writeFileSync(join(rig.folder, 'keys.json'), JSON.stringify(entries))
  await rig.guard.reload()
  return rig
}

function ask(rig: Rig, headers: readonly string[], query = '') {
  return rig.guard.check({
    method: 'GET',
    target: `/tasks/t${query}`,
    rawHeaders: ['A2A-Version', '1.0', ...headers],
    binding: 'HTTP+JSON',
  })
}

describe('API keys', () => {
  it('several of one owner are one principal, before, during and after rotation', async () => {
    const rig = await rigWith([entry(KEY), entry(SECOND, { notBefore: NOW + 10 })])
    const one = await ask(rig, ['X-API-Key', KEY])
    expect(one).toMatchObject({ allowed: true, principal: { id: 'apiKey:key:partner' } })
    expect(await ask(rig, ['X-API-Key', SECOND])).toMatchObject({ code: 'ERR_API_KEY_NOT_YET_VALID' })
    rig.now += 10
    expect(await ask(rig, ['X-API-Key', SECOND])).toMatchObject({ principal: { id: 'apiKey:key:partner' } })
  })

  it('one is revoked without a restart, and what is wrong with the new file leaves the old one in force', async () => {
    const rig = await rigWith([entry(KEY), entry(SECOND)])
    expect(await ask(rig, ['X-API-Key', KEY])).toMatchObject({ allowed: true })
    const file = join(rig.folder, 'keys.json')
    writeFileSync(file, JSON.stringify([entry(KEY, { revoked: 'yes' }), entry(SECOND)]))
    await expect(rig.guard.reload()).rejects.toMatchObject({ code: 'ERR_POLICY_INVALID' })
    expect(await ask(rig, ['X-API-Key', KEY])).toMatchObject({ allowed: true })
    writeFileSync(file, JSON.stringify([entry(KEY, { revoked: true }), entry(SECOND)]))
    await rig.guard.reload()
    expect(await ask(rig, ['X-API-Key', KEY])).toMatchObject({
      allowed: false,
      code: 'ERR_CREDENTIAL_REVOKED',
      denial: { status: 401 },
    })
    expect(rig.events.at(-1)?.failures).toEqual([
      { scheme: 'key', code: 'ERR_CREDENTIAL_REVOKED', detail: 'key partner-1' },
    ])
    expect(await ask(rig, ['X-API-Key', SECOND])).toMatchObject({ allowed: true })
  })

  it('a use is reported once in an hour for each key, with its id alone', async () => {
    const rig = await rigWith([entry(KEY), entry(SECOND)])
    const used = async (key: string) => {
      await ask(rig, ['X-API-Key', key])
      return rig.events.at(-1)?.keysUsed
    }
    expect(await used(KEY)).toEqual([{ scheme: 'key', keyId: 'partner-1' }])
    expect(await used(KEY)).toBeUndefined()
    expect(await used(SECOND)).toEqual([{ scheme: 'key', keyId: 'partner-2' }])
    expect(await used(generateApiKey('partner-1'))).toBeUndefined()
    rig.now += 3600
    expect(await used(KEY)).toEqual([{ scheme: 'key', keyId: 'partner-1' }])
    expect(JSON.stringify(rig.events)).not.toContain(KEY.split('_')[2])
  })

  it('A104 in a query or a cookie: works, warns at start with a code, and is in no event and no answer', async () => {
    for (const location of ['query', 'cookie'] as const) {
      const said: unknown[] = []
      const say = (fields: object) => said.push(fields)
      const rig = await rigWith([entry(KEY)], {
        card: rigCard({
          securitySchemes: { key: { apiKeySecurityScheme: { location, name: 'sid' } } },
          securityRequirements: [{ schemes: { key: { list: [] } } }],
        }),
        guard: { logger: { debug: say, info: say, warn: say, error: say } },
      })
      expect(rig.guard.health().warnings).toContainEqual(expect.stringContaining('ERR_POLICY_WEAK "key" takes keys in'))
      expect(said).toContainEqual({ code: 'ERR_POLICY_WEAK' })
      const sent = (value: string) =>
        location === 'query' ? ask(rig, [], `?sid=${value}`) : ask(rig, ['Cookie', `sid=${value}`])
      expect(await sent(KEY)).toMatchObject({ allowed: true })
      const wrong = generateApiKey('partner-1')
      for (const value of [wrong, `${wrong}&sid=${wrong}`, `${wrong};sid=${wrong}`]) {
        const denied = await sent(value)
        expect(denied.allowed).toBe(false)
        said.push(denied)
      }
      const text = JSON.stringify([said, rig.events])
      for (const secret of [KEY, wrong]) expect(text).not.toContain(secret.split('_')[2])
    }
  })

  it('A33 the key in the header and the same name in the query is a 400', async () => {
    const rig = await rigWith([entry(KEY)])
    expect(await ask(rig, ['X-API-Key', KEY], `?X-API-Key=${KEY}`)).toMatchObject({
      code: 'ERR_CREDENTIAL_MALFORMED',
      denial: { status: 400 },
    })
  })
})
