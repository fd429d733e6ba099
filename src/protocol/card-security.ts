/**
 * The security members of a card, v1.0 (A2A §4.5, oneof member names) and v0.3 (OpenAPI shapes). Each shape is read
 * only in a card of its own version: a v0.3 member in a v1.0 card is unknown to every conforming client, which would
 * call without a credential (A35). What cannot be read becomes something nobody can satisfy, never something absent.
 * Over 300 lines because every kind is read here in both shapes, side by side.
 */
import type { ProtocolVersion } from '../types.ts'
import type { CardScheme, RequiredScheme, Requirement } from './card-model.ts'
import { type CardReader, step } from './card-reader.ts'
import { isObject, type JsonObject, own } from './json-object.ts'

type SchemeReader = (
  reader: CardReader,
  body: JsonObject,
  pointer: string,
  version: ProtocolVersion,
) => CardScheme | undefined

/** v1.0: the member of the oneof. v0.3: the value of `type`. */
const KINDS: Readonly<Record<ProtocolVersion, ReadonlyMap<string, SchemeReader>>> = {
  '1.0': new Map([
    ['apiKeySecurityScheme', readApiKey],
    ['httpAuthSecurityScheme', readHttp],
    ['oauth2SecurityScheme', readOauth2],
    ['openIdConnectSecurityScheme', readOpenIdConnect],
    ['mtlsSecurityScheme', () => ({ kind: 'mtls' })],
  ]),
  '0.3': new Map([
    ['apiKey', readApiKey],
    ['http', readHttp],
    ['oauth2', readOauth2],
    ['openIdConnect', readOpenIdConnect],
    ['mutualTLS', () => ({ kind: 'mtls' })],
  ]),
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

export function readSchemes(
  reader: CardReader,
  card: JsonObject,
  version: ProtocolVersion,
): ReadonlyMap<string, CardScheme> {
  const declared = own(card, 'securitySchemes')
  const schemes = new Map<string, CardScheme>()
  if (declared === undefined || declared === null) return schemes
  if (!isObject(declared)) {
    reader.error('ERR_CARD_MEMBER', '/securitySchemes', '"securitySchemes" must be an object')
    return schemes
  }
  for (const name of Object.keys(declared)) {
    const pointer = `/securitySchemes${step(name)}`
    schemes.set(name, readScheme(reader, own(declared, name), pointer, version))
  }
  return schemes
}

function readScheme(reader: CardReader, value: unknown, pointer: string, version: ProtocolVersion): CardScheme {
  const unreadable: CardScheme = { kind: 'unknown', member: '' }
  if (!isObject(value)) {
    reader.error('ERR_CARD_SCHEME', pointer, 'a security scheme must be an object')
    return unreadable
  }
  const members = Object.keys(value)
  const kinds = version === '1.0' ? members.filter((name) => KINDS['1.0'].has(name)) : []
  if (version === '1.0') {
    const foreign = members.find((name) => LEGACY_SCHEME_MEMBERS.has(name))
    if (foreign !== undefined) {
      reader.error(
        'ERR_CARD_VERSION_MIXED',
        pointer + step(foreign),
        `"${foreign}" is the v0.3 shape: a v1.0 card names the kind as the only member, as in {"httpAuthSecurityScheme":{"scheme":"Bearer"}}`,
      )
      return unreadable
    }
    const inMemory = own(value, 'scheme')
    if (isObject(inMemory) && Object.hasOwn(inMemory, '$case')) {
      reader.error(
        'ERR_CARD_SCHEME',
        pointer,
        "this is the SDK's object, not the card's JSON: use AgentCard.toJSON(card)",
      )
      return unreadable
    }
    if (members.length !== 1) {
      const found = members.length === 0 ? 'none' : members.join(', ')
      reader.error(
        'ERR_CARD_SCHEME',
        pointer,
        `a security scheme must have exactly one member, its kind; found ${found}`,
      )
      return unreadable
    }
  } else {
    const foreign = members.find((name) => KINDS['1.0'].has(name))
    if (foreign !== undefined) {
      reader.error(
        'ERR_CARD_VERSION_MIXED',
        pointer + step(foreign),
        `"${foreign}" is the v1.0 shape: a v0.3 card has "type"`,
      )
      return unreadable
    }
  }
  const member =
    version === '1.0' ? (kinds[0] ?? members[0]!) : reader.requiredString(value, 'type', pointer, 'ERR_CARD_SCHEME')
  if (member === undefined) return unreadable
  const read = KINDS[version].get(member)
  if (read === undefined) {
    reader.warning(
      'ERR_CARD_SCHEME_UNKNOWN',
      pointer,
      `"${member}" is not a kind of scheme this version knows: nobody can satisfy it`,
    )
    return { kind: 'unknown', member }
  }
  const body = version === '1.0' ? own(value, member) : value
  const at = version === '1.0' ? pointer + step(member) : pointer
  if (isObject(body)) return read(reader, body, at, version) ?? unreadable
  reader.error('ERR_CARD_SCHEME', at, `"${member}" must be an object`)
  return unreadable
}

/** Members that mark a v0.3 scheme. */
const LEGACY_SCHEME_MEMBERS: ReadonlySet<string> = new Set([
  'type',
  'in',
  'in_',
  'flows',
  'openIdConnectUrl',
  'bearerFormat',
])

function readApiKey(
  reader: CardReader,
  body: JsonObject,
  pointer: string,
  version: ProtocolVersion,
): CardScheme | undefined {
  const [member, other] = version === '1.0' ? ['location', 'in'] : ['in', 'location']
  for (const wrong of [other!, 'in_']) {
    if (!Object.hasOwn(body, wrong)) continue
    reader.error(
      'ERR_CARD_VERSION_MIXED',
      pointer + step(wrong),
      `a v${version} card says where an API key is in "${member}"`,
    )
    return undefined
  }
  const location = reader.requiredString(body, member!, pointer, 'ERR_CARD_SCHEME')
  const name = reader.requiredString(body, 'name', pointer, 'ERR_CARD_SCHEME')
  if (location === undefined || name === undefined) return undefined
  if (location !== 'header' && location !== 'query' && location !== 'cookie') {
    reader.error('ERR_CARD_SCHEME', pointer + step(member!), `"${member}" must be header, query or cookie`)
    return undefined
  }
  if (location !== 'query' && !TOKEN.test(name)) {
    reader.error('ERR_CARD_SCHEME', `${pointer}/name`, `"name" cannot be the name of a ${location}`)
    return undefined
  }
  return { kind: 'apiKey', location, name }
}

/** RFC 9110 §11.1: scheme names are case-insensitive, so the model holds them in lower case (A36). */
function readHttp(reader: CardReader, body: JsonObject, pointer: string): CardScheme | undefined {
  const scheme = reader.requiredString(body, 'scheme', pointer, 'ERR_CARD_SCHEME')
  if (scheme === undefined) return undefined
  if (!TOKEN.test(scheme)) {
    reader.error('ERR_CARD_SCHEME', `${pointer}/scheme`, '"scheme" must be one authentication scheme, as in Bearer')
    return undefined
  }
  const bearerFormat = reader.string(body, 'bearerFormat', pointer)
  return { kind: 'http', scheme: scheme.toLowerCase(), ...(bearerFormat ? { bearerFormat } : {}) }
}

const FLOWS: Readonly<Record<ProtocolVersion, readonly string[]>> = {
  '1.0': ['authorizationCode', 'clientCredentials', 'implicit', 'password', 'deviceCode'],
  '0.3': ['authorizationCode', 'clientCredentials', 'implicit', 'password'],
}

function readOauth2(
  reader: CardReader,
  body: JsonObject,
  pointer: string,
  version: ProtocolVersion,
): CardScheme | undefined {
  const flows = own(body, 'flows')
  if (!isObject(flows)) {
    reader.error('ERR_CARD_SCHEME', `${pointer}/flows`, '"flows" must be an object that names a flow')
    return undefined
  }
  const names = Object.keys(flows).filter((name) => FLOWS[version].includes(name))
  if (names.length === 0) reader.warning('ERR_CARD_SCHEME', `${pointer}/flows`, '"flows" names no flow clients know')
  if (version === '1.0' && names.length > 1) {
    // Which flow a client uses changes nothing in what is enforced; SDKs read only the first (oneof in a2a.proto).
    reader.warning('ERR_CARD_SCHEME', `${pointer}/flows`, 'a v1.0 scheme has one flow: clients see only the first')
  }
  const scopes = new Set<string>()
  const tokenUrls = new Set<string>()
  for (const name of names) {
    const flow = own(flows, name)
    const at = `${pointer}/flows${step(name)}`
    if (!isObject(flow)) {
      reader.error('ERR_CARD_SCHEME', at, `"${name}" must be an object`)
      continue
    }
    const declared = own(flow, 'scopes')
    if (isObject(declared)) for (const scope of Object.keys(declared)) scopes.add(scope)
    else if (declared !== undefined && declared !== null) {
      reader.error('ERR_CARD_SCHEME', `${at}/scopes`, '"scopes" must be an object from scope to description')
    }
    const tokenUrl = reader.string(flow, 'tokenUrl', at)
    if (tokenUrl) tokenUrls.add(tokenUrl)
  }
  const metadataUrl = reader.string(body, 'oauth2MetadataUrl', pointer)
  return { kind: 'oauth2', scopes: [...scopes], tokenUrls: [...tokenUrls], ...(metadataUrl ? { metadataUrl } : {}) }
}

function readOpenIdConnect(reader: CardReader, body: JsonObject, pointer: string): CardScheme | undefined {
  const url = reader.requiredString(body, 'openIdConnectUrl', pointer, 'ERR_CARD_SCHEME')
  return url === undefined ? undefined : { kind: 'openIdConnect', url }
}

/** A requirement that could not be read. No scheme has an empty name, so nobody meets it. */
const UNREADABLE: Requirement = Object.freeze({ schemes: Object.freeze([{ name: '', scopes: [] }]) })

const MEMBER = { '1.0': 'securityRequirements', '0.3': 'security' } as const

/**
 * The requirement list of an agent or a skill; `undefined` when it has none. An empty list is none: protobuf cannot
 * tell them apart, and none means that the agent's list, or the policy's `anonymous`, decides.
 */
export function readRequirements(
  reader: CardReader,
  owner: JsonObject,
  pointer: string,
  version: ProtocolVersion,
  schemes: ReadonlyMap<string, CardScheme>,
): readonly Requirement[] | undefined {
  const foreign = MEMBER[version === '1.0' ? '0.3' : '1.0']
  const member = MEMBER[version]
  const at = pointer + step(member)
  if (Object.hasOwn(owner, foreign)) {
    reader.error(
      'ERR_CARD_VERSION_MIXED',
      pointer + step(foreign),
      `a v${version} card has "${member}", and clients ignore "${foreign}"`,
    )
    return [UNREADABLE]
  }
  const list = own(owner, member)
  if (list === undefined) return undefined
  if (!Array.isArray(list)) {
    reader.error('ERR_CARD_REQUIREMENT', at, `"${member}" must be an array`)
    return [UNREADABLE]
  }
  if (list.length === 0) return undefined
  return list.map((entry, index) => readRequirement(reader, entry, at + step(index), version, schemes) ?? UNREADABLE)
}

function readRequirement(
  reader: CardReader,
  entry: unknown,
  pointer: string,
  version: ProtocolVersion,
  schemes: ReadonlyMap<string, CardScheme>,
): Requirement | undefined {
  const shape = version === '1.0' ? '{"schemes":{"name":{"list":["scope"]}}}' : '{"name":["scope"]}'
  const bad = (place: string, what: string): undefined => {
    reader.error('ERR_CARD_REQUIREMENT', place, `${what}: write ${shape}`)
  }
  if (!isObject(entry)) return bad(pointer, 'a requirement must be an object')
  let named: unknown = entry
  let at = pointer
  if (version === '1.0') {
    const stray = Object.keys(entry).find((name) => name !== 'schemes')
    if (stray !== undefined) return bad(pointer + step(stray), `a requirement has no member "${stray}"`)
    named = own(entry, 'schemes') ?? {}
    at = `${pointer}/schemes`
  }
  if (!isObject(named)) return bad(at, '"schemes" must be an object')
  const required: RequiredScheme[] = []
  for (const name of Object.keys(named)) {
    const place = at + step(name)
    const scopes = scopesOf(own(named, name), version)
    if (scopes === undefined) return bad(place, `the scopes of "${name}" cannot be read`)
    if (!schemes.has(name)) {
      reader.error('ERR_CARD_REQUIREMENT_UNDECLARED', place, `"${name}" is not among the card's securitySchemes`)
    }
    required.push({ name, scopes })
  }
  return { schemes: required }
}

/** v1.0: `StringList`, whose empty list ProtoJSON leaves out, so `{}` is an empty list and an array is a mistake (A35). */
function scopesOf(value: unknown, version: ProtocolVersion): readonly string[] | undefined {
  let list = value
  if (version === '1.0') {
    if (!isObject(value) || Object.keys(value).some((name) => name !== 'list')) return undefined
    list = own(value, 'list') ?? []
  }
  return Array.isArray(list) && list.every((scope) => typeof scope === 'string' && scope !== '') ? list : undefined
}
