/** `@a2a-js/sdk`: who the guard says the caller is, as the SDK's `User`. */
import { TrustError } from '../errors.ts'
import type { Guard } from '../guard.ts'
import { GuardedUser } from './a2a-sdk-user.ts'
import { decisionOf } from './decisions.ts'

/**
 * The SDK's `userBuilder`, for handlers behind `expressGuard(guard)` (both versions, JSON-RPC and HTTP+JSON) and for
 * its gRPC services behind `grpcGuard(guard)`. Rejects with `ERR_GUARD_NOT_MOUNTED` for a request that this guard did
 * not allow, so that a handler mounted without its guard answers nobody.
 */
export function userBuilder(guard: Guard): (request: object) => Promise<GuardedUser> {
  return async (request) => {
    // The handler of a gRPC call gets a call object of its own, around the metadata that passed the guard.
    const { metadata } = request as { readonly metadata?: unknown }
    const call = typeof metadata === 'object' && metadata !== null ? decisionOf(guard, metadata) : undefined
    const decision = decisionOf(guard, request) ?? call
    if (decision === undefined) throw new TrustError('ERR_GUARD_NOT_MOUNTED')
    return new GuardedUser(decision.principal, decision.skills, guard)
  }
}

export { type AuthorizationRequest, approvalExecutor, requestAuthorization } from './a2a-sdk-approvals.ts'
export { cardSignatureGenerator } from './a2a-sdk-card.ts'
export { authenticationHandler } from './a2a-sdk-credentials.ts'
export {
  allowedSkills,
  authorizeSkill,
  type GuardExecutorOptions,
  guardExecutor,
  type SkillHandler,
} from './a2a-sdk-executor.ts'
export { type ProtectOptions, protectRequestHandler } from './a2a-sdk-handler.ts'
export { GuardedUser } from './a2a-sdk-user.ts'
