/** Which guard allowed which request, for the adapters further down the chain. */
import type { Guard } from '../guard.ts'
import type { AllowedDecision } from '../types.ts'

const decisions = new WeakMap<object, { readonly guard: Guard; readonly decision: AllowedDecision }>()

/** `request` is what the handler will have in hand: the HTTP request, or the metadata object of a gRPC call. */
export function rememberDecision(request: object, guard: Guard, decision: AllowedDecision): void {
  decisions.set(request, { guard, decision })
}

/** The decision of `guard` on this request; `undefined` if it made none, whatever another guard said. */
export function decisionOf(guard: Guard, request: object): AllowedDecision | undefined {
  const found = decisions.get(request)
  return found?.guard === guard ? found.decision : undefined
}
