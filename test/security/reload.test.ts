/** Reloads while requests run: none sees half a policy, none is lost, none is wrongly allowed. */
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { sha256Hex } from '../../src/internal/sha256.ts'
import { API_KEY, makeRig } from '../support/rig.ts'

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
