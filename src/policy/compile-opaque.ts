/** The settings of a scheme with opaque tokens: whom to ask, as whom, and what answers are worth. */
import { signatureAlgorithms } from '../internal/verification-key.ts'
import { compileClient } from './compile-client.ts'
import { issuerKeys } from './compile-jwt.ts'
import type { OpaqueSchemeConfig } from './compiled.ts'
import { cardUrlOf, checkTransport, discoveryUrls, reportForeignUrl, type TokenCardScheme } from './issuer-urls.ts'
import { type OpaqueSchemeSettings, opaqueSchemeSchema } from './schema-opaque.ts'
import type { SchemeInput } from './scheme-input.ts'
import { senderConstraintOf } from './token-schemes.ts'
import { validMembers } from './validate.ts'

const IN_THE_CLEAR = 'tokens that travel over http can be read on the way'

/** `valid` is absent where the settings have mistakes; `undefined` after reporting what is wrong. */
export async function compileOpaque(
  input: SchemeInput,
  declared: TokenCardScheme,
  valid: OpaqueSchemeSettings | undefined,
): Promise<OpaqueSchemeConfig | undefined> {
  const { name, sections, context, report } = input
  // What is well-formed is looked at although something else is not, so that all mistakes are said at once.
  const settings = valid ?? validMembers(opaqueSchemeSchema.shape, input.settings)
  const { issuer, introspection, algorithms, jwks } = settings
  const signed = introspection?.response === 'jwt'
  let complete = valid !== undefined

  if (signed && algorithms === undefined) {
    report.error('ERR_POLICY_MISSING', '/algorithms', '"algorithms" is missing: write those of signed answers', 'key')
    complete = false
  }
  if (introspection !== undefined && !signed) {
    for (const [member, value] of Object.entries({ algorithms, jwks })) {
      if (value === undefined) continue
      const message = `${member} has no effect, since answers are not signed: write response: jwt under introspection, or remove it`
      report.warning('ERR_POLICY_WEAK', `/${member}`, message, 'key')
    }
  }
  if (introspection?.dangerouslyAcceptMissingAudience === true) {
    const message = 'a token whose issuer names no audience is accepted, though it may be meant for another agent'
    report.warning('ERR_POLICY_WEAK', '/introspection/dangerouslyAcceptMissingAudience', message)
  }
  const client =
    introspection === undefined
      ? undefined
      : await compileClient(introspection.client, '/introspection/client', issuer, context, report)

  if (issuer === undefined || introspection === undefined) return undefined
  const transported = checkTransport(issuer, '/issuer', 'the issuer', input)
  const cardUrl = cardUrlOf(declared)
  const own = cardUrl !== undefined && discoveryUrls(issuer, declared.kind).includes(cardUrl) ? cardUrl : undefined
  if (cardUrl !== own && transported) reportForeignUrl(input, declared, cardUrl as string, { issuer, at: '/issuer' })
  const endpoint = endpointOf(introspection.endpoint, issuer, own, input, declared)
  const keys = signed
    ? await issuerKeys(
        { issuer, jwks, at: '/issuer', keysAt: '/jwks' },
        own,
        input,
        declared,
        algorithms ?? signatureAlgorithms,
      )
    : undefined

  const audience = settings.audience ?? sections.audience
  if (!complete || client === undefined || endpoint === undefined || audience === undefined) return undefined
  if (signed && keys === undefined) return undefined
  return {
    type: 'opaque',
    name,
    kind: declared.kind,
    issuer,
    endpoint,
    client,
    ...(keys === undefined ? {} : { signed: { algorithms: [...(algorithms ?? [])], keys } }),
    cacheSeconds: introspection.cacheSeconds ?? 30,
    acceptMissingAudience: introspection.dangerouslyAcceptMissingAudience ?? false,
    otherIssuers: new Set(),
    audience: typeof audience === 'string' ? [audience] : [...audience],
    scopeClaims: settings.scopeClaims ?? ['scope', 'scp'],
    ...(settings.tenantClaim === undefined ? {} : { tenantClaim: settings.tenantClaim }),
    clockToleranceSeconds: settings.clockToleranceSeconds ?? 30,
    maxTokenBytes: settings.maxTokenBytes ?? 16_384,
    ...(settings.maxTokenAgeSeconds === undefined ? {} : { maxTokenAgeSeconds: settings.maxTokenAgeSeconds }),
    requiredScopes: settings.requiredScopes ?? [],
    senderConstraint: senderConstraintOf(declared, settings.senderConstraint, report),
  }
}

function endpointOf(
  url: string | undefined,
  issuer: string,
  cardUrl: string | undefined,
  input: SchemeInput,
  declared: TokenCardScheme,
): OpaqueSchemeConfig['endpoint'] | undefined {
  const at = '/introspection/endpoint'
  if (url !== undefined) {
    checkTransport(url, at, 'the introspection endpoint', input, IN_THE_CLEAR)
    return { from: 'policy', url }
  }
  if (declared.kind === 'http') {
    const message = '"endpoint" is missing: a plain bearer scheme has no discovery; write the URL'
    input.report.error('ERR_POLICY_MISSING', at, message, 'key')
    return undefined
  }
  return { from: 'discovery', url: cardUrl ?? discoveryUrls(issuer, declared.kind)[0]! }
}
