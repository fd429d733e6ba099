/**
 * Where an issuer keeps its keys and answers questions: OpenID Connect Discovery 1.0 §4 and RFC 8414 §3. `oauth4webapi` has this too, but
 * compares the issuer after URL normalisation and reads the document without a bound; here it is compared byte by byte.
 */
import { TrustError } from '../errors.ts'
import { fetchJson } from '../internal/fetch-json.ts'
import type { SchemeContext } from './scheme.ts'

/** A document is asked for again after this long. */
const REFRESH_AFTER_MS = 60 * 60_000
/** While it cannot be fetched again, the last one counts no longer than this. */
const STALE_IF_ERROR_MS = 24 * 60 * 60_000
/** After an outage it is tried again no sooner than this. */
const RETRY_AFTER_MS = 60_000

export interface DiscoveryOptions {
  /** What the document must give as its `issuer`, byte for byte. */
  readonly issuer: string
  /** URL of the document. */
  readonly url: string
}

/** Members of the document that are used. */
export type Endpoint =
  | 'jwks_uri'
  | 'introspection_endpoint'
  | 'token_endpoint'
  | 'authorization_endpoint'
  | 'device_authorization_endpoint'

/**
 * A function that gives a URL of the issuer's metadata. It validates `issuer` and that the URL is https (http only where
 * the document itself came over http, which egress must allow). It does not judge the URL's host: the guarded fetch does.
 *
 * Rejects with `ERR_FETCH_FAILED` or `ERR_DISCOVERY_INVALID`.
 */
export function createDiscovery(
  options: DiscoveryOptions,
  context: Pick<SchemeContext, 'clock' | 'fetch'>,
): (endpoint: Endpoint) => Promise<string> {
  let known: { readonly document: unknown; readonly fetchedAt: number } | undefined
  let flight: Promise<unknown> | undefined
  let failedAt: number | undefined
  const age = (): number => {
    const elapsed = known === undefined ? -1 : context.clock() - known.fetchedAt
    return elapsed < 0 ? Number.POSITIVE_INFINITY : elapsed
  }
  /** An outage is not asked about again by each caller: what is known serves meanwhile. */
  const resting = (): boolean => {
    const elapsed = failedAt === undefined ? -1 : context.clock() - failedAt
    return elapsed >= 0 && elapsed < RETRY_AFTER_MS
  }
  async function load(): Promise<unknown> {
    if (known !== undefined && (age() < REFRESH_AFTER_MS || (resting() && age() < STALE_IF_ERROR_MS))) {
      return known.document
    }
    try {
      const document = await fetchJson(context.fetch, options.url, 'application/json')
      assertIssuer(document, options)
      known = { document, fetchedAt: context.clock() }
      failedAt = undefined
      return document
    } catch (error) {
      if (known === undefined || !isOutage(error) || age() >= STALE_IF_ERROR_MS) throw error
      failedAt = context.clock()
      return known.document
    }
  }
  return async (endpoint) => {
    flight ??= load().finally(() => {
      flight = undefined
    })
    try {
      return endpointOf(await flight, endpoint, options)
    } catch (error) {
      // What cannot be used is not kept: it may be mended before it is old.
      known = undefined
      throw error
    }
  }
}

/** A document that is there and wrong is an answer, and an older one does not overrule it. */
function isOutage(error: unknown): boolean {
  return error instanceof TrustError && error.code === 'ERR_FETCH_FAILED'
}

function assertIssuer(document: unknown, { issuer }: DiscoveryOptions): void {
  // RFC 8414 §3.3, OpenID Connect Discovery §4.3: otherwise one issuer could vouch for another (mix-up).
  if (own(document, 'issuer') !== issuer) throw invalid(issuer, 'the document names another issuer')
}

function endpointOf(document: unknown, endpoint: Endpoint, { issuer, url }: DiscoveryOptions): string {
  const uri = own(document, endpoint)
  if (typeof uri !== 'string' || !URL.canParse(uri)) throw invalid(issuer, `${endpoint} is not a URL`)
  const parsed = new URL(uri)
  if (parsed.protocol !== 'https:' && !(parsed.protocol === 'http:' && url.startsWith('http:'))) {
    throw invalid(issuer, `${endpoint} is not https`)
  }
  if (parsed.username !== '' || parsed.password !== '' || parsed.hash !== '') {
    throw invalid(issuer, `${endpoint} has user information or a fragment`)
  }
  return parsed.href
}

function own(document: unknown, name: string): unknown {
  return typeof document === 'object' && document !== null && Object.hasOwn(document, name)
    ? Reflect.get(document, name)
    : undefined
}

function invalid(issuer: string, reason: string): TrustError {
  return new TrustError('ERR_DISCOVERY_INVALID', { details: { issuer, reason } })
}
