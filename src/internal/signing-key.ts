/** A private key in any of the usual forms, checked for what it is to sign. */
import { createPrivateKey, createPublicKey, KeyObject, type webcrypto } from 'node:crypto'
import { types } from 'node:util'
import { calculateJwkThumbprint, exportJWK, type JWK } from 'jose'
import { type ErrorCode, TrustError } from '../errors.ts'
import { loadVerificationKey } from './verification-key.ts'

export interface SigningKeyOptions {
  /** Private key: JWK, `KeyObject`, `CryptoKey` (extractable) or PKCS#8 PEM. */
  readonly key: JWK | KeyObject | webcrypto.CryptoKey | string
  /** Default: that of the JWK, or its RFC 7638 thumbprint. */
  readonly kid?: string
  /** Default: the JWK's `alg`, or what fits the key: ES256/384/512, EdDSA, RS256. */
  readonly alg?: string
}

export interface SigningKey {
  readonly jwk: JWK
  readonly alg: string
  readonly kid: string
}

const EC_ALGORITHMS: Readonly<Record<string, string>> = { 'P-256': 'ES256', 'P-384': 'ES384', 'P-521': 'ES512' }

/** Rejects with `code`, or with `ERR_POLICY_EXAMPLE_KEY` for an example key in production. */
export async function signingKey(options: SigningKeyOptions, code: ErrorCode): Promise<SigningKey> {
  const refuse = (reason: string) => new TrustError(code, { details: { reason } })
  let jwk: JWK
  try {
    const { key } = options
    if (typeof key === 'string') jwk = createPrivateKey(key).export({ format: 'jwk' }) as JWK
    else if (key instanceof KeyObject) jwk = key.export({ format: 'jwk' }) as JWK
    else if (types.isCryptoKey(key)) jwk = await exportJWK(key)
    else jwk = { ...key }
  } catch (cause) {
    throw new TrustError(code, { details: { reason: 'not a private key' }, cause })
  }
  if (jwk.d === undefined) throw refuse(jwk.kty === 'oct' ? 'a symmetric key' : 'not a private key')
  const usual = jwk.kty === 'EC' ? EC_ALGORITHMS[jwk.crv ?? ''] : jwk.kty === 'RSA' ? 'RS256' : 'EdDSA'
  const alg = options.alg ?? jwk.alg ?? usual
  const kid = options.kid ?? jwk.kid ?? (await calculateJwkThumbprint(jwk))
  if (kid === '' || alg === undefined) throw refuse('no kid or no algorithm')
  const loaded = loadVerificationKey(publicJwk(jwk, kid))
  if (!loaded.ok) throw refuse(loaded.reason)
  if (!loaded.key.algorithms.includes(alg)) throw refuse(`${alg} does not fit the key`)
  // Example keys are known to everybody: what they sign proves nothing.
  if (
    process.env.NODE_ENV === 'production' &&
    (kid.startsWith('example-') || (jwk as { example?: unknown }).example === true)
  ) {
    throw new TrustError('ERR_POLICY_EXAMPLE_KEY')
  }
  return { jwk, alg, kid }
}

/** The public half. */
export function publicJwk(jwk: JWK, kid: string): JWK {
  const exported = createPublicKey({ key: jwk as never, format: 'jwk' }).export({ format: 'jwk' }) as JWK
  return { ...exported, kid, ...(jwk.alg === undefined ? {} : { alg: jwk.alg }) }
}
