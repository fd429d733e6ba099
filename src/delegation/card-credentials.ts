/** Credentials for one agent: what its card asks for, from what is configured, sent there and nowhere else. */
import { isFetchedCard } from '../card/client.ts'
import { createEgress, type EgressOptions } from '../egress/index.ts'
import { TrustError } from '../errors.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { isUnder } from '../policy/delegate.ts'
import { parseCard } from '../protocol/card.ts'
import type { CardInterface, CardModel } from '../protocol/card-model.ts'
import type { Clock } from '../types.ts'
import { type ChosenScheme, choose } from './choose.ts'
import { checkProvider, isOAuth, isPassword, isSecureUrl, type Provider, readSecret } from './providers.ts'
import { type Attached, type Outgoing, refuseCredentials, sendWith, takeApart, targetOf } from './send.ts'
import { createTokenSource } from './token-source.ts'

export interface CredentialsOptions {
  /** A verified card, or what `fetchCard` or `verifyCard` gave for one. It chooses among providers and decides nothing else. */
  readonly card: object
  /** By name of the card's security schemes. */
  readonly providers: Readonly<Record<string, Provider>>
  /**
   * Where credentials may go: https origin of the agent, or what its URLs begin with. Default: the origin that the card was
   * fetched from, where `fetchCard` has fetched it.
   */
  readonly to?: string
  /** Meet the requirements of this skill too. */
  readonly skill?: string
  /** Replaces the guarded fetch. What it may reach is then the caller's responsibility. Not with a client certificate. */
  readonly fetch?: typeof globalThis.fetch
  /** What may be reached, as `createEgress` takes it. */
  readonly egress?: Omit<EgressOptions, 'clientCertificate' | 'redirects' | 'mode'>
  readonly clock?: Clock
}

export interface Credentials {
  /**
   * As the global `fetch`, for URLs under `to`, with the credentials of the requirement that was chosen. Give it to
   * everything that talks to the agent: discovery, every transport, streams, push configs, extended card. Redirects are
   * not followed. After a 401 a token is renewed and the request made again, once; a 403 that demands scopes is answered
   * with those that are configured, once each.
   *
   * Rejects, before anything is sent, with `ERR_CREDENTIALS_DESTINATION` for another URL, `ERR_DELEGATION_CREDENTIAL` for a
   * request with a credential of its own, `ERR_CREDENTIALS_UNAVAILABLE`, `ERR_TOKEN_REQUEST` or `ERR_TOKEN_ANSWER` where
   * none is to be had, and as `egress.fetch` does.
   */
  readonly fetch: typeof globalThis.fetch
  /** With a final slash where it is an origin. */
  readonly to: string
  /** The schemes of the requirement that was chosen, and the scopes that are asked for. Empty: the card asks for nothing. */
  readonly requirement: readonly ChosenScheme[]
  /** Those of the card's interfaces that are under `to`: what a client may use. In card order. */
  readonly interfaces: readonly CardInterface[]
  /** Ends every connection. */
  close(): Promise<void>
}

/** For the adapter that has to do without `fetch`. */
export interface Attachable {
  readonly card: CardModel
  /** Set where headers alone do not make the credential, or `fetch` alone can keep them where they belong. */
  readonly needsFetch?: string
  attach(method: string, url: URL): Promise<Attached>
}

const attachables = new WeakMap<Credentials, Attachable>()
export const attachableOf = (credentials: Credentials): Attachable | undefined => attachables.get(credentials)

const OPTIONS = ['card', 'providers', 'to', 'skill', 'fetch', 'egress', 'clock'] satisfies (keyof CredentialsOptions)[]
/** A stream of a task may go on for minutes; nothing goes on for ever. */
const AGENT_LIMITS = { timeoutMs: 600_000, maxResponseBytes: 64 * 1024 * 1024 }

/**
 * Credentials for the agent of `card`. One call for each agent and user: nothing is shared between two of them.
 *
 * Chooses the first requirement of the card (and of `skill`) that the providers can meet. A provider meets a scheme of its
 * own kind only, in the place it names, of the issuer it names: the card's URLs are compared and never called.
 *
 * Throws `TypeError` naming an option, `ERR_CREDENTIALS_UNSATISFIABLE` (`details.reasons`, a line for each alternative) and
 * `ERR_CREDENTIALS_DESTINATION` where no interface of the card is under `to`. Not checked: the card's signature.
 */
