/**
 * What path validation and identities need of a certificate, read from its DER: never from a printed form, whose
 * separators a name may contain (CVE-2021-44532). Keys and signatures are those of `node:crypto`.
 */
import { createHash, X509Certificate } from 'node:crypto'
import {
  boolean,
  DerError,
  type Element,
  elements,
  expectTag,
  namedBits,
  oidText,
  only,
  SEQUENCE,
  SET,
  sequence,
  smallInteger,
  TAG,
  time,
} from './der.ts'

/** RFC 5280 §4.2.1.6, by context tag: 1 email, 2 DNS, 4 directory, 6 URI, 7 IP. */
export interface GeneralName {
  readonly type: number
  readonly bytes: Uint8Array
}

export interface Subtrees {
  readonly permitted: readonly GeneralName[]
  readonly excluded: readonly GeneralName[]
}

export interface Certificate {
  readonly x509: X509Certificate
  readonly issuer: Uint8Array
  readonly subject: Uint8Array
  /** Hex, without leading zero octets. Unique per issuer. */
  readonly serial: string
  /** Inclusive, unix seconds. */
  readonly notBefore: number
  readonly notAfter: number
  readonly ca: boolean
  readonly pathLength?: number
  readonly keyUsage?: ReadonlySet<number>
  readonly extendedKeyUsage?: ReadonlySet<string>
  readonly names: readonly GeneralName[]
  readonly constraints?: Subtrees
  /** Object identifiers of critical extensions that are not read here. */
  readonly unknownCritical: readonly string[]
  /** Whether its signature and key are of a kind and size that is trusted. */
  readonly strong: boolean
  /** SHA-256 of the SubjectPublicKeyInfo, hex. */
  readonly keyId: string
}

const MAX_CERTIFICATE_BYTES = 64 * 1024

/** `undefined` for what is not strict DER of an X.509 v3 certificate. */
export function readCertificate(raw: Uint8Array): Certificate | undefined {
  if (raw.length > MAX_CERTIFICATE_BYTES) return undefined
  try {
    // A copy: what was checked must be what is used.
    const bytes = Buffer.from(raw)
    return parse(bytes, new X509Certificate(bytes))
  } catch {
    return undefined
  }
}

function parse(bytes: Uint8Array, x509: X509Certificate): Certificate {
  const [tbs, algorithm, signature, ...rest] = sequence(bytes)
  expectTag(signature, TAG.bits)
  if (rest.length > 0) throw new DerError('certificate')
  const fields = elements(expectTag(tbs, SEQUENCE).content)
  const [version, serial, inner, issuer, validity, subject, key, ...optional] = fields
  if (smallInteger(only(expectTag(version, 0xa0).content, TAG.integer)) !== 2) throw new DerError('version')
  // RFC 5280 §4.1.1.2: both must be the same.
  if (!Buffer.from(expectTag(algorithm, SEQUENCE).raw).equals(expectTag(inner, SEQUENCE).raw)) {
    throw new DerError('signature algorithm')
  }
  const [notBefore, notAfter] = elements(expectTag(validity, SEQUENCE).content)
  const last = optional.at(-1)
  return {
    x509,
    issuer: expectTag(issuer, SEQUENCE).raw,
    subject: expectTag(subject, SEQUENCE).raw,
    serial: serialOf(serial),
    notBefore: time(notBefore),
    notAfter: time(notAfter),
    ...readExtensions(last?.tag === 0xa3 ? sequence(last.content) : []),
    strong: signatureKind((algorithm as Element).content) !== undefined && isStrongKey(x509),
    keyId: createHash('sha256').update(expectTag(key, SEQUENCE).raw).digest('hex'),
  }
}

export function serialOf(element: Element | undefined): string {
  return Buffer.from(expectTag(element, TAG.integer).content)
    .toString('hex')
    .replace(/^(?:00)+(?=..)/, '')
}

function readExtensions(list: readonly Element[]) {
  const seen = new Set<string>()
  const unknownCritical: string[] = []
  let found: {
    ca: boolean
    pathLength?: number
    keyUsage?: ReadonlySet<number>
    extendedKeyUsage?: ReadonlySet<string>
    names: readonly GeneralName[]
    constraints?: Subtrees
  } = { ca: false, names: [] }
  for (const extension of list) {
    const parts = elements(expectTag(extension, SEQUENCE).content)
    const oid = oidText(expectTag(parts[0], TAG.oid).content)
    if (seen.has(oid)) throw new DerError('an extension is there twice')
    seen.add(oid)
    if (parts.length < 2 || parts.length > 3) throw new DerError('extension')
    const critical = parts.length === 3 && boolean(parts[1] as Element)
    const value = expectTag(parts.at(-1), TAG.octets).content
    switch (oid) {
      case '2.5.29.19':
        found = { ...found, ...basicConstraints(value) }
        break
      case '2.5.29.15':
        found = { ...found, keyUsage: namedBits(only(value, TAG.bits)) }
        break
      case '2.5.29.37':
        found = {
          ...found,
          extendedKeyUsage: new Set(sequence(value).map((element) => oidText(expectTag(element, TAG.oid).content))),
        }
        break
      case '2.5.29.17':
        found = { ...found, names: sequence(value).map(generalName) }
        break
      case '2.5.29.30':
        found = { ...found, constraints: nameConstraints(value) }
        break
      default:
        // Certificate policies limit nothing where no policy is asked for (RFC 5280 §6.1.1).
        if (critical && oid !== '2.5.29.32') unknownCritical.push(oid)
    }
  }
  return { ...found, unknownCritical }
}

