/**
 * The keys of one issuer. A set from the network is fetched at most once at a time and never faster than the cooldowns
 * below, whatever `kid` values arrive; a known key is found synchronously.
 */
import { type ErrorCode, TrustError } from '../errors.ts'
import type { Clock, Logger } from '../types.ts'
import { fetchJson } from './fetch-json.ts'
import { type KeyRefusal, loadVerificationKey, type VerificationKey } from './verification-key.ts'

/** Older than this, a set is fetched again in the background while it goes on answering. */
const REFRESH_AFTER_MS = 5 * 60_000
/** Older than this, a fresh set is awaited: a removed key is gone after at most this long. */
const MAX_AGE_MS = 10 * 60_000
/** While the issuer cannot be reached, a set answers no longer than this after it was fetched. */
const STALE_IF_ERROR_MS = 60 * 60_000
/** An unknown `kid` causes a fetch no sooner than this after the last one. */
const UNKNOWN_KID_COOLDOWN_MS = 30_000
/** After a failed fetch the next one waits this long. */
const ERROR_COOLDOWN_MS = 5000
/** A fetch that has not ended after this long is given up; what it still brings is ignored. */
const FLIGHT_MS = 15_000
/** A `kid` that was looked for and not found is not looked for again for this long. */
const NEGATIVE_KID_MS = 60_000
const MAX_NEGATIVE_KIDS = 1000
const MAX_KEYS = 100

export type JwksSource =
  | { readonly jwks: unknown }
  /** A function where the URL has to be discovered; it is asked before each fetch and may reject. */
  | { readonly url: string | (() => Promise<string>) }

export interface JwksCacheOptions {
  readonly source: JwksSource
  /** The guarded fetch. Not used for `source.jwks`. */
  readonly fetch: typeof globalThis.fetch
  readonly clock: Clock
  readonly logger?: Logger
}

export type KeyLookup =
  | { readonly kind: 'found'; readonly key: VerificationKey }
  | { readonly kind: 'unknown'; readonly detail: string }
  | {
      readonly kind: 'unavailable'
      readonly code: ErrorCode
      readonly retryAfterSeconds: number
      readonly detail: string
    }

export interface RefusedKey {
  readonly index: number
  readonly kid: string | undefined
  readonly reason: KeyRefusal
}

export interface JwksCache {
  /**
   * The one key that may verify `alg` under `kid`; without a `kid`, the only key that may verify `alg`. Never rejects.
   * A key object stays the same over refreshes as long as the issuer publishes it unchanged, so that `===` on it says
   * whether an earlier result still stands.
   */
  find(kid: string | undefined, alg: string): KeyLookup | Promise<KeyLookup>
  /** Fetches now. Rejects with `ERR_JWKS_UNAVAILABLE` or, for a set without a usable key, `ERR_JWKS_INVALID`. */
  warm(): Promise<void>
  /** Keys of the current set that are not used, and why. */
  refused(): readonly RefusedKey[]
  health(): { readonly ok: boolean; readonly detail?: string }
}

interface KeySet {
  readonly byKid: ReadonlyMap<string, readonly VerificationKey[]>
  readonly keys: readonly VerificationKey[]
  /** Every `kid` the set mentions, those of refused keys included. */
  readonly kids: ReadonlySet<string>
  readonly refused: readonly RefusedKey[]
}

/** Throws `ERR_JWKS_INVALID` when a set given as `source.jwks` is no JWK Set or has no usable key. */
export function createJwksCache(options: JwksCacheOptions): JwksCache {
  return 'jwks' in options.source ? fixedSet(options.source.jwks) : remoteSet(options, options.source.url)
}

function fixedSet(jwks: unknown): JwksCache {
  const set = loadKeySet(jwks, [])
  assertUsable(set)
  return {
    find: (kid, alg) => lookUp(set, kid, alg),
    warm: () => Promise.resolve(),
    refused: () => set.refused,
    health: () => ({ ok: true }),
  }
}