export function createCredentials(options: CredentialsOptions): Credentials {
  assertKnownOptions('createCredentials', options, OPTIONS)
  const { skill, clock = Date.now, fetch, egress = {} } = options
  const { card, to, resource } = cardAndPlace(options)
  const providers = checkedProviders(options.providers)
  if (skill !== undefined && !card.skills.has(skill)) throw new TypeError('"skill" must be one of the card')
  if (fetch !== undefined && options.egress !== undefined) throw new TypeError('"egress" has no meaning with "fetch"')
  for (const name of ['clientCertificate', 'redirects', 'mode'])
    if (Object.hasOwn(egress, name)) throw new TypeError(`"egress.${name}" cannot be chosen here`)

  const interfaces = card.interfaces.filter(({ url }) => URL.canParse(url) && isUnder(new URL(url), to))
  if (interfaces.length === 0)
    throw new TrustError('ERR_CREDENTIALS_DESTINATION', { details: { to, reason: 'the card has no interface there' } })
  const choice = choose(card, skill, providers)
  if (!choice.ok) throw new TrustError('ERR_CREDENTIALS_UNSATISFIABLE', { details: { reasons: choice.reasons } })

  const chosen = choice.schemes.map((scheme) => [scheme, providers.get(scheme.name) as Provider] as const)
  const certificate = chosen.map(([, provider]) => provider).find((provider) => provider.type === 'mtls')
  const opened: { close(): Promise<void> }[] = []
  /** A guarded fetch of its own: a certificate says who this is to whoever asks, so it is shown to one host. */
  const reach = (certified: Certificate | undefined, limits: EgressOptions, host?: string): typeof globalThis.fetch => {
    if (fetch !== undefined && certified !== undefined)
      throw new TypeError('"fetch" cannot show a client certificate: leave it out')
    if (fetch !== undefined) return fetch
    const made = createEgress({
      ...egress,
      ...limits,
      ...(certified === undefined ? {} : { clientCertificate: pemOf(certified) }),
      ...(certified === undefined || host === undefined ? {} : { allowHosts: [host] }),
    })
    opened.push(made)
    return made.fetch
  }
  const agentFetch = reach(certificate, AGENT_LIMITS, new URL(to).hostname)
  let plain: typeof globalThis.fetch | undefined
  const sources = chosen.map(([{ scopes }, provider]) => {
    if (!isOAuth(provider)) return { provider, attach: () => attachSecret(provider) }
    const { client, tokenEndpoint, issuer } = provider
    const certified = client.auth === 'tls' ? client : undefined
    if (certified === undefined) plain ??= reach(undefined, {})
    const toServer = certified === undefined ? plain! : reach(certified, {}, new URL(tokenEndpoint ?? issuer).hostname)
    return { provider, attach: createTokenSource(provider, scopes, { fetch: toServer, clock, resource }).attach }
  })
  const keyHeaders = sources.flatMap(({ provider }) =>
    provider.type === 'apiKey' && provider.in === 'header' ? [provider.name] : [],
  )
  const keyParameters = sources.flatMap(({ provider }) =>
    provider.type === 'apiKey' && provider.in === 'query' ? [provider.name] : [],
  )

  async function attach(method: string, url: URL): Promise<Attached> {
    const all = await Promise.all(
      sources.map(({ attach: one, provider }) =>
        one(method, url).catch((fault: unknown) => throwCoded(fault, provider)),
      ),
    )
    const queries = all.flatMap(({ query }) => (query === undefined ? [] : [query]))
    return {
      headers: Object.assign({}, ...all.map(({ headers }) => headers)) as Record<string, string>,
      ...(queries.length === 0 ? {} : { query: Object.assign({}, ...queries) as Record<string, string> }),
      // Each looks: one may have to learn something while another knows already.
      isWorthAnother: (response) => all.filter((one) => one.isWorthAnother(response)).length > 0,
    }
  }

  const credentials: Credentials = Object.freeze({
    to,
    requirement: Object.freeze(choice.schemes),
    interfaces: Object.freeze(interfaces),
    fetch: async (...request: Parameters<typeof globalThis.fetch>) => {
      const url = targetOf(request[0])
      if (!isUnder(url, to))
        throw new TrustError('ERR_CREDENTIALS_DESTINATION', { details: { to, origin: url.origin } })
      const outgoing: Outgoing = await takeApart(url, request)
      refuseCredentials(outgoing, keyHeaders)
      const parameter = keyParameters.find((name) => url.searchParams.has(name))
      if (parameter !== undefined)
        throw new TrustError('ERR_DELEGATION_CREDENTIAL', { details: { origin: url.origin, parameter } })
      return sendWith(agentFetch, outgoing, () => attach(outgoing.init.method ?? 'GET', url))
    },
    async close() {
      await Promise.all(opened.map((each) => each.close()))
    },
  })
  const needing = sources.find(
    ({ provider }) => provider.type === 'mtls' || provider.type === 'apiKey' || (isOAuth(provider) && provider.dpop),
  )
  attachables.set(credentials, {
    card,
    attach,
    ...(needing === undefined ? {} : { needsFetch: needing.provider.type }),
  })
  return credentials
}

