/** API keys in a header, a query parameter or a cookie (A2A `APIKeySecurityScheme`). Only digests are held. */
import { hash, timingSafeEqual } from 'node:crypto'
import type { ApiKeyRecord, ApiKeySchemeConfig } from '../policy/compiled.ts'
import type { CredentialSource, Outcome, Scheme, SchemeContext } from './scheme.ts'

/** Longest key looked at, in characters. */
const MAX_KEY_LENGTH = 1024
/** Visible ASCII: a key outside it would have several encodings and so several digests. */
const KEY_TEXT = /^[\x21-\x7e]+$/
const SHA256_HEX = /^[0-9a-f]{64}$/

interface Candidate {
  readonly digest: Buffer
  readonly record: ApiKeyRecord
  readonly satisfied: Outcome
}

/** What was presented: nothing, one value, or more than one reading. */
type Presented = { readonly value: string } | 'nothing' | { readonly ambiguous: string }

/**
 * Checks a presented key against the configured digests: known, begun, not expired. It does not check what the key may
 * do, and it cannot know whether a key is strong: digests are unsalted, so keys must be random, not chosen.
 *
 * Throws `TypeError` for a record that is not usable, and for two records with one digest or one id.
 */
export function createApiKeyScheme(config: ApiKeySchemeConfig, context: Pick<SchemeContext, 'clock'>): Scheme {
  const { name, location, parameter } = config
  const { clock } = context
  const buckets = index(config)

  function authenticate(source: CredentialSource): Outcome {
    const presented = present(source, location, parameter)
    if (presented === 'nothing') return { kind: 'absent' }
    if ('ambiguous' in presented) {
      return { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED', detail: presented.ambiguous }
    }
    const { value } = presented
    if (value.length > MAX_KEY_LENGTH || !KEY_TEXT.test(value)) {
      return { kind: 'invalid', code: 'ERR_API_KEY_UNKNOWN', detail: 'too long, or not visible ASCII' }
    }
    const digest = hash('sha256', value, 'buffer')
    // The bucket is chosen by the digest, which nobody can steer without knowing the key, so how long the look-up takes
    // tells nothing about any key. Inside it every candidate is compared in constant time before anything is decided.
    let match: Candidate | undefined
    for (const candidate of buckets.get(digest.readUInt32BE(0)) ?? []) {
      if (timingSafeEqual(candidate.digest, digest)) match = candidate
    }
    if (match === undefined) return { kind: 'invalid', code: 'ERR_API_KEY_UNKNOWN' }
    const { id, notBefore, expiresAt } = match.record
    const now = clock() / 1000
    if (notBefore !== undefined && now < notBefore) {
      return { kind: 'invalid', code: 'ERR_API_KEY_NOT_YET_VALID', detail: `key ${id}` }
    }
    if (expiresAt !== undefined && now >= expiresAt) {
      return { kind: 'invalid', code: 'ERR_API_KEY_EXPIRED', detail: `key ${id}` }
    }
    return match.satisfied
  }

  return {
    name,
    kind: 'apiKey',
    location: `${location}:${parameter}`,
    // No registered auth-scheme exists for API keys; the name and place are those of the public card.
    challenge: {
      scheme: 'ApiKey',
      params: [
        ['in', location],
        ['name', parameter],
      ],
    },
    authenticate,
  }
}

function index(config: ApiKeySchemeConfig): ReadonlyMap<number, readonly Candidate[]> {
  const buckets = new Map<number, Candidate[]>()
  const digests = new Set<string>()
  const ids = new Set<string>()
  for (const record of config.keys) {
    if (!SHA256_HEX.test(record.sha256))
      throw new TypeError(`'keys' of '${config.name}': 'sha256' is not lower-case hex`)
    if (record.owner === '') throw new TypeError(`'keys' of '${config.name}': 'owner' is empty`)
    // One key with two owners would have two identities, one id for two keys two meanings in the audit log.
    if (digests.has(record.sha256)) throw new TypeError(`'keys' of '${config.name}': a 'sha256' is listed twice`)
    if (ids.has(record.id)) throw new TypeError(`'keys' of '${config.name}': 'id' ${record.id} is listed twice`)
    digests.add(record.sha256)
    ids.add(record.id)
    const digest = Buffer.from(record.sha256, 'hex')
    const prefix = digest.readUInt32BE(0)
    const candidate = { digest, record, satisfied: satisfiedBy(config.name, record) }
    buckets.set(prefix, [...(buckets.get(prefix) ?? []), candidate])
  }
  return buckets
}

function satisfiedBy(scheme: string, record: ApiKeyRecord): Outcome {
  const part = Object.freeze({
    scheme,
    kind: 'apiKey' as const,
    // The scheme is the issuer: the same owner name under two schemes is two callers.
    issuer: scheme,
    subject: record.owner,
    ...(record.tenant === undefined ? {} : { tenant: record.tenant }),
    scopes: new Set(record.scopes),
    claims: Object.freeze({ keyId: record.id }),
    ...(record.expiresAt === undefined ? {} : { expiresAt: record.expiresAt }),
    credential: Object.freeze({ keyId: record.id }),
  })
  return Object.freeze({ kind: 'satisfied', part })
}

function present(source: CredentialSource, location: ApiKeySchemeConfig['location'], parameter: string): Presented {
  switch (location) {
    case 'header':
      return only(source.headers.all(parameter), `several ${parameter} header lines`)
    case 'query':
      return fromQuery(source.query, parameter)
    case 'cookie':
      return only(cookies(source.headers.all('cookie'), parameter), `several cookies named ${parameter}`)
  }
}

function only(values: readonly string[], ambiguous: string): Presented {
  const [value] = values
  if (value === undefined) return 'nothing'
  if (values.length > 1) return { ambiguous }
  return value.trim() === '' ? 'nothing' : { value }
}

/** Names are compared after decoding, so that `%6bey` cannot hide a second `key`. */
function fromQuery(query: string, parameter: string): Presented {
  if (query === '') return 'nothing'
  const values: string[] = []
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=')
    if (decode(equals < 0 ? pair : pair.slice(0, equals)) === parameter)
      values.push(equals < 0 ? '' : pair.slice(equals + 1))
  }
  const result = only(values, `several query parameters named ${parameter}`)
  if (result === 'nothing' || 'ambiguous' in result) return result
  // A form decoder reads `+` as a space and a URI decoder reads it as itself.
  const value = result.value.includes('+') ? undefined : decode(result.value)
  return value === undefined ? { ambiguous: `the query parameter ${parameter} has no single decoding` } : { value }
}

function decode(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** RFC 6265 §4.2.1 pairs. HTTP/2 may split the header (RFC 9113 §8.2.3), so all lines are one list. */
function cookies(lines: readonly string[], name: string): string[] {
  const values: string[] = []
  for (const line of lines) {
    for (const pair of line.split(';')) {
      const equals = pair.indexOf('=')
      if (equals >= 0 && pair.slice(0, equals).trim() === name) values.push(pair.slice(equals + 1).trim())
    }
  }
  return values
}
