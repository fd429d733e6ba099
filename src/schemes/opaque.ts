/**
 * Opaque bearer tokens, for the `http` (bearer), `oauth2` and `openIdConnect` schemes of a card: the issuer is asked
 * what each one is (RFC 7662). What is checked of the answer is in `docs/tokens.md`.
 */
import { LRUCache } from 'lru-cache'
import { TrustError } from '../errors.ts'
import { createBackoff } from '../internal/backoff.ts'
import { digestOf } from '../internal/signature-cache.ts'
import type { OpaqueSchemeConfig } from '../policy/compiled.ts'
import { type PresentedToken, readAccessToken } from './access-token.ts'
import { type ClaimRules, judgeClaims, type ReadClaims, readClaims } from './claims.ts'
import { type Answer, createIntrospection, type Finding } from './introspection.ts'
import type { CredentialSource, Outcome, Scheme, SchemeContext } from './scheme.ts'
import { createSenderConstraint, nameChallenge } from './sender-constraint.ts'
import { claimedIssuer, type Refusal, refuse } from './token.ts'

const MAX_ENTRIES = 10_000
/** Of answers, as JSON. Parsed they take a small multiple of it. */
const MAX_CHARACTERS = 16 * 1024 * 1024
/** Apart from the good ones, so that a flood of guesses cannot push them out. */
const MAX_REFUSED_ENTRIES = 1000
/** How long a token that was refused, or that made the issuer fail, is not asked about again. */
const REFUSED_MS = 5000
/** Questions at once; past it callers are told to come back. */
const MAX_IN_FLIGHT = 64

/** What is remembered of an answer: never that it was enough, which is judged again on every request. */
type Known =
  | { readonly kind: 'active'; readonly claims: ReadClaims; readonly satisfied: Outcome }
  | Refusal
  | Extract<Outcome, { kind: 'unavailable' }>

interface Entry {
  readonly known: Known
  readonly askedAt: number
  readonly until: number
}

/**
 * Validates the header line, that the issuer says `active: true` of the token, and of what it says: issuer (byte-exact,
 * where named), audience, times, claim types, kind of token, binding (`cnf`) and required scopes. An answer counts for
 * `cacheSeconds` and never after `exp`, so what the issuer takes back is noticed at most that much later.
 *
 * Throws `TypeError` for a configuration that would weaken a check, and `ERR_JWKS_INVALID` for a key file without a key.
 */
