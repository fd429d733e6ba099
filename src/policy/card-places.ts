/** Where the parts of a card model stand in the card's JSON, so that a mistake is shown in its own file. */
import type { CardModel } from '../protocol/card-model.ts'
import { step } from '../protocol/card-reader.ts'

export function schemePlace(name: string): string {
  return `/securitySchemes${step(name)}`
}

/** The requirement list of the agent, or of the skill at `skillIndex`. */
export function requirementsPlace(card: CardModel, skillIndex?: number): string {
  const owner = skillIndex === undefined ? '' : `/skills${step(skillIndex)}`
  return `${owner}${card.protocol === '1.0' ? '/securityRequirements' : '/security'}`
}

/** One alternative of a requirement list, or the mention of a scheme in it. */
export function requirementPlace(card: CardModel, list: string, index: number, scheme?: string): string {
  const alternative = list + step(index)
  if (scheme === undefined) return alternative
  return `${alternative}${card.protocol === '1.0' ? '/schemes' : ''}${step(scheme)}`
}

/** The URL of an interface: v1.0 lists all, v0.3 has the preferred one at the top. */
export function interfacePlace(card: CardModel, json: Readonly<Record<string, unknown>>, index: number): string {
  if (card.protocol === '1.0') return `/supportedInterfaces${step(index)}/url`
  const url = card.interfaces[index]?.url
  if (json.url === url) return '/url'
  const additional = Array.isArray(json.additionalInterfaces) ? json.additionalInterfaces : []
  const at = additional.findIndex((entry: { url?: unknown } | null) => entry?.url === url)
  return at === -1 ? '/additionalInterfaces' : `/additionalInterfaces${step(at)}/url`
}
