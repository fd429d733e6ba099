/** Certificate revocation lists (RFC 5280 §5): read from DER, signature by `node:crypto`. */
import { constants, verify } from 'node:crypto'
import { type Certificate, type SignatureKind, serialOf, signatureKind } from './certificate.ts'
import type { Path } from './certificate-path.ts'
import {
  boolean,
  DerError,
  type Element,
  elements,
  expectTag,
  oidText,
  SEQUENCE,
  sequence,
  smallInteger,
  TAG,
  time,
} from './der.ts'

export interface RevocationList {
  readonly issuer: Uint8Array
  /** Inclusive, unix seconds. */
  readonly thisUpdate: number
  readonly nextUpdate: number
  /** Serial numbers, as `Certificate.serial`. */
  readonly revoked: ReadonlySet<string>
  /** Whether `authority` issued it: name, key usage and signature. */
  isSignedBy(authority: Certificate): boolean
}

const CRL_SIGN = 6
/** Extensions of an entry that change nothing about it being revoked, critical or not. */
const REASON_CODE = '2.5.29.21'
const INVALIDITY_DATE = '2.5.29.24'

/** Throws `DerError` saying what is wrong, for what is not the whole list of one authority. */
export function readRevocationList(raw: Uint8Array): RevocationList {
  const [tbs, outer, signature, ...rest] = sequence(Buffer.from(raw))
  if (rest.length > 0) throw new DerError('it is no CertificateList')
  const bits = expectTag(signature, TAG.bits).content
  if (bits[0] !== 0) throw new DerError('its signature is no whole number of octets')
  const fields = elements(expectTag(tbs, SEQUENCE).content)
  const version = fields[0]?.tag === TAG.integer ? smallInteger(fields.shift() as Element) : 0
  const [inner, issuer, thisUpdate, nextUpdate, ...optional] = fields
  if (version > 1) throw new DerError('its version is unknown')
  if (!Buffer.from(expectTag(outer, SEQUENCE).raw).equals(expectTag(inner, SEQUENCE).raw)) {
    throw new DerError('it names two signature algorithms')
  }
  // RFC 5280 §5.1.2.5: without it nobody could tell when the list is out of date.
  if (nextUpdate?.tag !== TAG.utcTime && nextUpdate?.tag !== TAG.generalizedTime)
    throw new DerError('it has no nextUpdate')
  const entries = optional[0]?.tag === SEQUENCE ? elements((optional.shift() as Element).content) : []
  const extensions = optional.shift()
  if (optional.length > 0 || (extensions !== undefined && (extensions.tag !== 0xa0 || version === 0))) {
    throw new DerError('it goes on after its extensions')
  }
  // A part of a list (delta, one distribution point, some reasons) or that of several authorities says so by a critical
  // extension (§5.2.4, §5.2.5, §5.3.3). Taken for the whole, it would pass what another part revokes.
  if (extensions !== undefined) refuseCritical(sequence(extensions.content), [])

  const revoked = new Set<string>()
  for (const entry of entries) {
    const [serial, date, more, ...others] = elements(expectTag(entry, SEQUENCE).content)
    if (date?.tag !== TAG.utcTime && date?.tag !== TAG.generalizedTime) throw new DerError('an entry has no date')
    if (others.length > 0) throw new DerError('an entry goes on after its extensions')
    if (more !== undefined) refuseCritical(elements(expectTag(more, SEQUENCE).content), [REASON_CODE, INVALIDITY_DATE])
    revoked.add(serialOf(serial))
  }
  const kind = signatureKind((outer as Element).content)
  if (kind === undefined) throw new DerError('its signature is of a weak or unknown kind')
  const name = expectTag(issuer, SEQUENCE).raw
  const known = new Map<string, boolean>()
  return Object.freeze({
    issuer: name,
    thisUpdate: time(thisUpdate),
    nextUpdate: time(nextUpdate),
    revoked,
    isSignedBy(authority: Certificate) {
      const { keyId, keyUsage, subject } = authority
      if (!Buffer.from(subject).equals(name) || keyUsage?.has(CRL_SIGN) === false) return false
      let holds = known.get(keyId)
      if (holds === undefined) {
        holds = verifies((tbs as Element).raw, kind, bits.subarray(1), authority)
        known.set(keyId, holds)
      }
      return holds
    },
  })
}

function refuseCritical(extensions: readonly Element[], read: readonly string[]): void {
  for (const extension of extensions) {
    const [name, ...value] = elements(expectTag(extension, SEQUENCE).content)
    const oid = oidText(expectTag(name, TAG.oid).content)
    if (value.length < 1 || value.length > 2) throw new DerError('an extension cannot be read')
    if (value.length === 2 && boolean(value[0] as Element) && !read.includes(oid)) {
      throw new DerError(`it has the critical extension ${oid}: only whole lists of one authority are read`)
    }
  }
}

function verifies(
  data: Uint8Array,
  { hash, keys, pss }: SignatureKind,
  signature: Uint8Array,
  { x509, strong }: Certificate,
): boolean {
  const key = x509.publicKey
  if (!strong || !keys.includes(key.asymmetricKeyType ?? '')) return false
  try {
    const padding = pss ? { padding: constants.RSA_PKCS1_PSS_PADDING } : {}
    return verify(hash, data, { key, ...padding }, signature)
  } catch {
    return false
  }
}

/** What the lists say of the certificates of one path, whatever the time. */
export interface PathStatus {
  readonly revoked: boolean
  /** One group for each certificate that is looked up: a list of each must be current. */
  readonly lists: readonly (readonly RevocationList[])[]
}

/**
 * Looks up the leaf, and each authority above it whose issuer has a list. A leaf whose issuer has none has a group that
 * is empty and so never current: whoever configures lists relies on them.
 */
export function statusOf(path: Path, all: readonly RevocationList[]): PathStatus {
  const lists: (readonly RevocationList[])[] = []
  let revoked = false
  for (const [index, { issuer, serial }] of path.slice(0, -1).entries()) {
    const named = all.filter((list) => Buffer.from(list.issuer).equals(issuer))
    if (index > 0 && named.length === 0) continue
    const own = named.filter((list) => list.isSignedBy(path[index + 1] as Certificate))
    if (own.some((list) => list.revoked.has(serial))) revoked = true
    lists.push(own)
  }
  return { revoked, lists }
}

export function isCurrent({ thisUpdate, nextUpdate }: RevocationList, seconds: number): boolean {
  return thisUpdate <= seconds && seconds <= nextUpdate
}
