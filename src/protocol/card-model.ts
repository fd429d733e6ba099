/** An Agent Card as the guard reads it, one shape for v1.0 and v0.3 cards. */
import type { ErrorCode } from '../errors.ts'
import type { Binding, ProtocolVersion } from '../types.ts'

/** One scheme a requirement names, with the scopes it lists. */
export interface RequiredScheme {
  readonly name: string
  readonly scopes: readonly string[]
}

/** AND of its schemes. No schemes: anonymous is enough. */
export interface Requirement {
  readonly schemes: readonly RequiredScheme[]
}

export type CardScheme =
  | { readonly kind: 'apiKey'; readonly location: 'header' | 'query' | 'cookie'; readonly name: string }
  | { readonly kind: 'http'; readonly scheme: string; readonly bearerFormat?: string }
  | {
      readonly kind: 'oauth2'
      readonly metadataUrl?: string
      /** Scopes that any flow declares. */
      readonly scopes: readonly string[]
      readonly tokenUrls: readonly string[]
    }
  | { readonly kind: 'openIdConnect'; readonly url: string }
  | { readonly kind: 'mtls' }
  /** A kind this package does not know: never satisfiable, never ignored. */
  | { readonly kind: 'unknown'; readonly member: string }

export interface CardSkill {
  readonly id: string
  readonly name: string
  /** OR of AND; `undefined` when the skill declares none. */
  readonly requirements?: readonly Requirement[]
  /** Only the extended card lists it: that it exists is not for everybody to know. */
  readonly hidden?: true
}

export interface CardInterface {
  readonly url: string
  readonly binding: Binding | string
  readonly version: string
  readonly tenant?: string
}

export interface CardModel {
  readonly protocol: ProtocolVersion
  readonly name: string
  readonly version: string
  readonly schemes: ReadonlyMap<string, CardScheme>
  /** OR of AND; empty when the card declares none. */
  readonly requirements: readonly Requirement[]
  /** In card order. */
  readonly skills: ReadonlyMap<string, CardSkill>
  readonly interfaces: readonly CardInterface[]
  readonly capabilities: {
    readonly streaming: boolean
    readonly pushNotifications: boolean
    readonly extendedAgentCard: boolean
  }
}

/** A mistake in a card, by JSON Pointer into it. */
export interface CardProblem {
  readonly code: ErrorCode
  readonly pointer: string
  readonly message: string
  readonly severity: 'error' | 'warning'
}
