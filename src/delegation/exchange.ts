/** What every exchange of a token asks for and may be answered (RFC 8693). */
import { TrustError } from '../errors.ts'
import type { ObtainedToken } from './token-endpoint.ts'

export const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
/** RFC 8693 §3: what may be used as an access token. */
const USABLE: ReadonlySet<string> = new Set([ACCESS_TOKEN, 'urn:ietf:params:oauth:token-type:jwt'])

export interface Exchanged {
  readonly subjectToken: string
  readonly actorToken?: string
}

/** Adds the tokens to a form that says for whom and for what. */
export function exchangeForm(form: URLSearchParams, { subjectToken, actorToken }: Exchanged): URLSearchParams {
  form.set('requested_token_type', ACCESS_TOKEN)
  form.set('subject_token', subjectToken)
  form.set('subject_token_type', ACCESS_TOKEN)
  if (actorToken !== undefined) {
    form.set('actor_token', actorToken)
    form.set('actor_token_type', ACCESS_TOKEN)
  }
  return form
}

/** Throws `ERR_TOKEN_ANSWER` for a token that is not one of the exchange. */
export function assertExchanged(granted: ObtainedToken, { subjectToken, actorToken }: Exchanged, issuer: string): void {
  const refuse = (reason: string) => new TrustError('ERR_TOKEN_ANSWER', { details: { issuer, reason } })
  if (granted.issuedType !== undefined && !USABLE.has(granted.issuedType))
    throw refuse('issued_token_type is no access token')
  // A server that hands back what it was given would make the caller's token leave after all.
  if (granted.token() === subjectToken || granted.token() === actorToken) throw refuse('the token is one that was sent')
}

/** Throws `ERR_TOKEN_ANSWER` where a token can do more than was asked for. */
export function assertScopes({ scopes = [] }: ObtainedToken, asked: readonly string[], issuer: string): void {
  if (scopes.some((scope) => !asked.includes(scope)))
    throw new TrustError('ERR_TOKEN_ANSWER', {
      details: { issuer, reason: 'the token has scopes that were not asked for' },
    })
}
