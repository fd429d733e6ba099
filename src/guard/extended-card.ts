/** The extended card of one version of the policy (A2A §3.1.11): its views, and the headers it is served with. */
import { createExtendedCardViews, type ExtendedCardOptions, type ExtendedCardViews } from '../card/extended.ts'
import type { CompiledPolicy } from '../policy/compiled.ts'

export interface ExtendedCardGate {
  /** Absent: none is configured. */
  readonly views?: ExtendedCardViews
  /** Of the response: it is for one caller, and for nobody's cache. */
  readonly headers: Readonly<Record<string, string>>
}

/** Throws `TypeError` for a function that makes a card which the public card does not announce. */
export function extendedCardGate(
  policy: CompiledPolicy,
  options: ExtendedCardOptions | undefined,
  locations: readonly string[],
): ExtendedCardGate {
  if (options?.card !== undefined && !policy.card.capabilities.extendedAgentCard) {
    throw new TypeError('"extendedCard" makes a card that the public card does not announce: set its capability')
  }
  const views = createExtendedCardViews(policy.extendedCardJson, options ?? {})
  const read = locations.flatMap((location) => {
    const [kind, name] = location.split(/:(.*)/s)
    return kind === 'header' ? [name as string] : kind === 'cookie' ? ['cookie'] : []
  })
  return Object.freeze({
    ...(views === undefined ? {} : { views }),
    headers: Object.freeze({
      'cache-control': 'private, no-store',
      vary: [...new Set(['authorization', ...read, 'a2a-version'])].join(', '),
    }),
  })
}
