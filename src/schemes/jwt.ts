/**
 * JWT bearer tokens, for the `http` (bearer), `oauth2` and `openIdConnect` schemes of a card. What is checked, in which
 * order, is in `docs/tokens.md`. Cheap checks come first, the network and the signature last.
 */
import type { JwksCache, KeyLookup } from '../internal/jwks-cache.ts'
import { createSignatureCache, digestOf } from '../internal/signature-cache.ts'
import {
  isQuickToVerify,
  signatureAlgorithms,
  verifySignature,
  verifySignatureAsync,
} from '../internal/verification-key.ts'
import type { JwtSchemeConfig } from '../policy/compiled.ts'
import { type PresentedToken, readAccessToken } from './access-token.ts'
import { type ClaimRules, judgeClaims, type ReadClaims, readClaims } from './claims.ts'
import { createIssuerKeys } from './issuer-keys.ts'
import type { CredentialSource, Outcome, Scheme, SchemeContext } from './scheme.ts'
import { createSenderConstraint, nameChallenge } from './sender-constraint.ts'
import { type DecodedToken, decodeToken, refuse, type TokenRules } from './token.ts'

/** Signatures being checked on the thread pool at once; past it callers are told to come back. */
const MAX_IN_FLIGHT = 1024

/** What is kept with a token whose signature verified. Nothing in it depends on time. */
interface VerifiedToken {
  readonly alg: string
  readonly kid: string | undefined
  readonly claims: ReadClaims
  /** Made once, so that the repeated path allocates nothing. */
  readonly satisfied: Outcome
}

/** One request with a token. */
interface TokenRequest {
  readonly presented: PresentedToken
  readonly source: CredentialSource
  readonly digest: string
}

/**
 * Validates form, header, algorithm, type, issuer (byte-exact), audience, times, claim types, signature and required
 * scopes of a token in `Authorization: Bearer` or `DPoP`, and its binding to a DPoP key or client certificate as
 * `senderConstraint` says. It does not validate revocation.
 *
 * A repeated token is answered synchronously; issuer, audience, times and key are judged again each time.
 * Throws `TypeError` for a configuration that would weaken a check, and `ERR_JWKS_INVALID` for a key file without a key.
 */
export function createJwtScheme(config: JwtSchemeConfig, context: SchemeContext): Scheme {
  assertConfig(config)
  const { clock } = context
  const tokenRules: TokenRules = { algorithms: new Set(config.algorithms), typ: config.typ }
  const claimRules: ClaimRules = {
    audience: new Set(config.audience),
    clockToleranceSeconds: config.clockToleranceSeconds,
    maxTokenAgeSeconds: config.maxTokenAgeSeconds,
  }
  const issuers = new Map(config.issuers.map((issuer) => [issuer.issuer, createIssuerKeys(issuer, context)]))
  const cache = createSignatureCache<VerifiedToken>()
  const inFlight = new Map<string, Promise<boolean>>()
  const constraint = createSenderConstraint(config.senderConstraint, context)

  function authenticate(source: CredentialSource): Outcome | Promise<Outcome> {
    const presented = readAccessToken(source.headers, config.maxTokenBytes, source.query)
    if (presented.kind !== 'token') return presented
    const outcome = recall({ presented, source, digest: digestOf(presented.token) })
    return outcome instanceof Promise
      ? outcome.then((settled) => nameChallenge(presented, settled))
      : nameChallenge(presented, outcome)
  }

  function recall(request: TokenRequest): Outcome | Promise<Outcome> {
    const cached = cache.get(request.digest)
    if (cached === undefined) return examine(request)

    const { alg, kid, claims, satisfied } = cached.value
    const judged = judge(claims)
    if ('kind' in judged) return judged
    const lookup = judged.keys.find(kid, alg)
    // The very key that verified it is still the issuer's. Anything else starts over.
    if (!(lookup instanceof Promise) && lookup.kind === 'found' && lookup.key === cached.key) {
      return grant(request, claims, satisfied)
    }
    return examine(request)
  }

  /** The token is good. What is left is how it was sent, and what it may do. */
  function grant({ presented, source }: TokenRequest, claims: ReadClaims, satisfied: Outcome) {
    return constraint.judge(presented, claims.confirmation, source, lacksScope(claims) ?? satisfied)
  }

  function examine(request: TokenRequest): Outcome | Promise<Outcome> {
    const decoded = decodeToken(request.presented.token, tokenRules)
    if ('kind' in decoded) return decoded
    // First of all claims: what other issuers put into their tokens is not ours to judge.
    if (!issuers.has(decoded.claims.iss as string)) return refuse('ERR_TOKEN_ISSUER')
    const claims = readClaims(config, decoded.claims, decoded.kid)
    if ('kind' in claims) return claims
    const judged = judge(claims)
    if ('kind' in judged) return judged
    const lookup = judged.keys.find(decoded.kid, decoded.alg)
    return lookup instanceof Promise
      ? lookup.then((found) => verify(request, decoded, claims, found))
      : verify(request, decoded, claims, lookup)
  }

  /** Everything about the claims that can be judged without a key. */
  function judge(claims: ReadClaims): Outcome | { readonly keys: JwksCache } {
    const keys = issuers.get(claims.issuer)
    if (keys === undefined) return refuse('ERR_TOKEN_ISSUER')
    return judgeClaims(claims, claimRules, clock() / 1000) ?? { keys }
  }

  function verify(
    request: TokenRequest,
    decoded: DecodedToken,
    claims: ReadClaims,
    lookup: KeyLookup,
  ): Outcome | Promise<Outcome> {
    if (lookup.kind === 'unavailable') return lookup
    if (lookup.kind === 'unknown') return refuse('ERR_TOKEN_KEY_UNKNOWN', lookup.detail)
    const { key } = lookup
    const { digest } = request
    if (cache.isBad(digest, key)) return refuse('ERR_TOKEN_SIGNATURE')
    const settle = (valid: boolean): Outcome | Promise<Outcome> => {
      if (!valid) {
        cache.setBad(digest, key)
        return refuse('ERR_TOKEN_SIGNATURE')
      }
      const satisfied: Outcome = Object.freeze({ kind: 'satisfied', part: claims.part })
      cache.set(digest, request.presented.token.length, key, { alg: decoded.alg, kid: decoded.kid, claims, satisfied })
      return grant(request, claims, satisfied)
    }
    const { alg, signature } = decoded
    const data = Buffer.from(decoded.signingInput, 'latin1')
    if (isQuickToVerify(alg)) return settle(verifySignature(key, alg, data, signature))
    const pending = shared(`${digest}.${key.identity}`, () => verifySignatureAsync(key, alg, data, signature))
    return pending === undefined
      ? { kind: 'unavailable', code: 'ERR_OVERLOADED', retryAfterSeconds: 1 }
      : pending.then(settle)
  }

  /** One check for all who present the same token at the same time; `undefined` when too many others wait. */
  function shared(name: string, start: () => Promise<boolean>): Promise<boolean> | undefined {
    const pending = inFlight.get(name)
    if (pending !== undefined) return pending
    if (inFlight.size >= MAX_IN_FLIGHT) return undefined
    const started = start().finally(() => inFlight.delete(name))
    inFlight.set(name, started)
    return started
  }

  /** Scopes last: only a caller who is known to be one may learn that it lacks something. */
  function lacksScope({ part }: ReadClaims): Outcome | undefined {
    for (const scope of config.requiredScopes) {
      if (!part.scopes.has(scope)) return refuse('ERR_SCOPE_INSUFFICIENT', scope)
    }
    return undefined
  }

  return {
    name: config.name,
    kind: config.kind,
    location: 'header:authorization',
    challenges: constraint.challenges,
    authenticate,
    async warm() {
      await Promise.all([...issuers.values()].map((keys) => keys.warm()))
    },
    health() {
      const ailing: string[] = []
      let ok = true
      for (const [issuer, keys] of issuers) {
        const state = keys.health()
        ok &&= state.ok
        if (state.detail !== undefined) ailing.push(`${issuer}: ${state.detail}`)
      }
      return ailing.length === 0 ? { ok } : { ok, detail: ailing.join('; ') }
    },
  }
}

