/**
 * What an allowed request carries on to the handler: no credential, and no header in which a caller could pretend to be
 * somebody. Handlers pass their headers on more often than they know (the SDK puts them into the executor's context).
 */
import type { IncomingMessage } from 'node:http'
import type { Guard } from '../guard.ts'
import { namesCaller } from './identity-headers.ts'

/** Always credentials, whether a scheme reads them or not. */
const CREDENTIALS = new Set(['authorization', 'proxy-authorization', 'cookie', 'dpop'])

export interface CredentialPlaces {
  /** Lower-case header names. */
  readonly headers: ReadonlySet<string>
  /** The same with `_` turned into `-`. */
  readonly spellings: ReadonlySet<string>
  readonly query: ReadonlySet<string>
  readonly cookies: ReadonlySet<string>
  /** Whether the policy says that a header names a caller. `name` in lower case, `_` turned into `-`. */
  readonly names: (name: string) => boolean
}

const known = new WeakMap<readonly string[], CredentialPlaces>()

/** From the places that schemes read, as `Scheme.location` writes them, and the policy's list. Made once for each policy. */
export function credentialPlaces({
  credentialLocations: locations,
  identityHeaders,
}: Pick<Guard, 'credentialLocations' | 'identityHeaders'>): CredentialPlaces {
  const made = known.get(locations)
  if (made !== undefined) return made
  const named = (kind: string) =>
    new Set(locations.filter((one) => one.startsWith(`${kind}:`)).map((one) => one.slice(kind.length + 1)))
  const beginnings = identityHeaders.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1))
  const places = {
    headers: named('header'),
    spellings: new Set([...named('header')].map((name) => name.replaceAll('_', '-'))),
    // RFC 6750 §2.3: read by nobody here, and a credential for whoever reads it behind.
    query: named('query').add('access_token'),
    cookies: named('cookie'),
    names: (name: string) =>
      identityHeaders.includes(name) || beginnings.some((beginning) => name.startsWith(beginning)),
  }
  known.set(locations, places)
  return places
}

/** What a request carried before it was stripped, for a further guard in the chain. */
const carried = new WeakMap<IncomingMessage, { readonly rawHeaders: readonly string[]; readonly query: string }>()

/** Headers and target as they arrived, whatever a guard in front has removed since. The path is that of now. */
export function originalHead(request: IncomingMessage): {
  readonly rawHeaders: readonly string[]
  readonly target: string
} {
  const { url = '', rawHeaders } = request
  const before = carried.get(request)
  return before === undefined
    ? { rawHeaders, target: url }
    : { rawHeaders: before.rawHeaders, target: pathOf(url) + before.query }
}

function pathOf(url: string): string {
  const start = url.indexOf('?')
  return start === -1 ? url : url.slice(0, start)
}

/**
 * An answer is for the caller who asked. That somebody has it already says nothing of whether this caller may, and a
 * framework that answers 304 by itself would say so (A63).
 */
const CONDITIONS = new Set(['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since', 'if-range'])

/**
 * Whether the handler must not see a header: one of `hidden`, of an identity, or of a credential that is not kept. `_` and
 * `-` are one: servers behind turn one into the other.
 */
export function isStripped(
  header: string,
  places: CredentialPlaces,
  keepCredential: boolean,
  hidden: readonly string[],
): boolean {
  const name = header.toLowerCase()
  const plain = name.replaceAll('_', '-')
  if (hidden.includes(plain) || CONDITIONS.has(plain)) return true
  if (places.headers.has(name)) return !keepCredential
  if (namesCaller(plain) || places.names(plain)) return true
  if (CREDENTIALS.has(name)) return !keepCredential
  // The guard did not look at another spelling of such a name, and a server behind may take it for the credential.
  return CREDENTIALS.has(plain) || places.spellings.has(plain)
}

/**
 * Removes them wherever Node and the framework keep them: headers and trailers in each form, the URL in each form, and
 * what was parsed of either in front of the guard.
 */
