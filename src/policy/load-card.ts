/** From where the policy says the cards are to their models. */
import { parseCard } from '../protocol/card.ts'
import { isObject } from '../protocol/json-object.ts'
import type { LoadedCard, Sections } from './compare-card.ts'
import { extendCard } from './extended-card.ts'
import { type LoadContext, openSource } from './files.ts'
import { type Report, reportOn } from './report.ts'
import type { Source } from './source.ts'

/** The extended card the policy names, whole or as additions to `card`. */
export async function loadExtendedCard(
  card: LoadedCard | undefined,
  sections: Sections,
  source: Source,
  context: LoadContext,
  report: Report,
): Promise<LoadedCard | undefined> {
  const whole = await loadCard('extendedCard', sections, source, context, report)
  const key = 'extendedCardAdditions'
  const named = sections[key]
  if (named === undefined) return whole
  if (sections.extendedCard !== undefined) {
    report.error('ERR_POLICY_VALUE', `/${key}`, `"${key}" and "extendedCard" exclude each other: give one`, 'key')
    return whole
  }
  const opened = await openCard(named, key, source, context, report)
  if (opened === undefined || card === undefined) return undefined
  const { value } = opened.source
  if (isObject(value)) return extendCard(card, value, opened.report)
  opened.report.error('ERR_CARD_MEMBER', '', 'additions to the card must be a JSON object')
  return undefined
}

async function openCard(
  named: string | object,
  key: string,
  source: Source,
  context: LoadContext,
  report: Report,
): Promise<{ source: Source; report: Report } | undefined> {
  return typeof named === 'string'
    ? openSource(named, `/${key}`, context, report)
    : { source: { ...source, value: named }, report: reportOn(source, context.problems, `/${key}`) }
}

/** The card that the policy names or holds under `key`, with what is wrong with it reported. */
export async function loadCard(
  key: 'card' | 'extendedCard',
  sections: Sections,
  source: Source,
  context: LoadContext,
  report: Report,
): Promise<LoadedCard | undefined> {
  const named = sections[key]
  if (named === undefined) return undefined
  const opened = await openCard(named, key, source, context, report)
  if (opened === undefined) return undefined
  const json = opened.source.value
  const { model, problems } = parseCard(json)
  for (const { code, pointer, message, severity } of problems) opened.report[severity](code, pointer, message, 'key')
  return { model, json: json as Readonly<Record<string, unknown>>, report: opened.report }
}