export function createOpaqueScheme(config: OpaqueSchemeConfig, context: SchemeContext): Scheme {
  assertConfig(config)
  const { clock, logger } = context
  const introspection = createIntrospection(config, context)
  const backoff = createBackoff(clock)
  const rules: ClaimRules = {
    audience: new Set(config.audience),
    clockToleranceSeconds: config.clockToleranceSeconds,
    maxTokenAgeSeconds: config.maxTokenAgeSeconds,
  }
  const keyPrefix = [config.issuer, config.client.id].map((part) => `${part.length}:${part}`).join('')
  const active = new LRUCache<string, Entry>({ max: MAX_ENTRIES, maxSize: MAX_CHARACTERS })
  const refused = new LRUCache<string, Entry>({ max: MAX_REFUSED_ENTRIES })
  const inFlight = new Map<string, Promise<Known>>()
  const constraint = createSenderConstraint(config.senderConstraint, context)
  let lastFailure: { readonly at: number; readonly reason: string } | undefined

  function authenticate(source: CredentialSource): Outcome | Promise<Outcome> {
    const presented = readAccessToken(source.headers, config.maxTokenBytes, source.query)
    if (presented.kind !== 'token') return presented
    const known = recall(presented.token)
    const outcome = known instanceof Promise ? known.then(conclude) : conclude(known)
    return outcome instanceof Promise
      ? outcome.then((settled) => nameChallenge(presented, settled))
      : nameChallenge(presented, outcome)

    function conclude(answer: Known): Outcome | Promise<Outcome> {
      if (answer.kind !== 'active') return answer
      const { claims, satisfied } = answer
      return (
        judgeClaims(claims, rules, clock() / 1000) ??
        constraint.judge(presented as PresentedToken, claims.confirmation, source, lacksScope(claims) ?? satisfied)
      )
    }
  }

  function recall(token: string): Known | Promise<Known> {
    // It looks like a JWT and may still be opaque to us; only one that says whose it is stays with them.
    if (config.otherIssuers.size > 0 && config.otherIssuers.has(claimedIssuer(token) ?? '')) {
      return refuse('ERR_TOKEN_ISSUER', 'a JWT of the issuer of another scheme')
    }
    const key = keyPrefix + digestOf(token)
    const now = clock()
    const entry = fresh(active.get(key), now) ?? fresh(refused.get(key), now)
    return entry?.known ?? inFlight.get(key) ?? begin(token, key)
  }

  /** One question for all who present the same token at the same time. */
  function begin(token: string, key: string): Known | Promise<Known> {
    if (inFlight.size >= MAX_IN_FLIGHT) return { kind: 'unavailable', code: 'ERR_OVERLOADED', retryAfterSeconds: 1 }
    const waitMs = backoff.admit()
    if (waitMs > 0) return unavailable('ERR_INTROSPECTION_UNAVAILABLE', lastFailure?.reason, waitMs)
    const question = ask(token, key).finally(() => inFlight.delete(key))
    inFlight.set(key, question)
    return question
  }

  /** Rejects only where the logger throws. */
  async function ask(token: string, key: string): Promise<Known> {
    // An answer is as old as its question.
    const askedAt = clock()
    try {
      const known = read(await introspection.ask(token))
      backoff.answered()
      remember(key, known, askedAt)
      return known
    } catch (fault) {
      const reason = describe(fault)
      lastFailure = { at: clock(), reason }
      const known = failed(fault, reason)
      if (known.code === 'ERR_INTROSPECTION_INVALID') remember(key, known, askedAt)
      logger?.warn({ scheme: config.name, error: reason }, 'an issuer cannot be asked about a token')
      return known
    }
  }

  /** What a caller's token can bring about is held against that token alone, or one caller could shut out all. */
  function failed(fault: unknown, reason: string) {
    if (!(fault instanceof TrustError) || fault.code !== 'ERR_INTROSPECTION_INVALID') {
      return unavailable('ERR_INTROSPECTION_UNAVAILABLE', reason, backoff.failed())
    }
    backoff.answered()
    return unavailable('ERR_INTROSPECTION_INVALID', reason, REFUSED_MS)
  }

  function remember(key: string, known: Known, askedAt: number): void {
    if (known.kind !== 'active') {
      refused.set(key, { known, askedAt, until: askedAt + REFUSED_MS })
      return
    }
    const until = Math.min(askedAt + config.cacheSeconds * 1000, known.claims.expiresAt * 1000)
    const size = JSON.stringify(known.claims.part.claims).length
    if (until > askedAt) active.set(key, { known, askedAt, until }, { size })
  }

  /** What the answer says, without regard to when and for what it is asked. */
  function read(finding: Finding): Known {
    if (!finding.active) return refuse('ERR_TOKEN_INACTIVE', finding.why)
    const { answer } = finding
    if (Object.hasOwn(answer, 'iss') && answer.iss !== config.issuer) return refuse('ERR_TOKEN_ISSUER')
    const misuse = kindOfToken(answer, config.acceptMissingAudience)
    if (misuse !== undefined) return misuse
    const claims = readClaims({ ...config, rfc9068: false }, answer, undefined, {
      iss: config.issuer,
      // RFC 9068 §2.2: where no resource owner is involved the subject is the client.
      sub: Object.hasOwn(answer, 'client_id') ? answer.client_id : undefined,
      ...(config.acceptMissingAudience ? { aud: config.audience } : {}),
    })
    if ('kind' in claims) return claims
    // RFC 9449 §6.2: the caller has to prove a key, and the answer does not say which.
    if (isDpop(answer) && claims.confirmation?.jkt === undefined)
      return refuse('ERR_TOKEN_BOUND', 'to no key that is named')
    return { kind: 'active', claims, satisfied: Object.freeze({ kind: 'satisfied', part: claims.part }) }
  }

  /** Scopes last: only a caller who is known to be one may learn that it lacks something. */
  function lacksScope({ part }: ReadClaims): Outcome | undefined {
    const missing = config.requiredScopes.find((scope) => !part.scopes.has(scope))
    return missing === undefined ? undefined : refuse('ERR_SCOPE_INSUFFICIENT', missing)
  }

  return {
    name: config.name,
    kind: config.kind,
    location: 'header:authorization',
    challenges: constraint.challenges,
    authenticate,
    warm: () => introspection.warm(),
    health() {
      if (lastFailure === undefined) return { ok: true }
      const detail = `introspection last failed at ${new Date(lastFailure.at).toISOString()}: ${lastFailure.reason}`
      return { ok: !backoff.isDown, detail }
    },
  }
}

