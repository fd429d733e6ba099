/** The extended card of the policy: a card of its own, or the public card with additions. */
import { parseCard } from '../protocol/card.ts'
import type { CardModel, CardScheme, CardSkill } from '../protocol/card-model.ts'
import { isObject } from '../protocol/json-object.ts'
import type { LoadedCard } from './compare-card.ts'
import type { Report } from './report.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * The public card with `additions`: skills are appended, security schemes added, any other member replaces that of the
 * public card. Signatures are not taken over, since they cover neither. Mistakes are shown in the additions.
 */
export function extendCard(card: LoadedCard, additions: Json, report: Report): LoadedCard {
  const { signatures: _, ...base } = card.json
  const own = Array.isArray(base.skills) ? (base.skills as unknown[]) : []
  const json: Json = {
    ...base,
    ...additions,
    ...(Array.isArray(additions.skills) ? { skills: [...own, ...(additions.skills as unknown[])] } : {}),
    ...(isObject(additions.securitySchemes) && isObject(base.securitySchemes)
      ? { securitySchemes: { ...base.securitySchemes, ...additions.securitySchemes } }
      : {}),
  }
  const shifted = skillsShifted(report, own.length)
  const { model, problems } = parseCard(json)
  for (const { code, pointer, message, severity } of problems) shifted[severity](code, pointer, message, 'key')
  return { model, json, report: shifted }
}

function skillsShifted(report: Report, by: number): Report {
  const shift = (pointer: string) =>
    pointer.replace(/^\/skills\/(\d+)/, (_, index: string) => `/skills/${Math.max(0, Number(index) - by)}`)
  return {
    error: (code, pointer, message, part) => report.error(code, shift(pointer), message, part),
    warning: (code, pointer, message, part) => report.warning(code, shift(pointer), message, part),
  }
}

/** What is enforced: the public card, and the skills and schemes that only the extended one has. */
export function enforcedModel(card: CardModel, extended: CardModel | undefined): CardModel {
  if (extended === undefined) return card
  const skills = new Map<string, CardSkill>(card.skills)
  for (const [id, skill] of extended.skills) if (!skills.has(id)) skills.set(id, { ...skill, hidden: true })
  const schemes = new Map<string, CardScheme>(card.schemes)
  for (const [name, scheme] of extended.schemes) if (!schemes.has(name)) schemes.set(name, scheme)
  return { ...card, skills, schemes }
}