function remoteSet(options: JwksCacheOptions, url: string | (() => Promise<string>)): JwksCache {
  const { fetch, clock, logger } = options
  let set: KeySet | undefined
  let fetchedAt = 0
  let failedAt: number | undefined
  let failure: unknown
  let flight: { readonly startedAt: number; readonly done: Promise<void> } | undefined
  const missing = new Map<string, number>()

  /** Time since `then`. A clock that was set back makes everything old rather than fresh for longer. */
  const since = (then: number): number => {
    const elapsed = clock() - then
    return elapsed < 0 ? Number.POSITIVE_INFINITY : elapsed
  }

  function refresh(): Promise<void> {
    if (flight !== undefined && since(flight.startedAt) < FLIGHT_MS) return flight.done
    const mine = { startedAt: clock(), done: load().then(accept, reject) }
    flight = mine
    return mine.done

    async function load(): Promise<KeySet> {
      const target = typeof url === 'string' ? url : await url()
      return loadKeySet(
        await fetchJson(fetch, target, 'application/jwk-set+json, application/json'),
        set === undefined ? [] : set.keys,
      )
    }
    // An answer that comes after its flight was given up must not overwrite what a later one brought.
    function accept(loaded: KeySet): void {
      if (flight !== mine) return
      flight = undefined
      failedAt = undefined
      fetchedAt = clock()
      set = loaded
      if (loaded.refused.length > 0) logger?.warn({ refused: loaded.refused }, 'keys of a JWK Set are not used')
    }
    function reject(error: unknown): void {
      if (flight !== mine) return
      flight = undefined
      failedAt = clock()
      failure = error
      logger?.warn({ error: describe(error), serving: set !== undefined }, 'a JWK Set cannot be fetched')
    }
  }

  const coolingDown = (): boolean => failedAt !== undefined && since(failedAt) < ERROR_COOLDOWN_MS

  function unavailable(): KeyLookup {
    const wait = failedAt === undefined ? 0 : ERROR_COOLDOWN_MS - since(failedAt)
    return {
      kind: 'unavailable',
      code: 'ERR_JWKS_UNAVAILABLE',
      retryAfterSeconds: Math.max(1, Math.ceil(wait / 1000)),
      detail: describe(failure),
    }
  }

  /** Answers from what is at hand. */
  function answer(kid: string | undefined, alg: string): KeyLookup {
    if (set === undefined || since(fetchedAt) > STALE_IF_ERROR_MS) return unavailable()
    const result = lookUp(set, kid, alg)
    // With the issuer out of reach nobody can say that a key does not exist.
    return result.kind === 'unknown' && failedAt !== undefined && kid !== undefined && !set.kids.has(kid)
      ? unavailable()
      : result
  }

  async function refreshThenAnswer(kid: string | undefined, alg: string): Promise<KeyLookup> {
    await refresh()
    const result = answer(kid, alg)
    if (kid !== undefined && result.kind === 'unknown') remember(kid)
    return result
  }

  function remember(kid: string): void {
    if (missing.size >= MAX_NEGATIVE_KIDS) missing.delete(missing.keys().next().value as string)
    missing.set(kid, clock())
  }

  function maySeek(kid: string): boolean {
    const soughtAt = missing.get(kid)
    if (soughtAt !== undefined && since(soughtAt) < NEGATIVE_KID_MS) return false
    return since(fetchedAt) >= UNKNOWN_KID_COOLDOWN_MS
  }

  function find(kid: string | undefined, alg: string): KeyLookup | Promise<KeyLookup> {
    const age = since(fetchedAt)
    if (set === undefined || age > MAX_AGE_MS) {
      // An issuer that has failed already is tried again, but nobody waits for it while the last set still counts.
      const wait = set === undefined || failedAt === undefined || age > STALE_IF_ERROR_MS
      if (!coolingDown() && wait) return refreshThenAnswer(kid, alg)
      if (!coolingDown()) void refresh()
      return answer(kid, alg)
    }
    if (age > REFRESH_AFTER_MS && !coolingDown()) void refresh()
    const known = kid === undefined || set.kids.has(kid)
    return known || coolingDown() || !maySeek(kid) ? answer(kid, alg) : refreshThenAnswer(kid, alg)
  }

  return {
    find,
    async warm() {
      await refresh()
      if (set === undefined || failedAt !== undefined) {
        throw new TrustError('ERR_JWKS_UNAVAILABLE', { cause: failure, details: { reason: describe(failure) } })
      }
      assertUsable(set)
    },
    refused: () => set?.refused ?? [],
    health() {
      if (set === undefined) return { ok: false, detail: 'no keys were fetched yet' }
      if (since(fetchedAt) > STALE_IF_ERROR_MS) return { ok: false, detail: `no current keys: ${describe(failure)}` }
      return failedAt === undefined ? { ok: true } : { ok: true, detail: `serving older keys: ${describe(failure)}` }
    },
  }
}

