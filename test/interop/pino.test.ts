import { Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { parseStrictJson } from '../../src/internal/json.ts'
import { API_KEY, makeRig } from '../support/rig.ts'

it('pino is a logger as it is: one line for each decision, without a credential', async () => {
  const lines: string[] = []
  const sink = new Writable({
    write(chunk: Buffer, _, done) {
      lines.push(chunk.toString())
      done()
    },
  })
  const rig = await makeRig({ extendedCard: false, guard: { logger: pino(sink) } })
  const ask = (key: string) =>
    rig.guard.check({
      method: 'GET',
      target: '/tasks/t?secret=1',
      rawHeaders: ['a2a-version', '1.0', 'x-api-key', key],
    })
  await ask(API_KEY)
  await ask('a-wrong-key-00000000000000')
  await rig.close()
  // Strict: what is written can be read in one way only. The first line is the warning about the rig's extended card.
  const [warning, ...entries] = lines.map((line) => parseStrictJson(line))
  expect(warning).toMatchObject({ level: 40, code: 'ERR_POLICY_EXTENDED_CARD' })
  expect(entries).toMatchObject([
    { level: 30, msg: 'a2a request allowed', operation: 'GetTask', principal: 'apiKey:key:partner', schemes: ['key'] },
    { level: 40, msg: 'a2a request denied', code: 'ERR_API_KEY_UNKNOWN', status: 401 },
  ])
  for (const secret of [API_KEY, 'a-wrong-key', 'secret=1']) expect(lines.join('')).not.toContain(secret)
})
