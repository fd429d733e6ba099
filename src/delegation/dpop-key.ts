/** A key of this process that tokens are bound to, and proofs that it has it (RFC 9449). */
import { createHash, randomUUID } from 'node:crypto'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import * as oauth from 'oauth4webapi'
import { parseChallenges } from '../protocol/challenge-parser.ts'
import type { Clock } from '../types.ts'

export interface DpopKey {
  /** For token requests: nonces of the authorization server are kept inside. */
  readonly handle: oauth.DPoPHandle
  /** For a request with `token`. */
  proof(token: string, method: string, url: URL): Promise<string>
  /** Keeps the nonce of the agent's answer, and says whether it has asked for one. */
  learn(response: Response): boolean
}

export async function createDpopKey(clientId: string, clock: Clock): Promise<DpopKey> {
  const pair = await generateKeyPair('ES256')
  const jwk = await exportJWK(pair.publicKey)
  let nonce: string | undefined
  return {
    handle: oauth.DPoP({ client_id: clientId } as Parameters<typeof oauth.DPoP>[0], pair),
    proof: (token, method, { origin, pathname }) =>
      new SignJWT({
        htm: method.toUpperCase(),
        htu: origin + pathname,
        ath: createHash('sha256').update(token).digest('base64url'),
        ...(nonce === undefined ? {} : { nonce }),
      })
        .setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk })
        .setJti(randomUUID())
        .setIssuedAt(Math.floor(clock() / 1000))
        .sign(pair.privateKey),
    learn({ status, headers }) {
      const fresh = headers.get('dpop-nonce')
      if (fresh === null || !/^[\x21\x23-\x5b\x5d-\x7e]{1,512}$/.test(fresh) || fresh === nonce) return false
      nonce = fresh
      // RFC 9449 §9.
      const challenges = parseChallenges(headers.get('www-authenticate') ?? '') ?? []
      return status === 401 && challenges.some(({ params }) => params.get('error') === 'use_dpop_nonce')
    },
  }
}
