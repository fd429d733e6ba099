/** Which guard allowed which request, for the adapters further down the chain. */
import type { IncomingMessage } from 'node:http'
import type { Guard } from '../guard.ts'
import type { AllowedDecision } from '../types.ts'

const decisions = new WeakMap<IncomingMessage, { readonly guard: Guard; readonly decision: AllowedDecision }>()

export function rememberDecision(request: IncomingMessage, guard: Guard, decision: AllowedDecision): void {
  decisions.set(request, { guard, decision })
}

/** The decision of `guard` on this request; `undefined` if it made none, whatever another guard said. */
export function decisionOf(guard: Guard, request: IncomingMessage): AllowedDecision | undefined {
  const found = decisions.get(request)
  return found?.guard === guard ? found.decision : undefined
}
