/**
 * The caller's certificate as a proxy that ended TLS writes it into a header. A value is read whole or not at all: half
 * of one would be somebody's certificate, chosen by whoever wrote the other half.
 */
import { readCertificate } from '../internal/certificate.ts'
import { MAX_SENT } from '../internal/certificate-path.ts'
import { sha256Hex } from '../internal/sha256.ts'
import type { ClientCertificateConfig } from '../policy/compiled.ts'
import type { UnreadableCertificate } from '../schemes/scheme.ts'
import type { PeerCertificate } from '../types.ts'

/** Longest value read, in characters; the same for all lines of the chain together. */
const MAX_LENGTH = 32 * 1024

/** DER of the leaf and of the further certificates, or what is wrong with the text, for the operator. */
type Found = { readonly leaf: Uint8Array; readonly chain: readonly Uint8Array[] } | string

/** `chainLines`: the lines of `Client-Cert-Chain`, which only RFC 9440 has. */
export function readCertificateHeader(
  format: ClientCertificateConfig['format'],
  value: string,
  chainLines: readonly string[],
): PeerCertificate | UnreadableCertificate {
  const chainLength = chainLines.reduce((sum, line) => sum + line.length, 0)
  if (value.length > MAX_LENGTH || chainLength > MAX_LENGTH) {
    return { unreadable: `the header is longer than ${MAX_LENGTH} characters` }
  }
  const found = READERS[format](value, chainLines)
  if (typeof found === 'string') return { unreadable: found }
  if (found.chain.length > MAX_SENT) return { unreadable: `the header has more than ${MAX_SENT} certificates` }
  if (readCertificate(found.leaf) === undefined) {
    return { unreadable: 'what the header holds is no X.509 v3 certificate in strict DER' }
  }
  // The proxy saw the handshake, and what it thinks of the chain is not known here: the scheme judges the whole path.
  return Object.freeze({
    raw: found.leaf,
    authorized: false,
    authorizationError: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    chain: Object.freeze(found.chain),
  })
}

const READERS: Readonly<
  Record<ClientCertificateConfig['format'], (value: string, chainLines: readonly string[]) => Found>
> = { rfc9440: fromByteSequences, xfcc: fromForwardedElement, pem: fromEncodedPem }

/** RFC 9440 §2.2, §2.3: an Item and a List of Byte Sequences; a List may be split over lines (RFC 9651 §4.2). */
function fromByteSequences(value: string, chainLines: readonly string[]): Found {
  const leaf = byteSequence(value)
  if (leaf === undefined) return 'the header is not one byte sequence (:base64:) of RFC 9440'
  const items = chainLines.length === 0 ? [] : chainLines.join(',').split(',')
  const chain = items.flatMap((item) => byteSequence(item.replace(/^[ \t]+|[ \t]+$/g, '')) ?? [])
  return chain.length === items.length ? { leaf, chain } : 'the chain header is not a list of byte sequences'
}

function byteSequence(text: string): Buffer | undefined {
  return text.length > 2 && text.startsWith(':') && text.endsWith(':') ? decodeBase64(text.slice(1, -1)) : undefined
}

const PAIR = /([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^",;\s]*))(?:;|(,)|$)/y
/** Keys of Envoy's header, and whether one may be there again: a certificate has several names. */
const KEYS: ReadonlyMap<string, boolean> = new Map([
  ['by', true],
  ['hash', false],
  ['cert', false],
  ['chain', false],
  ['subject', false],
  ['uri', true],
  ['dns', true],
])

/**
 * Envoy's `x-forwarded-client-cert`, of exactly one element. Several are refused, not sorted out: Envoy quotes neither
 * URI nor DNS names, so a name with a comma in it begins an element that nobody can tell from one of a further proxy.
 */
function fromForwardedElement(value: string): Found {
  const values = new Map<string, string>()
  PAIR.lastIndex = 0
  while (PAIR.lastIndex < value.length) {
    const [, name = '', quoted, plain = '', comma] = PAIR.exec(value) ?? []
    const key = name.toLowerCase()
    const again = KEYS.get(key)
    if (again === undefined) return 'the header is not an element of x-forwarded-client-cert'
    if (comma !== undefined) return 'the header has several elements: have the proxy write its own alone (SANITIZE_SET)'
    if (values.has(key) && !again) return `the header has ${key} twice`
    values.set(key, quoted === undefined ? plain : quoted.replace(/\\(.)/g, '$1'))
  }
  const cert = values.get('cert')
  if (cert === undefined) return 'the header has no Cert: have the proxy add the certificate itself'
  const [leaf, ...more] = pemCertificates(cert) ?? []
  if (leaf === undefined || more.length > 0) return 'Cert is not one certificate in URL-encoded PEM'
  // Envoy writes the digest of what it saw, always: a name that contains `;Cert=` cannot bring its own.
  const hash = values.get('hash')
  if (hash !== undefined && hash.toLowerCase() !== sha256Hex(leaf)) return 'Hash is not that of Cert'
  const text = values.get('chain')
  const chain = text === undefined ? [] : pemCertificates(text)
  return chain === undefined ? 'Chain is not URL-encoded PEM' : { leaf, chain }
}

/** nginx `$ssl_client_escaped_cert` and its like: URL-encoded PEM, leaf first. */
function fromEncodedPem(value: string): Found {
  const [leaf, ...chain] = pemCertificates(value) ?? []
  return leaf === undefined ? 'the header is not URL-encoded PEM' : { leaf, chain }
}

const BLOCK = /-----BEGIN CERTIFICATE-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE-----(?:[\r\n]+|$)/y

function pemCertificates(encoded: string): Buffer[] | undefined {
  // A space or a line end that is not encoded is a value that somebody has folded or edited.
  if (!/^[\x21-\x7e]+$/.test(encoded)) return undefined
  let text: string
  try {
    text = decodeURIComponent(encoded)
  } catch {
    return undefined
  }
  const found: Buffer[] = []
  BLOCK.lastIndex = 0
  while (BLOCK.lastIndex < text.length) {
    const der = decodeBase64(BLOCK.exec(text)?.[1]?.replace(/[\r\n]/g, '') ?? '')
    if (der === undefined) return undefined
    found.push(der)
  }
  return found
}

/** RFC 4648 §4 with padding, and only the one text that the bytes have. */
function decodeBase64(text: string): Buffer | undefined {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}