function basicConstraints(value: Uint8Array): { ca: boolean; pathLength?: number } {
  const parts = sequence(value)
  const ca = parts[0]?.tag === TAG.boolean && boolean(parts.shift() as Element)
  const length = parts.shift()
  if (parts.length > 0 || (length !== undefined && !ca)) throw new DerError('basic constraints')
  return length === undefined ? { ca } : { ca, pathLength: smallInteger(length) }
}

function generalName(element: Element): GeneralName {
  if ((element.tag & 0xc0) !== 0x80) throw new DerError('general name')
  return { type: element.tag & 0x1f, bytes: element.content }
}

function nameConstraints(value: Uint8Array): Subtrees {
  const result: { permitted: GeneralName[]; excluded: GeneralName[] } = { permitted: [], excluded: [] }
  for (const part of sequence(value)) {
    const list = part.tag === 0xa0 ? result.permitted : part.tag === 0xa1 ? result.excluded : undefined
    if (list === undefined) throw new DerError('name constraints')
    for (const subtree of elements(part.content)) {
      // RFC 5280 §4.2.1.10: minimum is 0, which DER leaves out, and maximum is absent.
      const [base, ...rest] = elements(expectTag(subtree, SEQUENCE).content)
      if (base === undefined || rest.length > 0) throw new DerError('name constraints')
      list.push(generalName(base))
    }
  }
  return result
}

/** How a signature is made: the digest (`undefined`: part of the algorithm), and the kinds of key that make it. */
export interface SignatureKind {
  readonly hash: string | undefined
  readonly keys: readonly string[]
  readonly pss: boolean
}

const SHA2: ReadonlyMap<string, string> = new Map(
  ['sha256', 'sha384', 'sha512'].map((hash, index) => [`2.16.840.1.101.3.4.2.${index + 1}`, hash]),
)
const rsa = (hash: string): SignatureKind => ({ hash, keys: ['rsa'], pss: false })
const ec = (hash: string): SignatureKind => ({ hash, keys: ['ec'], pss: false })
/** RSA PKCS#1 v1.5 and ECDSA with SHA-2, Ed25519, Ed448. */
const SIGNATURES: ReadonlyMap<string, SignatureKind> = new Map([
  ['1.2.840.113549.1.1.11', rsa('sha256')],
  ['1.2.840.113549.1.1.12', rsa('sha384')],
  ['1.2.840.113549.1.1.13', rsa('sha512')],
  ['1.2.840.10045.4.3.2', ec('sha256')],
  ['1.2.840.10045.4.3.3', ec('sha384')],
  ['1.2.840.10045.4.3.4', ec('sha512')],
  ['1.3.101.112', { hash: undefined, keys: ['ed25519'], pss: false }],
  ['1.3.101.113', { hash: undefined, keys: ['ed448'], pss: false }],
])

/** `algorithm` is the content of an AlgorithmIdentifier; `undefined` for a kind that is weak or unknown. */
export function signatureKind(algorithm: Uint8Array): SignatureKind | undefined {
  const [name, parameters] = elements(algorithm)
  const oid = oidText(expectTag(name, TAG.oid).content)
  if (oid !== '1.2.840.113549.1.1.10') return SIGNATURES.get(oid)
  // RSASSA-PSS: the hash is a parameter, and SHA-1 when it is not there (RFC 4055 §3.1).
  const named = elements(expectTag(parameters, SEQUENCE).content).find(({ tag }) => tag === 0xa0)
  if (named === undefined) return undefined
  const hash = SHA2.get(oidText(expectTag(sequence(named.content)[0], TAG.oid).content))
  return hash === undefined ? undefined : { hash, keys: ['rsa', 'rsa-pss'], pss: true }
}

function isStrongKey({ publicKey }: X509Certificate): boolean {
  const { modulusLength = 0, namedCurve = '' } = publicKey.asymmetricKeyDetails ?? {}
  switch (publicKey.asymmetricKeyType) {
    case 'rsa':
    case 'rsa-pss':
      return modulusLength >= 2048
    case 'ec':
      return ['prime256v1', 'secp384r1', 'secp521r1'].includes(namedCurve)
    case 'ed25519':
    case 'ed448':
      return true
    default:
      return false
  }
}

const TEXT_TAGS: Readonly<Record<number, BufferEncoding>> = { 12: 'utf8', 19: 'latin1', 22: 'latin1' }

/** Relative names of a DN in a form in which equal ones are equal texts: string types and case do not matter. */
export function relativeNames(name: Uint8Array): string[] {
  return sequence(name).map((set) =>
    elements(expectTag(set, SET).content)
      .map((attribute) => {
        const [type, value] = elements(expectTag(attribute, SEQUENCE).content)
        const oid = oidText(expectTag(type, TAG.oid).content)
        if (value === undefined) throw new DerError('attribute')
        const encoding = TEXT_TAGS[value.tag]
        const text = encoding === undefined ? undefined : Buffer.from(value.content).toString(encoding)
        return JSON.stringify([oid, text === undefined ? Buffer.from(value.raw).toString('hex') : normal(text)])
      })
      .sort()
      .join(),
  )
}

function normal(text: string): string {
  return text.normalize('NFKC').toLowerCase().trim().replace(/\s+/g, ' ')
}

/** `emailAddress` attributes of a DN, which mail constraints also cover (RFC 5280 §4.2.1.10). */
export function emailsOf(name: Uint8Array): Uint8Array[] {
  return sequence(name).flatMap((set) =>
    elements(expectTag(set, SET).content).flatMap((attribute) => {
      const [type, value] = elements(expectTag(attribute, SEQUENCE).content)
      return value !== undefined && oidText(expectTag(type, TAG.oid).content) === '1.2.840.113549.1.9.1'
        ? [value.content]
        : []
    }),
  )
}
