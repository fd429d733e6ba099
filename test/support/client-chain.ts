/** A client certificate that needs the intermediate it is sent with. PEM. */
import { randomBytes } from 'node:crypto'
import forge from 'node-forge'

export interface ClientChain {
  readonly root: string
  readonly intermediate: string
  readonly leaf: string
  readonly key: string
}

export function createClientChain(identity: string): ClientChain {
  const [rootKeys, middleKeys, leafKeys] = [0, 1, 2].map(() => forge.pki.rsa.generateKeyPair(2048)) as [
    Keys,
    Keys,
    Keys,
  ]
  const authority = [
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, critical: true },
  ]
  const leaf = [
    { name: 'basicConstraints', cA: false, critical: true },
    { name: 'keyUsage', digitalSignature: true, critical: true },
    { name: 'extKeyUsage', clientAuth: true },
    { name: 'subjectAltName', altNames: [{ type: 6, value: identity }] },
  ]
  return {
    root: make('root', rootKeys.publicKey, 'root', rootKeys.privateKey, authority),
    intermediate: make('middle', middleKeys.publicKey, 'root', rootKeys.privateKey, authority),
    leaf: make('client', leafKeys.publicKey, 'middle', middleKeys.privateKey, leaf),
    key: forge.pki.privateKeyToPem(leafKeys.privateKey),
  }
}

type Keys = forge.pki.rsa.KeyPair

function make(
  subject: string,
  publicKey: forge.pki.PublicKey,
  issuer: string,
  issuerKey: forge.pki.rsa.PrivateKey,
  extensions: object[],
): string {
  const made = forge.pki.createCertificate()
  made.publicKey = publicKey
  made.serialNumber = `01${randomBytes(15).toString('hex')}`
  made.validity.notBefore = new Date(Date.now() - 3_600_000)
  made.validity.notAfter = new Date(Date.now() + 86_400_000)
  made.setSubject([{ name: 'commonName', value: `test ${subject}` }])
  made.setIssuer([{ name: 'commonName', value: `test ${issuer}` }])
  made.setExtensions(extensions)
  made.sign(issuerKey, forge.md.sha256.create())
  return forge.pki.certificateToPem(made)
}
