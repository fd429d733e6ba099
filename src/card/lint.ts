/** What is wrong with a card before anybody relies on it: A2A §4.4, §8. */
import { TrustError } from '../errors.ts'
import { parseStrictJson } from '../internal/json.ts'
import { parseCard } from '../protocol/card.ts'
import type { CardProblem } from '../protocol/card-model.ts'
import { CARD_V1 } from './field-table.ts'
import { canonicalizeCard, emptyRequired } from './profiles.ts'

/** Problems by JSON Pointer, errors first. Throws `ERR_JSON_*` for a text that is no strict JSON. */
export function lintCard(text: string | Uint8Array): readonly CardProblem[] {
  const value = parseStrictJson(text, { unsafeIntegers: 'round' })
  const { model, problems } = parseCard(value)
  const found: CardProblem[] = [...problems]
  const add = (severity: CardProblem['severity'], pointer: string, message: string): void => {
    found.push({ code: severity === 'error' ? 'ERR_CARD_MEMBER' : 'ERR_CARD_ADVICE', pointer, message, severity })
  }
  const card = value as Record<string, unknown>
  if (model.protocol === '1.0' && typeof value === 'object' && value !== null) {
    for (const [name, field] of Object.entries(CARD_V1.AgentCard as Record<string, string>)) {
      if (field.includes('!') && !Object.hasOwn(card, name))
        add('error', `/${name}`, 'is REQUIRED and missing (A2A §4.4.1)')
    }
    if (hasShape(text)) {
      for (const pointer of emptyRequired(card))
        add('warning', pointer, 'is REQUIRED and empty: SDKs sign it in different ways')
    } else if (found.every(({ severity }) => severity !== 'error')) {
      add('error', '', 'has a member of the wrong shape, so that it cannot be signed')
    }
  }
  for (const [index, { url }] of model.interfaces.entries()) {
    const at = model.protocol === '1.0' ? `/supportedInterfaces/${index}/url` : '/url'
    if (!URL.canParse(url)) add('error', at, 'is no absolute URL')
    else if (new URL(url).protocol === 'http:')
      add('warning', at, 'is plain http: credentials would be readable on the way')
    else if (/^(?:localhost|127\.|0\.0\.0\.0|\[::1\])/.test(new URL(url).host))
      add('warning', at, "leads to the reader's own machine")
  }
  if (model.schemes.size === 0) add('warning', '/securitySchemes', 'is missing: clients will call without a credential')
  else if (model.requirements.length === 0)
    add('warning', '/securityRequirements', 'is missing although there are schemes: clients need not use them')
  const named = [model.requirements, ...[...model.skills.values()].map(({ requirements }) => requirements ?? [])].flat()
  for (const [index, { schemes }] of model.requirements.entries()) {
    if (schemes.length === 0)
      add('warning', `/securityRequirements/${index}`, 'lets everybody in: an alternative without schemes')
  }
  for (const name of model.schemes.keys()) {
    if (!named.some(({ schemes }) => schemes.some((one) => one.name === name)))
      add('warning', `/securitySchemes/${name}`, 'is required nowhere')
  }
  if (Array.isArray(card.signatures) ? card.signatures.length === 0 : true)
    add('warning', '/signatures', 'is missing: nobody can tell who wrote the card')
  return found.sort((a, b) => Number(a.severity === 'warning') - Number(b.severity === 'warning'))
}

/** Whether every member has the type that the protobuf definition gives it. */
function hasShape(text: string | Uint8Array): boolean {
  try {
    return canonicalizeCard(text, 'spec') !== ''
  } catch (fault) {
    if (fault instanceof TrustError) return false
    throw fault
  }
}
