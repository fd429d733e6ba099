/**
 * Every AND/OR shape of up to three schemes with every outcome of each, through the real guard, against a second way of
 * saying the same: 127 shapes x 216 outcomes.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { createGuard } from '../../src/guard.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import type { RevocationStore } from '../../src/store/stores.ts'
import { rigCard } from '../support/rig.ts'

const NAMES = ['a', 'b', 'c'] as const
const OUTCOMES = ['absent', 'good', 'no scope', 'bad', 'cannot be told', 'twice'] as const
type Outcome = (typeof OUTCOMES)[number]

const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-truth-'))
afterAll(() => rmSync(folder, { recursive: true }))
const keyOf = (name: string, outcome: Outcome) => `key-of-${name}-that-is-${outcome.replaceAll(' ', '-')}`
/** Knows of all keys but one of each scheme. */
const revocation: RevocationStore = {
  add: () => undefined,
  revokes(names) {
    if (names.some((name) => name.endsWith('-unsure'))) throw new Error('too old to tell')
    return false
  },
}
for (const name of NAMES) {
  writeFileSync(
    join(folder, `${name}.json`),
    JSON.stringify([
      { id: `${name}-1`, owner: name, sha256: sha256Hex(keyOf(name, 'good')), scopes: ['x'] },
      { id: `${name}-2`, owner: name, sha256: sha256Hex(keyOf(name, 'no scope')) },
      { id: `${name}-unsure`, owner: name, sha256: sha256Hex(keyOf(name, 'cannot be told')), scopes: ['x'] },
    ]),
  )
}

function headersFor(outcomes: readonly Outcome[]): string[] {
  return NAMES.flatMap((name, index) => {
    const outcome = outcomes[index] as Outcome
    if (outcome === 'absent') return []
    const line = [`x-${name}`, keyOf(name, outcome === 'twice' ? 'good' : outcome)]
    return outcome === 'twice' ? [...line, ...line] : line
  })
}

/** What has to happen, said in the order of docs/denials.md. */
function expected(shape: readonly (readonly number[])[], outcomes: readonly Outcome[]): number {
  if (outcomes.includes('twice')) return 400
  if (outcomes.includes('cannot be told')) return 503
  if (outcomes.includes('bad')) return 401
  const has = (index: number, ...wanted: Outcome[]) => wanted.includes(outcomes[index] as Outcome)
  if (shape.some((all) => all.every((index) => has(index, 'good')))) return 200
  return shape.some((all) => all.every((index) => has(index, 'good', 'no scope'))) ? 403 : 401
}

/** Alternatives are the seven non-empty sets of three schemes; a shape is a non-empty set of those. */
const alternatives = [1, 2, 3, 4, 5, 6, 7].map((bits) => [0, 1, 2].filter((index) => bits & (1 << index)))
const shapes = Array.from({ length: 127 }, (_, bits) =>
  alternatives.filter((_alternative, index) => (bits + 1) & (1 << index)),
)
const outcomeSets = OUTCOMES.flatMap((a) => OUTCOMES.flatMap((b) => OUTCOMES.map((c) => [a, b, c] as const)))
const text = (shape: readonly (readonly number[])[]) =>
  shape.map((all) => all.map((index) => NAMES[index]).join('&')).join(' | ')

describe('truth table', () => {
  it.each(shapes.map((shape) => [text(shape), shape] as const))('A33 P75 %s', async (_, shape) => {
    const card = rigCard({
      securitySchemes: Object.fromEntries(
        NAMES.map((name) => [name, { apiKeySecurityScheme: { location: 'header', name: `X-${name}` } }]),
      ),
      securityRequirements: shape.map((all) => ({
        schemes: Object.fromEntries(all.map((index) => [NAMES[index] as string, { list: ['x'] }])),
      })),
    })
    const guard = await createGuard({
      policy: {
        version: 1,
        card,
        audience: 'https://agent.example',
        schemes: Object.fromEntries(NAMES.map((name) => [name, { keys: `file:${name}.json` }])),
      },
      baseDir: folder,
      stores: { revocation },
    })
    const wrong: string[] = []
    for (const outcomes of outcomeSets) {
      const decision = await guard.check({
        method: 'GET',
        target: '/tasks',
        rawHeaders: ['a2a-version', '1.0', ...headersFor(outcomes)],
      })
      const status = decision.allowed ? 200 : decision.denial.status
      if (status !== expected(shape, outcomes))
        wrong.push(`${outcomes.join(', ')}: ${status}, not ${expected(shape, outcomes)}`)
    }
    expect(wrong).toEqual([])
    await guard.close()
  })
})
