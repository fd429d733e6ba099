/** What JWT and opaque schemes have in common: both read `Authorization`, and both take the tokens of issuers. */
import { step } from '../protocol/card-reader.ts'
import type { JwtSchemeConfig, OpaqueSchemeConfig, SchemeConfig } from './compiled.ts'
import type { TokenCardScheme } from './issuer-urls.ts'
import type { Report } from './report.ts'
import { quote } from './source.ts'

export function isTokenScheme(config: SchemeConfig): config is JwtSchemeConfig | OpaqueSchemeConfig {
  return config.type === 'jwt' || config.type === 'opaque'
}

/** Byte-exact. */
export function issuersOf(config: JwtSchemeConfig | OpaqueSchemeConfig): readonly string[] {
  return config.type === 'jwt' ? config.issuers.map(({ issuer }) => issuer) : [config.issuer]
}

/**
 * The setting, or what the card implies. An `http` scheme of the card names the auth-scheme that callers will use, so one
 * that the policy would refuse each time is a mistake; the other kinds leave it to the challenge.
 */
export function senderConstraintOf(
  declared: TokenCardScheme,
  setting: JwtSchemeConfig['senderConstraint'] | undefined,
  report: Report,
): JwtSchemeConfig['senderConstraint'] {
  const isDpop = declared.kind === 'http' && declared.scheme === 'dpop'
  if (isDpop && setting !== undefined && setting !== 'dpop') {
    const message = 'the card says DPoP, and that takes senderConstraint: dpop (the default here)'
    report.error('ERR_POLICY_SCHEME_MISMATCH', '/senderConstraint', message)
  }
  if (declared.kind === 'http' && !isDpop && setting === 'dpop') {
    const message =
      'the card says Bearer, and no token sent so would be taken: let the card say DPoP, or write optional'
    report.error('ERR_POLICY_SCHEME_MISMATCH', '/senderConstraint', message)
  }
  return setting ?? (isDpop ? 'dpop' : 'off')
}

/**
 * Tells every opaque scheme the issuers of the others, since all read the same header and a token that says whose it is,
 * being a JWT, is shown to nobody else. An opaque token says nothing, so several issuers are worth a warning.
 */
export function tellApart(schemes: Map<string, SchemeConfig>, report: Report): void {
  const issuers = [...schemes.values()].filter(isTokenScheme).flatMap(issuersOf)
  const asked = new Map<string, string>()
  for (const [name, config] of schemes) {
    if (config.type !== 'opaque') continue
    schemes.set(name, { ...config, otherIssuers: new Set(issuers.filter((issuer) => issuer !== config.issuer)) })
    const [first] = [...asked].filter(([, issuer]) => issuer !== config.issuer)
    asked.set(name, config.issuer)
    if (first === undefined) continue
    const message = `an opaque token names no issuer, so each one is shown to those of ${quote(first[0])} and of ${quote(name)}`
    report.warning('ERR_POLICY_WEAK', `/schemes${step(name)}`, message, 'key')
  }
}
