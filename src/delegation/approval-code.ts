/** An approval that is an authorization code: what is asked for, and whether an answer is one to it. */
import { createHash } from 'node:crypto'
import { TrustError } from '../errors.ts'
import { sha256Hex } from '../internal/sha256.ts'
import type { ApprovalRecord } from '../store/stores.ts'
import type { AuthorizationCodeAnswer, AuthorizationCodeRequest } from './approval-options.ts'
import { isEqual, randomToken } from './approval-token.ts'

/** What is wrong with the answer of an authorization server. Nothing in it says whom to ask for the token. */
export function faultOfCallback(
  parameters: URLSearchParams,
  state: string,
  { issuer, stateHash, namesIssuer }: NonNullable<ApprovalRecord['authorization']>,
): 'callback' | 'issuer' | undefined {
  if (!isEqual(sha256Hex(state), stateHash)) return 'callback'
  for (const name of new Set(parameters.keys())) if (parameters.getAll(name).length > 1) return 'callback'
  // RFC 9207 §2.4: compared as it is, and never left out by a server that says it sends it.
  const named = parameters.get('iss')
  if (named === null ? namesIssuer : named !== issuer) return 'issuer'
  const [code, error] = [parameters.get('code'), parameters.get('error')]
  if (code === null) return error === 'access_denied' ? undefined : 'callback'
  return error === null && /^[\x20-\x7e]{1,4096}$/.test(code) ? undefined : 'callback'
}

/** The authorization request (RFC 6749 §4.1.1, RFC 7636 §4.3), and what it takes to use its answer. */
export function prepareCode(
  url: string,
  token: string,
  { issuer, authorizationEndpoint, clientId, scope, resource, namesIssuer = true, obtain }: AuthorizationCodeRequest,
) {
  const redirectUri = `${url}/callback`
  const secret = randomToken()
  const expectedState = `${token}.${secret}`
  const codeVerifier = randomToken()
  const target = new URL(authorizationEndpoint)
  const parameters = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    ...(scope === undefined ? {} : { scope }),
    ...(resource === undefined ? {} : { resource }),
    state: expectedState,
    code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
  }
  for (const [name, value] of Object.entries(parameters)) target.searchParams.set(name, value)
  return {
    record: Object.freeze({ issuer, url: target.href, stateHash: sha256Hex(secret), namesIssuer }),
    async obtain(code: string): Promise<unknown> {
      const callbackUrl = new URL(redirectUri)
      for (const [name, value] of Object.entries({
        code,
        state: expectedState,
        ...(namesIssuer ? { iss: issuer } : {}),
      }))
        callbackUrl.searchParams.set(name, value)
      const answer: AuthorizationCodeAnswer = { code, codeVerifier, redirectUri, callbackUrl, expectedState }
      try {
        return await obtain(Object.freeze(answer))
      } catch (cause) {
        throw new TrustError('ERR_APPROVAL_CREDENTIAL', { cause })
      }
    },
  }
}
