/**
 * An Agent Card's JSON as the guard reads it. Which version a card is written in is decided once, for the whole card:
 *
 * - a top-level `protocolVersion` of 0.x makes it v0.3, also where `supportedInterfaces` are embedded for newer clients
 *   (the SDK serves such cards);
 * - otherwise `supportedInterfaces` makes it v1.0;
 * - otherwise a top-level `url` makes it v0.3;
 * - otherwise it is neither, which is an error, and nothing in it is believed.
 */
import type { ProtocolVersion } from '../types.ts'
import type { CardInterface, CardModel, CardProblem, CardScheme, CardSkill } from './card-model.ts'
import { type CardReader, cardReader, step } from './card-reader.ts'
import { readRequirements, readSchemes } from './card-security.ts'
import { isObject, type JsonObject, own } from './json-object.ts'

/**
 * Reads a card. Never throws; every mistake is in `problems`, by JSON Pointer, and what is mistaken is in `model` only
 * as something nobody can satisfy. `json` is parsed JSON (duplicate members are the parser's to refuse).
 *
 * Not checked: signatures, whether URLs can be reached, whether the policy fits, and members without a bearing on
 * security. A model whose problems hold an `error` must not be enforced.
 */
export function parseCard(json: unknown): { readonly model: CardModel; readonly problems: readonly CardProblem[] } {
  const reader = cardReader()
  const card: JsonObject = isObject(json) ? json : {}
  if (!isObject(json)) reader.error('ERR_CARD_MEMBER', '', 'an Agent Card must be a JSON object')
  const protocol = isObject(json) ? versionOf(reader, card) : '1.0'
  const schemes = readSchemes(reader, card, protocol)
  const model: CardModel = {
    protocol,
    name: reader.string(card, 'name', '') ?? '',
    version: reader.string(card, 'version', '') ?? '',
    schemes,
    requirements: readRequirements(reader, card, '', protocol, schemes) ?? [],
    skills: readSkills(reader, card, protocol, schemes),
    interfaces: protocol === '1.0' ? readInterfaces(reader, card) : readLegacyInterfaces(reader, card),
    capabilities: readCapabilities(reader, card, protocol),
  }
  return { model, problems: reader.problems }
}

function versionOf(reader: CardReader, card: JsonObject): ProtocolVersion {
  const stated = own(card, 'protocolVersion')
  if (typeof stated === 'string' && stated.startsWith('0.')) return '0.3'
  if (Object.hasOwn(card, 'supportedInterfaces')) return '1.0'
  if (stated === undefined && Object.hasOwn(card, 'url')) return '0.3'
  reader.error(
    'ERR_CARD_VERSION',
    stated === undefined ? '' : '/protocolVersion',
    'the card is neither v1.0 (it has no "supportedInterfaces") nor v0.3 (it has no "protocolVersion" of 0.x)',
  )
  return '1.0'
}

function readSkills(
  reader: CardReader,
  card: JsonObject,
  version: ProtocolVersion,
  schemes: ReadonlyMap<string, CardScheme>,
): ReadonlyMap<string, CardSkill> {
  const skills = new Map<string, CardSkill>()
  for (const [index, entry] of reader.array(card, 'skills', '').entries()) {
    const pointer = `/skills${step(index)}`
    if (!isObject(entry)) {
      reader.error('ERR_CARD_MEMBER', pointer, 'a skill must be an object')
      continue
    }
    const requirements = readRequirements(reader, entry, pointer, version, schemes)
    const id = reader.requiredString(entry, 'id', pointer)
    if (id === undefined) continue
    if (skills.has(id)) {
      reader.error('ERR_CARD_SKILL_DUPLICATE', `${pointer}/id`, `another skill has the id "${id}"`)
      continue
    }
    const name = reader.string(entry, 'name', pointer) ?? id
    skills.set(id, { id, name, ...(requirements === undefined ? {} : { requirements }) })
  }
  return skills
}

function readInterfaces(reader: CardReader, card: JsonObject): readonly CardInterface[] {
  const found: CardInterface[] = []
  for (const [index, entry] of reader.array(card, 'supportedInterfaces', '').entries()) {
    const pointer = `/supportedInterfaces${step(index)}`
    if (!isObject(entry)) {
      reader.error('ERR_CARD_MEMBER', pointer, 'an interface must be an object')
      continue
    }
    const url = reader.requiredString(entry, 'url', pointer)
    const binding = reader.requiredString(entry, 'protocolBinding', pointer)
    const version = reader.string(entry, 'protocolVersion', pointer)
    if (!version) {
      reader.warning(
        'ERR_CARD_MEMBER',
        `${pointer}/protocolVersion`,
        '"protocolVersion" is missing: clients need it to choose',
      )
    }
    const tenant = reader.string(entry, 'tenant', pointer)
    if (url === undefined || binding === undefined) continue
    found.push({ url, binding, version: version ?? '', ...(tenant ? { tenant } : {}) })
  }
  return found
}

/** A2A v0.3 §5.6: the preferred interface at the top, the others listed. */
function readLegacyInterfaces(reader: CardReader, card: JsonObject): readonly CardInterface[] {
  const found: CardInterface[] = []
  const url = reader.requiredString(card, 'url', '')
  const binding = reader.string(card, 'preferredTransport', '') ?? 'JSONRPC'
  if (url !== undefined) found.push({ url, binding, version: '0.3' })
  for (const [index, entry] of reader.array(card, 'additionalInterfaces', '').entries()) {
    const pointer = `/additionalInterfaces${step(index)}`
    if (!isObject(entry)) {
      reader.error('ERR_CARD_MEMBER', pointer, 'an interface must be an object')
      continue
    }
    const address = reader.requiredString(entry, 'url', pointer)
    const transport = reader.requiredString(entry, 'transport', pointer)
    if (address !== undefined && transport !== undefined)
      found.push({ url: address, binding: transport, version: '0.3' })
  }
  return Object.hasOwn(card, 'supportedInterfaces') ? [...found, ...readInterfaces(reader, card)] : found
}

function readCapabilities(reader: CardReader, card: JsonObject, version: ProtocolVersion): CardModel['capabilities'] {
  const stated = own(card, 'capabilities') ?? {}
  if (!isObject(stated)) reader.error('ERR_CARD_MEMBER', '/capabilities', '"capabilities" must be an object')
  const capabilities: JsonObject = isObject(stated) ? stated : {}
  if (version === '1.0' && Object.hasOwn(card, 'supportsAuthenticatedExtendedCard')) {
    reader.warning(
      'ERR_CARD_VERSION_MIXED',
      '/supportsAuthenticatedExtendedCard',
      'a v1.0 card says this in "capabilities.extendedAgentCard"',
    )
  }
  return {
    streaming: reader.boolean(capabilities, 'streaming', '/capabilities'),
    pushNotifications: reader.boolean(capabilities, 'pushNotifications', '/capabilities'),
    extendedAgentCard:
      version === '1.0'
        ? reader.boolean(capabilities, 'extendedAgentCard', '/capabilities')
        : reader.boolean(card, 'supportsAuthenticatedExtendedCard', ''),
  }
}
