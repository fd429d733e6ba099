/** What follows an allowed request runs for its caller. */
import { type Caller, withCaller } from '../delegation/caller.ts'
import { credentialsIn } from '../delegation/credentials.ts'
import type { Guard } from '../guard.ts'
import type { AllowedDecision } from '../types.ts'
import { credentialPlaces } from './header-hygiene.ts'

/** Before anything is stripped: `head` is the request as it arrived. */
export function callerOf(
  guard: Guard,
  { principal, operation: { name, taskId }, skills: { declared } }: AllowedDecision,
  head: { readonly rawHeaders: readonly string[]; readonly target: string },
): Caller {
  return {
    ...(principal === undefined ? {} : { principal }),
    operation: name,
    ...(taskId === undefined ? {} : { taskId }),
    ...(declared === undefined ? {} : { skill: declared }),
    ...(guard.publicUrl === undefined ? {} : { audience: guard.publicUrl }),
    credentials: credentialsIn(head, credentialPlaces(guard), principal),
  }
}

export { withCaller }
