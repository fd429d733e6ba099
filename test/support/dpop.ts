/** DPoP keys, and proofs made with them. */
import { createHash } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'

export interface DpopKey {
  readonly jkt: string
  readonly jwk: Readonly<Record<string, unknown>>
  /** A proof with these claims over good ones for `token`; `undefined` removes one. */
  proof(token: string, claims?: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>
}

export interface ProofDefaults {
  readonly htu: string
  readonly htm?: string
  /** Unix seconds. */
  readonly now: () => number
}

let made = 0

export async function createDpopKey({ htu, htm = 'POST', now }: ProofDefaults, alg = 'ES256'): Promise<DpopKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg)
  const jwk = await exportJWK(publicKey)
  return {
    jkt: await calculateJwkThumbprint(jwk),
    jwk: jwk as Record<string, unknown>,
    async proof(token, claims = {}, header = {}) {
      const ath = createHash('sha256').update(token).digest('base64url')
      made += 1
      const all = { jti: `proof-${made}`, htm, htu, iat: now(), ath, ...claims }
      const payload = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
      return new SignJWT(payload as JWTPayload)
        .setProtectedHeader({ typ: 'dpop+jwt', alg, jwk, ...header } as never)
        .sign(privateKey)
    },
  }
}
