/** Verifies the signatures of an Agent Card and hands back only what one of them covers. A2A §8.4.3. */
import { type ErrorCode, TrustError } from '../errors.ts'
import { parseStrictJson } from '../internal/json.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { thumbprintOf } from '../internal/thumbprint.ts'
import { verifySignature, verifySignatureAsync } from '../internal/verification-key.ts'
import { isObject } from '../protocol/json-object.ts'
import { type Payload, Payloads } from './payloads.ts'
import { type Coverage, coverageOf, type Profile } from './profiles.ts'
import { readSignature, type SignatureEntry } from './signature-header.ts'
import { loadTrust } from './trust.ts'
import { type JwkSet, type Trust, type TrustedKey, trustJwks } from './trusted-keys.ts'
import { isCoveredBy, isSecurityMember, uncoveredPointers } from './uncovered.ts'
import { type VerifyOptions, verifySettings } from './verify-options.ts'

export type VerifyTrust =
  | { readonly jwks: JwkSet }
  /** A loaded trust, or what `loadTrust` takes. `origin` is where the card came from. */
  | { readonly trust: Trust | string | object; readonly origin?: string }

/** As it comes from a caller without types. */
interface GivenTrust {
  readonly jwks?: JwkSet
  readonly trust?: Trust | string | object
  readonly origin?: string
}

export type { VerifyOptions } from './verify-options.ts'

/** What became of one entry of `signatures`. */
export interface SignatureResult {
  readonly index: number
  readonly ok: boolean
  readonly reason?: ErrorCode
  readonly kid?: string
  readonly alg?: string
  readonly signer?: string
  /** Of the key that verified it, RFC 7638 with SHA-256: another key under the same `kid` has another. */
  readonly thumbprint?: string
  readonly profile?: Profile
}

export type VerifyResult =
  | {
      readonly ok: true
      /** Parsed from the bytes that verified. Objects have no prototype. */
      readonly card: Record<string, unknown>
      readonly signer: string
      readonly profile: Profile
      readonly coverage: Coverage
      /** JSON Pointers into the served card: what is not in `card`, or otherwise. */
      readonly uncovered: readonly string[]
      /** Uncovered members that decide where clients connect and how they authenticate. */
      readonly warnings: readonly string[]
      readonly signatures: readonly SignatureResult[]
    }
  | { readonly ok: false; readonly reason: ErrorCode; readonly signatures: readonly SignatureResult[] }

const MAX_CARD_BYTES = 2 * 1024 * 1024
const MAX_SIGNATURES = 16
const MAX_KEYS_PER_SIGNATURE = 4
const QUICK_ALGORITHMS = new Set(['ES256', 'EdDSA', 'Ed25519', 'RS256', 'PS256'])
const QUICK_BYTES = 16 * 1024

/**
 * Verifies the received text of a card against the keys of `trust`.
 *
 * Checks: strict JSON; at most 16 signatures, each with a strict protected header; a trusted key of the header's `kid`
 * whose algorithm fits; the signature over each profile's canonical form; with a trust file also the signer's validity
 * and scope. One good signature is enough (or as many signers as the trust asks for), and a bad one never stops the others.
 *
 * Does not check whether the card makes sense (`card lint`), nor who serves it beyond the signer's scope.
 *
 * A card that is not to be trusted is a result, `{ ok: false, reason }`, with `ERR_JSON_*` or `ERR_CARD_*`.
 * Throws `TypeError` for options that cannot be meant.
 */
