/** Revocation lists of an mtls scheme: PEM blocks and nothing else, or one list in DER. */
import { readCertificate } from '../internal/certificate.ts'
import { isCurrent, type RevocationList, readRevocationList } from '../internal/crl.ts'
import { DerError } from '../internal/der.ts'
import type { LoadContext } from './files.ts'
import { pathOf, readBytes } from './references.ts'
import type { Report } from './report.ts'

/** Some 200 000 revoked certificates. */
const MAX_BYTES = 8 * 1024 * 1024
const MAX_LISTS = 64
const BLOCK = /-----BEGIN X509 CRL-----([A-Za-z0-9+/=\s]*)-----END X509 CRL-----/g

/** The lists, or `undefined` after reporting what is wrong with the file. */
export async function loadRevocationLists(
  reference: string,
  pointer: string,
  authorities: readonly string[],
  context: LoadContext,
  report: Report,
): Promise<readonly RevocationList[] | undefined> {
  const name = reference.replace(/^file:/, '')
  const file = await readBytes(pathOf(reference, context.baseDir), MAX_BYTES)
  if (!file.ok) {
    report.error('ERR_POLICY_UNREADABLE', pointer, `the file ${name} ${file.why}`)
    return undefined
  }
  const refuse = (message: string): undefined => {
    report.error('ERR_POLICY_KEY_FILE', pointer, `${name}: ${message}`)
    return undefined
  }
  const encoded = listsIn(file.bytes)
  if (encoded.length === 0) return refuse('holds no revocation list (DER, or -----BEGIN X509 CRL-----)')
  if (encoded.length > MAX_LISTS) return refuse(`holds more than ${MAX_LISTS} revocation lists`)
  const anchors = authorities.flatMap((pem) => readCertificate(derOf(pem)) ?? [])
  const lists: RevocationList[] = []
  for (const [index, der] of encoded.entries()) {
    const which = `revocation list ${index + 1}`
    let list: RevocationList
    try {
      list = readRevocationList(der)
    } catch (error) {
      if (error instanceof DerError) return refuse(`${which} cannot be used: ${error.message}`)
      throw error
    }
    // The list of an intermediate is checked when a caller brings that intermediate along.
    const issuers = anchors.filter(({ subject }) => Buffer.from(subject).equals(list.issuer))
    if (issuers.length > 0 && !issuers.some((issuer) => list.isSignedBy(issuer))) {
      return refuse(`${which} is not signed by the authority of ca that it names, or that may not sign lists (cRLSign)`)
    }
    if (!isCurrent(list, Math.floor(context.now / 1000))) {
      const message = `${name}: ${which} is out of date or not valid yet: callers it is about are refused until it is replaced`
      report.warning('ERR_POLICY_KEY_FILE', pointer, message)
    }
    lists.push(list)
  }
  return lists
}

function listsIn(bytes: Buffer): Buffer[] {
  // A list in DER is a SEQUENCE.
  if (bytes[0] === 0x30) return [bytes]
  const text = bytes.toString('latin1')
  const blocks = [...text.matchAll(BLOCK)].map(([, base64 = '']) => Buffer.from(base64, 'base64'))
  // Something else between dashes is a list that is spelt wrong, or not meant to be here.
  return blocks.length === text.split('-----BEGIN ').length - 1 ? blocks : []
}

function derOf(pem: string): Buffer {
  return Buffer.from(pem.replace(/-----[A-Z ]+-----|\s/g, ''), 'base64')
}
