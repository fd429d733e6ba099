/** The caller, as the SDK's `User`. */
import type { User } from '@a2a-js/sdk/server'
import type { Guard } from '../guard.ts'
import type { Principal, SkillGrant } from '../types.ts'

/** The caller as executors see it (`requestContext.context.user`). */
export class GuardedUser implements User {
  /** `undefined` for an anonymous caller. */
  readonly principal: Principal | undefined
  /** The skills these credentials may run. */
  readonly skills: SkillGrant
  /** Who let the caller in. */
  readonly guard: Guard | undefined
  /** Whose task is worked on, where that is not the caller's own: shared by the policy. */
  readonly owner: string | undefined

  constructor(principal: Principal | undefined, skills: SkillGrant, guard?: Guard, owner?: string) {
    this.principal = principal
    this.skills = skills
    this.guard = guard
    this.owner = owner
  }

  get isAuthenticated(): boolean {
    return this.principal !== undefined
  }

  /**
   * The key that the SDK's stores keep things under: `principal.id`, or the owner's where the task is shared. Empty for
   * an anonymous caller. Who calls is `principal`.
   */
  get userName(): string {
    return this.owner ?? this.principal?.id ?? ''
  }
}

/** Skills that were authorised while a request ran, by the grant that came with it, for its task to remember. */
const running = new WeakMap<SkillGrant, Set<string>>()

export function rememberSkill({ skills: grant }: GuardedUser, skill: string): void {
  const skills = running.get(grant)
  if (skills === undefined) running.set(grant, new Set([skill]))
  else skills.add(skill)
}

/** Skills this request named or ran. */
export function skillsOf({ skills: grant }: GuardedUser): string[] {
  const { declared } = grant
  return [...new Set([...(declared === undefined ? [] : [declared]), ...(running.get(grant) ?? [])])]
}