export function stripRequest(
  request: IncomingMessage,
  places: CredentialPlaces,
  keepCredential: boolean,
  hidden: readonly string[],
): void {
  const url = request.url ?? ''
  if (!carried.has(request))
    carried.set(request, { rawHeaders: [...request.rawHeaders], query: url.slice(pathOf(url).length) })
  const drop = (header: string) => isStripped(header, places, keepCredential, hidden)
  // HTTP/2 has the URL among its headers, and proxies and pages tell it in others.
  const told: Told | undefined =
    keepCredential || places.query.size === 0 ? undefined : (value) => withoutParameters(value, places.query)
  // Fastify's `inject` makes requests without trailers.
  const { headers, headersDistinct, rawHeaders, rawTrailers = [] } = request
  stripTable(headers, drop, told)
  stripTable(headersDistinct, drop, told)
  if (rawTrailers.length > 0) {
    stripTable(request.trailers, drop, told)
    stripTable(request.trailersDistinct, drop, told)
    stripLines(rawTrailers, drop, told)
  }
  stripLines(rawHeaders, drop, told)
  if (keepCredential) return
  if (told !== undefined) request.url = told(url)
  stripParsed(request, places)
}

type Told = <T>(value: T) => T

/** HTTP/2 has no `…Distinct`. */
function stripTable(table: NodeJS.Dict<unknown> = {}, drop: (name: string) => boolean, told: Told | undefined): void {
  for (const [name, value] of Object.entries(table)) {
    if (drop(name)) delete table[name]
    else if (told !== undefined) table[name] = Array.isArray(value) ? value.map(told) : told(value)
  }
}

/** Names and values alternate. */
function stripLines(lines: string[], drop: (name: string) => boolean, told: Told | undefined): void {
  const kept: string[] = []
  for (let i = 0; i + 1 < lines.length; i += 2) {
    const [name, value] = [lines[i] as string, lines[i + 1] as string]
    if (!drop(name)) kept.push(name, told?.(value) ?? value)
  }
  lines.splice(0, lines.length, ...kept)
}

/** What a framework's request object, or Node's own, remembers of the URL and the cookies. */
export function stripParsed(request: object, { query, cookies }: CredentialPlaces): void {
  const held = request as Record<PropertyKey, unknown>
  if (query.size > 0) {
    // `originalUrl` of Express, under a symbol in Fastify.
    for (const key of Reflect.ownKeys(held)) {
      const { value } = Object.getOwnPropertyDescriptor(held, key) as PropertyDescriptor
      if (typeof value !== 'string') continue
      const stripped = withoutParameters(value, query)
      if (stripped !== value) held[key] = stripped
    }
    // `parseurl` makes them again when it is asked.
    for (const key of ['_parsedUrl', '_parsedOriginalUrl']) delete held[key]
    forget(held, 'query', query)
  }
  for (const key of ['cookies', 'signedCookies']) forget(held, key, cookies)
}

function forget(holder: Record<PropertyKey, unknown>, key: string, names: ReadonlySet<string>): void {
  const table = Object.getOwnPropertyDescriptor(holder, key)?.value as unknown
  if (typeof table !== 'object' || table === null) return
  for (const name of names) delete (table as Record<string, unknown>)[name]
}

/** What is no text, or has no query, comes back as it is. */
export function withoutParameters<T>(value: T, names: ReadonlySet<string>): T
export function withoutParameters(url: unknown, names: ReadonlySet<string>): unknown {
  if (typeof url !== 'string') return url
  const start = url.indexOf('?')
  if (start === -1) return url
  const kept = url
    .slice(start + 1)
    .split('&')
    .filter((pair) => {
      const [name] = new URLSearchParams(pair).keys()
      return name === undefined || !names.has(name)
    })
  return kept.length === 0 ? url.slice(0, start) : `${url.slice(0, start)}?${kept.join('&')}`
}
