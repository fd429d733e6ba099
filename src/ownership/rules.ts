/** The one rule on who may use a task or a context. Pure. */
import type { Ownership } from '../store/stores.ts'
import type { Actor, Principal } from '../types.ts'

/** Who else than its owner may use a task. */
export interface SharingRules {
  /** Callers of the same issuer whose credential is for the same tenant. */
  readonly tenant: boolean
  /** Claim in which callers of the same issuer must have the same text. */
  readonly team?: string
  /** The owner, whoever acts for them. */
  readonly delegates: boolean
}

/** Who asks, and for which tenant. */
export interface Caller {
  /** Absent for an anonymous caller, who owns nothing and shares nothing. */
  readonly principal?: Principal
  /** The tenant the request names. Default: that of the credential. */
  readonly tenant?: string
  /** Skills whose requirements this caller meets now. */
  readonly skills: readonly string[]
}

/** `owner`: made it, acting as now. `shared`: may use it by the policy. */
export type Relation = 'owner' | 'shared'

/** What the caller is to what `held` describes; `undefined`: nothing, which must look as if it were not there. */
export function relationOf(held: Ownership | undefined, caller: Caller, share: SharingRules): Relation | undefined {
  const { principal } = caller
  if (held === undefined || principal === undefined || held.tenant !== tenantOf(caller)) return undefined
  const actor = actorKey(principal.actor)
  if (held.owner === principal.id && held.actor === actor) return 'owner'
  if (actor !== undefined && !share.delegates) return undefined
  if (held.owner === principal.id) return share.delegates ? 'shared' : undefined
  // Names of tenants and teams mean something only to the issuer that gives them.
  if (held.issuer !== principal.issuer) return undefined
  const { tenant, team } = memberOf(principal, share)
  if (share.tenant && tenant !== undefined && held.member.tenant === tenant) return 'shared'
  return team !== undefined && held.member.team === team ? 'shared' : undefined
}

/** Whether the caller meets what every skill of the task asks for, now. */
export function meetsSkills(held: Ownership, { skills }: Caller): boolean {
  return held.skills.every((skill) => skills.includes(skill))
}

/** What a claim of this caller says. */
export function ownershipOf(
  caller: Caller & { readonly principal: Principal },
  share: SharingRules,
  of: { readonly contextId?: string; readonly skills?: readonly string[] },
): Ownership {
  const { principal } = caller
  const actor = actorKey(principal.actor)
  const tenant = tenantOf(caller)
  return Object.freeze({
    owner: principal.id,
    issuer: principal.issuer,
    ...(actor === undefined ? {} : { actor }),
    ...(tenant === undefined ? {} : { tenant }),
    member: memberOf(principal, share),
    ...(of.contextId === undefined ? {} : { contextId: of.contextId }),
    skills: Object.freeze([...new Set(of.skills)]),
  })
}

/** The tenant of a request. A request that names none is for the tenant of its credential. */
export function tenantOf({ tenant, principal }: Caller): string | undefined {
  return tenant ?? principal?.tenant
}

function memberOf({ tenant, claims }: Principal, share: SharingRules): Ownership['member'] {
  const claim = share.team !== undefined && Object.hasOwn(claims, share.team) ? claims[share.team] : undefined
  const team = typeof claim === 'string' && claim !== '' ? claim : undefined
  return Object.freeze({ ...(tenant === undefined ? {} : { tenant }), ...(team === undefined ? {} : { team }) })
}

/** RFC 8693 §4.1: the outermost actor is who acts now; those nested in it have acted before. */
function actorKey(actor: Actor | undefined): string | undefined {
  return actor === undefined ? undefined : JSON.stringify([actor.issuer ?? null, actor.subject])
}
