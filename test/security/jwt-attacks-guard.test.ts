/** The same tokens through the real guard: loaded policy, whole request, and a handler that must not run. */
import { afterAll } from 'vitest'
import { createGuard, type Guard } from '../../src/guard.ts'
import { attackFolder, attackPolicy } from '../support/jwt-attack-policy.ts'
import { describeJwtAttacks, type JwtCaseConfig } from '../support/jwt-attacks.ts'

const folder = attackFolder()
const guards = new Map<string, Promise<Guard>>()
let fetches = 0

function guardFor(config: JwtCaseConfig): Promise<Guard> {
  const key = JSON.stringify(config)
  const made =
    guards.get(key) ??
    createGuard({
      policy: attackPolicy(config),
      baseDir: folder.path,
      clock: () => config.now * 1000,
      fetch: async () => {
        fetches += 1
        throw new Error('no token may make the guard fetch')
      },
    })
  guards.set(key, made)
  return made
}
afterAll(async () => {
  for (const guard of guards.values()) await (await guard).close()
  folder.remove()
})

describeJwtAttacks('the guard', async ({ token, config }) => {
  const guard = await guardFor(config)
  const before = fetches
  const decision = await guard.check({
    method: 'GET',
    target: '/tasks/t-1',
    rawHeaders: ['Host', 'agent.example', 'A2A-Version', '1.0', 'Authorization', `Bearer ${token}`],
  })
  if (!decision.allowed && ![400, 401, 403].includes(decision.denial.status))
    throw new Error(`status ${decision.denial.status}`)
  return { verdict: decision.allowed ? 'valid' : 'invalid', fetches: fetches - before }
})
