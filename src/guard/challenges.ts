/** `WWW-Authenticate` of a denial: which schemes would help, and what a token would have to be for. */
import { type Shortfall, shortfallsOf } from '../policy/evaluate.ts'
import { isTokenScheme } from '../policy/token-schemes.ts'
import type { Credentials } from '../schemes/authenticate.ts'
import type { Challenge, Outcome, Scheme } from '../schemes/scheme.ts'
import type { DenialReason, SchemeKind } from '../types.ts'
import type { Loaded } from './load.ts'

/** One protection space for the whole agent (RFC 9110 §11.5); a constant, so that it tells nothing. */
const REALM = 'a2a'

/** A response header has to fit a client's buffer; alternatives beyond these are not announced. */
const MAX_CHALLENGES = 16

/** What is refused, as far as challenges go. */
export interface Refused {
  readonly reason: DenialReason
  readonly code: string
  /** The alternatives that failed. Absent: a credential was bad, and every alternative of the card is open. */
  readonly shortfalls?: readonly Shortfall[]
}

/**
 * Every alternative that failed contributes the schemes it lacks, in card order, each challenge once. A scheme whose
 * credential is good but for scopes says `insufficient_scope` and all the scopes the next token needs (RFC 6750 §3.1), so
 * that a client which asks for exactly these is let in.
 */
export function challengesOf(loaded: Loaded, credentials: Credentials, refused: Refused): Challenge[] {
  const { reason, code, shortfalls } = refused
  const isForbidden = reason === 'PERMISSION_DENIED'
  if (!isForbidden && reason !== 'UNAUTHENTICATED') return []
  // What an access rule refuses, no other credential is promised to get: the rules are not public.
  if (isForbidden && code !== 'ERR_SCOPE_INSUFFICIENT' && (shortfalls ?? []).length === 0) return []
  const { byName, policy } = loaded
  const found = new Map<string, Challenge>()
  // Asked for once in a denial: a custom scheme may make a nonce each time.
  const asked = new Map<Scheme, readonly Challenge[]>()
  const add = (scheme: Scheme, scopes: readonly string[], error: ChallengeError | undefined) => {
    const challenges = asked.get(scheme) ?? scheme.challenges
    asked.set(scheme, challenges)
    for (const challenge of challengesFor(loaded, scheme.kind, challenges, scopes, error)) {
      if (found.size < MAX_CHALLENGES) found.set(JSON.stringify(challenge), challenge)
    }
  }
  const alternatives = shortfalls?.map(({ requirement }) => requirement) ?? policy.card.requirements
  for (const { schemes } of alternatives) {
    for (const { name, scopes } of schemes) {
      const scheme = byName.get(name)
      if (scheme === undefined) continue
      const outcome = credentials.outcomes.get(scheme)
      const part = credentials.parts.get(name)
      const isMet = part !== undefined && scopes.every((scope) => part.scopes.has(scope))
      if (isMet) continue
      add(scheme, neededScopes(loaded, credentials, name, scopes), part === undefined ? errorOf(outcome) : LACKS_SCOPE)
    }
  }
  // A 401 always says how to authenticate (RFC 9110 §15.5.2), even where every alternative was met but a stray credential
  // is bad; and a scheme that only skills ask for has its say.
  if (found.size === 0)
    for (const [scheme, outcome] of credentials.outcomes)
      if (outcome.kind !== 'satisfied')
        add(scheme, neededScopes(loaded, credentials, scheme.name, []), errorOf(outcome))
  if (found.size === 0) for (const scheme of loaded.schemes) add(scheme, [], undefined)
  return [...found.values()]
}

/**
 * What an alternative lists, what the policy asks of every token of the scheme, and, where a skill adds to the agent's
 * requirements, what the token it replaces was good for there.
 */
function neededScopes(
  { policy }: Loaded,
  { parts }: Credentials,
  name: string,
  listed: readonly string[],
): readonly string[] {
  const config = policy.schemes.get(name)
  const always = config !== undefined && isTokenScheme(config) ? config.requiredScopes : []
  const met =
    policy.skills.combine === 'add' && parts.has(name)
      ? policy.card.requirements.find(
          (one) => one.schemes.some((scheme) => scheme.name === name) && shortfallsOf([one], parts) === undefined,
        )
      : undefined
  const kept = met?.schemes.filter((scheme) => scheme.name === name).flatMap(({ scopes }) => scopes) ?? []
  return [...new Set([...kept, ...listed, ...always])]
}

interface ChallengeError {
  /** The challenge it stands in. Absent, or none of the scheme's: all of them. */
  readonly scheme?: string
  readonly error: string
}

const INVALID: ChallengeError = { scheme: 'Bearer', error: 'invalid_token' }
const LACKS_SCOPE: ChallengeError = { error: 'insufficient_scope' }

/** RFC 6750 §3.1: no error code when no credential was sent. */
function errorOf(outcome: Outcome | undefined): ChallengeError | undefined {
  if (outcome?.kind === 'invalid' && outcome.code === 'ERR_SCOPE_INSUFFICIENT') return LACKS_SCOPE
  return outcome?.kind === 'invalid' ? (outcome.challenge ?? INVALID) : undefined
}

function challengesFor(
  loaded: Loaded,
  kind: SchemeKind,
  challenges: readonly Challenge[],
  scopes: readonly string[],
  error: ChallengeError | undefined,
): Challenge[] {
  const isNamed = challenges.some((challenge) => challenge.scheme === error?.scheme)
  return challenges.map((challenge) => {
    const hasRealm = challenge.params.some(([param]) => param.toLowerCase() === 'realm')
    const params = hasRealm ? challenge.params : [['realm', REALM] as const, ...challenge.params]
    if (challenge.scheme !== 'Bearer' && challenge.scheme !== 'DPoP') return { scheme: challenge.scheme, params }
    return {
      scheme: challenge.scheme,
      params: [
        ...params,
        ...(error === undefined || (isNamed && challenge.scheme !== error.scheme)
          ? []
          : [['error', error.error] as const]),
        ...(scopes.length === 0 ? [] : [['scope', scopes.join(' ')] as const]),
        ...(loaded.metadata === undefined || kind === 'http'
          ? []
          : [['resource_metadata', loaded.metadata.url] as const]),
      ],
    }
  })
}
