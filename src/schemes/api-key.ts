/** API keys in a header, a query parameter or a cookie (A2A `APIKeySecurityScheme`). Only digests are held. */
import { hash, timingSafeEqual } from 'node:crypto'
import { readApiKey } from '../internal/api-key-format.ts'
import type { ApiKeyRecord, ApiKeySchemeConfig } from '../policy/compiled.ts'
import { readKey } from './key-place.ts'
import type { CredentialSource, Outcome, Scheme, SchemeContext } from './scheme.ts'

/** Longest key looked at, in characters. */
const MAX_KEY_LENGTH = 1024
/** Visible ASCII: a key outside it would have several encodings and so several digests. */
const KEY_TEXT = /^[\x21-\x7e]+$/
const SHA256_HEX = /^[0-9a-f]{64}$/
/** Compared where an id is unknown, so that an unknown id takes as long as a known one (A30). */
const NOBODY = Buffer.alloc(32)

interface Candidate {
  readonly digest: Buffer
  readonly record: ApiKeyRecord
  readonly satisfied: Outcome
}

interface Index {
  readonly byId: ReadonlyMap<string, Candidate>
  /** By the first four bytes of the digest, for keys that name no id. */
  readonly byDigest: ReadonlyMap<number, readonly Candidate[]>
}

/**
 * Checks a presented key against the configured digests: known, not revoked, begun, not expired. A generated key
 * (`a2a_<id>_…`) is compared with the entry of its id alone; any other with all whose digest begins alike. It does not
 * check what the key may do, and it cannot know whether a key is strong: digests are unsalted, so keys must be random,
 * not chosen.
 *
 * Throws `TypeError` for a record that is not usable, and for two records with one digest or one id.
 */
export function createApiKeyScheme(config: ApiKeySchemeConfig, context: Pick<SchemeContext, 'clock'>): Scheme {
  const { name, location, parameter } = config
  const { clock } = context
  const known = index(config)

  function authenticate(source: CredentialSource): Outcome {
    const presented = readKey(source, location, parameter)
    if (presented.kind !== 'credentials') return presented
    const { text: value } = presented
    if (value.length > MAX_KEY_LENGTH || !KEY_TEXT.test(value)) {
      return { kind: 'invalid', code: 'ERR_API_KEY_UNKNOWN', detail: 'too long, or not visible ASCII' }
    }
    const named = readApiKey(value)
    if (named?.intact === false) return { kind: 'invalid', code: 'ERR_API_KEY_CHECKSUM' }
    const match = find(known, hash('sha256', value, 'buffer'), named?.id)
    if (match === undefined) return { kind: 'invalid', code: 'ERR_API_KEY_UNKNOWN', ...whichOf(known, named?.id) }
    const { id, notBefore, expiresAt, revoked } = match.record
    if (revoked === true) return { kind: 'invalid', code: 'ERR_CREDENTIAL_REVOKED', detail: `key ${id}` }
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
    challenges: [
      {
        scheme: 'ApiKey',
        params: [
          ['in', location],
          ['name', parameter],
        ],
      },
    ],
    authenticate,
    claimedId(source) {
      const presented = readKey(source, location, parameter)
      return presented.kind === 'credentials' ? readApiKey(presented.text)?.id : undefined
    },
  }
}

/** Every candidate is compared in constant time before anything is decided. */
function find({ byId, byDigest }: Index, digest: Buffer, id: string | undefined): Candidate | undefined {
  if (id !== undefined) {
    const candidate = byId.get(id)
    return timingSafeEqual(candidate?.digest ?? NOBODY, digest) ? candidate : undefined
  }
  // The bucket is chosen by the digest, which nobody can steer without knowing the key, so how long the look-up takes
  // tells nothing about any key.
  let match: Candidate | undefined
  for (const candidate of byDigest.get(digest.readUInt32BE(0)) ?? []) {
    if (timingSafeEqual(candidate.digest, digest)) match = candidate
  }
  return match
}

/** For the operator, and only with an id that the operator gave: what a caller writes is not repeated. */
function whichOf({ byId }: Index, id: string | undefined): { detail?: string } {
  return id !== undefined && byId.has(id) ? { detail: `names key ${id}, and is another` } : {}
}

function index(config: ApiKeySchemeConfig): Index {
  const byDigest = new Map<number, Candidate[]>()
  const digests = new Set<string>()
  const byId = new Map<string, Candidate>()
  for (const record of config.keys) {
    if (!SHA256_HEX.test(record.sha256))
      throw new TypeError(`'keys' of '${config.name}': 'sha256' is not lower-case hex`)
    if (record.owner === '') throw new TypeError(`'keys' of '${config.name}': 'owner' is empty`)
    // One key with two owners would have two identities, one id for two keys two meanings in the audit log.
    if (digests.has(record.sha256)) throw new TypeError(`'keys' of '${config.name}': a 'sha256' is listed twice`)
    if (byId.has(record.id)) throw new TypeError(`'keys' of '${config.name}': 'id' ${record.id} is listed twice`)
    digests.add(record.sha256)
    const digest = Buffer.from(record.sha256, 'hex')
    const prefix = digest.readUInt32BE(0)
    const candidate = { digest, record, satisfied: satisfiedBy(config.name, record) }
    byDigest.set(prefix, [...(byDigest.get(prefix) ?? []), candidate])
    byId.set(record.id, candidate)
  }
  return { byId, byDigest }
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
