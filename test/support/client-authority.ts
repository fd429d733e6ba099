/** Authorities of callers, their client certificates and revocation lists, made on the spot around the rig's clock. */
import { createHash, randomBytes, X509Certificate } from 'node:crypto'
import forge from 'node-forge'
import { NOW } from './rig.ts'

export interface ClientCertificate {
  /** PEM. */
  readonly cert: string
  readonly key: string
  readonly der: Buffer
  /** Hex. */
  readonly serial: string
  /** `sha256/…` of the public key. */
  readonly pin: string
}

export interface RevocationOptions {
  /** Serial numbers, hex. */
  readonly revoked?: readonly string[]
  /** Unix seconds. `undefined` for `nextUpdate`: none. */
  readonly thisUpdate?: number
  readonly nextUpdate?: number | undefined
  /** Extensions of the list: object identifier, critical. */
  readonly extensions?: readonly (readonly [oid: string, critical: boolean])[]
  /** An extension of each entry. */
  readonly entryExtension?: readonly [oid: string, critical: boolean]
  /** Signs in the place of the authority. */
  readonly signer?: ClientAuthority
  readonly digest?: 'sha256' | 'sha1'
}

export interface ClientAuthority extends ClientCertificate {
  readonly forgeKey: forge.pki.rsa.PrivateKey
  /** A client certificate with these subject alternative names: type 6 for a URI, 2 for DNS, 1 for mail. */
  issue(...names: (readonly [type: number, value: string])[]): ClientCertificate
  intermediate(name: string): ClientAuthority
  /** DER. */
  crl(options?: RevocationOptions): Buffer
}

const keys = () => forge.pki.rsa.generateKeyPair(2048)
const DAY = 86_400

export function createClientAuthority(name = 'test root', crlSign = true): ClientAuthority {
  return authority(name, keys(), undefined, crlSign)
}

type Signer = { readonly subject: forge.pki.CertificateField[]; readonly key: forge.pki.rsa.PrivateKey }

function authority(
  name: string,
  pair: forge.pki.rsa.KeyPair,
  parent: Signer | undefined,
  crlSign: boolean,
): ClientAuthority {
  const subject = [{ name: 'commonName', value: name }]
  const self: Signer = { subject, key: pair.privateKey }
  const own = made(pair, subject, parent ?? self, [
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, cRLSign: crlSign, critical: true },
  ])
  return {
    ...own,
    forgeKey: pair.privateKey,
    issue: (...names) =>
      made(keys(), [{ name: 'commonName', value: 'client' }], self, [
        { name: 'basicConstraints', cA: false, critical: true },
        { name: 'keyUsage', digitalSignature: true, critical: true },
        { name: 'extKeyUsage', clientAuth: true },
        { name: 'subjectAltName', altNames: names.map(([type, value]) => ({ type, value })) },
      ]),
    intermediate: (below) => authority(below, keys(), self, true),
    crl: (options = {}) => revocationList(subject, self.key, options),
  }
}

function made(
  pair: forge.pki.rsa.KeyPair,
  subject: forge.pki.CertificateField[],
  issuer: Signer,
  extensions: object[],
): ClientCertificate {
  const certificate = forge.pki.createCertificate()
  certificate.publicKey = pair.publicKey
  certificate.serialNumber = `00${((randomBytes(1)[0] as number) | 0x80).toString(16).padStart(2, '0')}${randomBytes(8).toString('hex')}`
  certificate.validity.notBefore = new Date((NOW - DAY) * 1000)
  certificate.validity.notAfter = new Date((NOW + 30 * DAY) * 1000)
  certificate.setSubject(subject)
  certificate.setIssuer(issuer.subject)
  certificate.setExtensions(extensions)
  certificate.sign(issuer.key, forge.md.sha256.create())
  const cert = forge.pki.certificateToPem(certificate)
  const x509 = new X509Certificate(cert)
  const spki = x509.publicKey.export({ type: 'spki', format: 'der' })
  return {
    cert,
    key: forge.pki.privateKeyToPem(pair.privateKey),
    der: x509.raw,
    serial: x509.serialNumber,
    pin: `sha256/${createHash('sha256').update(spki).digest('base64')}`,
  }
}

const { asn1 } = forge
const { Class, Type } = asn1
const node = (type: number, value: string | forge.asn1.Asn1[], kind = Class.UNIVERSAL): forge.asn1.Asn1 =>
  asn1.create(kind, type, Array.isArray(value), value)
const sequence = (...parts: forge.asn1.Asn1[]) => node(Type.SEQUENCE, parts)
const oid = (text: string) => node(Type.OID, asn1.oidToDer(text).getBytes())
const time = (seconds: number) => node(Type.UTCTIME, asn1.dateToUtcTime(new Date(seconds * 1000)) as unknown as string)
const extension = ([name, critical]: readonly [string, boolean]) =>
  sequence(oid(name), ...(critical ? [node(Type.BOOLEAN, '\xff')] : []), node(Type.OCTETSTRING, '\x05\x00'))

function revocationList(
  issuer: forge.pki.CertificateField[],
  own: forge.pki.rsa.PrivateKey,
  options: RevocationOptions,
): Buffer {
  const { revoked = [], thisUpdate = NOW - 3600, extensions = [], entryExtension, digest = 'sha256' } = options
  const nextUpdate = 'nextUpdate' in options ? options.nextUpdate : NOW + 3600
  const algorithm = sequence(
    oid(digest === 'sha256' ? '1.2.840.113549.1.1.11' : '1.2.840.113549.1.1.5'),
    node(Type.NULL, ''),
  )
  const name = (
    forge.pki as unknown as { distinguishedNameToAsn1(name: object): forge.asn1.Asn1 }
  ).distinguishedNameToAsn1(forgeName(issuer))
  const entries = revoked.map((serial) =>
    sequence(
      node(Type.INTEGER, forge.util.hexToBytes(/^[89a-f]/i.test(serial) ? `00${serial}` : serial)),
      time(thisUpdate),
      ...(entryExtension === undefined ? [] : [sequence(extension(entryExtension))]),
    ),
  )
  const list = sequence(
    node(Type.INTEGER, '\x01'),
    algorithm,
    name,
    time(thisUpdate),
    ...(nextUpdate === undefined ? [] : [time(nextUpdate)]),
    ...(entries.length === 0 ? [] : [sequence(...entries)]),
    ...(extensions.length === 0 ? [] : [node(0, [sequence(...extensions.map(extension))], Class.CONTEXT_SPECIFIC)]),
  )
  const md = digest === 'sha256' ? forge.md.sha256.create() : forge.md.sha1.create()
  md.update(asn1.toDer(list).getBytes())
  const signature = (options.signer?.forgeKey ?? own).sign(md)
  const whole = sequence(list, algorithm, node(Type.BITSTRING, `\0${signature}`))
  return Buffer.from(asn1.toDer(whole).getBytes(), 'latin1')
}

/** Fields as a certificate holds them, with the types filled in. */
function forgeName(fields: forge.pki.CertificateField[]): object {
  const certificate = forge.pki.createCertificate()
  certificate.setSubject(fields)
  return certificate.subject
}

export const crlPem = (der: Buffer): string =>
  `-----BEGIN X509 CRL-----\n${(der.toString('base64').match(/.{1,64}/g) ?? []).join('\n')}\n-----END X509 CRL-----\n`
