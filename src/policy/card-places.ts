/** Where the parts of a card model stand in the card's JSON, so that a mistake is shown in its own file. */
import type { CardModel } from '../protocol/card-model.ts'
import { pointerStep } from './positions.ts'

export function schemePlace(name: string): string {
  return `/securitySchemes${pointerStep(name)}`
}

/** The requirement list of the agent, or of the skill at `skillIndex`. */
export function requirementsPlace(card: CardModel, skillIndex?: number): string {
  const owner = skillIndex === undefined ? '' : `/skills${pointerStep(skillIndex)}`
  return `${owner}${card.protocol === '1.0' ? '/securityRequirements' : '/security'}`
}

/** One alternative of a requirement list, or the mention of a scheme in it. */
export function requirementPlace(card: CardModel, list: string, index: number, scheme?: string): string {
  const alternative = list + pointerStep(index)
  if (scheme === undefined) return alternative
  return `${alternative}${card.protocol === '1.0' ? '/schemes' : ''}${pointerStep(scheme)}`
}

/** The URL of an interface: v1.0 lists all, v0.3 has the preferred one at the top. */
export function interfacePlace(card: CardModel, json: Readonly<Record<string, unknown>>, index: number): string {
  if (card.protocol === '1.0') return `/supportedInterfaces${pointerStep(index)}/url`
  const url = card.interfaces[index]?.url
  if (json.url === url) return '/url'
  const additional = Array.isArray(json.additionalInterfaces) ? json.additionalInterfaces : []
  const at = additional.findIndex((entry: { url?: unknown } | null) => entry?.url === url)
  return at === -1 ? '/additionalInterfaces' : `/additionalInterfaces${pointerStep(at)}/url`
}
