/**
 * Tokens that are good only together with a key: DPoP (RFC 9449 §7) and client certificates (RFC 8705 §3). One function
 * for every kind of token: confirmation and request in, outcome out. A bound token is never accepted as a plain one (RFC
 * 7800 §3.1), whatever the setting.
 */
import { hash } from 'node:crypto'
import { decodeBase64url } from '../internal/base64url.ts'
import {
  isQuickToVerify,
  signatureAlgorithms,
  verifySignature,
  verifySignatureAsync,
} from '../internal/verification-key.ts'
import type { JwtSchemeConfig } from '../policy/compiled.ts'
import type { PresentedToken } from './access-token.ts'
import { type DpopProof, LEEWAY_SECONDS, MAX_AGE_SECONDS, readDpopProof } from './dpop-proof.ts'
import type { Challenge, CredentialSource, Outcome, SchemeContext } from './scheme.ts'
import { type Refusal, refuse } from './token.ts'

/** The `cnf` of a token (RFC 7800). Every member that is there has to hold. */
export interface Confirmation {
  /** RFC 7638 thumbprint of a DPoP key. */
  readonly jkt?: string
  /** base64url SHA-256 of a certificate's DER. */
  readonly x5tS256?: string
}

export interface SenderConstraint {
  readonly challenges: readonly Challenge[]
  /**
   * Judges how a token was sent that has been found good: `granted` is what is answered when the binding holds. A proof
   * is used up only if `granted` is `satisfied`. Synchronous for tokens without a DPoP key.
   */
  judge(
    presented: PresentedToken,
    confirmation: Confirmation | undefined,
    source: CredentialSource,
    granted: Outcome,
  ): Outcome | Promise<Outcome>
}

type ReplayOnly = Pick<SchemeContext['stores'], 'replay'>

/** Proof signatures being checked on the thread pool at once; past it callers are told to come back. */
const MAX_IN_FLIGHT = 1024
/** How long a proof may be acceptable, and once more the leeway for processes whose clocks differ. */
const REMEMBER_SECONDS = MAX_AGE_SECONDS + 2 * LEEWAY_SECONDS

const BEARER: Challenge = { scheme: 'Bearer', params: [] }
/** RFC 9449 §7.1. */
const DPOP: Challenge = { scheme: 'DPoP', params: [['algs', signatureAlgorithms.join(' ')]] }
const CHALLENGES = { off: [BEARER], mtls: [BEARER], optional: [BEARER, DPOP], dpop: [DPOP] } as const

/**
 * Reads `cnf`: `undefined` without one. A confirmation that cannot be checked here (`jwk`, `kid`, `jku`, anything
 * unknown, nothing at all) refuses the token, since whoever wrote it meant that presenting the token is not enough.
 */
export function readConfirmation(cnf: unknown): Confirmation | undefined | Refusal {
  if (cnf === undefined) return undefined
  const bad = (detail: string): Refusal => refuse('ERR_TOKEN_BOUND', detail)
  if (typeof cnf !== 'object' || cnf === null || Array.isArray(cnf)) return bad('cnf is not an object')
  const { jkt, 'x5t#S256': x5tS256, ...others } = cnf as Record<string, unknown>
  if (Object.keys(others).length > 0) return bad('cnf has a member that is not checked here')
  if (jkt === undefined && x5tS256 === undefined) return bad('cnf is empty')
  if ((jkt !== undefined && !isSha256(jkt)) || (x5tS256 !== undefined && !isSha256(x5tS256))) {
    return bad('cnf holds no thumbprint')
  }
  return Object.freeze({ ...(jkt === undefined ? {} : { jkt }), ...(x5tS256 === undefined ? {} : { x5tS256 }) })
}

function isSha256(value: unknown): value is string {
  return typeof value === 'string' && decodeBase64url(value)?.length === 32
}

