/** What every store promises, as checks that any test runner can run. */
import { deepEqual, equal } from 'node:assert/strict'
import type { ReplayStore } from '../store/stores.ts'

/** Stores that have never been used, as two processes see them. */
export interface StoresUnderTest {
  readonly replay?: ReplayStore
  /** The same data, as another process has it. Absent: a store of one process. */
  readonly other?: Omit<StoresUnderTest, 'other' | 'elapse' | 'close'>
  /** Moves the time of the stores. */
  elapse(ms: number): void | Promise<void>
  close?(): void | Promise<void>
}

export interface ContractCase {
  readonly name: string
  /** Rejects, with what is wrong, when the promise is not kept. */
  run(): Promise<void>
}

type Check = (stores: StoresUnderTest) => Promise<void>

/**
 * The cases for the stores that `makeStores` makes, each on new ones: `for (const { name, run } of storeContract(make)) it(name, run)`.
 * What `makeStores` leaves out is not checked.
 */
export function storeContract(makeStores: () => StoresUnderTest | Promise<StoresUnderTest>): readonly ContractCase[] {
  return CASES.map(([name, check]) => ({
    name,
    async run() {
      const stores = await makeStores()
      try {
        await check(stores)
      } finally {
        await stores.close?.()
      }
    },
  }))
}

const replayCase = (name: string, check: (replay: ReplayStore, stores: StoresUnderTest) => Promise<void>) =>
  [
    `replay: ${name}`,
    async (stores) => {
      if (stores.replay !== undefined) await check(stores.replay, stores)
    },
  ] satisfies [string, Check]

const CASES: readonly [string, Check][] = [
  replayCase('answers true once, until its time is up', async (replay, { elapse }) => {
    equal(await replay.claim('a', 10), true)
    equal(await replay.claim('a', 10), false)
    equal(await replay.claim('b', 10), true)
    await elapse(9_000)
    equal(await replay.claim('a', 10), false)
    await elapse(1_000)
    equal(await replay.claim('a', 10), true)
    equal(await replay.claim('a', 10), false)
  }),
  replayCase('of fifty claims at once one is answered true', async (replay, { other }) => {
    const askers = [replay, other?.replay ?? replay]
    const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => askers[index % 2]!.claim('once', 60)))
    deepEqual(
      answers.filter((answer) => answer !== false),
      [true],
    )
  }),
  replayCase('another process knows what was used', async (replay, { other }) => {
    equal(await replay.claim('a', 60), true)
    if (other?.replay !== undefined) equal(await other.replay.claim('a', 60), false)
  }),
  replayCase('keys that differ in anything are different', async (replay) => {
    const keys = [
      'a',
      'A',
      'a ',
      ' a',
      'a:b',
      'a:',
      ':b',
      '',
      '{a}',
      '{a}b',
      'é',
      'e\u0301',
      'a\0',
      '*',
      'x'.repeat(8192),
    ]
    for (const key of keys) equal(await replay.claim(key, 60), true, JSON.stringify(key).slice(0, 20))
    for (const key of keys) equal(await replay.claim(key, 60), false, JSON.stringify(key).slice(0, 20))
    equal(await replay.claim(`${'x'.repeat(8191)}y`, 60), true)
  }),
  replayCase('a fraction of a second is no less than that', async (replay) => {
    equal(await replay.claim('a', 0.5), true)
    equal(await replay.claim('a', 0.5), false)
  }),
]
