/** Where an issuer is on the web, according to itself, to the card and to the policy. */
import type { CardScheme } from '../protocol/card-model.ts'
import type { SchemeInput } from './scheme-input.ts'
import { quote } from './source.ts'

/** The schemes of a card whose credential is an access token in `Authorization`. */
export type TokenCardScheme = Extract<CardScheme, { kind: 'http' | 'oauth2' | 'openIdConnect' }>

/** Where the card says that the metadata of the issuer is. */
export function cardUrlOf(declared: TokenCardScheme): string | undefined {
  if (declared.kind === 'openIdConnect') return declared.url
  return declared.kind === 'oauth2' ? declared.metadataUrl : undefined
}

/** Where an issuer publishes its metadata: OIDC Discovery §4, and for oauth2 first RFC 8414 §3.1. */
export function discoveryUrls(issuer: string, kind: TokenCardScheme['kind']): string[] {
  const oidc = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  if (kind === 'openIdConnect') return [oidc]
  const { origin, pathname } = new URL(issuer)
  return [`${origin}/.well-known/oauth-authorization-server${pathname.replace(/\/$/, '')}`, oidc]
}

/** Says that the card leads clients to another issuer than the policy trusts. */
export function reportForeignUrl(
  input: SchemeInput,
  declared: TokenCardScheme,
  cardUrl: string,
  first: { readonly issuer: string; readonly at: string },
) {
  const member = declared.kind === 'openIdConnect' ? 'openIdConnectUrl' : 'oauth2MetadataUrl'
  const expected = discoveryUrls(first.issuer, declared.kind)[0]!
  const slash = cardUrl.replace(/\/$/, '') === expected.replace(/\/$/, '') ? ' (only a slash differs)' : ''
  const message = `the ${member} of ${quote(input.name)} in the card is ${quote(cardUrl)}, which is not that of this issuer${slash}: it would be ${expected}`
  input.report.error('ERR_POLICY_ISSUER_MISMATCH', first.at, message)
}

/** Plain http only to this machine, or where the policy says that it is allowed. */
export function checkTransport(
  url: string,
  at: string,
  what: string,
  { report, sections }: Pick<SchemeInput, 'report' | 'sections'>,
  why = 'keys that travel over http can be replaced on the way',
): boolean {
  if (url.startsWith('https:') || sections.egress?.requireHttps === false) return true
  const { hostname } = new URL(url)
  if (hostname === 'localhost' || hostname === '127.0.0.1' || hostname === '[::1]') return true
  report.error('ERR_POLICY_VALUE', at, `${what} must be an https:// URL: ${why}`)
  return false
}
