/** Signs an Agent Card so that what is served is what is signed. A2A §8.4.2. */
import { createPrivateKey } from 'node:crypto'
import { FlattenedSign, type JWK } from 'jose'
import { TrustError } from '../errors.ts'
import { parseStrictJson } from '../internal/json.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { publicJwk, type SigningKeyOptions, signingKey } from '../internal/signing-key.ts'
import { JCS, serialize } from './canonicalize.ts'
import { canonicalizeCard, emptyRequired, type Profile } from './profiles.ts'
import { verifyCard } from './verify.ts'

export interface SignCardOptions extends SigningKeyOptions {
  /** URL of the key set, for verifiers that allow it. */
  readonly jku?: string
  /** Adds a signature for each other form that SDKs verify, where it differs from what is served. Default false. */
  readonly compat?: boolean
  /** `add` keeps the signatures of other keys, for a rotation, and the card as they signed it. Default `replace`. */
  readonly signatures?: 'replace' | 'add'
}

export interface SignedCard {
  readonly card: Record<string, unknown>
  /** What to serve, byte for byte. */
  readonly text: string
}

type Json = Record<string, unknown>

/** Forms that SDKs verify beside the served one. */
const COMPAT_PROFILES: readonly Profile[] = ['spec', 'clean', 'py-legacy']

/** Throws `TypeError` for an option that `signCard` does not know. */
export function checkSignOptions(options: SignCardOptions): void {
  assertKnownOptions('signCard', options, ['key', 'kid', 'alg', 'jku', 'compat', 'signatures'])
}

/**
 * Returns a new card with signatures of `key` over its served form: plain defaults are dropped, `capabilities` says
 * `streaming` and an mTLS scheme has a description, so that for most cards one signature serves every SDK.
 *
 * Earlier signatures are dropped: whether they still hold is nobody's knowledge here. See `signatures: 'add'`.
 * Throws `ERR_JSON_*` and `ERR_CARD_SHAPE` for a text that is no card, `ERR_CARD_REQUIRED_EMPTY` for an empty REQUIRED
 * member without `compat` (SDKs sign it in different ways), `ERR_CARD_SIGNING_KEY` for a key that cannot sign, and
 * `ERR_POLICY_EXAMPLE_KEY` for an example key in production. Does not check that the card makes sense: `card lint` does.
 */
export async function signCard(text: string | Uint8Array, options: SignCardOptions): Promise<SignedCard> {
  checkSignOptions(options)
  const { jwk, alg, kid } = await signingKey(options, 'ERR_CARD_SIGNING_KEY')
  const { jku, compat = false, signatures = 'replace' } = options
  if (typeof compat !== 'boolean') throw new TypeError('"compat" must be true or false')
  if (signatures !== 'replace' && signatures !== 'add') throw new TypeError('"signatures" must be replace or add')
  if (jku !== undefined && !(typeof jku === 'string' && /^https:\/\//.test(jku) && URL.canParse(jku))) {
    throw new TypeError('"jku" must be an https:// URL')
  }

  // Unlike a verifier, who must read what was served: a number that changes by being signed is the author's to change.
  const parsed = parseStrictJson(text)
  const explicit = serve(text)
  const { signatures: before, ...unsigned } = parsed as Json
  const kept = signatures === 'add' && Array.isArray(before) ? before.filter((one) => kidOf(one) !== kid) : []
  // What others have signed is served as they signed it.
  const served = kept.length > 0 ? unsigned : explicit
  const empty = emptyRequired(served)
  if (empty.length > 0 && !compat) throw new TrustError('ERR_CARD_REQUIRED_EMPTY', { details: { members: empty } })
  const servedText = serialize(served, JCS)

  const payloads = [servedText]
  for (const profile of compat ? COMPAT_PROFILES : []) {
    const payload = canonicalizeCard(servedText, profile)
    if (!payloads.includes(payload)) payloads.push(payload)
  }
  const key = createPrivateKey({ key: jwk as never, format: 'jwk' })
  const header = { alg, kid, typ: 'JOSE', ...(jku === undefined ? {} : { jku }) }
  const made = []
  for (const payload of payloads) {
    const { protected: text64, signature } = await new FlattenedSign(Buffer.from(payload))
      .setProtectedHeader(header)
      .sign(key)
    made.push({ protected: text64 as string, signature })
  }
  const card = { ...served, signatures: [...kept, ...made] }
  const result = serialize(card, JCS)
  const check = await verifyCard(result, { jwks: { keys: [publicJwk(jwk, kid)] } }, { strict: true })
  if (!check.ok) throw new TrustError(check.reason)
  return { card, text: result }
}

/** The text with a signature of each key, the first replacing what was signed before. Without keys: the canonical text. */
export async function signWithAll(
  cardText: string,
  keys: readonly Omit<SignCardOptions, 'signatures'>[],
): Promise<string> {
  if (keys.length === 0) return serialize(parseStrictJson(cardText), JCS)
  let text = cardText
  for (const [index, key] of keys.entries())
    text = (await signCard(text, { ...key, signatures: index === 0 ? 'replace' : 'add' })).text
  return text
}

/** The public JWK of a signing key, for a key set. Throws as `signCard`. */
export async function publicJwkOf(options: SignCardOptions): Promise<JWK> {
  const { jwk, alg, kid } = await signingKey(options, 'ERR_CARD_SIGNING_KEY')
  return { ...publicJwk(jwk, kid), alg, use: 'sig' }
}

/** Presence rules once, then the two members whose emptiness SDKs disagree about. Throws as `canonicalizeCard`. */
function serve(cardText: string | Uint8Array): Json {
  const card = parseStrictJson(canonicalizeCard(cardText, 'spec-unknown-kept')) as Json
  const { capabilities, securitySchemes } = card
  if (isObject(capabilities) && Object.keys(capabilities).length === 0) capabilities.streaming = false
  if (isObject(securitySchemes)) {
    for (const scheme of Object.values(securitySchemes)) {
      const mtls = isObject(scheme) ? scheme.mtlsSecurityScheme : undefined
      if (isObject(mtls) && Object.keys(mtls).length === 0) mtls.description = 'Mutual TLS'
    }
  }
  return card
}

function kidOf(entry: unknown): unknown {
  const text = isObject(entry) ? entry.protected : undefined
  if (typeof text !== 'string') return undefined
  try {
    return (parseStrictJson(Buffer.from(text, 'base64url')) as { kid?: unknown } | null)?.kid
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
