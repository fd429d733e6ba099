/** The guard of a policy file, as commands have it: without the functions that the operator's program gives it. */
import { createGuard, type Guard } from '../guard.ts'
import { loadPolicy } from '../policy/index.ts'
import type { Io } from './io.ts'
import { clockAt } from './time.ts'

/** A credential that only such a function can judge is `unavailable`, and stderr says which schemes that are. */
export async function guardOf(policy: string, at: string | undefined, io: Io): Promise<Guard> {
  const clock = clockAt(at)
  const { schemes } = await loadPolicy({ policy, clock })
  const names = [...schemes.values()].flatMap(({ type, name }) => (type === 'custom' ? name : []))
  if (names.length === 0) return createGuard({ policy, clock })
  io.stderr.write(`hint: ${names.join(', ')}: checked by a function of your program, so not here\n`)
  const missing = () => Promise.reject(new Error('no function here'))
  return createGuard({ policy, clock, schemes: { custom: Object.fromEntries(names.map((name) => [name, missing])) } })
}
