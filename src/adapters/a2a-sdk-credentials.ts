/** `@a2a-js/sdk`: credentials for an agent, as the SDK client's `AuthenticationHandler`. */
import type { AuthenticationHandler } from '@a2a-js/sdk/client'
import { attachableOf, type Credentials } from '../delegation/card-credentials.ts'
import type { Attached } from '../delegation/send.ts'
import { TrustError } from '../errors.ts'
import { isUnder } from '../policy/delegate.ts'

/**
 * For `createAuthenticatingFetchWithRetry`. Prefer `credentials.fetch` as the SDK's `fetchImpl`: it sees every URL. A
 * handler sees none before it is sent, so this one gives headers only where that can do no harm: every interface of the
 * card is under the credentials' `to`, and the credential is in `Authorization`, which no fetch takes along to another
 * origin. Otherwise `headers()` rejects with `ERR_CREDENTIALS_DESTINATION`.
 *
 * One retry after a 401, and after a 403 that demands scopes that are configured; never for an answer from elsewhere.
 * Throws `TypeError` for what `createCredentials` has not made.
 */
export function authenticationHandler(credentials: Credentials): AuthenticationHandler {
  const attachable = attachableOf(credentials)
  if (attachable === undefined) throw new TypeError('"credentials" must come from createCredentials')
  const { to } = credentials
  const { card, attach, needsFetch } = attachable
  const strays = card.interfaces.some(({ url }) => !URL.canParse(url) || !isUnder(new URL(url), to))
  let last: Attached | undefined

  async function headers(): Promise<Record<string, string>> {
    if (strays || needsFetch !== undefined) {
      const reason = strays
        ? 'the card has interfaces elsewhere'
        : `a handler cannot keep ${needsFetch} where it belongs`
      throw new TrustError('ERR_CREDENTIALS_DESTINATION', {
        details: { to, reason: `${reason}: use credentials.fetch` },
      })
    }
    last = await attach('POST', new URL(to))
    return { ...last.headers }
  }
  return {
    headers,
    async shouldRetryWithHeaders(_request, response) {
      const isHere = URL.canParse(response.url) && isUnder(new URL(response.url), to)
      return isHere && last?.isWorthAnother(response) === true ? headers() : undefined
    },
  }
}
