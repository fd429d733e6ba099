/** From a rule and a caller to a token for another agent: RFC 8693, or the agent's own client credentials. */
import { TrustError } from '../errors.ts'
import type { Authority } from '../guard/authority.ts'
import type { Loaded } from '../guard/load.ts'
import { actorNames } from '../policy/actors.ts'
import type { ObtainingRule } from '../policy/compiled.ts'
import { createDiscovery } from '../schemes/discovery.ts'
import type { Clock, PrincipalPart } from '../types.ts'
import { assertExchanged, assertScopes, EXCHANGE, exchangeForm } from './exchange.ts'
import { cacheKey, createTokenCache, type TokenCache } from './token-cache.ts'
import { type ObtainedToken, requestToken, type TokenServer } from './token-endpoint.ts'

export interface Obtainer {
  /** A token for the rule's destination. `forget` it when the destination says 401. */
  obtain(rule: ObtainingRule, authority: Authority): Promise<{ readonly token: string; forget(): void }>
}

/** Everything that one version of the policy has obtained; gone with it. */
export function createObtainer({ policy, fetch, clock }: Loaded): Obtainer {
  const cache = createTokenCache(clock)
  const servers = new Map<ObtainingRule, TokenServer>()
  for (const rule of policy.delegation) if (rule.obtain !== 'none') servers.set(rule, serverOf(rule, fetch, clock))

  return {
    async obtain(rule, authority) {
      const server = servers.get(rule) as TokenServer
      const scopes = scopesFor(rule, authority)
      const place = [
        rule.issuer,
        rule.endpoint.url,
        rule.client.id,
        rule.audience ?? '',
        rule.resource ?? '',
        ...scopes,
      ]
      if (rule.obtain === 'client_credentials') {
        const key = cacheKey(['client_credentials', ...place])
        return held(cache, key, async () => {
          const granted = await requestToken(server, 'client_credentials', target(rule, scopes))
          return checked(granted, rule, scopes)
        })
      }
      const { part, token } = subjectOf(rule, authority, clock)
      const key = cacheKey(['exchange', authority.principal.id, token, rule.actor, ...place])
      return held(cache, key, () => exchange(server, rule, scopes, part, token))
    },
  }

  async function exchange(
    server: TokenServer,
    rule: ObtainingRule,
    scopes: readonly string[],
    part: PrincipalPart,
    subjectToken: string,
  ): Promise<ObtainedToken> {
    const actorKey = cacheKey(['actor', rule.issuer, rule.endpoint.url, rule.client.id])
    const actor =
      rule.actor === 'client'
        ? undefined
        : await cache.get(actorKey, () => requestToken(server, 'client_credentials', new URLSearchParams()))
    const sent = { subjectToken, ...(actor === undefined ? {} : { actorToken: actor.token() }) }
    let granted: ObtainedToken
    try {
      granted = await requestToken(server, EXCHANGE, exchangeForm(target(rule, scopes), sent))
    } catch (fault) {
      // It may be the actor's token that no longer counts.
      if (actor !== undefined) cache.drop(actorKey, actor)
      throw fault
    }
    assertExchanged(granted, sent, rule.issuer)
    const ends = (part.expiresAt ?? Number.POSITIVE_INFINITY) * 1000
    return checked({ ...granted, expiresAtMs: Math.min(granted.expiresAtMs, ends) }, rule, scopes)
  }
}

async function held(cache: TokenCache, key: string, obtain: () => Promise<ObtainedToken>) {
  const found = await cache.get(key, obtain)
  return { token: found.token(), forget: () => cache.drop(key, found) }
}

function serverOf(
  { issuer, endpoint, client }: ObtainingRule,
  fetch: typeof globalThis.fetch,
  clock: Clock,
): TokenServer {
  const discover = createDiscovery({ issuer, url: endpoint.url }, { fetch, clock })
  const url = () => (endpoint.from === 'policy' ? Promise.resolve(endpoint.url) : discover('token_endpoint'))
  return { issuer, url, client, fetch, clock }
}

function target({ audience, resource }: ObtainingRule, scopes: readonly string[]): URLSearchParams {
  return new URLSearchParams({
    scope: scopes.join(' '),
    ...(audience === undefined ? {} : { audience }),
    ...(resource === undefined ? {} : { resource }),
  })
}

/** Scopes only narrow: what this agent's card speaks of flows on from those who have it, and from nobody else. */
function scopesFor(rule: ObtainingRule, { parts, subject }: Authority): string[] {
  const from = rule.obtain === 'exchange' ? (subject === undefined ? [] : [subject]) : [...parts.values()]
  const scopes = rule.scopes.filter(
    (scope) => !rule.heldScopes.has(scope) || from.some((part) => part.scopes.has(scope)),
  )
  // Without any the issuer would choose.
  if (scopes.length === 0) throw new TrustError('ERR_DELEGATION_SCOPE', { details: { rule: rule.index + 1 } })
  return scopes.sort()
}

/** The caller's token, if it may be exchanged by this rule now. */
function subjectOf(rule: ObtainingRule, { subject, subjectToken }: Authority, clock: Clock) {
  const refuse = (reason: string) =>
    new TrustError('ERR_DELEGATION_SUBJECT', { details: { rule: rule.index + 1, reason } })
  if (subject === undefined || subjectToken === undefined) throw refuse('the caller has no access token')
  // A token is shown to nobody but the one who made it.
  if (subject.issuer !== rule.issuer) throw refuse('the token is from another issuer than the rule')
  if (subject.expiresAt !== undefined && subject.expiresAt * 1000 <= clock()) throw refuse('the token has expired')
  if (!mayAct(subject, rule)) throw refuse('may_act of the token names another actor')
  if (actorNames(subject).length + 1 > rule.maxActors) throw refuse('the chain of actors is too long')
  return { part: subject, token: subjectToken() }
}

/** RFC 8693 §4.4. */
function mayAct({ claims }: PrincipalPart, { client, issuer }: ObtainingRule): boolean {
  if (!Object.hasOwn(claims, 'may_act')) return true
  const allowed = claims.may_act
  if (typeof allowed !== 'object' || allowed === null) return false
  const { sub, client_id: clientId, iss } = allowed as Readonly<Record<string, unknown>>
  if (iss !== undefined && iss !== issuer) return false
  const named = [sub, clientId].filter((name) => name !== undefined)
  return named.length > 0 && named.every((name) => name === client.id)
}

function checked(granted: ObtainedToken, { issuer }: ObtainingRule, scopes: readonly string[]): ObtainedToken {
  if (granted.type !== 'Bearer') {
    const reason = 'the token needs a proof that this agent cannot make'
    throw new TrustError('ERR_TOKEN_ANSWER', { details: { issuer, reason } })
  }
  assertScopes(granted, scopes, issuer)
  return granted
}
