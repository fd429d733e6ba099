/** The authorities of an mtls scheme: a PEM file of CA certificates and nothing else. */
import { readCertificate } from '../internal/certificate.ts'
import { isAuthority } from '../internal/certificate-path.ts'
import { isProduction, type LoadContext } from './files.ts'
import { pathOf, readTextFile } from './references.ts'
import type { Report } from './report.ts'

const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----/g

/** In the name of every CA that `keys certs` makes. */
const EXAMPLE_CA = 'a2a-trust example CA'

/** PEM of each authority, or `undefined` after reporting what is wrong with the file. */
export async function loadAuthorities(
  reference: string,
  pointer: string,
  context: LoadContext,
  report: Report,
): Promise<readonly string[] | undefined> {
  const name = reference.replace(/^file:/, '')
  const file = await readTextFile(pathOf(reference, context.baseDir))
  if (!file.ok) {
    report.error('ERR_POLICY_UNREADABLE', pointer, `the file ${name} ${file.why}`)
    return undefined
  }
  const blocks = [...file.text.matchAll(BLOCK)]
  const refuse = (message: string): undefined => {
    report.error('ERR_POLICY_KEY_FILE', pointer, `${name}: ${message}`)
    return undefined
  }
  if (blocks.some(([, label]) => label?.endsWith('PRIVATE KEY'))) {
    return refuse('holds a private key: a ca file holds certificates; replace that key if the file was shared')
  }
  if (blocks.length === 0) return refuse('holds no PEM certificate (-----BEGIN CERTIFICATE-----)')
  const authorities: string[] = []
  for (const [index, [pem, label, base64]] of blocks.entries()) {
    const which = `certificate ${index + 1}`
    const certificate = label === 'CERTIFICATE' ? readCertificate(Buffer.from(base64 ?? '', 'base64')) : undefined
    if (certificate === undefined) return refuse(`${which} cannot be read`)
    if (!isAuthority(certificate)) return refuse(`${which} is not that of an authority (CA:TRUE, keyCertSign)`)
    if (!certificate.strong) return refuse(`${which} has a weak key or signature: at least RSA 2048 and SHA-256`)
    if (isProduction(context) && certificate.x509.subject.includes(EXAMPLE_CA)) {
      const message = `${name}: ${which} is a development CA, whose client key may be published: use your own`
      report.error('ERR_POLICY_EXAMPLE_KEY', pointer, message)
      return undefined
    }
    if (certificate.notAfter * 1000 < context.now) {
      report.warning('ERR_POLICY_KEY_FILE', pointer, `${name}: ${which} has expired: remove it`)
    }
    authorities.push(pem)
  }
  return authorities
}
