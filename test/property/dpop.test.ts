/** A proof with one character changed, dropped or added is no proof. */
import fc from 'fast-check'
import { beforeAll, expect, it } from 'vitest'
import type { Outcome } from '../../src/schemes/scheme.ts'
import { createSenderConstraint, readConfirmation } from '../../src/schemes/sender-constraint.ts'
import { credentials, REQUEST_URL, testContext } from '../support/credentials.ts'
import { createDpopKey, type DpopKey } from '../support/dpop.ts'

const NOW = 1_800_000_000
const TOKEN = 'an.access.token'
const granted = { kind: 'satisfied', part: {} } as Outcome
const context = { ...testContext(NOW * 1000), stores: { replay: { claim: () => true } } }
const constraint = createSenderConstraint('dpop', context)
let key: DpopKey
let proof: string

const judge = (lines: string[]) =>
  constraint.judge({ kind: 'token', as: 'DPoP', token: TOKEN }, { jkt: key.jkt }, credentials(lines), granted)

beforeAll(async () => {
  key = await createDpopKey({ htu: REQUEST_URL, now: () => NOW })
  proof = await key.proof(TOKEN)
  expect(await judge(['DPoP', proof])).toBe(granted)
})

it('a changed proof is never accepted', async () => {
  const position = fc.nat({ max: 2000 })
  const edit = fc.record({ position, remove: fc.nat({ max: 2 }), insert: fc.string({ maxLength: 2 }) })
  await fc.assert(
    fc.asyncProperty(edit, async ({ position, remove, insert }) => {
      const at = position % proof.length
      const changed = proof.slice(0, at) + insert + proof.slice(at + remove)
      if (changed === proof) return
      expect((await judge(['DPoP', changed])).kind).toMatch(/^(?:invalid|malformed)$/)
    }),
    { numRuns: 500 },
  )
})

it('no header value makes it throw, or let in', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string({ maxLength: 200, unit: 'binary' }), { maxLength: 3 }), async (values) => {
      const outcome = await judge(values.flatMap((value) => ['DPoP', value]))
      expect(outcome.kind).toMatch(/^(?:invalid|malformed)$/)
    }),
  )
})

it('no cnf but one or both thumbprints is a confirmation', () => {
  fc.assert(
    fc.property(fc.anything(), (cnf) => {
      const read = readConfirmation(cnf)
      if (cnf === undefined) expect(read).toBeUndefined()
      else expect(read).toMatchObject({ kind: 'invalid', code: 'ERR_TOKEN_BOUND' })
    }),
  )
})
