/**
 * A DPoP proof, checked as RFC 9449 §4.3 says, step by step. `oauth4webapi` checks proofs too, and only together with
 * discovery, a whole `Request` and the access token as a JWT; here the proof stands alone, so that it serves introspected
 * tokens and so that what is presented in one request never decides which URL that request had.
 */
import { hash } from 'node:crypto'
import { decodeBase64url } from '../internal/base64url.ts'
import { normalizeHttpUri } from '../internal/http-uri.ts'
import { thumbprintOf } from '../internal/thumbprint.ts'
import { loadVerificationKey, signatureAlgorithms, type VerificationKey } from '../internal/verification-key.ts'
import type { DpopNonces } from './dpop-nonce.ts'
import { decodeObject, type Refusal, refuse, refusedParameters, splitJws } from './token.ts'

/** Oldest `iat` accepted, and how far it may lie ahead, in seconds. */
export const MAX_AGE_SECONDS = 60
export const LEEWAY_SECONDS = 5
/** Longest proof read, in bytes. */
const MAX_PROOF_BYTES = 16_384
const MAX_JTI_LENGTH = 256

/** What the request is that a proof has to be made for. */
export interface ProofExpectation {
  readonly method: string
  /** Normalised URLs of the request: the proof names one of them. */
  readonly urls: readonly string[]
  /** The token as it was sent. */
  readonly accessToken: string
  /** Thumbprint of the key that the token is bound to. */
  readonly jkt: string
  /** Present: the proof must hold a nonce of this agent. */
  readonly nonces?: DpopNonces
  /** Unix seconds, possibly fractional. */
  readonly now: number
}

/** A proof for this very request, up to its signature, and what is still to be done with it. */
export interface DpopProof {
  readonly kind: 'proof'
  readonly alg: string
  readonly key: VerificationKey
  readonly data: Buffer
  readonly signature: Buffer
  /** Names this use of the proof: key, URL and `jti`. To be claimed once the signature holds. */
  readonly use: string
  readonly nonce: unknown
}

/**
 * Everything that RFC 9449 §4.3 asks of a proof but the signature and that it was not used before. `ath` is always asked
 * for: a proof for a token request is none for a resource.
 */
export function readDpopProof(text: string, expected: ProofExpectation): DpopProof | Refusal {
  const bad = (detail: string): Refusal => refuse('ERR_DPOP_PROOF', detail)
  if (text.length > MAX_PROOF_BYTES) return bad('longer than 16384 bytes')
  const parts = splitJws(text)
  if (parts === undefined) return bad('not three parts')
  const header = decodeObject(parts.header)
  const claims = decodeObject(parts.payload)
  const signature = decodeBase64url(parts.signature)
  if (header === undefined || claims === undefined || signature === undefined || signature.length === 0) {
    return bad('not base64url of a JSON object, another one, and a signature')
  }

  const own = (name: string): unknown => (Object.hasOwn(header, name) ? header[name] : undefined)
  const typ = own('typ')
  // Step 4. A media type, as in token.ts (P40).
  if (typeof typ !== 'string' || typ.toLowerCase().replace(/^application\//, '') !== 'dpop+jwt') return bad('typ')
  for (const name of refusedParameters) if (name !== 'jwk' && Object.hasOwn(header, name)) return bad(name)
  const alg = own('alg')
  // Steps 5 and 7: asymmetric, and a public key. That they fit is asked with the signature.
  if (typeof alg !== 'string' || !signatureAlgorithms.includes(alg)) return bad('alg')
  const loaded = loadVerificationKey(own('jwk'))
  if (!loaded.ok) return bad(`jwk: ${loaded.reason}`)
  const jkt = thumbprintOf(loaded.key)
  if (jkt !== expected.jkt) return bad('made with another key than the token is bound to')

  const told = claimsProblem(claims, expected)
  if (told.problem !== undefined) return bad(told.problem)
  const { nonce } = claims
  if (expected.nonces !== undefined && !expected.nonces.accepts(nonce)) {
    return refuse('ERR_DPOP_NONCE', nonce === undefined ? 'none' : 'old, or not of this agent')
  }
  return {
    kind: 'proof',
    alg,
    key: loaded.key,
    data: Buffer.from(parts.signingInput, 'latin1'),
    signature,
    // A thumbprint has a fixed length and a URL no line end, so two uses never share a name (P30).
    use: `dpop:${hash('sha256', `${jkt}\n${told.url}\n${told.jti}`, 'base64url')}`,
    nonce,
  }
}

type Told = { readonly problem: string } | { readonly problem?: never; readonly url: string; readonly jti: string }

/** Steps 3, 8, 9, 11 and 12a: required claims with their types, and that they are about this request, now. */
function claimsProblem(claims: Readonly<Record<string, unknown>>, expected: ProofExpectation): Told {
  const own = (name: string): unknown => (Object.hasOwn(claims, name) ? claims[name] : undefined)
  const jti = own('jti')
  if (typeof jti !== 'string' || jti === '' || jti.length > MAX_JTI_LENGTH) return { problem: 'jti' }
  if (own('htm') !== expected.method) return { problem: 'htm' }
  const htu = own('htu')
  const url = typeof htu === 'string' ? normalizeHttpUri(htu) : undefined
  if (url === undefined || !expected.urls.includes(url)) return { problem: 'htu is not the URL of this request' }
  const iat = own('iat')
  if (typeof iat !== 'number' || iat < expected.now - MAX_AGE_SECONDS || iat > expected.now + LEEWAY_SECONDS) {
    return { problem: 'iat is not a time of the last minute' }
  }
  // No claims of DPoP; but a JWT that says it is over is over (RFC 7519 §4.1.4, §4.1.5).
  const exp = own('exp')
  const nbf = own('nbf')
  if (exp !== undefined && !(typeof exp === 'number' && exp > expected.now - LEEWAY_SECONDS)) return { problem: 'exp' }
  if (nbf !== undefined && !(typeof nbf === 'number' && nbf <= expected.now + LEEWAY_SECONDS)) return { problem: 'nbf' }
  if (own('ath') !== hash('sha256', expected.accessToken, 'base64url')) return { problem: 'ath' }
  return { url, jti }
}
