/** Which of a card's requirements the configured providers can meet. Pure; the card is a hint and decides nothing else. */
import { discoveryUrls } from '../policy/issuer-urls.ts'
import type { CardModel, CardScheme, Requirement } from '../protocol/card-model.ts'
import { isOAuth, type OAuthProvider, type Provider } from './providers.ts'

export interface ChosenScheme {
  readonly name: string
  /** What to ask for. */
  readonly scopes: readonly string[]
}

export type Choice =
  | { readonly ok: true; readonly schemes: readonly ChosenScheme[] }
  /** One line for each alternative. */
  | { readonly ok: false; readonly reasons: readonly string[] }

type Providers = ReadonlyMap<string, Provider>

/** Most combinations that are looked at, of a card that somebody else has written. */
const MOST_ALTERNATIVES = 256

/**
 * The first alternative that can be met, in the card's order: of the agent's requirements, and of the skill's where it has
 * some (both have to be met). A card without requirements asks for nothing, and gets nothing.
 */
export function choose(card: CardModel, skill: string | undefined, providers: Providers): Choice {
  const lists = [card.requirements, skill === undefined ? undefined : card.skills.get(skill)?.requirements]
  const [agent, own] = lists.map((list) => (list === undefined || list.length === 0 ? [NOTHING] : list))
  const reasons: string[] = []
  let seen = 0
  for (const first of agent as Requirement[]) {
    for (const second of own as Requirement[]) {
      seen += 1
      if (seen > MOST_ALTERNATIVES) return { ok: false, reasons: [...reasons.slice(0, 16), 'too many alternatives'] }
      const schemes = merged(first, second)
      const reason = reasonAgainst(schemes, card, providers)
      if (reason === undefined) return { ok: true, schemes: schemes.map((each) => asked(each, providers)) }
      reasons.push(reason)
    }
  }
  return { ok: false, reasons }
}

const NOTHING: Requirement = { schemes: [] }

function merged(...requirements: readonly Requirement[]): ChosenScheme[] {
  const schemes = new Map<string, Set<string>>()
  for (const { schemes: each } of requirements) {
    for (const { name, scopes } of each) {
      const found = schemes.get(name) ?? new Set()
      for (const scope of scopes) found.add(scope)
      schemes.set(name, found)
    }
  }
  return [...schemes].map(([name, scopes]) => ({ name, scopes: [...scopes] }))
}

/** What the requirement lists; where it lists nothing, what is configured for this agent. */
function asked({ name, scopes }: ChosenScheme, providers: Providers): ChosenScheme {
  const provider = providers.get(name)
  const configured = provider !== undefined && isOAuth(provider) ? (provider.scopes ?? []) : []
  return { name, scopes: [...(scopes.length === 0 ? configured : scopes)].sort() }
}

function reasonAgainst(schemes: readonly ChosenScheme[], card: CardModel, providers: Providers): string | undefined {
  const places = new Set<string>()
  for (const { name, scopes } of schemes) {
    const scheme = card.schemes.get(name)
    const provider = providers.get(name)
    const against = (why: string) => `${shown(name)}: ${why}`
    if (scheme === undefined) return against('the card does not declare it')
    if (provider === undefined) return against('no provider is configured for it')
    const mismatch = mismatchOf(scheme, provider)
    if (mismatch !== undefined) return against(mismatch)
    if (isOAuth(provider)) {
      const beyond = scopes.find((scope) => provider.scopes?.includes(scope) !== true)
      if (beyond !== undefined) return against(`the scope ${shown(beyond)} is not among those of the provider`)
    }
    const place = placeOf(provider)
    if (places.has(place)) return against(`another scheme of the requirement is sent in the same place`)
    places.add(place)
  }
  return undefined
}

/** Names are text of somebody else's, and end up in logs (P195). */
function shown(name: string): string {
  return JSON.stringify(name.slice(0, 64))
}

function placeOf(provider: Provider): string {
  if (provider.type === 'mtls') return 'tls'
  return provider.type === 'apiKey' ? `${provider.in} ${provider.name.toLowerCase()}` : 'authorization'
}

/** Why a provider is for another scheme than the card's: one that has changed under its name gets nothing (A103). */
function mismatchOf(scheme: CardScheme, provider: Provider): string | undefined {
  switch (provider.type) {
    case 'apiKey': {
      if (scheme.kind !== 'apiKey') return 'the provider is for an API key'
      const same =
        provider.in === 'header'
          ? scheme.name.toLowerCase() === provider.name.toLowerCase()
          : scheme.name === provider.name
      return same && scheme.location === provider.in ? undefined : 'the card wants the key in another place'
    }
    case 'basic':
      return isHttp(scheme, 'basic') ? undefined : 'the provider is for HTTP Basic'
    case 'mtls':
      return scheme.kind === 'mtls' ? undefined : 'the provider is for a client certificate'
    case 'bearer':
      return takesToken(scheme, false) ? undefined : 'the provider is for a bearer token'
    default:
      if (!takesToken(scheme, provider.dpop === true)) return 'the provider is for an access token'
      return namesAnother(scheme, provider)
        ? 'the card names another authorization server than the provider'
        : undefined
  }
}

function isHttp(scheme: CardScheme, name: string): boolean {
  return scheme.kind === 'http' && scheme.scheme.toLowerCase() === name
}

function takesToken(scheme: CardScheme, dpop: boolean): boolean {
  if (scheme.kind === 'oauth2' || scheme.kind === 'openIdConnect' || isHttp(scheme, 'bearer')) return true
  return dpop && isHttp(scheme, 'dpop')
}

/** P192: nothing is sent where the card says. That it says something else is a reason to send nothing at all. */
function namesAnother(scheme: CardScheme, { issuer, tokenEndpoint }: OAuthProvider): boolean {
  if (scheme.kind === 'openIdConnect') return !discoveryUrls(issuer, 'openIdConnect').includes(scheme.url)
  if (scheme.kind !== 'oauth2') return false
  const { metadataUrl, tokenUrls } = scheme
  if (metadataUrl !== undefined && !discoveryUrls(issuer, 'oauth2').includes(metadataUrl)) return true
  return tokenEndpoint !== undefined && tokenUrls.length > 0 && !tokenUrls.includes(tokenEndpoint)
}
