/** Development certificates by `node-forge`. Nothing here reads or checks anything from outside. */
import { randomBytes } from 'node:crypto'
import forge from 'node-forge'

export interface DevelopmentCertificates {
  readonly ca: string
  readonly client: string
  readonly clientKey: string
}

/** A CA whose key is thrown away, and one client certificate of it with `identity` as URI SAN. PEM. */
export function developmentCertificates(identity: string, days: number): DevelopmentCertificates {
  const caKeys = forge.pki.rsa.generateKeyPair(2048)
  const clientKeys = forge.pki.rsa.generateKeyPair(2048)
  const caName = [{ name: 'commonName', value: 'a2a-trust example CA, for development only' }]
  const ca = certificate(caKeys.publicKey, caName, caName, days, [
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
  ])
  const client = certificate(clientKeys.publicKey, [{ name: 'commonName', value: 'example client' }], caName, days, [
    { name: 'basicConstraints', cA: false, critical: true },
    { name: 'keyUsage', digitalSignature: true, critical: true },
    { name: 'extKeyUsage', clientAuth: true },
    { name: 'subjectAltName', altNames: [{ type: 6, value: identity }] },
  ])
  ca.sign(caKeys.privateKey, forge.md.sha256.create())
  client.sign(caKeys.privateKey, forge.md.sha256.create())
  return {
    ca: forge.pki.certificateToPem(ca),
    client: forge.pki.certificateToPem(client),
    clientKey: forge.pki.privateKeyToPem(clientKeys.privateKey),
  }
}

type Name = forge.pki.CertificateField[]

function certificate(
  key: forge.pki.PublicKey,
  subject: Name,
  issuer: Name,
  days: number,
  extensions: object[],
): forge.pki.Certificate {
  const made = forge.pki.createCertificate()
  made.publicKey = key
  // A positive serial number of at most 20 octets (RFC 5280 §4.1.2.2).
  made.serialNumber = `01${randomBytes(15).toString('hex')}`
  made.validity.notBefore = new Date(Date.now() - 3_600_000)
  made.validity.notAfter = new Date(Date.now() + days * 86_400_000)
  made.setSubject(subject)
  made.setIssuer(issuer)
  made.setExtensions(extensions)
  return made
}