type Certificate = { readonly cert: string; readonly key: string; readonly ca?: string }
const pemOf = ({ cert, key, ca }: Certificate): Certificate => ({ cert, key, ...(ca === undefined ? {} : { ca }) })

function cardAndPlace({ card: given, to }: CredentialsOptions) {
  if (typeof given !== 'object' || (given as unknown) === null) throw new TypeError('"card" must be a card')
  if ((given as { readonly ok?: unknown }).ok === false) throw new TypeError('"card" did not verify')
  const { card = given } = given as { readonly card?: object }
  // Where it comes from is not for a card to say.
  const place = to ?? (isFetchedCard(given) ? new URL(given.url).origin : undefined)
  if (!isSecureUrl(place) || /[?]/.test(place))
    throw new TypeError('"to" must be the https:// origin of the agent, or what its URLs begin with')
  return { card: parseCard(card).model, to: new URL(place).href, resource: place }
}

function checkedProviders(given: CredentialsOptions['providers']): ReadonlyMap<string, Provider> {
  if (typeof given !== 'object' || (given as unknown) === null) throw new TypeError('"providers" must be an object')
  return new Map(Object.entries(given).map(([name, provider]) => [name, checkProvider(name, provider)]))
}

/** Credentials that are what they are. One that a function gives is asked for anew after a 401. */
async function attachSecret(provider: Exclude<Provider, { issuer: string }>): Promise<Attached> {
  switch (provider.type) {
    case 'mtls':
      return { headers: {}, isWorthAnother: () => false }
    case 'basic': {
      const pair = `${provider.user}:${await readSecret(provider.password, isPassword)}`
      return secretHeader('authorization', `Basic ${Buffer.from(pair).toString('base64')}`, provider.password)
    }
    case 'bearer':
      return secretHeader('authorization', `Bearer ${await readSecret(provider.token)}`, provider.token)
    case 'apiKey': {
      const { in: place, name } = provider
      const key = await readSecret(provider.key)
      if (place === 'header') return secretHeader(name, key, provider.key)
      if (place === 'query') return { ...secretHeader('', '', provider.key), headers: {}, query: { [name]: key } }
      // RFC 6265 §4.1.1 `cookie-octet`: what would end the value would begin another cookie.
      if (/[",;\\ ]/.test(key)) throw new TypeError('a key in a cookie has none of the characters " , ; \\ and space')
      return secretHeader('cookie', `${name}=${key}`, provider.key)
    }
  }
}

function secretHeader(name: string, value: string, secret: unknown): Attached {
  return { headers: { [name]: value }, isWorthAnother: ({ status }) => status === 401 && typeof secret === 'function' }
}

/** What a function of the operator's throws may quote a secret: it is not passed on. */
function throwCoded(fault: unknown, { type }: Provider): never {
  if (fault instanceof TrustError) throw fault
  throw new TrustError('ERR_CREDENTIALS_UNAVAILABLE', {
    details: { provider: type, reason: 'its secret cannot be had' },
  })
}
