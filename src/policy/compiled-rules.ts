/** Access rules after loading, and what any rule is about. */
import type { OperationName } from '../types.ts'

export interface AccessRule extends RequestMatch {
  readonly effect: 'allow' | 'deny'
  /** Position in the file, for the audit event. */
  readonly index: number
}

/** What a rule is about. Every member given must match. */
export interface RequestMatch {
  /** `undefined`: any. */
  readonly operations?: ReadonlySet<OperationName>
  readonly skills?: ReadonlySet<string>
  readonly principals?: PrincipalMatch
}

/** Every member given must match. */
export interface PrincipalMatch {
  readonly ids?: readonly string[]
  readonly issuers?: readonly string[]
  readonly subjects?: readonly string[]
  readonly clientIds?: readonly string[]
  readonly tenants?: readonly string[]
  /** Who acts now, as `actorNames` spells them. */
  readonly actors?: readonly string[]
  readonly chain?: ChainMatch
  readonly schemes?: readonly string[]
  /** All of these. */
  readonly scopes?: readonly string[]
}

/** A chain of actors. A caller in person has one of length 0. */
export interface ChainMatch {
  readonly atLeast: number
  readonly atMost: number
  /** Every actor is one of these. */
  readonly among?: readonly string[]
  /** Some actor is one of these. */
  readonly through?: readonly string[]
}
