/** The proxies that a policy trusts. */
import { step } from '../protocol/card-reader.ts'
import { isObject } from '../protocol/json-object.ts'
import type { ClientCertificateConfig, SchemeConfig } from './compiled.ts'
import type { Report } from './report.ts'
import { clientCertificateSchema } from './schema-schemes.ts'
import { quote } from './source.ts'
import { accepted } from './validate.ts'

/**
 * The `clientCertificate` of all schemes: a request has one certificate, so there is one place for it. `settings` are
 * those of the schemes as written, whose own mistakes are reported elsewhere; `schemes` are the compiled ones.
 */
export function compileClientCertificate(
  settings: ReadonlyMap<string, unknown>,
  schemes: ReadonlyMap<string, SchemeConfig>,
  report: Report,
): ClientCertificateConfig | undefined {
  let found: { readonly scheme: string; readonly config: ClientCertificateConfig } | undefined
  for (const [scheme, value] of settings) {
    const given = isObject(value) ? accepted(clientCertificateSchema, value.clientCertificate) : undefined
    if (given === undefined) continue
    const config = { ...given, header: given.header.toLowerCase(), trustedProxies: [...given.trustedProxies].sort() }
    found ??= { scheme, config }
    if (JSON.stringify(config) === JSON.stringify(found.config)) continue
    const message = `"clientCertificate" differs from that of ${quote(found.scheme)}: a request has one certificate, so give one place for it`
    report.error('ERR_POLICY_VALUE', `/schemes${step(scheme)}/clientCertificate`, message, 'key')
  }
  if (found === undefined) return undefined
  const { scheme, config } = found
  for (const { name, ...other } of schemes.values()) {
    if (other.type !== 'apiKey' || other.location !== 'header' || other.parameter !== config.header) continue
    const message = `"header" is the header in which ${quote(name)} takes keys`
    report.error('ERR_POLICY_VALUE', `/schemes${step(scheme)}/clientCertificate/header`, message)
  }
  return config
}
