/** Who the caller is, made of what the satisfied schemes say. */
import type { Principal, PrincipalPart, SchemeKind } from '../types.ts'

/** Satisfied schemes by name. A scheme that is not here was not satisfied, whatever the reason. */
export type Parts = ReadonlyMap<string, PrincipalPart>

/**
 * One text for one caller: kind, issuer, subject and tenant, percent-encoded so that the separator cannot occur inside
 * a component. Never derived from the credential itself, so rotation keeps the principal.
 */
export function principalId(part: PrincipalPart): string {
  const id = `${part.kind}:${encodeURIComponent(part.issuer)}:${encodeURIComponent(part.subject)}`
  return part.tenant === undefined ? id : `${id}:${encodeURIComponent(part.tenant)}`
}

/** Where several credentials arrived, the one that names a subject most directly names the principal. */
const RANK: Readonly<Record<SchemeKind, number>> = {
  openIdConnect: 0,
  oauth2: 1,
  http: 2,
  custom: 3,
  mtls: 4,
  basic: 5,
  apiKey: 6,
}

/** Every kind an id can begin with. */
export const SCHEME_KINDS: readonly string[] = Object.keys(RANK)

/**
 * The principal of a request, or `undefined` for an anonymous one. Scopes and claims are those of the naming
 * credential alone: one issuer's scopes never speak for another's subject.
 */
export function principalOf(parts: Parts): Principal | undefined {
  let primary: PrincipalPart | undefined
  let expiresAt: number | undefined
  for (const part of parts.values()) {
    if (primary === undefined || before(part, primary)) primary = part
    if (part.expiresAt !== undefined) expiresAt = Math.min(part.expiresAt, expiresAt ?? part.expiresAt)
  }
  if (primary === undefined) return undefined
  const { issuer, subject, clientId, tenant, actor, claims } = primary
  return Object.freeze({
    id: principalId(primary),
    issuer,
    subject,
    ...(clientId === undefined ? {} : { clientId }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(actor === undefined ? {} : { actor }),
    scopes: Object.freeze([...primary.scopes].sort()),
    claims,
    schemes: Object.freeze([...parts.keys()].sort()),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  })
}

function before(a: PrincipalPart, b: PrincipalPart): boolean {
  return RANK[a.kind] !== RANK[b.kind] ? RANK[a.kind] < RANK[b.kind] : a.scheme < b.scheme
}
