/** HTTP Basic (RFC 7617): user name and password against scrypt hashes. */
import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isPassword, type PasswordHash, parsePasswordHash } from '../internal/password-hash.ts'
import { createWorkQueue } from '../internal/work-queue.ts'
import type { BasicSchemeConfig, BasicUser } from '../policy/compiled.ts'
import { malformed, readAuthorization } from './authorization.ts'
import type { CredentialSource, Outcome, Scheme, SchemeContext } from './scheme.ts'

/** Longest credentials read, in characters of base64. */
const MAX_CREDENTIALS = 2048
/** RFC 4648 §4, padded; whether the last bits are zero is asked by encoding again. */
const BASE64 =
  /^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$|^(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused (RFC 7617 §2)
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/

/** A good password is taken for good so long without hashing it again. */
const REMEMBER_MS = 60_000
const MAX_REMEMBERED = 1000
/** Each check holds a thread of Node's pool (4 by default, shared with DNS and files) and up to 64 MiB. */
const CHECKS_AT_ONCE = 2
const MAX_WAITING = 64

interface Known {
  readonly user: BasicUser
  readonly stored: PasswordHash
  readonly satisfied: Outcome
}

/**
 * Checks a user name and password against the configured hashes: known, not revoked, not expired. An unknown user costs
 * what a known one costs. Good pairs are remembered for a minute under an HMAC with a key of this scheme, and whether the
 * user is revoked or expired is asked every time; wrong ones are hashed every time, two at once, with 64 waiting
 * (beyond that: unavailable). It does not slow down guessing: `limits.failedAuthentication` does.
 *
 * Throws `TypeError` for a hash that cannot be used and for two users of one name.
 */
export function createBasicScheme(config: BasicSchemeConfig, context: Pick<SchemeContext, 'clock'>): Scheme {
  const { name } = config
  const { clock } = context
  const known = knownUsers(config)
  const costs = [...known.values()].map(({ stored }) => stored)
  const key = randomBytes(32)
  const remembered = new LRUCache<string, { readonly entry: Known; readonly untilMs: number }>({ max: MAX_REMEMBERED })
  const queue = createWorkQueue({ atOnce: CHECKS_AT_ONCE, waiting: MAX_WAITING })
  const inFlight = new Map<string, Promise<boolean>>()

  function authenticate(source: CredentialSource): Outcome | Promise<Outcome> {
    const pair = readPair(source)
    if ('kind' in pair) return pair
    const digest = digestOf(pair)
    const hit = remembered.get(digest)
    if (hit !== undefined && clock() < hit.untilMs) return judge(hit.entry)
    const entry = known.get(pair.user)
    const check = shared(digest, () => isPassword(pair.password, entry?.stored ?? standIn(pair.user)))
    if (check === undefined) return { kind: 'unavailable', code: 'ERR_OVERLOADED', retryAfterSeconds: 1 }
    return check.then((matches) => {
      if (entry === undefined) return { kind: 'invalid', code: 'ERR_PASSWORD_INVALID' }
      if (!matches) return { kind: 'invalid', code: 'ERR_PASSWORD_INVALID', detail: `user ${entry.user.user}` }
      remembered.set(digest, { entry, untilMs: clock() + REMEMBER_MS })
      return judge(entry)
    })
  }

  function judge({ user, satisfied }: Known): Outcome {
    if (user.revoked === true) return { kind: 'invalid', code: 'ERR_CREDENTIAL_REVOKED', detail: `user ${user.user}` }
    if (user.expiresAt !== undefined && clock() / 1000 >= user.expiresAt)
      return { kind: 'invalid', code: 'ERR_PASSWORD_EXPIRED', detail: `user ${user.user}` }
    return satisfied
  }

  /** Never the password itself, and of no use outside of this object. */
  function digestOf({ user, password }: Pair): string {
    return createHmac('sha256', key)
      .update(`${Buffer.byteLength(user)}:${user}${password}`)
      .digest('base64')
  }

  /** One check for all who present the same pair at the same time. */
  function shared(digest: string, work: () => Promise<boolean>): Promise<boolean> | undefined {
    const pending = inFlight.get(digest) ?? queue.run(work)?.finally(() => inFlight.delete(digest))
    if (pending !== undefined) inFlight.set(digest, pending)
    return pending
  }

  /** For a user who is not there: costs and sizes of one who is, always the same one for the same name. */
  function standIn(user: string): PasswordHash {
    const pick = createHmac('sha256', key).update(`stand-in:${user}`).digest().readUInt32BE(0)
    return costs[pick % costs.length] as PasswordHash
  }

  return {
    name,
    kind: 'basic',
    location: 'header:authorization',
    challenges: [{ scheme: 'Basic', params: [['charset', 'UTF-8']] }],
    authenticate,
    claimedId(source) {
      const pair = readPair(source)
      return 'kind' in pair ? undefined : pair.user
    },
  }
}

interface Pair {
  readonly user: string
  readonly password: string
}

/** RFC 7617 §2: the first colon separates, so that a password may have colons and a user name none. */
function readPair({ headers }: CredentialSource): Pair | Exclude<Outcome, { kind: 'satisfied' }> {
  const presented = readAuthorization(headers, 'basic', MAX_CREDENTIALS)
  if (presented.kind !== 'credentials') return presented
  const text = decode(presented.text)
  if (text === undefined) return malformed('Basic is not followed by base64 of UTF-8')
  if (CONTROL.test(text)) return malformed('a control character in user name or password')
  const colon = text.indexOf(':')
  if (colon < 0) return malformed('no colon between user name and password')
  // RFC 8265 §4: one text for what looks alike, as the entry was made.
  const [user, password] = [text.slice(0, colon).normalize('NFC'), text.slice(colon + 1).normalize('NFC')]
  return user === '' || password === '' ? { kind: 'invalid', code: 'ERR_PASSWORD_INVALID' } : { user, password }
}

function decode(base64: string): string | undefined {
  const bytes = BASE64.test(base64) ? Buffer.from(base64, 'base64') : undefined
  if (bytes === undefined || bytes.toString('base64') !== base64) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function knownUsers(config: BasicSchemeConfig): ReadonlyMap<string, Known> {
  const known = new Map<string, Known>()
  for (const user of config.users) {
    const stored = parsePasswordHash(user.scrypt)
    if (typeof stored === 'string') throw new TypeError(`'users' of '${config.name}': 'scrypt' ${stored}`)
    if (known.has(user.user)) throw new TypeError(`'users' of '${config.name}': 'user' ${user.user} is listed twice`)
    known.set(user.user, { user, stored, satisfied: satisfiedBy(config.name, user) })
  }
  if (known.size === 0) throw new TypeError(`'users' of '${config.name}' is empty`)
  return known
}

function satisfiedBy(scheme: string, { user, owner, scopes, tenant, expiresAt }: BasicUser): Outcome {
  const part = Object.freeze({
    scheme,
    kind: 'basic' as const,
    // The scheme is the issuer: the same name under two schemes is two callers.
    issuer: scheme,
    subject: owner,
    ...(tenant === undefined ? {} : { tenant }),
    scopes: new Set(scopes),
    claims: Object.freeze({ user }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    credential: Object.freeze({ keyId: user }),
  })
  return Object.freeze({ kind: 'satisfied', part })
}
