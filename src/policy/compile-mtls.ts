/** The settings of an mtls scheme, with every default filled in. */
import { patternProblem } from '../internal/certificate-identity.ts'
import { step } from '../protocol/card-reader.ts'
import { loadAuthorities } from './ca-file.ts'
import type { MtlsSchemeConfig } from './compiled.ts'
import { loadRevocationLists } from './crl-file.ts'
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
  const { ca, identities = [], crl } = validMembers(mtlsSchemeSchema.shape, settings)
  const authorities = ca === undefined ? undefined : await loadAuthorities(ca, '/ca', context, report)
  const lists =
    crl === undefined ? undefined : await loadRevocationLists(crl, '/crl', authorities ?? [], context, report)
  let complete = valid !== undefined
  identities.forEach((identity, index) => {
    const problem = patternProblem(identity)
    if (problem === undefined) return
    report.error('ERR_POLICY_VALUE', `/identities${step(index)}`, `${quote(identity)} ${problem}`)
    complete = false
  })
  if (crl !== undefined && lists === undefined) complete = false
  if (!complete || authorities === undefined) return undefined
  return { type: 'mtls', name, ca: authorities, identities, ...(lists === undefined ? {} : { crl: lists }) }
}
