/**
 * Asking an authorization server for a token. `oauth4webapi` makes and authenticates the request; the answer is read
 * here, because it must be bounded, strict JSON, and of text that can stand in a log.
 */
import * as oauth from 'oauth4webapi'
import { type ErrorDetails, TrustError } from '../errors.ts'
import { authenticationOf, type ClientAuthentication } from '../internal/client-authentication.ts'
import { abandonable, MAX_BYTES, readBounded, TIMEOUT_MS, withoutQuery } from '../internal/fetch-json.ts'
import { parseStrictJson } from '../internal/json.ts'
import type { Clock } from '../types.ts'
import { withPermittedOrigin } from './caller.ts'

export interface TokenServer {
  readonly issuer: string
  /** URL of the token endpoint. */
  url(): Promise<string>
  readonly client: ClientAuthentication
  readonly fetch: typeof globalThis.fetch
  readonly clock: Clock
}

export interface ObtainedToken {
  /** A function, so that nothing prints it. */
  readonly token: () => string
  readonly type: 'Bearer' | 'DPoP'
  /** What the server says was granted; absent: what was asked for. */
  readonly scopes?: readonly string[]
  /** Milliseconds since the epoch. */
  readonly expiresAtMs: number
  readonly refreshToken?: () => string
  /** `issued_token_type` of an exchange. */
  readonly issuedType?: string
}

/** RFC 6750 §2.1. */
const B64TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/
const MAX_TOKEN_CHARACTERS = 65_536
/** How long a token counts whose end the server does not say (RFC 6749 §5.1 only recommends it). */
const UNSTATED_SECONDS = 60
/** Nothing is kept for longer, whatever the server says. */
const MOST_SECONDS = 3600

/**
 * Sends one grant. Validates status, form and size of the answer, the token's characters and type, and `scope`; not what
 * the token says, which is between the server and the one that the token is for.
 *
 * Rejects with `ERR_TOKEN_REQUEST` (no answer, or one that says no: `details.error` is the OAuth code) or
 * `ERR_TOKEN_ANSWER`, and as the discovery does.
 */
export async function requestToken(
  server: TokenServer,
  grantType: string,
  parameters: URLSearchParams,
  dpop?: oauth.DPoPHandle,
): Promise<ObtainedToken> {
  const { issuer, client, clock } = server
  const url = await server.url()
  const askedAtMs = clock()
  const send = (options: RequestOptions) =>
    oauth.genericTokenEndpointRequest(
      { issuer, token_endpoint: url },
      { client_id: client.id },
      authenticationOf(client),
      grantType,
      parameters,
      { ...options, ...(dpop === undefined ? {} : { DPoP: dpop }) },
    )
  try {
    return tokenIn(await askServer(server, url, send), placeOf(issuer, url), askedAtMs)
  } catch (fault) {
    // RFC 9449 §8: the nonce has come with the refusal, and the handle has it.
    if (dpop === undefined || !(fault instanceof TrustError) || fault.details.error !== 'use_dpop_nonce') throw fault
    return tokenIn(await askServer(server, url, send), placeOf(issuer, url), askedAtMs)
  }
}

export type RequestOptions = oauth.HttpRequestOptions<'POST', URLSearchParams>

const placeOf = (issuer: string, url: string): ErrorDetails => ({ issuer, url: withoutQuery(url) })

/** The answer with status 200 to a request that `send` makes. Rejects with `ERR_TOKEN_REQUEST`. */
export async function askServer(
  { issuer, fetch }: Pick<TokenServer, 'issuer' | 'fetch'>,
  url: string,
  send: (options: RequestOptions) => Promise<Response>,
): Promise<unknown> {
  const at = placeOf(issuer, url)
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const options: RequestOptions = {
    // Neither token nor client credentials follow a redirect (A102).
    [oauth.customFetch]: (target, init) => fetch(target, { ...init, redirect: 'error' } as RequestInit),
    // The configuration has judged the transport.
    [oauth.allowInsecureRequests]: true,
    signal,
  }
  let response: Response
  let answer: unknown
  try {
    response = await withPermittedOrigin(new URL(url).origin, () => abandonable(send(options), signal))
    answer = await read(response, signal)
  } catch (cause) {
    throw new TrustError('ERR_TOKEN_REQUEST', { details: { ...at, reason: 'no answer' }, cause: withoutBody(cause) })
  }
  const { status } = response
  if (status !== 200) throw new TrustError('ERR_TOKEN_REQUEST', { details: { ...at, status, ...errorOf(answer) } })
  return answer
}

async function read(response: Response, signal: AbortSignal): Promise<unknown> {
  const body = await abandonable(readBounded(response, MAX_BYTES), signal)
  try {
    return parseStrictJson(body)
  } catch {
    return undefined
  }
}

/** The code alone: `error_description` is text of somebody else's, and may quote what was sent (P195). */
function errorOf(answer: unknown): { readonly error?: string } {
  const error = own(answer, 'error')
  return typeof error === 'string' && /^[a-z_]{1,64}$/.test(error) ? { error } : {}
}

/** Some fetches put the request into their fault. */
function withoutBody(cause: unknown): unknown {
  return cause instanceof TrustError ? cause : undefined
}

function tokenIn(answer: unknown, at: ErrorDetails, askedAtMs: number): ObtainedToken {
  const refuse = (reason: string) => new TrustError('ERR_TOKEN_ANSWER', { details: { ...at, reason } })
  const token = own(answer, 'access_token')
  if (typeof token !== 'string' || token.length > MAX_TOKEN_CHARACTERS || !B64TOKEN.test(token))
    throw refuse('access_token is missing, or is none')
  const named = own(answer, 'token_type')
  const type = /^bearer$/i.test(String(named)) ? 'Bearer' : /^dpop$/i.test(String(named)) ? 'DPoP' : undefined
  if (typeof named !== 'string' || type === undefined) throw refuse('token_type is neither Bearer nor DPoP')
  const scope = own(answer, 'scope')
  if (scope !== undefined && scope !== null && typeof scope !== 'string') throw refuse('scope is no text')
  const refresh = own(answer, 'refresh_token')
  const issuedType = own(answer, 'issued_token_type')
  return Object.freeze({
    token: () => token,
    type,
    ...(typeof scope === 'string' ? { scopes: scope.split(' ').filter((each) => each !== '') } : {}),
    expiresAtMs: askedAtMs + lifetimeSeconds(own(answer, 'expires_in')) * 1000,
    ...(typeof refresh === 'string' && refresh !== '' ? { refreshToken: () => refresh } : {}),
    ...(typeof issuedType === 'string' ? { issuedType } : {}),
  })
}

/**
 * Seconds that a token may be kept. Servers send texts, zeros, nothing and nonsense (P196): a number that says that the
 * token has ended is believed, one that says it never ends is not.
 */
export function lifetimeSeconds(value: unknown): number {
  const seconds = typeof value === 'string' && /^-?\d{1,15}(?:\.\d+)?$/.test(value) ? Number(value) : value
  if (typeof seconds !== 'number' || Number.isNaN(seconds)) return UNSTATED_SECONDS
  return Math.min(Math.max(seconds, 0), MOST_SECONDS)
}

export function own(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined
}
