/** The policy and card a jwt-attacks case asks for, as a user would write them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type JwtCaseConfig, jwtAttackJwks } from './jwt-attacks.ts'

export function attackPolicy(config: JwtCaseConfig): Record<string, unknown> {
  const plain = config.typ === null
  const scheme = plain
    ? { httpAuthSecurityScheme: { scheme: 'bearer' } }
    : { oauth2SecurityScheme: { flows: { clientCredentials: { tokenUrl: `${config.issuer}/token`, scopes: {} } } } }
  return {
    version: 1,
    card: {
      name: 'Attacked',
      description: 'd',
      version: '1',
      supportedInterfaces: [{ url: config.audience, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' }],
      capabilities: {},
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [],
      securitySchemes: { login: scheme },
      securityRequirements: [{ schemes: { login: { list: [] } } }],
    },
    audience: config.audience,
    schemes: {
      login: {
        issuer: config.issuer,
        algorithms: config.algorithms,
        jwks: 'file:./jwks.json',
        typ: config.typ ?? 'any',
        clockToleranceSeconds: config.clockToleranceSeconds,
        maxTokenBytes: config.maxTokenBytes,
        ...(config.maxTokenAgeSeconds === undefined ? {} : { maxTokenAgeSeconds: config.maxTokenAgeSeconds }),
        ...(config.requiredScopes === undefined ? {} : { requiredScopes: config.requiredScopes }),
      },
    },
  }
}

/** A folder with `jwks.json`, and with `policy.json` for `config`. */
export function attackFolder(config?: JwtCaseConfig): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'a2a-trust-attacks-'))
  writeFileSync(join(path, 'jwks.json'), JSON.stringify(jwtAttackJwks))
  if (config !== undefined) writeFileSync(join(path, 'policy.json'), JSON.stringify(attackPolicy(config)))
  return { path, remove: () => rmSync(path, { recursive: true }) }
}
