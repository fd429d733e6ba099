/** The credentials that arrived with a request, as digests. */
import { readApiKey } from '../internal/api-key-format.ts'
import type { Principal } from '../types.ts'
import { type Fingerprint, fingerprint } from './fingerprints.ts'

export type CredentialKind = 'bearer' | 'basic' | 'apiKey' | 'cookie' | 'dpopProof' | 'authorization' | 'other'

/** A credential that arrived: what it was and where, never what it said. */
export interface InboundCredential {
  readonly kind: CredentialKind
  /** Where it arrived: `header authorization`, `cookie sid`, `query key`. */
  readonly place: string
  /** `jti` of a verified token, the id in a generated API key, or a name that is good in this process only. */
  readonly id: string
}

/** A credential in clear text, for callers who did not come through an adapter. Its digest is made at once. */
export interface PresentedCredential {
  readonly kind: CredentialKind
  readonly value: string
  readonly place?: string
  readonly id?: string
}

/** Where schemes look: lower-case header names, parameters and cookies as the card writes them. */
export interface CredentialPlaces {
  readonly headers: ReadonlySet<string>
  readonly query: ReadonlySet<string>
  readonly cookies: ReadonlySet<string>
}

const fingerprints = new WeakMap<InboundCredential, Fingerprint>()

export function fingerprintOf(credential: InboundCredential): Fingerprint | undefined {
  return fingerprints.get(credential)
}

/** `undefined` for a text that is too short to be told from any other. */
export function inboundCredential({ kind, value, place = 'elsewhere', id }: PresentedCredential) {
  const found = fingerprint(value)
  if (found === undefined) return undefined
  const credential: InboundCredential = Object.freeze({ kind, place, id: id ?? found.name })
  fingerprints.set(credential, found)
  return credential
}

/** Headers that hold a credential by their name, whether or not a scheme of the card reads them. */
const KNOWN_HEADERS = new Set(['x-api-key', 'api-key', 'x-auth-token', 'x-access-token'])
/** RFC 6750 §2.3. */
const KNOWN_PARAMETERS = new Set(['access_token'])
/** Of a cookie that no scheme reads: shorter ones are languages and themes. */
const SHORTEST_COOKIE = 16

/**
 * Everything in `rawHeaders` and `target` that is or may be a credential, verified or not: what the caller sent is not the
 * agent's to pass on.
 */
export function credentialsIn(
  { rawHeaders, target }: { readonly rawHeaders: readonly string[]; readonly target: string },
  places: CredentialPlaces,
  principal: Principal | undefined,
): InboundCredential[] {
  const found = new Map<string, InboundCredential>()
  const add = (kind: CredentialKind, value: string, place: string, id?: string) => {
    const key = `${value}\n${place}`
    if (found.has(key)) return
    const made = inboundCredential({ kind, value, place, ...(id === undefined ? {} : { id }) })
    if (made !== undefined) found.set(key, made)
  }
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase()
    const value = (rawHeaders[i + 1] as string).trim()
    const place = `header ${name}`
    if (name === 'authorization' || name === 'proxy-authorization') addAuthorization(value, place, principal, add)
    else if (name === 'cookie') addCookies(value, places.cookies, add)
    else if (name === 'dpop') add('dpopProof', value, place)
    else if (places.headers.has(name) || KNOWN_HEADERS.has(name.replaceAll('_', '-')))
      add('apiKey', value, place, readApiKey(value)?.id)
  }
  const start = target.indexOf('?')
  if (start !== -1) {
    for (const [name, value] of new URLSearchParams(target.slice(start + 1))) {
      if (places.query.has(name)) add('apiKey', value, `query ${name}`, readApiKey(value)?.id)
      else if (KNOWN_PARAMETERS.has(name)) add('bearer', value, `query ${name}`)
    }
  }
  return [...found.values()]
}

type Add = (kind: CredentialKind, value: string, place: string, id?: string) => void

function addAuthorization(value: string, place: string, principal: Principal | undefined, add: Add): void {
  const [, scheme = '', credentials = value] = /^(\S+)\s+(.+)$/.exec(value) ?? []
  const isToken = /^(?:bearer|dpop)$/i.test(scheme)
  const jti = principal?.claims.jti
  add(isToken ? 'bearer' : 'authorization', credentials, place, isToken && typeof jti === 'string' ? jti : undefined)
  if (scheme.toLowerCase() !== 'basic') return
  const pair = Buffer.from(credentials, 'base64').toString()
  add('basic', pair.slice(pair.indexOf(':') + 1), place)
}

function addCookies(line: string, declared: ReadonlySet<string>, add: Add): void {
  for (const pair of line.split(';')) {
    const equals = pair.indexOf('=')
    const name = pair.slice(0, Math.max(equals, 0)).trim()
    const value = pair
      .slice(equals + 1)
      .trim()
      .replace(/^"(.*)"$/, '$1')
    if (declared.has(name) || value.length >= SHORTEST_COOKIE) add('cookie', value, `cookie ${name}`)
  }
}
