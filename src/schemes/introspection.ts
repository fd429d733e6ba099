/**
 * Asking an issuer what a token is: RFC 7662, and RFC 9701 for signed answers. `oauth4webapi` makes and authenticates
 * the request. The answer is read here, because it must be bounded, strict JSON, and verified with the keys and limits
 * that hold for every other JWT.
 */
import { randomBytes } from 'node:crypto'
import * as oauth from 'oauth4webapi'
import { type ErrorCode, type ErrorDetails, TrustError } from '../errors.ts'
import { authenticationOf } from '../internal/client-authentication.ts'
import { abandonable, MAX_BYTES, readBounded, TIMEOUT_MS, withoutQuery } from '../internal/fetch-json.ts'
import { parseStrictJson } from '../internal/json.ts'
import type { JwksCache } from '../internal/jwks-cache.ts'
import { verifySignatureAsync } from '../internal/verification-key.ts'
import type { OpaqueSchemeConfig } from '../policy/compiled.ts'
import { createDiscovery } from './discovery.ts'
import { createIssuerKeys } from './issuer-keys.ts'
import type { SchemeContext } from './scheme.ts'
import { decodeToken } from './token.ts'

export type Answer = Readonly<Record<string, unknown>>

/** `active` is exactly `true` in the answer, and no other member has been looked at. `why`: it would not say. */
export type Finding =
  | { readonly active: true; readonly answer: Answer }
  | { readonly active: false; readonly why?: string }

export interface Introspection {
  /**
   * What the issuer says of the token. Rejects with `ERR_INTROSPECTION_UNAVAILABLE` when there is no answer, which no
   * token can have caused, or `ERR_INTROSPECTION_INVALID` when there is one that cannot be used.
   */
  ask(token: string): Promise<Finding>
  /**
   * Asks about a token that nobody has, so that a wrong endpoint or a refused client is found at start. Rejects as `ask`
   * does, with the code of a discovery or key fetch that failed, and unless such a token is said not to be active.
   */
  warm(): Promise<void>
}

const SIGNED = 'application/token-introspection+jwt'
/**
 * The start has shown that our questions are well-formed: with these the issuer says that the token is none it would
 * speak of, such as a JWT where it answers for opaque tokens only.
 */
const NOT_ANSWERED: ReadonlySet<number> = new Set([400, 413, 422])

