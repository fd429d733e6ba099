/** The access token of one provider for one agent: obtained when it is needed, kept, refreshed, bounded. */
import { TrustError } from '../errors.ts'
import { parseChallenges } from '../protocol/challenge-parser.ts'
import { decodeObject, splitJws } from '../schemes/token.ts'
import type { Clock } from '../types.ts'
import { createDpopKey, type DpopKey } from './dpop-key.ts'
import { assertScopes } from './exchange.ts'
import { createGrants, type Grants } from './grants.ts'
import { type OAuthProvider, readSecret } from './providers.ts'
import type { Attached } from './send.ts'
import { cacheKey, createTokenCache } from './token-cache.ts'

export interface TokenSourceContext {
  /** Reaches the authorization server. */
  readonly fetch: typeof globalThis.fetch
  readonly clock: Clock
  /** Whom the tokens are for, where the provider does not say. */
  readonly resource: string
}

export interface TokenSource {
  attach(method: string, url: URL): Promise<Attached>
}

/** A user who was asked just now is not asked again for the same, whatever the agent answers. */
const ASK_AGAIN_MS = 60_000

export function createTokenSource(
  provider: OAuthProvider,
  scopes: readonly string[],
  { fetch, clock, resource: to }: TokenSourceContext,
): TokenSource {
  const { issuer, client, audience } = provider
  const resource = provider.resource ?? (audience === undefined ? to : undefined)
  const cache = createTokenCache(clock)
  /** What is asked for. Grows by what the agent demands, within what is configured. */
  const wanted = new Set(scopes)
  const isInteractive = provider.type === 'authorizationCode' || provider.type === 'deviceCode'
  let prompted: { readonly key: string; readonly atMs: number } | undefined
  let refresh: { readonly token: () => string; readonly scopes: readonly string[] } | undefined
  let made: Promise<{ readonly grants: Grants; readonly key?: DpopKey }> | undefined

  async function make() {
    if (provider.dpop !== true) return { grants: createGrants(provider, { fetch, clock }) }
    const key = await createDpopKey(client.id, clock)
    return { key, grants: createGrants(provider, { fetch, clock, dpop: key.handle }) }
  }

  async function obtain(grants: Grants, key: string, asked: readonly string[], subjectToken: string) {
    const form = new URLSearchParams({
      ...(asked.length === 0 ? {} : { scope: asked.join(' ') }),
      ...(resource === undefined ? {} : { resource }),
      ...(audience === undefined ? {} : { audience }),
    })
    const granted = (await refreshed(grants, form, asked)) ?? (await fresh(grants, form, key, subjectToken))
    if (granted.type !== (provider.dpop === true ? 'DPoP' : 'Bearer'))
      throw new TrustError('ERR_TOKEN_ANSWER', {
        details: { issuer, reason: 'the token is not of the type asked for' },
      })
    assertScopes(granted, [...asked, ...(provider.scopes ?? [])], issuer)
    if (granted.refreshToken !== undefined) refresh = { token: granted.refreshToken, scopes: asked }
    const ends = provider.type === 'tokenExchange' ? claimedEndMs(subjectToken) : Number.POSITIVE_INFINITY
    return { ...granted, expiresAtMs: Math.min(granted.expiresAtMs, ends) }
  }

  /** One that the server no longer takes is forgotten, and everything starts over. */
  async function refreshed(grants: Grants, form: URLSearchParams, asked: readonly string[]) {
    const known = refresh
    if (known === undefined || asked.some((scope) => !known.scopes.includes(scope))) return undefined
    try {
      return await grants.refresh(form, known.token())
    } catch (fault) {
      if (!(fault instanceof TrustError) || fault.details.error !== 'invalid_grant') throw fault
      refresh = undefined
      return undefined
    }
  }

  async function fresh(grants: Grants, form: URLSearchParams, key: string, subjectToken: string) {
    if (isInteractive && prompted?.key === key && clock() - prompted.atMs < ASK_AGAIN_MS)
      throw new TrustError('ERR_CREDENTIALS_UNAVAILABLE', {
        details: { issuer, reason: 'the user was asked just now, and what came of it was refused' },
      })
    const granted = await grants.obtain(form, subjectToken)
    if (isInteractive) prompted = { key, atMs: clock() }
    return granted
  }

  /** P201: each demand adds scopes that are configured, or nothing is asked again. */
  function stepUp(response: Response): boolean {
    const demanded = scopesDemanded(response).filter((scope) => !wanted.has(scope))
    if (demanded.length === 0 || demanded.some((scope) => provider.scopes?.includes(scope) !== true)) return false
    for (const scope of demanded) wanted.add(scope)
    return true
  }

  return {
    async attach(method, url) {
      made ??= make()
      const { grants, key: dpop } = await made
      const subjectToken = provider.type === 'tokenExchange' ? await readSecret(provider.subjectToken) : ''
      const asked = [...wanted].sort()
      const key = cacheKey([subjectToken, ...asked])
      const token = await cache.get(key, () => obtain(grants, key, asked, subjectToken))
      const text = token.token()
      return {
        headers:
          dpop === undefined
            ? { authorization: `Bearer ${text}` }
            : { authorization: `DPoP ${text}`, dpop: await dpop.proof(text, method, url) },
        isWorthAnother(response) {
          if (dpop?.learn(response) === true) return true
          if (response.status === 403) return stepUp(response)
          if (response.status !== 401) return false
          if (
            isInteractive &&
            refresh === undefined &&
            prompted !== undefined &&
            clock() - prompted.atMs < ASK_AGAIN_MS
          )
            return false
          cache.drop(key, token)
          return true
        },
      }
    },
  }
}

/** RFC 6750 §3.1. */
function scopesDemanded({ headers }: Response): string[] {
  const line = headers.get('www-authenticate')
  if (line === null || line.length > 4096) return []
  return (parseChallenges(line) ?? []).flatMap(({ params }) =>
    params.get('error') === 'insufficient_scope' ? (params.get('scope') ?? '').split(' ').filter(Boolean) : [],
  )
}

/** What a JWT says of its own end, which is only ever used to keep less. */
function claimedEndMs(token: string): number {
  const parts = splitJws(token)
  const exp = parts === undefined ? undefined : decodeObject(parts.payload)?.exp
  return typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY
}
