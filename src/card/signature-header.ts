/** One entry of `signatures` (A2A §8.4.2, JWS JSON serialisation), read strictly before any key is looked at. */
import type { ErrorCode } from '../errors.ts'
import { decodeBase64url } from '../internal/base64url.ts'
import { parseStrictJson } from '../internal/json.ts'
import { signatureAlgorithms } from '../internal/verification-key.ts'
import type { KeyHint } from './trusted-keys.ts'

export type SignatureEntry =
  | { readonly ok: true; readonly hint: KeyHint; readonly protected: string; readonly signature: Buffer }
  | { readonly ok: false; readonly reason: ErrorCode; readonly kid?: string; readonly alg?: string }

const MAX_HEADER_CHARACTERS = 8192
const MAX_KID_LENGTH = 256
const MAX_JKU_LENGTH = 2048
const TYPES = new Set(['jose', 'jose+json', 'jwt'])

/**
 * `alg` and `kid` must be protected; `typ` may be absent. `crit` and `b64` are refused whatever they say, because what
 * they would change is not a card signature. `jwk`, `x5c` and `x5u` are never looked at: a key that comes with the
 * signature proves nothing.
 */
export function readSignature(entry: unknown): SignatureEntry {
  if (!isObject(entry)) return refuse('ERR_CARD_SIGNATURE_MALFORMED')
  const { protected: text, signature: signatureText, header: unprotected } = entry
  if (
    typeof text !== 'string' ||
    typeof signatureText !== 'string' ||
    text === '' ||
    text.length > MAX_HEADER_CHARACTERS
  ) {
    return refuse('ERR_CARD_SIGNATURE_MALFORMED')
  }
  const headerBytes = decodeBase64url(text)
  const signature = signatureText.length > MAX_HEADER_CHARACTERS ? undefined : decodeBase64url(signatureText)
  if (headerBytes === undefined || signature === undefined) return refuse('ERR_CARD_SIGNATURE_ENCODING')
  let header: unknown
  try {
    header = parseStrictJson(headerBytes, { maxDepth: 8 })
  } catch {
    return refuse('ERR_CARD_SIGNATURE_HEADER')
  }
  if (!isObject(header)) return refuse('ERR_CARD_SIGNATURE_HEADER')
  const { alg, kid, typ, jku } = header
  const named = { ...(typeof kid === 'string' ? { kid } : {}), ...(typeof alg === 'string' ? { alg } : {}) }

  // RFC 7515 §7.2.1: the names of the two headers must be disjoint; what decides must be protected.
  if (unprotected !== undefined && unprotected !== null) {
    if (!isObject(unprotected)) return refuse('ERR_CARD_SIGNATURE_HEADER', named)
    const names = Object.keys(unprotected)
    if (names.some((name) => Object.hasOwn(header, name) || DECIDING.has(name)))
      return refuse('ERR_CARD_SIGNATURE_HEADER', named)
  }
  if (Object.hasOwn(header, 'crit') || Object.hasOwn(header, 'b64')) return refuse('ERR_CARD_SIGNATURE_CRITICAL', named)
  if (typeof kid !== 'string' || kid === '' || kid.length > MAX_KID_LENGTH)
    return refuse('ERR_CARD_SIGNATURE_KID', named)
  if (typeof alg !== 'string' || !signatureAlgorithms.includes(alg))
    return refuse('ERR_CARD_SIGNATURE_ALGORITHM', named)
  if (typ !== undefined && typ !== null && !(typeof typ === 'string' && TYPES.has(typ.toLowerCase()))) {
    return refuse('ERR_CARD_SIGNATURE_TYPE', named)
  }
  // `null` is absence here as everywhere in ProtoJSON.
  if (jku !== undefined && jku !== null && !(typeof jku === 'string' && jku.length <= MAX_JKU_LENGTH)) {
    return refuse('ERR_CARD_SIGNATURE_HEADER', named)
  }
  return { ok: true, hint: { kid, alg, ...(typeof jku === 'string' ? { jku } : {}) }, protected: text, signature }
}

const DECIDING = new Set(['alg', 'kid', 'typ', 'jku', 'crit', 'b64'])

function refuse(reason: ErrorCode, named: { kid?: string; alg?: string } = {}): SignatureEntry {
  return { ok: false, reason, ...named }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
