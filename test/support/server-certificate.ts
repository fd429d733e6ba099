/** A certificate authority made on the spot, and server certificates of it. */
import { randomBytes } from 'node:crypto'
import forge from 'node-forge'

export interface Authority {
  /** PEM. */
  readonly certificate: string
  /** For `tls.createServer`: a certificate for `name` and the `others`. */
  issue(name: string, ...others: string[]): { readonly key: string; readonly cert: string }
}

export function createAuthority(): Authority {
  const { privateKey, publicKey } = forge.pki.rsa.generateKeyPair(2048)
  const issuer = [{ name: 'commonName', value: `test CA ${randomBytes(4).toString('hex')}` }]
  const make = (key: forge.pki.PublicKey, subject: forge.pki.CertificateField[], extensions: object[]) => {
    const made = forge.pki.createCertificate()
    made.publicKey = key
    made.serialNumber = `01${randomBytes(15).toString('hex')}`
    made.validity.notBefore = new Date(Date.now() - 3_600_000)
    made.validity.notAfter = new Date(Date.now() + 86_400_000)
    made.setSubject(subject)
    made.setIssuer(issuer)
    made.setExtensions(extensions)
    made.sign(privateKey, forge.md.sha256.create())
    return forge.pki.certificateToPem(made)
  }
  const server = forge.pki.rsa.generateKeyPair(2048)
  return {
    certificate: make(publicKey, issuer, [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, critical: true },
    ]),
    issue: (name, ...others) => ({
      key: forge.pki.privateKeyToPem(server.privateKey),
      cert: make(
        server.publicKey,
        [{ name: 'commonName', value: name }],
        [
          { name: 'extKeyUsage', serverAuth: true },
          { name: 'subjectAltName', altNames: [name, ...others].map((value) => ({ type: 2, value })) },
        ],
      ),
    }),
  }
}