export function createSenderConstraint(
  mode: JwtSchemeConfig['senderConstraint'],
  { clock, stores, nonces }: Pick<SchemeContext, 'clock' | 'nonces'> & { readonly stores: ReplayOnly },
): SenderConstraint {
  let inFlight = 0

  function judge(
    presented: PresentedToken,
    confirmation: Confirmation | undefined,
    source: CredentialSource,
    granted: Outcome,
  ): Outcome | Promise<Outcome> {
    const { jkt, x5tS256 } = confirmation ?? {}
    if (confirmation !== undefined && mode === 'off') return refuse('ERR_TOKEN_BOUND', 'senderConstraint is off')
    if (mode === 'dpop' && jkt === undefined) return refuse('ERR_TOKEN_UNBOUND', 'to no DPoP key')
    if (mode === 'mtls' && x5tS256 === undefined) return refuse('ERR_TOKEN_UNBOUND', 'to no certificate')
    // RFC 9449 §7.1 and §7.2: the auth-scheme and the binding of the token go together.
    if (presented.as === 'DPoP' && jkt === undefined) return refuse('ERR_TOKEN_UNBOUND', 'and sent as DPoP')
    if (presented.as === 'Bearer' && jkt !== undefined)
      return refuse('ERR_TOKEN_BOUND', 'to a DPoP key, sent as Bearer')
    const refusal = x5tS256 === undefined ? undefined : certificateProblem(source, x5tS256)
    if (refusal !== undefined) return refusal
    return jkt === undefined ? granted : judgeProof(presented.token, jkt, source, granted)
  }

  async function judgeProof(accessToken: string, jkt: string, source: CredentialSource, granted: Outcome) {
    const [text, ...others] = source.headers.all('dpop')
    if (text === undefined) return refuse('ERR_DPOP_PROOF', 'none')
    // Step 1. Lines of one name may be joined on the way (RFC 9110 §5.3).
    if (others.length > 0 || /[,\s]/.test(text)) return MALFORMED
    const { method } = source
    const expected = { method, urls: source.urls(), accessToken, jkt, now: clock() / 1000 }
    const proof = readDpopProof(text, nonces === undefined ? expected : { ...expected, nonces })
    if (proof.kind !== 'proof') return proof.code === 'ERR_DPOP_NONCE' ? { ...proof, headers: offer() } : proof
    const valid = await verify(proof)
    if (valid === undefined) return OVERLOADED
    if (!valid) return refuse('ERR_DPOP_PROOF', 'signature')
    if (granted.kind !== 'satisfied') return granted
    const fresh = source.dryRun === true || (await claim(source, proof.use, stores))
    if (fresh === undefined) return STORE_DOWN
    if (!fresh) return refuse('ERR_DPOP_REPLAY')
    // §8.2: the next nonce before this one is refused.
    return nonces === undefined || proof.nonce === nonces.current() ? granted : { ...granted, headers: offer() }
  }

  /** `undefined` when too many others wait. */
  async function verify({ alg, key, data, signature }: DpopProof): Promise<boolean | undefined> {
    if (isQuickToVerify(alg)) return verifySignature(key, alg, data, signature)
    if (inFlight >= MAX_IN_FLIGHT) return undefined
    inFlight += 1
    try {
      return await verifySignatureAsync(key, alg, data, signature)
    } finally {
      inFlight -= 1
    }
  }

  /** A response that carries a nonce must not be given to somebody else from a cache (§8.2). */
  const offer = () => ({ 'dpop-nonce': nonces?.current() ?? '', 'cache-control': 'no-store' })

  return { challenges: CHALLENGES[mode], judge }
}

const MALFORMED: Outcome = { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED', detail: 'more than one DPoP proof' }
const OVERLOADED: Outcome = { kind: 'unavailable', code: 'ERR_OVERLOADED', retryAfterSeconds: 1 }
const STORE_DOWN: Outcome = {
  kind: 'unavailable',
  code: 'ERR_STORE_UNAVAILABLE',
  retryAfterSeconds: 1,
  detail: 'DPoP proofs cannot be remembered',
}

/** RFC 8705 §3: possession is what TLS has shown; who vouches for the certificate says nothing about the token. */
function certificateProblem({ certificate }: CredentialSource, x5tS256: string): Refusal | undefined {
  const bad = (detail: string) => refuse('ERR_TOKEN_CERTIFICATE', detail)
  if (certificate === undefined) return bad('none was presented')
  if ('unreadable' in certificate) return bad('what was presented is none')
  // Whoever gave the TLS server a CRL means it.
  if (certificate.authorizationError === 'CERT_REVOKED') return bad('it is revoked')
  return hash('sha256', certificate.raw, 'base64url') === x5tS256 ? undefined : bad('another one was presented')
}

/** Two schemes that judge one request see one use of its proof. */
const claimed = new WeakMap<CredentialSource, { readonly use: string; readonly fresh: Promise<boolean | undefined> }>()

/** Whether the proof is used for the first time; `undefined` when the store cannot tell. */
function claim(source: CredentialSource, use: string, { replay }: ReplayOnly) {
  const known = claimed.get(source)
  if (known?.use === use) return known.fresh
  const ask = async () => (await replay.claim(use, REMEMBER_SECONDS)) === true
  const fresh = ask().catch(() => undefined)
  claimed.set(source, { use, fresh })
  return fresh
}

/** RFC 9449 §7.1 and §9: on the challenge that the caller answered, and for a proof with an error of its own. */
export function nameChallenge(presented: PresentedToken, outcome: Outcome): Outcome {
  if (outcome.kind !== 'invalid' || presented.as === 'Bearer') return outcome
  const error = ERRORS.get(outcome.code) ?? 'invalid_token'
  return { ...outcome, challenge: { scheme: 'DPoP', error } }
}

const ERRORS: ReadonlyMap<string, string> = new Map([
  ['ERR_DPOP_PROOF', 'invalid_dpop_proof'],
  ['ERR_DPOP_REPLAY', 'invalid_dpop_proof'],
  ['ERR_DPOP_NONCE', 'use_dpop_nonce'],
])
