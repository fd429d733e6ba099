/** OAuth 2.0 Protected Resource Metadata (RFC 9728), made once from card and policy. */
import { signatureAlgorithms } from '../internal/verification-key.ts'
import type { CompiledPolicy } from '../policy/compiled.ts'
import { issuersOf, isTokenScheme } from '../policy/token-schemes.ts'

export interface ResourceMetadata {
  /** Where clients look: the well-known name between host and path (RFC 9728 §3.1). */
  readonly url: string
  /** `url` without its origin: the path to serve it at. */
  readonly path: string
  /** JSON text, the same bytes each time. */
  readonly body: string
}

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

/** `undefined` when the policy has no `publicUrl`, or when no scheme takes tokens of an issuer clients could turn to. */
export function resourceMetadataOf(policy: CompiledPolicy): ResourceMetadata | undefined {
  if (policy.publicUrl === undefined) return undefined
  const issuers = new Set<string>()
  const constraints = new Set<string>()
  const tokenSchemes = new Set<string>()
  for (const config of policy.schemes.values()) {
    if (!isTokenScheme(config) || config.kind === 'http') continue
    tokenSchemes.add(config.name)
    constraints.add(config.senderConstraint)
    for (const issuer of issuersOf(config)) issuers.add(issuer)
  }
  if (issuers.size === 0) return undefined
  const scopes = new Set<string>()
  const lists = [
    policy.card.requirements,
    ...[...policy.card.skills.values()].map((skill) => (skill.hidden ? [] : (skill.requirements ?? []))),
  ]
  for (const { schemes } of lists.flat()) {
    for (const { name, scopes: listed } of schemes)
      if (tokenSchemes.has(name)) for (const scope of listed) scopes.add(scope)
  }
  const { origin, pathname } = new URL(policy.publicUrl)
  const path = WELL_KNOWN + (pathname === '/' ? '' : pathname)
  return Object.freeze({
    url: origin + path,
    path,
    body: JSON.stringify({
      resource: policy.publicUrl,
      resource_name: policy.card.name,
      authorization_servers: [...issuers],
      bearer_methods_supported: ['header'],
      ...boundTokens(constraints),
      ...(scopes.size === 0 ? {} : { scopes_supported: [...scopes].sort() }),
    }),
  })
}

/** RFC 9728 §2: which bindings of tokens are checked here, and whether one is demanded of all of them. */
function boundTokens(constraints: ReadonlySet<string>): Record<string, unknown> {
  const takes = (...modes: string[]) => modes.some((mode) => constraints.has(mode))
  return {
    ...(takes('optional', 'mtls') ? { tls_client_certificate_bound_access_tokens: true } : {}),
    ...(takes('optional', 'dpop') ? { dpop_signing_alg_values_supported: signatureAlgorithms } : {}),
    ...(takes('dpop') && constraints.size === 1 ? { dpop_bound_access_tokens_required: true } : {}),
  }
}