/** A clock that was set back makes everything old rather than fresh for longer. */
function fresh(entry: Entry | undefined, now: number): Entry | undefined {
  return entry !== undefined && now >= entry.askedAt && now < entry.until ? entry : undefined
}

/** Marks of tokens that are active and not for presenting: Hydra and Keycloak tell in members of their own. */
const NOT_FOR_ACCESS: ReadonlySet<unknown> = new Set([
  'refresh',
  'refresh_token',
  'offline',
  'id',
  'id_token',
  'logout',
])

/**
 * An introspection endpoint knows refresh tokens too, and says of them that they are active. One who holds such a token
 * must not get in with it.
 */
function kindOfToken(answer: Answer, needsType: boolean): Refusal | undefined {
  const own = (name: string): unknown => (Object.hasOwn(answer, name) ? answer[name] : undefined)
  const lower = (value: unknown): unknown => (typeof value === 'string' ? value.toLowerCase() : value)
  const type = lower(own('token_type'))
  if (type !== undefined && type !== 'bearer' && type !== 'dpop') return refuse('ERR_TOKEN_TYPE', 'token_type')
  for (const member of ['token_use', 'typ']) {
    if (NOT_FOR_ACCESS.has(lower(own(member)))) return refuse('ERR_TOKEN_TYPE', member)
  }
  // An audience is what tells an access token from the others where nothing else does.
  if (needsType && type === undefined && own('aud') === undefined) return refuse('ERR_TOKEN_TYPE', 'no token_type')
  const username = own('username')
  if (username !== undefined && typeof username !== 'string') return refuse('ERR_TOKEN_CLAIMS', 'username')
  return undefined
}

function isDpop({ token_type: type }: Answer): boolean {
  return typeof type === 'string' && type.toLowerCase() === 'dpop'
}

function unavailable(
  code: 'ERR_INTROSPECTION_UNAVAILABLE' | 'ERR_INTROSPECTION_INVALID',
  detail: string | undefined,
  waitMs: number,
): Extract<Outcome, { kind: 'unavailable' }> {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000))
  return { kind: 'unavailable', code, retryAfterSeconds, ...(detail === undefined ? {} : { detail }) }
}

/** For logs and `detail`: code and short facts; never a token and never the answer. */
function describe(fault: unknown): string {
  if (!(fault instanceof TrustError)) return 'unexpected failure'
  return [fault.code, ...Object.entries(fault.details).map(([name, value]) => `${name} ${String(value)}`)].join(', ')
}

/** The policy loader has checked all this with file and line; a mistake here must still not turn into a weaker check. */
function assertConfig(config: OpaqueSchemeConfig): void {
  const assert = (holds: boolean, option: string, what: string): void => {
    if (!holds) throw new TypeError(`'${option}' of scheme '${config.name}' ${what}`)
  }
  const within = (value: number, least: number, most: number) =>
    Number.isFinite(value) && value >= least && value <= most
  const filled = (list: readonly unknown[]) =>
    Array.isArray(list) && list.every((entry) => typeof entry === 'string' && entry !== '')
  assert(typeof config.issuer === 'string' && config.issuer !== '', 'issuer', 'must not be empty')
  assert(filled(config.audience) && config.audience.length > 0, 'audience', 'must be a list of identifiers')
  assert(within(config.clockToleranceSeconds, 0, 300), 'clockToleranceSeconds', 'must be 0 to 300')
  assert(within(config.maxTokenBytes, 1, 65_536), 'maxTokenBytes', 'must be 1 to 65536')
  assert(within(config.cacheSeconds, 0, 300), 'cacheSeconds', 'must be 0 to 300')
  assert(filled(config.scopeClaims), 'scopeClaims', 'must be a list of claim names')
  assert(filled(config.requiredScopes), 'requiredScopes', 'must be a list of scopes')
  assert(
    ['off', 'optional', 'dpop', 'mtls'].includes(config.senderConstraint),
    'senderConstraint',
    "must be 'off', 'optional', 'dpop' or 'mtls'",
  )
}
