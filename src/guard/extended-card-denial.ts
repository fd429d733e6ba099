/** Who is refused the extended card, and in which order (A2A §3.3.4, §13.3). */
import type { DenialCause } from './denial.ts'
import type { Loaded } from './load.ts'

/** No better credential could help: this is what the public card says already. */
export function causeOfCapability({ policy }: Pick<Loaded, 'policy'>, cause: DenialCause | undefined) {
  const isAboutTheCaller =
    cause === undefined || cause.reason === 'UNAUTHENTICATED' || cause.reason === 'PERMISSION_DENIED'
  return !policy.card.capabilities.extendedAgentCard && isAboutTheCaller ? UNSUPPORTED : cause
}

const UNSUPPORTED: DenialCause = { reason: 'UNSUPPORTED_OPERATION', code: 'ERR_EXTENDED_CARD_UNSUPPORTED' }

/**
 * A2A §3.3.4, in this order: no such capability, then who asks (`cause`), then no card. Last, a caller who may use no
 * skill of the agent is shown none.
 */
export function causeOfExtendedCard(
  { policy, extendedCard }: Loaded,
  cause: DenialCause | undefined,
  skills: readonly string[],
): DenialCause | undefined {
  const first = causeOfCapability({ policy }, cause)
  if (first !== undefined) return first
  if (extendedCard.views === undefined) {
    return { reason: 'EXTENDED_AGENT_CARD_NOT_CONFIGURED', code: 'ERR_EXTENDED_CARD_NOT_CONFIGURED' }
  }
  if (skills.length === 0 && policy.card.skills.size > 0) {
    return { reason: 'PERMISSION_DENIED', code: 'ERR_SKILL_FORBIDDEN' }
  }
  return undefined
}
