/** Each way to a token, from a provider's settings: client credentials, code with PKCE, device code, exchange, refresh. */
import * as oauth from 'oauth4webapi'
import { TrustError } from '../errors.ts'
import { authenticationOf } from '../internal/client-authentication.ts'
import { abandonable } from '../internal/fetch-json.ts'
import { discoveryUrls } from '../policy/issuer-urls.ts'
import { createDiscovery, type Endpoint } from '../schemes/discovery.ts'
import type { Clock } from '../types.ts'
import { assertExchanged, EXCHANGE, exchangeForm } from './exchange.ts'
import { clientOf, isSecureUrl, type OAuthProvider, readSecret } from './providers.ts'
import {
  askServer,
  lifetimeSeconds,
  type ObtainedToken,
  own,
  requestToken,
  type TokenServer,
} from './token-endpoint.ts'

/** How long a user may take. */
const USER_MS = 300_000
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

type Discovery = ReturnType<typeof createDiscovery>

export interface GrantContext {
  readonly fetch: typeof globalThis.fetch
  readonly clock: Clock
  readonly dpop?: oauth.DPoPHandle
}

export interface Grants {
  /** A new token, `form` saying for whom and for what. */
  obtain(form: URLSearchParams, subjectToken: string): Promise<ObtainedToken>
  refresh(form: URLSearchParams, refreshToken: string): Promise<ObtainedToken>
}

export function createGrants(provider: OAuthProvider, context: GrantContext): Grants {
  const { issuer } = provider
  const { fetch, clock, dpop } = context
  const [metadata, configuration] = discoveryUrls(issuer, 'oauth2').map((url) =>
    createDiscovery({ issuer, url }, { fetch, clock }),
  ) as [Discovery, Discovery]
  const endpoint = (given: string | undefined, name: Endpoint) =>
    given === undefined ? configuration(name).catch(() => metadata(name)) : Promise.resolve(given)
  const client = clientOf(provider)
  const server: TokenServer = {
    issuer,
    client,
    fetch,
    clock,
    url: () => endpoint(provider.tokenEndpoint, 'token_endpoint'),
  }
  const unavailable = (reason: string) => new TrustError('ERR_CREDENTIALS_UNAVAILABLE', { details: { issuer, reason } })

  async function obtain(form: URLSearchParams, subjectToken: string): Promise<ObtainedToken> {
    switch (provider.type) {
      case 'clientCredentials':
        return requestToken(server, 'client_credentials', form, dpop)
      case 'tokenExchange': {
        const { actorToken } = provider
        const sent = { subjectToken, ...(actorToken === undefined ? {} : { actorToken: await readSecret(actorToken) }) }
        const granted = await requestToken(server, EXCHANGE, exchangeForm(form, sent), dpop)
        assertExchanged(granted, sent, issuer)
        return granted
      }
      case 'authorizationCode':
        return code(provider, form)
      case 'deviceCode':
        return device(provider, form)
    }
  }

  /** RFC 6749 §4.1 with PKCE (RFC 7636), always: what the card says of `pkceRequired` is met whatever it says. */
  async function code(settings: Extract<OAuthProvider, { type: 'authorizationCode' }>, form: URLSearchParams) {
    const { redirectUri } = settings
    const verifier = oauth.generateRandomCodeVerifier()
    const state = oauth.generateRandomState()
    const url = new URL(await endpoint(settings.authorizationEndpoint, 'authorization_endpoint'))
    const parameters = {
      ...Object.fromEntries(form),
      response_type: 'code',
      client_id: client.id,
      redirect_uri: redirectUri,
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    }
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    const signal = AbortSignal.timeout(USER_MS)
    const back: unknown = await abandonable(
      Promise.resolve().then(() => settings.authorize(url.href, { signal })),
      signal,
    ).catch(() => {
      throw unavailable('the user did not authorise')
    })
    const callback = typeof back === 'string' && URL.canParse(back) ? new URL(back) : undefined
    const expected = new URL(redirectUri)
    if (callback === undefined || callback.origin !== expected.origin || callback.pathname !== expected.pathname)
      throw unavailable('what came back is not the redirect URI')
    let answer: URLSearchParams
    try {
      // `state`, `error`, and `iss` where it is there (RFC 9207: an answer of another server is refused).
      answer = oauth.validateAuthResponse({ issuer }, { client_id: client.id }, callback, state)
    } catch {
      throw unavailable('the answer to the authorisation request is refused')
    }
    const granted = new URLSearchParams(form)
    granted.set('code', answer.get('code') ?? '')
    granted.set('redirect_uri', redirectUri)
    granted.set('code_verifier', verifier)
    granted.delete('scope')
    return requestToken(server, 'authorization_code', granted, dpop)
  }

  /** RFC 8628. */
  async function device(settings: Extract<OAuthProvider, { type: 'deviceCode' }>, form: URLSearchParams) {
    const url = await endpoint(settings.deviceAuthorizationEndpoint, 'device_authorization_endpoint')
    const answer = await askServer(server, url, (options) =>
      oauth.deviceAuthorizationRequest(
        { issuer, device_authorization_endpoint: url },
        { client_id: client.id },
        authenticationOf(client),
        form,
        options,
      ),
    )
    const [deviceCode, userCode, where, complete] = [
      'device_code',
      'user_code',
      'verification_uri',
      'verification_uri_complete',
    ].map((name) => own(answer, name))
    // It is shown to a person, who goes there.
    if (typeof deviceCode !== 'string' || typeof userCode !== 'string' || !/^[\x20-\x7e]{1,64}$/.test(userCode))
      throw new TrustError('ERR_TOKEN_ANSWER', { details: { issuer, reason: 'device_code or user_code is none' } })
    if (!isSecureUrl(where) || (complete !== undefined && !isSecureUrl(complete)))
      throw new TrustError('ERR_TOKEN_ANSWER', { details: { issuer, reason: 'verification_uri is not https' } })
    await Promise.resolve(
      settings.prompt({
        verificationUri: where,
        userCode,
        ...(complete === undefined ? {} : { verificationUriComplete: complete }),
      }),
    ).catch(() => {
      throw unavailable('the user could not be asked')
    })
    const polled = new URLSearchParams({ device_code: deviceCode })
    const endsMs = clock() + Math.min(lifetimeSeconds(own(answer, 'expires_in')) * 1000, USER_MS)
    const stated = own(answer, 'interval')
    let intervalMs = (typeof stated === 'number' && stated >= 1 && stated <= 60 ? stated : 5) * 1000
    // Bounded by count as well: a clock that stands still must not make it go on for ever.
    for (let turn = 0; turn < USER_MS / 1000 && clock() + intervalMs < endsMs; turn += 1) {
      await new Promise((resolve) => setTimeout(resolve, intervalMs))
      try {
        return await requestToken(server, DEVICE_GRANT, polled, dpop)
      } catch (fault) {
        const error = fault instanceof TrustError ? fault.details.error : undefined
        if (error === 'slow_down') intervalMs += 5000
        else if (error !== 'authorization_pending') throw fault
      }
    }
    throw unavailable('the user did not authorise in time')
  }

  return {
    obtain,
    refresh(form, refreshToken) {
      const again = new URLSearchParams(form)
      again.set('refresh_token', refreshToken)
      return requestToken(server, 'refresh_token', again, dpop)
    },
  }
}
