/** `a2a-trust/card`: sign Agent Cards, and verify them across every SDK's quirks. */
export { parseStrictJson, type StrictJsonOptions } from '../internal/json.ts'
export { canonicalizeJson } from './canonicalize.ts'
export { type Coverage, canonicalizeCard, DEFAULT_PROFILES, PROFILES, type Profile } from './profiles.ts'
export { type SignCardOptions, type SignedCard, signCard } from './sign.ts'
export type { JwkSet, KeyHint, SigningContext, Trust, TrustedKey } from './trusted-keys.ts'
export { type SignatureResult, type VerifyOptions, type VerifyResult, type VerifyTrust, verifyCard } from './verify.ts'