function lookUp(set: KeySet, kid: string | undefined, alg: string): KeyLookup {
  let match: VerificationKey | undefined
  for (const key of kid === undefined ? set.keys : (set.byKid.get(kid) ?? [])) {
    if (!key.algorithms.includes(alg)) continue
    if (match !== undefined) return { kind: 'unknown', detail: 'several keys could be meant and there is no kid' }
    match = key
  }
  if (match !== undefined) return { kind: 'found', key: match }
  const refusal = set.refused.find((entry) => kid !== undefined && entry.kid === kid)
  return { kind: 'unknown', detail: refusal?.reason ?? 'no key of the issuer has this kid and algorithm' }
}

/** RFC 7517 §5. One bad key never spoils the others; too many keys spoil the set. */
function loadKeySet(jwks: unknown, previous: readonly VerificationKey[]): KeySet {
  const entries =
    typeof jwks === 'object' && jwks !== null && Object.hasOwn(jwks, 'keys') ? Reflect.get(jwks, 'keys') : 0
  if (!Array.isArray(entries)) throw new TrustError('ERR_JWKS_INVALID', { details: { reason: 'no array "keys"' } })
  if (entries.length > MAX_KEYS) {
    throw new TrustError('ERR_JWKS_INVALID', { details: { reason: 'too many keys', limit: MAX_KEYS } })
  }
  // A key published unchanged keeps its object, and the same key listed twice is one key.
  const known = new Map(previous.map((key) => [key.identity, key]))
  const loaded = new Map<VerificationKey, number>()
  const refused: RefusedKey[] = []
  for (const [index, entry] of entries.entries()) {
    const result = loadVerificationKey(entry)
    if (!result.ok) {
      refused.push({ index, kid: result.kid, reason: result.reason })
      continue
    }
    const key = known.get(result.key.identity) ?? result.key
    known.set(key.identity, key)
    if (!loaded.has(key)) loaded.set(key, index)
  }

  // RFC 7517 §4.5: one `kid` only for keys that cannot be confused. Which of two is meant is not ours to guess.
  const usable = [...loaded.keys()]
  const confusable = (key: VerificationKey): boolean =>
    key.kid !== undefined &&
    usable.some(
      (other) => other !== key && other.kid === key.kid && other.algorithms.some((alg) => key.algorithms.includes(alg)),
    )
  const keys: VerificationKey[] = []
  const byKid = new Map<string, VerificationKey[]>()
  for (const [key, index] of loaded) {
    if (confusable(key)) {
      refused.push({ index, kid: key.kid, reason: 'kid is used by two different keys' })
      continue
    }
    keys.push(key)
    if (key.kid !== undefined) byKid.set(key.kid, [...(byKid.get(key.kid) ?? []), key])
  }
  const kids = new Set([...byKid.keys(), ...refused.map((entry) => entry.kid).filter((kid) => kid !== undefined)])
  return { keys, byKid, kids, refused }
}

function assertUsable(set: KeySet): void {
  if (set.keys.length > 0) return
  const reasons = [...new Set(set.refused.map((entry) => entry.reason))]
  throw new TrustError('ERR_JWKS_INVALID', { details: { reason: 'no usable key', refused: reasons } })
}

/** For logs and `detail`: code and short facts; never a response body. */
function describe(error: unknown): string {
  if (!(error instanceof TrustError)) return error === undefined ? 'not fetched yet' : 'unexpected failure'
  const facts = Object.entries(error.details).map(([name, value]) => `${name} ${String(value)}`)
  return [error.code, ...facts].join(', ')
}
