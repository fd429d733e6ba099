/** A call on the SDK's request handler, as ownership sees it: who calls, for which tenant, and what the handler is given. */
import { TaskNotFoundError } from '@a2a-js/sdk/errors'
import type { ServerCallContext } from '@a2a-js/sdk/server'
import { TrustError } from '../errors.ts'
import type { Guard } from '../guard.ts'
import type { Caller } from '../ownership/rules.ts'
import { tenantOf } from '../ownership/rules.ts'
import { GuardedUser } from './a2a-sdk-user.ts'

export interface Call {
  readonly caller: Caller
  readonly user: GuardedUser
  /** The context for the handler. Its tenant is that of the credential where the request names none. */
  readonly context: ServerCallContext
}

/**
 * Throws `ERR_GUARD_NOT_MOUNTED` for a caller whom this guard has not let in, and the answer for what is not there where
 * request and credential name different tenants.
 */
export function callOf(guard: Guard, context: ServerCallContext, ...named: (string | undefined)[]): Call {
  const { user } = context
  if (!(user instanceof GuardedUser) || user.guard !== guard) throw new TrustError('ERR_GUARD_NOT_MOUNTED')
  const { principal, skills } = user
  const tenants = new Set([context.tenant, ...named, principal?.tenant].filter(Boolean))
  if (tenants.size > 1) throw new TaskNotFoundError()
  const [tenant] = tenants
  const caller: Caller = {
    ...(principal === undefined ? {} : { principal }),
    ...(tenant === undefined ? {} : { tenant }),
    skills: skills.allowed,
  }
  return { caller, user, context: contextFor(context, user, tenantOf(caller)) }
}

/** The call as one of the task's owner, under whose name the SDK's stores keep it. Who calls stays in `principal`. */
export function onBehalfOf(call: Call, owner: string): ServerCallContext {
  const { principal, skills, guard } = call.user
  return contextFor(call.context, new GuardedUser(principal, skills, guard, owner), tenantOf(call.caller))
}

/** The same context, so that what the handler writes to it arrives, with another user and tenant in it. */
function contextFor(context: ServerCallContext, user: GuardedUser, tenant: string | undefined): ServerCallContext {
  if (context.user === user && (tenant === undefined || context.tenant === tenant)) return context
  return new Proxy(context, {
    get(target, name) {
      if (name === 'user') return user
      if (name === 'tenant') return tenant
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  })
}