/** The policy loader has checked all this with file and line; a mistake here must still not turn into a weaker check. */
function assertConfig(config: JwtSchemeConfig): void {
  const assert = (holds: boolean, option: string, what: string): void => {
    if (!holds) throw new TypeError(`'${option}' of scheme '${config.name}' ${what}`)
  }
  const filled = (list: readonly string[]): boolean =>
    list.every((entry) => typeof entry === 'string' && entry.trim() !== '')
  const within = (value: number, low: number, high: number): boolean =>
    typeof value === 'number' && value >= low && value <= high

  const { algorithms, audience, issuers, senderConstraint } = config
  assert(algorithms.length > 0, 'algorithms', 'is empty')
  assert(
    algorithms.every((alg) => signatureAlgorithms.includes(alg)),
    'algorithms',
    `may hold only ${signatureAlgorithms.join(', ')}`,
  )
  assert(audience.length > 0 && filled(audience), 'audience', 'must be a list of non-empty texts')
  assert(issuers.length > 0 && filled(issuers.map((entry) => entry.issuer)), 'issuers', 'must each have an issuer')
  assert(new Set(issuers.map((entry) => entry.issuer)).size === issuers.length, 'issuers', 'names an issuer twice')
  assert(config.typ === 'at+jwt' || config.typ === 'any', 'typ', "must be 'at+jwt' or 'any'")
  assert(within(config.clockToleranceSeconds, 0, 300), 'clockToleranceSeconds', 'must be 0 to 300')
  assert(within(config.maxTokenBytes, 1, 65_536), 'maxTokenBytes', 'must be 1 to 65536')
  assert(
    config.maxTokenAgeSeconds === undefined || within(config.maxTokenAgeSeconds, 1, Number.MAX_SAFE_INTEGER),
    'maxTokenAgeSeconds',
    'must be positive',
  )
  assert(filled(config.scopeClaims), 'scopeClaims', 'must be a list of claim names')
  assert(filled(config.requiredScopes), 'requiredScopes', 'must be a list of scopes')
  assert(
    ['off', 'optional', 'dpop', 'mtls'].includes(senderConstraint),
    'senderConstraint',
    "must be 'off', 'optional', 'dpop' or 'mtls'",
  )
}
