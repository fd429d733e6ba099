/** Paths from a client certificate to a configured authority (RFC 5280 §6). Time is judged apart, on each request. */
import type { Certificate } from './certificate.ts'
import { namesWithin } from './name-constraints.ts'

/** Leaf first, trust anchor last. */
export type Path = readonly Certificate[]

/** Most CA certificates between leaf and anchor. */
const MAX_INTERMEDIATES = 8
/** Most certificates of a peer that are looked at, leaf excluded. */
export const MAX_SENT = 16
/** Signatures checked for one peer: names that lead in circles must not cost more. */
const MAX_SIGNATURES = 48
const MAX_PATHS = 4

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
const ANY_USAGE = '2.5.29.37.0'
const [DIGITAL_SIGNATURE, CERT_SIGN, CRL_SIGN] = [0, 5, 6] as const

/**
 * Why the leaf is not one of a client; `undefined`: it is. `clientAuth` must be stated: a certificate without a purpose,
 * or for any, was not made to name a caller.
 */
export function purposeProblem(leaf: Certificate): string | undefined {
  const { keyUsage, extendedKeyUsage } = leaf
  if (leaf.ca || keyUsage?.has(CERT_SIGN) || keyUsage?.has(CRL_SIGN)) return 'it is a certificate of an authority'
  if (keyUsage !== undefined && !keyUsage.has(DIGITAL_SIGNATURE)) return 'its key usage lacks digitalSignature'
  if (!extendedKeyUsage?.has(CLIENT_AUTH)) return 'its extended key usage lacks clientAuth'
  return undefined
}

/** Whether `certificate` may issue others. */
export function isAuthority({ ca, keyUsage }: Certificate): boolean {
  return ca && (keyUsage === undefined || keyUsage.has(CERT_SIGN))
}

/** Every path found, up to a bound, whatever the order in which the peer sent its certificates. */
export function findPaths(leaf: Certificate, sent: readonly Certificate[], anchors: readonly Certificate[]): Path[] {
  const paths: Path[] = []
  let signatures = 0
  const signedBy = (issued: Certificate, issuer: Certificate): boolean => {
    if (!Buffer.from(issued.issuer).equals(issuer.subject) || !isAuthority(issuer)) return false
    if (signatures >= MAX_SIGNATURES) return false
    signatures += 1
    return verified(issued, issuer)
  }
  const extend = (path: Path): void => {
    const last = path.at(-1) as Certificate
    for (const anchor of anchors) {
      const whole = [...path, anchor]
      if (paths.length < MAX_PATHS && signedBy(last, anchor) && holds(whole)) paths.push(whole)
    }
    if (path.length > MAX_INTERMEDIATES) return
    for (const candidate of sent) {
      if (paths.length >= MAX_PATHS) return
      // One key once: a path through it again proves nothing more.
      if (path.some(({ keyId }) => keyId === candidate.keyId)) continue
      if (anchors.some(({ keyId }) => keyId === candidate.keyId)) continue
      if (signedBy(last, candidate)) extend([...path, candidate])
    }
  }
  if (leaf.strong) extend([leaf])
  return paths
}

function verified(issued: Certificate, issuer: Certificate): boolean {
  try {
    return issued.x509.verify(issuer.x509.publicKey)
  } catch {
    return false
  }
}

/** What holds for a path as a whole: strength, critical extensions, purposes, path length, names. */
function holds(path: Path): boolean {
  const anchor = path.length - 1
  let below = 0
  return path.every((certificate, index) => {
    // The signature of an anchor is not relied upon, its key is.
    if (!certificate.strong && index !== anchor) return false
    if (certificate.unknownCritical.length > 0) return false
    if (index === 0) return true
    const { extendedKeyUsage: usage, pathLength, constraints } = certificate
    if (usage !== undefined && !usage.has(CLIENT_AUTH) && !usage.has(ANY_USAGE)) return false
    if (pathLength !== undefined && below > pathLength) return false
    if (!Buffer.from(certificate.subject).equals(certificate.issuer)) below += 1
    return constraints === undefined || path.slice(0, index).every((lower) => namesWithin(lower, constraints))
  })
}

/** Whether all of `path` is valid at `seconds`; both ends are inclusive (RFC 5280 §4.1.2.5). */
export function validityOf(path: Path, seconds: number): 'valid' | 'expired' | 'not yet valid' {
  if (path.some(({ notAfter }) => seconds > notAfter)) return 'expired'
  return path.some(({ notBefore }) => seconds < notBefore) ? 'not yet valid' : 'valid'
}