export function createIntrospection(config: OpaqueSchemeConfig, context: SchemeContext): Introspection {
  const { issuer, signed } = config
  const { fetch } = context
  const client: oauth.Client = { client_id: config.client.id }
  const authentication = authenticationOf(config.client)
  const endpoint = endpointOf(config, context)
  const keys = signed === undefined ? undefined : createIssuerKeys({ issuer, keys: signed.keys }, context)

  async function ask(token: string): Promise<Finding> {
    const url = await endpoint().catch((cause: unknown) => {
      throw fault('ERR_INTROSPECTION_UNAVAILABLE', 'the endpoint cannot be discovered', {}, cause)
    })
    const at = { url: withoutQuery(url) }
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    let response: Response
    try {
      const server: oauth.AuthorizationServer = { issuer, introspection_endpoint: url }
      const request = oauth.introspectionRequest(server, client, authentication, token, {
        // Neither token nor client credentials follow a redirect.
        [oauth.customFetch]: (target, init) => fetch(target, { ...init, redirect: 'error' } as RequestInit),
        // Policy and discovery have judged the transport.
        [oauth.allowInsecureRequests]: true,
        additionalParameters: { token_type_hint: 'access_token' },
        requestJwtResponse: signed !== undefined,
        signal,
      })
      response = await abandonable(request, signal)
    } catch (cause) {
      throw fault('ERR_INTROSPECTION_UNAVAILABLE', 'no answer', at, cause)
    }
    if (response.status !== 200) {
      await response.body?.cancel().catch(() => undefined)
      const why = `status ${response.status}`
      if (NOT_ANSWERED.has(response.status)) return { active: false, why }
      // A fault of the issuer's that this very token may have caused; any other status is about the endpoint or about us.
      throw fault(response.status === 500 ? 'ERR_INTROSPECTION_INVALID' : 'ERR_INTROSPECTION_UNAVAILABLE', why, at)
    }
    const invalid = (reason: string, cause?: unknown) => fault('ERR_INTROSPECTION_INVALID', reason, at, cause)
    const type = (response.headers.get('content-type') ?? '').split(';', 1)[0]!.trim().toLowerCase()
    if (type !== (keys === undefined ? 'application/json' : SIGNED)) {
      await response.body?.cancel().catch(() => undefined)
      // A signed answer is never read as an unsigned one, nor the other way about.
      throw invalid(keys === undefined ? 'not application/json' : `not ${SIGNED}`)
    }
    let body: Buffer
    try {
      body = await abandonable(readBounded(response, MAX_BYTES), signal)
    } catch (cause) {
      if (cause instanceof TrustError && cause.code === 'ERR_EGRESS_RESPONSE_SIZE') throw invalid('too large', cause)
      throw fault('ERR_INTROSPECTION_UNAVAILABLE', 'half an answer', at, cause)
    }
    const answer = keys === undefined ? parse(body) : await verified(body.toString('latin1'), keys)
    if (typeof answer === 'string') throw invalid(answer)
    const active = Object.hasOwn(answer, 'active') ? answer.active : undefined
    if (active === true) return { active, answer }
    if (active === false) return { active }
    throw invalid('active is neither true nor false')
  }

  /** RFC 9701 §5. The claims, or what is wrong. */
  async function verified(token: string, issuerKeys: JwksCache): Promise<Answer | string> {
    const algorithms = new Set(signed?.algorithms)
    const decoded = decodeToken(token, { algorithms, typ: 'token-introspection+jwt' })
    if ('kind' in decoded) return `the signed answer is refused: ${decoded.code}`
    const { iss, aud, iat, token_introspection: answer } = decoded.claims
    if (iss !== issuer) return 'the signed answer is of another issuer'
    // Meant for us: what the issuer tells another resource server says nothing to this one.
    if (!(Array.isArray(aud) ? aud : [aud]).includes(config.client.id)) return 'the signed answer is for another client'
    if (typeof iat !== 'number') return 'the signed answer has no iat'
    if (!isObject(answer)) return 'the signed answer has no token_introspection'
    const lookup = await issuerKeys.find(decoded.kid, decoded.alg)
    if (lookup.kind !== 'found') return `the key of the signed answer cannot be had: ${lookup.detail}`
    const data = Buffer.from(decoded.signingInput, 'latin1')
    const valid = await verifySignatureAsync(lookup.key, decoded.alg, data, decoded.signature)
    return valid ? answer : 'the signature of the answer does not verify'
  }

  return {
    ask,
    async warm() {
      await Promise.all([endpoint(), keys?.warm()])
      const finding = await ask(randomBytes(32).toString('base64url'))
      const why = finding.active ? 'a random token is said to be active' : finding.why
      if (why !== undefined) throw fault('ERR_INTROSPECTION_INVALID', why, {})
    },
  }
}

function endpointOf({ issuer, endpoint }: OpaqueSchemeConfig, context: SchemeContext): () => Promise<string> {
  if (endpoint.from === 'policy') return () => Promise.resolve(endpoint.url)
  const discover = createDiscovery({ issuer, url: endpoint.url }, context)
  return () => discover('introspection_endpoint')
}

function parse(body: Buffer): Answer | string {
  try {
    const value = parseStrictJson(body)
    return isObject(value) ? value : 'not a JSON object'
  } catch {
    return 'not strict JSON'
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function fault(code: ErrorCode, reason: string, details: ErrorDetails, cause?: unknown): TrustError {
  return new TrustError(code, { details: { ...details, reason }, ...(cause === undefined ? {} : { cause }) })
}