export async function verifyCard(
  cardText: string | Uint8Array,
  by: VerifyTrust,
  options: VerifyOptions = {},
): Promise<VerifyResult> {
  const { profiles, nowMs, rejectUncovered } = verifySettings(options)
  const { jwks, trust: given, origin: from }: GivenTrust = { ...by }
  if ((jwks === undefined) === (given === undefined))
    throw new TypeError('"jwks" or "trust" must be given, and not both')
  assertKnownOptions<GivenTrust>('verifyCard', by, ['jwks', 'trust', 'origin'])
  const trust =
    given === undefined ? trustJwks(jwks as JwkSet) : isTrust(given) ? given : await loadTrust({ trust: given })
  const origin = from === undefined ? {} : { origin: from }

  let served: unknown
  try {
    served = parseStrictJson(cardText, {
      maxBytes: MAX_CARD_BYTES,
      unsafeIntegers: 'round',
      number: (literal) => numberOf(literal, options.strict === true),
    })
  } catch (fault) {
    if (fault instanceof TrustError) return { ok: false, reason: fault.code, signatures: [] }
    throw fault
  }
  if (!isObject(served)) return { ok: false, reason: 'ERR_CARD_SHAPE', signatures: [] }
  const { signatures: entries, ...unsigned } = served
  if (entries === undefined || entries === null || (Array.isArray(entries) && entries.length === 0)) {
    return { ok: false, reason: 'ERR_CARD_UNSIGNED', signatures: [] }
  }
  if (!Array.isArray(entries)) return { ok: false, reason: 'ERR_CARD_SIGNATURE_MALFORMED', signatures: [] }
  if (entries.length > MAX_SIGNATURES) return { ok: false, reason: 'ERR_CARD_SIGNATURE_COUNT', signatures: [] }

  const payloads = new Payloads({ text: cardText, card: served }, profiles)
  const results: SignatureResult[] = []
  const good: Good[] = []
  for (const [index, entry] of entries.entries()) {
    const read = readSignature(entry)
    const { by, ...result }: EntryResult = read.ok
      ? await verifyEntry(read, payloads, trust, { ...origin, nowMs })
      : read
    if (by !== undefined) good.push(by)
    results.push({ index, ...result })
  }

  const best = fullestAgreed(good, profiles, trust.threshold)
  if (best === undefined) {
    return { ok: false, reason: good.length === 0 ? mostTelling(results) : 'ERR_CARD_THRESHOLD', signatures: results }
  }
  const card = best.payload.card()
  const uncovered = uncoveredPointers(unsigned, card)
  if (rejectUncovered && uncovered.length > 0) return { ok: false, reason: 'ERR_CARD_UNCOVERED', signatures: results }
  return {
    ok: true,
    card,
    signer: best.key.signer,
    profile: best.payload.profile,
    coverage: coverageOf(best.payload.profile),
    uncovered,
    warnings: uncovered.filter(isSecurityMember),
    signatures: results,
  }
}

/** A signature that holds. */
interface Good {
  readonly key: TrustedKey
  readonly payload: Payload
}

/**
 * The card of the fullest profile that enough different signers have signed, each of them every member of it.
 * Signatures under different profiles can all hold and cover different members: what one signer alone vouches for is
 * not signed by the many that were asked for.
 */
function fullestAgreed(good: readonly Good[], profiles: readonly Profile[], threshold: number): Good | undefined {
  const rank = ({ payload }: Good) => profiles.indexOf(payload.profile)
  return good
    .toSorted((a, b) => rank(a) - rank(b))
    .find(({ payload }) => {
      if (threshold <= 1) return true
      const agreeing = good.filter((other) => isCoveredBy(payload.card(), other.payload.card()))
      return new Set(agreeing.map(({ key }) => key.signer)).size >= threshold
    })
}

type Entry = Extract<SignatureEntry, { ok: true }>
type EntryResult = Omit<SignatureResult, 'index'> & { readonly by?: Good }

