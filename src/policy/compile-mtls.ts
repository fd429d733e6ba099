/** The settings of an mtls scheme, with every default filled in. */
import { patternProblem } from '../internal/certificate-identity.ts'
import { step } from '../protocol/card-reader.ts'
import { loadAuthorities } from './ca-file.ts'
import type { MtlsSchemeConfig } from './compiled.ts'
import { type MtlsSchemeSettings, mtlsSchemeSchema } from './schema-schemes.ts'
import type { SchemeInput } from './scheme-input.ts'
import { quote } from './source.ts'
import { validMembers } from './validate.ts'

/** `undefined` after reporting what is wrong. */
export async function compileMtls(
  { name, settings, context, report }: SchemeInput,
  valid: MtlsSchemeSettings | undefined,
): Promise<MtlsSchemeConfig | undefined> {
  // What is well-formed is looked at although something else is not, so that all mistakes are said at once.
  const { ca, identities = [], clientCertificate } = validMembers(mtlsSchemeSchema.shape, settings)
  const authorities = ca === undefined ? undefined : await loadAuthorities(ca, '/ca', context, report)
  let complete = valid !== undefined
  identities.forEach((identity, index) => {
    const problem = patternProblem(identity)
    if (problem === undefined) return
    report.error('ERR_POLICY_VALUE', `/identities${step(index)}`, `${quote(identity)} ${problem}`)
    complete = false
  })
  if (clientCertificate !== undefined) {
    const message =
      'client certificates from a proxy header are not read by this version: remove clientCertificate, and end TLS in this process'
    report.error('ERR_POLICY_UNSUPPORTED', '/clientCertificate', message, 'key')
    complete = false
  }
  return complete && authorities !== undefined ? { type: 'mtls', name, ca: authorities, identities } : undefined
}
