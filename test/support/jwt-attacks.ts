/**
 * The hostile and good tokens of `test/vectors/jwt-attacks`, as cases that anything taking a token can be run against:
 * the scheme, the guard, the command line.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { JwtSchemeConfig } from '../../src/policy/compiled.ts'

export interface JwtCase {
  readonly id: string
  /** What this package must answer; where the vectors leave it open, what it has decided (docs/tokens.md). */
  readonly expect: Verdict
  readonly token: string
  readonly mustNotFetch: boolean
  readonly config: JwtCaseConfig
}

export type Verdict = 'valid' | 'invalid'

export interface JwtCaseConfig {
  /** Unix seconds. */
  readonly now: number
  readonly issuer: string
  readonly audience: string
  readonly algorithms: readonly string[]
  readonly clockToleranceSeconds: number
  readonly maxTokenBytes: number
  readonly typ: 'at+jwt' | null
  readonly maxTokenAgeSeconds?: number
  readonly requiredScopes?: readonly string[]
}

interface CaseFile {
  readonly config: JwtCaseConfig
  readonly cases: readonly {
    readonly id: string
    readonly expect: Verdict | 'either'
    readonly token?: string
    readonly template?: {
      readonly prefix: string
      readonly repeat: string
      readonly times: number
      readonly suffix: string
    }
    readonly mustNotFetch?: boolean
    readonly config?: Partial<JwtCaseConfig>
  }[]
}

type Jwk = Readonly<Record<string, unknown>> & { readonly kid: string; readonly kty: string }

/** `either` in the vectors; each line is a row of the table in docs/tokens.md. */
export const decided: Readonly<Record<string, Verdict>> = {
  'embedded/jku-own-signed': 'invalid',
  'crit/b64-true': 'invalid',
  'typ/zip-header': 'invalid',
  'exp/2^53': 'invalid',
  'exp/milliseconds': 'invalid',
  'iat/very-old': 'valid',
  'iat/max-age-lifetime': 'invalid',
  'json/dup-aud-last-good': 'invalid',
  'json/dup-sub': 'invalid',
  'json/dup-header-kid': 'invalid',
  'json/payload-invalid-utf8': 'invalid',
  'json/payload-overlong-utf8': 'invalid',
  'json/header-bom': 'invalid',
  'json/lone-surrogate-sub': 'invalid',
  'json/nul-in-sub': 'invalid',
  'json/deep-nesting': 'invalid',
  'nested/cty-jwt-with-claims': 'invalid',
  'scope/array': 'valid',
  'scope/scp-array': 'valid',
  'scope/conflict': 'invalid',
}

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../vectors/jwt-attacks/${name}`, import.meta.url), 'utf8')) as T
}

/** Public keys of the issuer the cases trust. */
export const jwtAttackJwks = read<{ keys: Jwk[] }>('jwks.json')

/** Test-only private keys, to make further tokens. */
export function privateJwk(kid: string): Jwk {
  const found = read<{ keys: Jwk[] }>('private-keys.json').keys.find((key) => key.kid === kid)
  if (found === undefined) throw new Error(`no private key ${kid}`)
  return found
}

export function jwtAttackCases(): readonly JwtCase[] {
  const file = read<CaseFile>('jwt-cases.json')
  return file.cases.map(({ id, expect: expected, token, template, mustNotFetch, config }) => {
    const verdict = expected === 'either' ? decided[id] : expected
    if (verdict === undefined) throw new Error(`undecided case ${id}`)
    const text = template ? template.prefix + template.repeat.repeat(template.times) + template.suffix : token
    if (text === undefined) throw new Error(`case ${id} has no token`)
    return {
      id,
      expect: verdict,
      token: text,
      mustNotFetch: mustNotFetch ?? false,
      config: { ...file.config, ...config },
    }
  })
}

/** The scheme configuration a case asks for, keys aside. */
export function jwtSchemeConfigOf(
  config: JwtCaseConfig,
  keys: JwtSchemeConfig['issuers'][number]['keys'],
): JwtSchemeConfig {
  return {
    type: 'jwt',
    name: 'login',
    kind: config.typ === null ? 'http' : 'oauth2',
    issuers: [{ issuer: config.issuer, keys }],
    audience: [config.audience],
    typ: config.typ ?? 'any',
    algorithms: config.algorithms,
    scopeClaims: ['scope', 'scp'],
    rfc9068: config.typ !== null,
    clockToleranceSeconds: config.clockToleranceSeconds,
    maxTokenBytes: config.maxTokenBytes,
    ...(config.maxTokenAgeSeconds === undefined ? {} : { maxTokenAgeSeconds: config.maxTokenAgeSeconds }),
    requiredScopes: config.requiredScopes ?? [],
    senderConstraint: 'optional',
  }
}

export interface Observed {
  readonly verdict: Verdict
  /** Requests made while the token was judged. */
  readonly fetches: number
}

/** One test per case. */
export function describeJwtAttacks(through: string, judge: (testCase: JwtCase) => Observed | Promise<Observed>): void {
  describe(`jwt-attacks through ${through}`, () => {
    const cases = jwtAttackCases()
    it('covers the whole collection', () => expect(cases).toHaveLength(303))
    for (const testCase of cases) {
      it(`${testCase.id} is ${testCase.expect}`, async () => {
        const observed = await judge(testCase)
        expect(observed.verdict).toBe(testCase.expect)
        // Nothing in a token makes this package fetch: `mustNotFetch` holds for all of them once keys are at hand.
        expect(observed.fetches).toBe(0)
      })
    }
  })
}