async function verifyEntry(
  { hint, protected: header, signature }: Entry,
  payloads: Payloads,
  trust: Trust,
  context: { readonly origin?: string; readonly nowMs: number },
): Promise<EntryResult> {
  const named = { kid: hint.kid, alg: hint.alg }
  const refuse = (reason: ErrorCode): EntryResult => ({ ok: false, reason, ...named })
  let keys: readonly TrustedKey[]
  try {
    keys = (await trust.keysFor(hint, context)).slice(0, MAX_KEYS_PER_SIGNATURE)
  } catch (fault) {
    return refuse(fault instanceof TrustError ? fault.code : 'ERR_CARD_KEY_UNAVAILABLE')
  }
  if (keys.length === 0) return refuse('ERR_CARD_KEY_UNKNOWN')
  const fitting = keys.filter(({ key }) => key.algorithms.includes(hint.alg))
  if (fitting.length === 0) return refuse('ERR_CARD_SIGNATURE_ALGORITHM')

  const start = Buffer.from(`${header}.`, 'latin1')
  const holds = async ({ key }: TrustedKey, payload: Buffer, quick = false): Promise<boolean> => {
    const data = Buffer.concat([start, payload])
    try {
      return quick
        ? verifySignature(key, hint.alg, data, signature)
        : await verifySignatureAsync(key, hint.alg, data, signature)
    } catch {
      // A key that crypto cannot work with is a signature that does not hold, and no reason to stop.
      return false
    }
  }
  // Nearly every card is small and signed in the first form. The thread pool would cost more than that one check, and
  // the others are there to be many.
  let quick = QUICK_ALGORITHMS.has(hint.alg)
  for (const payload of payloads.all()) {
    const { profile, encoded } = payload
    let refused: EntryResult | undefined
    for (const key of fitting) {
      if (!(await holds(key, encoded, quick && encoded.length <= QUICK_BYTES))) continue
      const refusal = trust.refusalOf(key, {
        ...(context.origin === undefined ? {} : { origin: context.origin }),
        urls: interfaceUrls(payload.card()),
      })
      if (refusal === undefined) {
        const { signer } = key
        return { ok: true, ...named, signer, thumbprint: thumbprintOf(key.key), profile, by: { key, payload } }
      }
      // Another signer may have the same key, and this origin in its scope.
      refused ??= { ...refuse(refusal), signer: key.signer, profile }
    }
    if (refused !== undefined) return refused
    quick = false
  }
  const defect = payloads.withoutSecuritySchemes()
  if (defect !== undefined) {
    for (const key of fitting) if (await holds(key, defect)) return refuse('ERR_CARD_SIGNATURE_OMITS_SECURITY_SCHEMES')
  }
  return refuse('ERR_CARD_SIGNATURE_INVALID')
}

/**
 * Canonical form makes every number a double (RFC 8785 §3.2.2.3), so an integer that no double holds was not signed as
 * it is written. It is then told apart from what was signed, and refused where full coverage is asked for.
 */
function numberOf(literal: string, strict: boolean): number | bigint {
  const value = Number(literal)
  if (!/^-?\d+$/.test(literal) || Number.isSafeInteger(value)) return value
  const exact = BigInt(literal)
  // Digits as RFC 8785 writes them for a double are what was signed, even where the double is a little beside them.
  if (BigInt(value) === exact || String(value) === literal) return value
  if (strict) throw new TrustError('ERR_JSON_UNSAFE_NUMBER')
  return exact
}

function interfaceUrls(card: Record<string, unknown>): string[] {
  // In both spellings: some readers know either.
  const { supportedInterfaces, supported_interfaces, additionalInterfaces, additional_interfaces } = card
  const lists = [supportedInterfaces, supported_interfaces, additionalInterfaces, additional_interfaces].filter(
    Array.isArray,
  ) as unknown[][]
  return [card.url, ...lists.flat().map((one) => (isObject(one) ? one.url : undefined))].filter(
    (url) => typeof url === 'string',
  )
}

/** The reason that says most: a signature that was judged, before one that could not be read. */
function mostTelling(results: readonly SignatureResult[]): ErrorCode {
  const order: readonly ErrorCode[] = [
    'ERR_CARD_SIGNATURE_OMITS_SECURITY_SCHEMES',
    'ERR_CARD_ORIGIN',
    'ERR_CARD_KEY_REVOKED',
    'ERR_CARD_KEY_EXPIRED',
    'ERR_CARD_SIGNATURE_INVALID',
    'ERR_CARD_KEY_UNAVAILABLE',
    'ERR_CARD_KEY_UNKNOWN',
  ]
  const reasons = results.map(({ reason }) => reason)
  return (
    order.find((code) => reasons.includes(code)) ??
    reasons.find((code) => code !== undefined) ??
    'ERR_CARD_SIGNATURE_INVALID'
  )
}

function isTrust(value: Trust | string | object): value is Trust {
  return typeof value === 'object' && 'keysFor' in value && typeof value.keysFor === 'function'
}
