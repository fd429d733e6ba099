/** Tokens signed with the test-only keys of the jwt-attacks vectors, and the scheme that trusts them. */
import { importJWK, SignJWT } from 'jose'
import type { IssuerConfig, JwtSchemeConfig } from '../../src/policy/compiled.ts'
import { jwtAttackJwks, privateJwk } from './jwt-attacks.ts'

/** Unix seconds at which the tests happen. */
export const NOW = 1_800_000_000
export const ISSUER = 'https://idp.test'
export const AUDIENCE = 'https://agent.test'

export function fileKeys(...kids: string[]): IssuerConfig['keys'] {
  const keys = jwtAttackJwks.keys.filter((key) => kids.length === 0 || kids.includes(key.kid))
  return { from: 'file', jwks: { keys } }
}

export function jwtConfig(change: Partial<JwtSchemeConfig> = {}): JwtSchemeConfig {
  return {
    type: 'jwt',
    name: 'login',
    kind: 'oauth2',
    issuers: [{ issuer: ISSUER, keys: fileKeys() }],
    audience: [AUDIENCE],
    typ: 'at+jwt',
    algorithms: ['ES256', 'RS256', 'EdDSA'],
    scopeClaims: ['scope', 'scp'],
    rfc9068: true,
    clockToleranceSeconds: 30,
    maxTokenBytes: 16_384,
    requiredScopes: [],
    senderConstraint: 'optional',
    ...change,
  }
}

export const standardClaims: Readonly<Record<string, unknown>> = Object.freeze({
  iss: ISSUER,
  aud: AUDIENCE,
  sub: 'alice',
  client_id: 'app',
  jti: 'j1',
  iat: NOW - 60,
  exp: NOW + 600,
  scope: 'read write',
})

/** `undefined` removes a claim or header member. */
export async function sign(
  claims: Readonly<Record<string, unknown>> = {},
  header: Readonly<Record<string, unknown>> = {},
  signer = 'ec-1',
): Promise<string> {
  const protectedHeader = { alg: 'ES256', kid: signer, typ: 'at+jwt', ...header }
  const key = await importJWK(privateJwk(signer) as Parameters<typeof importJWK>[0], protectedHeader.alg)
  return new SignJWT({ ...standardClaims, ...claims }).setProtectedHeader(protectedHeader).sign(key)
}
