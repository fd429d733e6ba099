/**
 * Where an issuer keeps its keys: OpenID Connect Discovery 1.0 §4 and RFC 8414 §3. `oauth4webapi` has this too, but
 * compares the issuer after URL normalisation and reads the document without a bound; here it is compared byte by byte.
 */
import { TrustError } from '../errors.ts'
import { fetchJson } from '../internal/fetch-json.ts'
import type { SchemeContext } from './scheme.ts'

/** A document is asked for again after this long. */
const REFRESH_AFTER_MS = 60 * 60_000
/** While it cannot be fetched again, the last one counts no longer than this. */
const STALE_IF_ERROR_MS = 24 * 60 * 60_000

export interface DiscoveryOptions {
  /** What the document must give as its `issuer`, byte for byte. */
  readonly issuer: string
  /** URL of the document. */
  readonly url: string
}

/**
 * A function that gives the issuer's `jwks_uri`. It validates `issuer` and that the URI is https (http only where the
 * document itself came over http, which egress must allow). It does not judge the URI's host: the guarded fetch does.
 *
 * Rejects with `ERR_FETCH_FAILED` or `ERR_DISCOVERY_INVALID`. The caller keeps calls single-flight.
 */
export function createJwksUriDiscovery(
  options: DiscoveryOptions,
  context: Pick<SchemeContext, 'clock' | 'fetch'>,
): () => Promise<string> {
  let known: { readonly uri: string; readonly fetchedAt: number } | undefined
  const age = (): number => {
    const elapsed = known === undefined ? -1 : context.clock() - known.fetchedAt
    return elapsed < 0 ? Number.POSITIVE_INFINITY : elapsed
  }
  return async () => {
    if (known !== undefined && age() < REFRESH_AFTER_MS) return known.uri
    try {
      const uri = jwksUriOf(await fetchJson(context.fetch, options.url, 'application/json'), options)
      known = { uri, fetchedAt: context.clock() }
      return uri
    } catch (error) {
      if (known !== undefined && isOutage(error) && age() < STALE_IF_ERROR_MS) return known.uri
      throw error
    }
  }
}

/** A document that is there and wrong is an answer, and an older one does not overrule it. */
function isOutage(error: unknown): boolean {
  return error instanceof TrustError && error.code === 'ERR_FETCH_FAILED'
}

function jwksUriOf(document: unknown, { issuer, url }: DiscoveryOptions): string {
  const own = (name: string): unknown =>
    typeof document === 'object' && document !== null && Object.hasOwn(document, name)
      ? Reflect.get(document, name)
      : undefined
  // RFC 8414 §3.3, OpenID Connect Discovery §4.3: otherwise one issuer could vouch for another (mix-up).
  if (own('issuer') !== issuer) throw invalid(issuer, 'the document names another issuer')
  const uri = own('jwks_uri')
  if (typeof uri !== 'string' || !URL.canParse(uri)) throw invalid(issuer, 'jwks_uri is not a URL')
  const parsed = new URL(uri)
  if (parsed.protocol !== 'https:' && !(parsed.protocol === 'http:' && url.startsWith('http:'))) {
    throw invalid(issuer, 'jwks_uri is not https')
  }
  if (parsed.username !== '' || parsed.password !== '' || parsed.hash !== '') {
    throw invalid(issuer, 'jwks_uri has user information or a fragment')
  }
  return parsed.href
}

function invalid(issuer: string, reason: string): TrustError {
  return new TrustError('ERR_DISCOVERY_INVALID', { details: { issuer, reason } })
}
