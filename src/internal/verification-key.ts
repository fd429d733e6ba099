/**
 * A public key as a verifier uses it: checked once when it is loaded, bound to the algorithms it may verify, prepared
 * as a key object. Whatever can be wrong with a key is found here and never on the path of a request.
 */
import { constants, createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'
import { decodeBase64url } from './base64url.ts'

interface Algorithm {
  readonly kty: 'RSA' | 'EC' | 'OKP'
  readonly crv?: string
  /** `null`: the signature scheme hashes by itself. */
  readonly hash: string | null
  readonly pss?: true
  /** Signature length in bytes; absent: that of the modulus. */
  readonly length?: number
}

/** RFC 7518 §3.1, RFC 8037 and RFC 9864, asymmetric only. A name that is not here is never verified. */
const ALGORITHMS: ReadonlyMap<string, Algorithm> = new Map<string, Algorithm>([
  ['RS256', { kty: 'RSA', hash: 'sha256' }],
  ['RS384', { kty: 'RSA', hash: 'sha384' }],
  ['RS512', { kty: 'RSA', hash: 'sha512' }],
  ['PS256', { kty: 'RSA', hash: 'sha256', pss: true }],
  ['PS384', { kty: 'RSA', hash: 'sha384', pss: true }],
  ['PS512', { kty: 'RSA', hash: 'sha512', pss: true }],
  ['ES256', { kty: 'EC', crv: 'P-256', hash: 'sha256', length: 64 }],
  ['ES384', { kty: 'EC', crv: 'P-384', hash: 'sha384', length: 96 }],
  ['ES512', { kty: 'EC', crv: 'P-521', hash: 'sha512', length: 132 }],
  ['EdDSA', { kty: 'OKP', crv: 'Ed25519', hash: null, length: 64 }],
  ['Ed25519', { kty: 'OKP', crv: 'Ed25519', hash: null, length: 64 }],
])

/** Signature algorithms this package can verify. */
export const signatureAlgorithms: readonly string[] = Object.freeze([...ALGORITHMS.keys()])

export interface VerificationKey {
  readonly kid: string | undefined
  /** What this key may verify: by type and curve, narrowed to the JWK's own `alg` where it has one. */
  readonly algorithms: readonly string[]
  readonly keyObject: KeyObject
  /** Equal for two keys only if material, `kid` and algorithms are all equal. */
  readonly identity: string
}

/** Why a key of a set is not used. */
export type KeyRefusal =
  | 'not an object'
  | 'private key material'
  | 'symmetric key'
  | 'unsupported kty or crv'
  | 'alg does not fit the key, or is not supported'
  | 'use is not sig'
  | 'key_ops does not hold verify'
  | 'kid is not a short string'
  | 'malformed key'
  | 'RSA modulus is not 2048 to 8192 bits'
  | 'RSA exponent is unsafe'
  | 'RSA modulus has the ROCA weakness'
  | 'kid is used by two different keys'

export type LoadedKey =
  | { readonly ok: true; readonly key: VerificationKey }
  | { readonly ok: false; readonly reason: KeyRefusal; readonly kid: string | undefined }

/** Members that carry private material (RFC 7518 §6.2.2, §6.3.2; RFC 8037 §2). Whoever publishes one has lost the key. */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth']
const COORDINATE_BYTES: Readonly<Record<string, number>> = { 'P-256': 32, 'P-384': 48, 'P-521': 66, Ed25519: 32 }
const MAX_KID_LENGTH = 512

/** Checks one JWK and prepares it. Says nothing about whether the key is trusted: that is the caller's. */
export function loadVerificationKey(jwk: unknown): LoadedKey {
  if (typeof jwk !== 'object' || jwk === null || Array.isArray(jwk)) return refuse('not an object')
  const own = (name: string): unknown => (Object.hasOwn(jwk, name) ? (jwk as Record<string, unknown>)[name] : undefined)

  const rawKid = own('kid')
  const kid = typeof rawKid === 'string' && rawKid !== '' && rawKid.length <= MAX_KID_LENGTH ? rawKid : undefined
  if (rawKid !== undefined && kid === undefined) return refuse('kid is not a short string')

  const kty = own('kty')
  if (kty === 'oct' || own('k') !== undefined) return refuse('symmetric key', kid)
  if (PRIVATE_MEMBERS.some((name) => own(name) !== undefined)) return refuse('private key material', kid)

  const use = own('use')
  if (use !== undefined && use !== 'sig') return refuse('use is not sig', kid)
  const ops = own('key_ops')
  if (ops !== undefined && !(Array.isArray(ops) && ops.includes('verify')))
    return refuse('key_ops does not hold verify', kid)

  const crv = own('crv')
  const possible = [...ALGORITHMS].filter(([, a]) => a.kty === kty && (kty === 'RSA' || a.crv === crv)).map(([n]) => n)
  if (possible.length === 0) return refuse('unsupported kty or crv', kid)
  const alg = own('alg')
  const algorithms = alg === undefined ? possible : possible.filter((name) => name === alg || sameCurve(name, alg))
  if (algorithms.length === 0) return refuse('alg does not fit the key, or is not supported', kid)

  const members = kty === 'RSA' ? ['e', 'n'] : kty === 'EC' ? ['x', 'y'] : ['x']
  const material: Record<string, string> = { kty: kty as string, ...(kty === 'RSA' ? {} : { crv: crv as string }) }
  for (const name of members) {
    const value = own(name)
    const bytes = typeof value === 'string' ? decodeBase64url(value) : undefined
    // RFC 7518 §6.2.1.2: a coordinate has the full size of the field, leading zeros included.
    const size = kty === 'RSA' ? bytes?.length : COORDINATE_BYTES[crv as string]
    if (bytes === undefined || bytes.length === 0 || bytes.length !== size) return refuse('malformed key', kid)
    material[name] = value as string
  }

  if (kty === 'RSA') {
    const weakness = rsaWeakness(material.n as string, material.e as string)
    if (weakness !== undefined) return refuse(weakness, kid)
  }
  let keyObject: KeyObject
  try {
    keyObject = createPublicKey({ key: material, format: 'jwk' }) // refuses a point that is not on the curve
  } catch {
    return refuse('malformed key', kid)
  }
  const identity = createHash('sha256')
    .update(JSON.stringify([material, kid ?? null, algorithms]))
    .digest('base64url')
  return { ok: true, key: Object.freeze({ kid, algorithms: Object.freeze(algorithms), keyObject, identity }) }
}

function refuse(reason: KeyRefusal, kid?: string): LoadedKey {
  return { ok: false, reason, kid }
}

/** `EdDSA` on an Ed25519 key and `Ed25519` (RFC 9864) are the same signature under two names. */
function sameCurve(name: string, alg: unknown): boolean {
  return (name === 'EdDSA' && alg === 'Ed25519') || (name === 'Ed25519' && alg === 'EdDSA')
}

/** Bounds keep a hostile key from making each check slow; below 2048 bits RFC 7518 §3.3 forbids use. */
function rsaWeakness(n: string, e: string): KeyRefusal | undefined {
  const modulus = toBigInt(n)
  const bits = modulus.toString(2).length
  if (bits < 2048 || bits > 8192) return 'RSA modulus is not 2048 to 8192 bits'
  const exponent = toBigInt(e)
  if (exponent < 3n || exponent > 0xffffffffn || exponent % 2n === 0n) return 'RSA exponent is unsafe'
  if (modulus % 2n === 0n) return 'malformed key'
  return hasRocaFingerprint(modulus) ? 'RSA modulus has the ROCA weakness' : undefined
}

function toBigInt(base64url: string): bigint {
  return BigInt(`0x${Buffer.from(base64url, 'base64url').toString('hex')}`)
}

/** Small primes whose subgroup generated by 65537 is a proper one, so that an ordinary modulus fails one of them. */
const ROCA_PRIMES = [11, 13, 17, 19, 37, 53, 61, 71, 73, 79, 97, 103, 107, 109, 127, 151, 157]

/**
 * Factorable keys of one smart-card library (CVE-2017-15361; Nemec et al., CCS 2017): modulo every one of these primes
 * the modulus is a power of 65537. An ordinary key passes all of them with probability about 2^-27.
 */
function hasRocaFingerprint(modulus: bigint): boolean {
  return ROCA_PRIMES.every((prime) => {
    const residue = Number(modulus % BigInt(prime))
    let power = 1
    do {
      if (power === residue) return true
      power = (power * 65537) % prime
    } while (power !== 1)
    return false
  })
}

/** Whether checking a signature of `alg` is cheap enough to do at once rather than on the thread pool (RSA is). */
export function isQuickToVerify(alg: string): boolean {
  return ALGORITHMS.get(alg)?.kty === 'RSA'
}

/**
 * Checks `signature` over `data`. `node:crypto` and not `jose`, whose entry point takes the whole token, parses its
 * header again and crosses the thread pool twice: for RSA four times the cost of the check itself.
 * `false` also when the key may not be used with `alg`.
 */
export function verifySignature(key: VerificationKey, alg: string, data: Buffer, signature: Buffer): boolean {
  const options = optionsFor(key, alg, signature)
  return options !== undefined && verify(options.hash, data, options.key, signature)
}

/** As `verifySignature`, on the thread pool. */
export function verifySignatureAsync(
  key: VerificationKey,
  alg: string,
  data: Buffer,
  signature: Buffer,
): Promise<boolean> {
  const options = optionsFor(key, alg, signature)
  if (options === undefined) return Promise.resolve(false)
  return new Promise((resolve, reject) => {
    verify(options.hash, data, options.key, signature, (error, valid) => (error ? reject(error) : resolve(valid)))
  })
}

function optionsFor(key: VerificationKey, alg: string, signature: Buffer) {
  const algorithm = ALGORITHMS.get(alg)
  if (algorithm === undefined || !key.algorithms.includes(alg)) return undefined
  const details = key.keyObject.asymmetricKeyDetails
  // One signature, one text: RFC 8017 §8.2.2 step 1 and RFC 7518 §3.4 fix the length.
  if (signature.length !== (algorithm.length ?? Math.ceil((details?.modulusLength ?? 0) / 8))) return undefined
  return {
    hash: algorithm.hash,
    key: {
      key: key.keyObject,
      ...(algorithm.kty === 'EC' ? { dsaEncoding: 'ieee-p1363' as const } : {}),
      ...(algorithm.pss
        ? { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
        : {}),
    },
  }
}
