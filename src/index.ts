/** `a2a-trust`: the guard. */

export type { ExtendedCard, ExtendedCardOptions } from './card/extended.ts'
export { type ErrorCode, type ErrorDetails, TrustError } from './errors.ts'
export { optionalClientCertificates } from './guard/client-certificates.ts'
export type { Explanation } from './guard/explain.ts'
export type { ResourceMetadata } from './guard/resource-metadata.ts'
export { type Authentication, createGuard, type Guard, type GuardHealth, type GuardOptions } from './guard.ts'
export type { Revocation } from './policy/revocation.ts'
export type * from './types.ts'
