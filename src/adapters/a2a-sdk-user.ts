/** The caller, as the SDK's `User`. */
import type { User } from '@a2a-js/sdk/server'
import type { Principal, SkillGrant } from '../types.ts'

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
