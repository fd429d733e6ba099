/** `@a2a-js/sdk`: who the guard says the caller is, as the SDK's `User`. */
import type { UserBuilder } from '@a2a-js/sdk/server/express'
import { TrustError } from '../errors.ts'
import type { Guard } from '../guard.ts'
import { GuardedUser } from './a2a-sdk-user.ts'
import { decisionOf } from './decisions.ts'

/**
 * The SDK's `userBuilder` for handlers behind `expressGuard(guard)`. Rejects with `ERR_GUARD_NOT_MOUNTED` for a request
 * that this guard did not allow, so that a handler mounted without its guard answers nobody.
 */
export function userBuilder(guard: Guard): UserBuilder {
  return async (req) => {
    const decision = decisionOf(guard, req)
    if (decision === undefined) throw new TrustError('ERR_GUARD_NOT_MOUNTED')
    return new GuardedUser(decision.principal, decision.skills)
  }
}

export { cardSignatureGenerator } from './a2a-sdk-card.ts'
export {
  allowedSkills,
  authorizeSkill,
  type GuardExecutorOptions,
  guardExecutor,
  type SkillHandler,
} from './a2a-sdk-executor.ts'
export { GuardedUser } from './a2a-sdk-user.ts'
