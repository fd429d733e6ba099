/** Client certificates of the TLS connection or of a proxy (A2A `MutualTlsSecurityScheme`, SPIFFE X509-SVID). */
import { readCertificate } from '../internal/certificate.ts'
import { identitiesOf, matches, parseSpiffeId, patternProblem } from '../internal/certificate-identity.ts'
import {
  findPaths,
  isAuthority,
  MAX_SENT,
  type Path,
  purposeProblem,
  validityOf,
} from '../internal/certificate-path.ts'
import { isCurrent, type PathStatus, statusOf } from '../internal/crl.ts'
import { sha256Hex } from '../internal/sha256.ts'
import type { MtlsSchemeConfig } from '../policy/compiled.ts'
import type { PeerCertificate } from '../types.ts'
import type { CredentialSource, Outcome, Scheme, SchemeContext } from './scheme.ts'

/**
 * Verdicts of the TLS stack that are judged again here, with the policy's authorities and the guard's clock. Any other
 * one stands: whoever gave the server a CRL means it.
 */
const JUDGED_HERE: ReadonlySet<string> = new Set([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** What does not change while the connection lasts: a refusal, or paths each with the outcome it leads to. */
type Judged = { readonly refusal: Outcome } | { readonly paths: readonly JudgedPath[] }

interface JudgedPath extends PathStatus {
  readonly path: Path
  readonly satisfied: Outcome
}

const REVOKED: Outcome = Object.freeze({ kind: 'invalid', code: 'ERR_CERTIFICATE_REVOKED' })
const UNKNOWN: Outcome = Object.freeze({
  kind: 'unavailable',
  code: 'ERR_CRL_UNAVAILABLE',
  retryAfterSeconds: 60,
  detail: 'no current revocation list of an authority in the path: replace the crl file and reload',
})

/**
 * Checks the peer's certificate: a path to one of `ca` (RFC 5280), made for client authentication, valid now, with an
 * identity in its subject alternative name, or a key, that `identities` accepts, and with `crl` not revoked according to
 * lists that are current. It does not look at the subject's common name; without `crl` it does not look up revocation; it
 * never asks an OCSP responder or distribution point.
 *
 * Throws `TypeError` for a `ca` or `identities` entry that is not usable.
 */
export function createMtlsScheme(config: MtlsSchemeConfig, context: Pick<SchemeContext, 'clock'>): Scheme {
  const { name } = config
  const { clock } = context
  const anchors = config.ca.map((pem) => {
    const anchor = readCertificate(derOf(pem))
    if (anchor === undefined || !isAuthority(anchor)) throw new TypeError(`'ca' of '${name}' has a part that is no CA`)
    return anchor
  })
  const patterns = [...config.identities]
  if (anchors.length === 0) throw new TypeError(`'ca' of '${name}' is empty`)
  for (const pattern of patterns) {
    const problem = patternProblem(pattern)
    if (problem !== undefined) throw new TypeError(`'identities' of '${name}': ${pattern} ${problem}`)
  }
  const lists = config.crl
  const judged = new WeakMap<PeerCertificate, Judged>()

  function judge({ raw, authorized, authorizationError = '', chain = [] }: PeerCertificate): Judged {
    if (!authorized && !JUDGED_HERE.has(authorizationError)) {
      return refuse('ERR_CERTIFICATE_UNTRUSTED', 'the TLS stack refused it')
    }
    const leaf = readCertificate(raw)
    if (leaf === undefined) return refuse('ERR_CERTIFICATE_MALFORMED')
    const purpose = purposeProblem(leaf)
    if (purpose !== undefined) return refuse('ERR_CERTIFICATE_PURPOSE', purpose)
    const sent = chain.slice(0, MAX_SENT).flatMap((der) => readCertificate(der) ?? [])
    const paths = findPaths(leaf, sent, anchors)
    if (paths.length === 0) return refuse('ERR_CERTIFICATE_UNTRUSTED', 'no path to a configured authority holds')
    const named = identitiesOf(leaf)
    if (!named.ok) return refuse('ERR_CERTIFICATE_IDENTITY', named.why)
    const keyId = sha256Hex(raw)
    for (const pattern of patterns) {
      const [subject, ...others] = named.identities.filter((identity) => matches(pattern, identity))
      // Two callers in one certificate: choosing one would be a guess.
      if (others.length > 0) return refuse('ERR_CERTIFICATE_IDENTITY', `several of its names match ${pattern}`)
      if (subject === undefined) continue
      return {
        paths: paths.map((path) => ({
          path,
          satisfied: satisfiedBy(name, path, subject, keyId),
          ...(lists === undefined ? { revoked: false, lists: [] } : statusOf(path, lists)),
        })),
      }
    }
    return refuse('ERR_CERTIFICATE_IDENTITY', 'none of its names is accepted')
  }

  function authenticate({ certificate }: CredentialSource): Outcome {
    if (certificate === undefined) return { kind: 'absent' }
    if ('unreadable' in certificate) {
      return { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED', detail: certificate.unreadable }
    }
    let known = judged.get(certificate)
    if (known === undefined) {
      known = judge(certificate)
      judged.set(certificate, known)
    }
    if ('refusal' in known) return known.refusal
    const seconds = Math.floor(clock() / 1000)
    let first: Outcome | undefined
    for (const path of known.paths) {
      const outcome = outcomeAt(path, seconds)
      if (outcome.kind === 'satisfied') return outcome
      first ??= outcome
    }
    return first as Outcome
  }

  return {
    name,
    kind: 'mtls',
    location: 'tls',
    // No auth-scheme is registered for it: a challenge only says which kind of credential is missing.
    challenges: [{ scheme: 'MutualTLS', params: [] }],
    authenticate,
    health() {
      const seconds = Math.floor(clock() / 1000)
      // Of several lists of one authority, as while they are exchanged, one is enough.
      const stale = lists?.some(
        ({ issuer }) => !lists.some((list) => Buffer.from(list.issuer).equals(issuer) && isCurrent(list, seconds)),
      )
      return stale === true ? { ok: false, detail: 'a revocation list is out of date, or not valid yet' } : { ok: true }
    },
  }
}

function outcomeAt({ path, satisfied, revoked, lists }: JudgedPath, seconds: number): Outcome {
  // Also by a list that has run out: nothing is taken off it but what has expired.
  if (revoked) return REVOKED
  const validity = validityOf(path, seconds)
  if (validity !== 'valid') {
    const code = validity === 'expired' ? 'ERR_CERTIFICATE_EXPIRED' : 'ERR_CERTIFICATE_NOT_YET_VALID'
    return { kind: 'invalid', code }
  }
  return lists.every((group) => group.some((list) => isCurrent(list, seconds))) ? satisfied : UNKNOWN
}

function refuse(
  code:
    | 'ERR_CERTIFICATE_UNTRUSTED'
    | 'ERR_CERTIFICATE_MALFORMED'
    | 'ERR_CERTIFICATE_PURPOSE'
    | 'ERR_CERTIFICATE_IDENTITY',
  detail?: string,
): Judged {
  return { refusal: Object.freeze({ kind: 'invalid', code, ...(detail === undefined ? {} : { detail }) }) }
}

function satisfiedBy(scheme: string, path: Path, subject: string, keyId: string): Outcome {
  const anchor = path.at(-1) as Path[number]
  const leaf = path[0] as Path[number]
  const trustDomain = parseSpiffeId(subject)?.trustDomain
  const part = Object.freeze({
    scheme,
    kind: 'mtls' as const,
    // A trust domain outlives its authorities; any other name means something only together with who vouches for it.
    issuer: trustDomain === undefined ? `sha256:${anchor.keyId}` : `spiffe://${trustDomain}`,
    subject,
    scopes: new Set<string>(),
    claims: Object.freeze({}),
    expiresAt: Math.min(...path.map(({ notAfter }) => notAfter)),
    // Certificates say from when they hold; authorities date that back, never forward.
    credential: Object.freeze({ keyId, issuedAt: leaf.notBefore }),
  })
  return Object.freeze({ kind: 'satisfied', part })
}

function derOf(pem: string): Uint8Array {
  const base64 = /^\s*-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*$/.exec(pem)?.[1]
  return Buffer.from(base64 ?? '', 'base64')
}
