/** Who a certificate names, and the patterns by which a policy accepts them. */
import type { Certificate } from './certificate.ts'

const DNS_LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/
const TRUST_DOMAIN = /^[a-z0-9._-]{1,255}$/
const SEGMENT = /^[A-Za-z0-9._-]+$/
const MAX_IDENTITY_LENGTH = 2048

/** A SPIFFE ID (SPIFFE-ID §2). `path` is '' for a trust domain, which is an ID and no workload's. */
export function parseSpiffeId(text: string): { readonly trustDomain: string; readonly path: string } | undefined {
  if (text.length > MAX_IDENTITY_LENGTH || !text.startsWith('spiffe://')) return undefined
  const [trustDomain = '', ...segments] = text.slice('spiffe://'.length).split('/')
  if (!TRUST_DOMAIN.test(trustDomain) || !segments.every(isSegment)) return undefined
  return { trustDomain, path: segments.map((segment) => `/${segment}`).join('') }
}

function isSegment(segment: string): boolean {
  return SEGMENT.test(segment) && segment !== '.' && segment !== '..'
}

export type Identities =
  | { readonly ok: true; readonly identities: readonly string[]; readonly uris: readonly string[] }
  | { readonly ok: false; readonly why: string }

/**
 * The usable identities of a certificate: SPIFFE ID, https URIs, DNS names in lower case, the pin of its key. Never its
 * subject.
 */
export function identitiesOf(certificate: Certificate): Identities {
  const { names, keyUsage } = certificate
  const identities: string[] = []
  const uris: string[] = []
  for (const { type, bytes } of names) {
    if (type !== 2 && type !== 6) continue
    // IA5String of visible characters: a NUL or line end would be read differently by the next program.
    if (bytes.length === 0 || bytes.some((octet) => octet < 0x20 || octet > 0x7e)) {
      return { ok: false, why: 'a name is empty or has a control or non-ASCII character' }
    }
    const name = Buffer.from(bytes).toString('latin1')
    if (type === 2) {
      if (isDnsName(name.toLowerCase())) identities.push(name.toLowerCase())
      continue
    }
    uris.push(name)
    if (isHttpsUri(name) || (parseSpiffeId(name)?.path ?? '') !== '') identities.push(name)
  }
  if (uris.some((uri) => /^spiffe:/i.test(uri))) {
    // X509-SVID §2 and §5.2: exactly one URI, and a key usage that is not that of an authority.
    if (uris.length > 1) return { ok: false, why: 'it has a SPIFFE ID and another URI' }
    if (keyUsage === undefined) return { ok: false, why: 'it has a SPIFFE ID and no key usage' }
  }
  return { ok: true, identities: [...new Set(identities), pinOf(certificate)], uris }
}

function isDnsName(name: string): boolean {
  return name.length <= 253 && name.includes('.') && name.split('.').every((label) => DNS_LABEL.test(label))
}

function isHttpsUri(uri: string): boolean {
  if (!uri.startsWith('https://') || uri.length > MAX_IDENTITY_LENGTH || /[?#\\\s*]/.test(uri)) return false
  if (!URL.canParse(uri)) return false
  const { href, username, password } = new URL(uri)
  // What the URL parser would rewrite has a second spelling.
  return username === '' && password === '' && (href === uri || href === `${uri}/`)
}

const PIN = /^sha256\/[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/

/** The key itself as an identity: `sha256/` and the base64 of the SHA-256 of its SubjectPublicKeyInfo (RFC 7469 §2.4). */
function pinOf({ keyId }: Certificate): string {
  return `sha256/${Buffer.from(keyId, 'hex').toString('base64')}`
}

/** What is wrong with a pattern; `undefined`: it can be used. */
export function patternProblem(pattern: string): string | undefined {
  if (pattern.startsWith('sha256/')) {
    return PIN.test(pattern) ? undefined : 'is not the pin of a key: sha256/ and the base64 of 32 bytes'
  }
  const sample = pattern
    .split(/([/.])/)
    .map((part) => (part === '*' ? 'x' : part))
    .join('')
  const uri = pattern.includes('://')
  const whole = uri ? pattern.split('/') : pattern.split('.')
  if (whole.some((part) => part.includes('*') && part !== '*')) {
    return 'has a * inside a segment: a * stands for one whole segment'
  }
  if (!uri) {
    if (whole.lastIndexOf('*') > 0) return 'has a * elsewhere than in the first label of a DNS name'
    if (whole.length < 3 && whole[0] === '*') return 'would match every name of a top-level domain'
    return isDnsName(sample)
      ? undefined
      : 'is not a DNS name in lower case, a spiffe:// or an https:// URI, nor sha256/ and a pin'
  }
  if (whole[2] === '*') return 'has a * as its host: name the trust domain or host'
  if (pattern.startsWith('https://')) {
    return isHttpsUri(sample) ? undefined : 'is not an https:// URI in normal form without query or fragment'
  }
  return (parseSpiffeId(sample)?.path ?? '') === ''
    ? 'is not the SPIFFE ID of a workload (spiffe://trust-domain/path), nor an https:// URI'
    : undefined
}

/** Whether `identity`, one of `identitiesOf`, is what `pattern` means. A `*` is one whole segment or label. */
export function matches(pattern: string, identity: string): boolean {
  const separator = pattern.includes('://') ? '/' : '.'
  if (identity.includes('://') !== pattern.includes('://')) return false
  const [wanted, given] = [pattern.split(separator), identity.split(separator)]
  return (
    wanted.length === given.length &&
    wanted.every((part, index) => part === given[index] || (part === '*' && given[index] !== ''))
  )
}
