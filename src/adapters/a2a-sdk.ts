/** `@a2a-js/sdk`: who the guard says the caller is, as the SDK's `User`. */
import type { User } from '@a2a-js/sdk/server'
import type { UserBuilder } from '@a2a-js/sdk/server/express'
import { TrustError } from '../errors.ts'
import type { Guard } from '../guard.ts'
import type { Principal, SkillGrant } from '../types.ts'
import { decisionOf } from './decisions.ts'

/** The caller as executors see it (`requestContext.context.user`). */
export class GuardedUser implements User {
  /** `undefined` for an anonymous caller. */
  readonly principal: Principal | undefined
  /** The skills these credentials may run. */
  readonly skills: SkillGrant

  constructor(principal: Principal | undefined, skills: SkillGrant) {
    this.principal = principal
    this.skills = skills
  }

  get isAuthenticated(): boolean {
    return this.principal !== undefined
  }

  /** `principal.id`; empty for an anonymous caller. */
  get userName(): string {
    return this.principal?.id ?? ''
  }
}

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
