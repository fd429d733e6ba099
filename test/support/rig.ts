/** A guard on a policy in a folder of its own, with an issuer whose tokens the test makes. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { createGuard, type Guard, type GuardOptions } from '../../src/guard.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import type { DecisionEvent } from '../../src/types.ts'

export const NOW = 1_800_000_000
export const ISSUER = 'https://issuer.example'
export const AUDIENCE = 'https://agent.example'
export const API_KEY = 'a-partner-key-for-tests-only-0001'

export interface Rig {
  readonly guard: Guard
  readonly events: DecisionEvent[]
  readonly folder: string
  /** Unix seconds; set it to move time. */
  now: number
  /** An access token with these claims over good ones. `undefined` removes a claim. */
  token(claims?: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>
  close(): Promise<void>
}

/** v1.0 card: `login` (OAuth 2 tokens of ISSUER) with scope `a2a:use`, or `key`; skills `echo` and `pay` (`a2a:pay`). */
export function rigCard(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    name: 'Rig',
    description: 'For tests',
    version: '1.0.0',
    supportedInterfaces: [
      { url: `${AUDIENCE}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: `${AUDIENCE}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
      { url: `${AUDIENCE}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
    ],
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 'echo', name: 'Echo', description: 'e', tags: ['t'] }],
    securitySchemes: {
      login: {
        oauth2SecurityScheme: {
          flows: { clientCredentials: { tokenUrl: `${ISSUER}/token`, scopes: { 'a2a:use': 'use', 'a2a:pay': 'pay' } } },
        },
      },
      key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
    },
    securityRequirements: [{ schemes: { login: { list: ['a2a:use'] } } }, { schemes: { key: { list: [] } } }],
    ...changes,
  }
}

export const paySkill = {
  id: 'pay',
  name: 'Pay',
  description: 'p',
  tags: ['t'],
  securityRequirements: [{ schemes: { login: { list: ['a2a:pay'] } } }],
}

export interface RigOptions {
  readonly card?: Record<string, unknown>
  /** Members of the policy over the usual ones. */
  readonly policy?: Record<string, unknown>
  /** Members of the `login` scheme over the usual ones. */
  readonly login?: Record<string, unknown>
  readonly guard?: Partial<GuardOptions>
  /** `false`: none, though the card announces one. Default: the card itself. */
  readonly extendedCard?: false
  /** Puts further files into the folder. */
  readonly prepare?: (folder: string) => void
}

export async function makeRig(options: RigOptions = {}): Promise<Rig> {
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-rig-'))
  const jwk = { ...(await exportJWK(publicKey)), kid: 'rig-1', alg: 'ES256', use: 'sig' }
  writeFileSync(join(folder, 'jwks.json'), JSON.stringify({ keys: [jwk] }))
  writeFileSync(
    join(folder, 'keys.json'),
    JSON.stringify([{ id: 'partner-1', sha256: sha256Hex(API_KEY), owner: 'partner', scopes: ['a2a:use'] }]),
  )
  options.prepare?.(folder)
  const card = options.card ?? rigCard()
  const announced =
    (card as { capabilities?: { extendedAgentCard?: boolean } }).capabilities?.extendedAgentCard === true
  const declared = Object.keys((card as { securitySchemes?: object }).securitySchemes ?? {})
  const schemes: Record<string, unknown> = {
    login: { issuer: ISSUER, algorithms: ['ES256'], jwks: 'file:./jwks.json', ...options.login },
    key: { keys: 'file:./keys.json' },
  }
  const policy = {
    version: 1,
    card,
    audience: AUDIENCE,
    publicUrl: AUDIENCE,
    ...(announced && options.extendedCard !== false ? { extendedCard: card } : {}),
    schemes: Object.fromEntries(Object.entries(schemes).filter(([name]) => declared.includes(name))),
    ...options.policy,
  }
  const events: DecisionEvent[] = []
  const time = { now: NOW }
  const guard = await createGuard({
    policy,
    baseDir: folder,
    clock: () => time.now * 1000,
    onDecision: (event) => events.push(event),
    ...options.guard,
  }).catch((fault: unknown) => {
    rmSync(folder, { recursive: true })
    throw fault
  })
  const rig: Rig = {
    guard,
    events,
    folder,
    get now() {
      return time.now
    },
    set now(seconds) {
      time.now = seconds
    },
    token: async (claims = {}, header = {}) => {
      const good = {
        iss: ISSUER,
        aud: AUDIENCE,
        sub: 'alice',
        client_id: 'client-1',
        iat: NOW - 60,
        exp: NOW + 600,
        jti: 'jti-1',
        scope: 'a2a:use',
      }
      const payload = Object.fromEntries(
        Object.entries({ ...good, ...claims }).filter(([, value]) => value !== undefined),
      )
      return new SignJWT(payload as JWTPayload)
        .setProtectedHeader({ alg: 'ES256', kid: 'rig-1', typ: 'at+jwt', ...header })
        .sign(privateKey)
    },
    close: async () => {
      await guard.close()
      rmSync(folder, { recursive: true })
    },
  }
  return rig
}
