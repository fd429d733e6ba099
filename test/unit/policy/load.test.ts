import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { TrustError } from '../../../src/errors.ts'
import { formatProblem, lintPolicy, loadPolicy, PolicyError } from '../../../src/policy/index.ts'

const parts = fileURLToPath(new URL('../../vectors/broken-policies/parts/', import.meta.url))
const clock = () => Date.UTC(2027, 0, 1)
const env = { NODE_ENV: 'test' }

type Json = Record<string, unknown>

/** A v1.0 card with the given schemes, each of them an alternative. */
function cardOf(securitySchemes: Json, extra: Json = {}): Json {
  return {
    name: 'Agent',
    description: 'An agent.',
    version: '1.0.0',
    supportedInterfaces: [{ url: 'https://agent.example.com/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: {},
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    securitySchemes,
    securityRequirements: Object.keys(securitySchemes).map((name) => ({ schemes: { [name]: { list: [] } } })),
    skills: [{ id: 'search', name: 'Search', description: 'Searches.', tags: [] }],
    ...extra,
  }
}

const BEARER = { httpAuthSecurityScheme: { scheme: 'Bearer' } }
const OIDC = (url: string) => ({ openIdConnectSecurityScheme: { openIdConnectUrl: url } })
const OAUTH2 = (oauth2MetadataUrl?: string) => ({
  oauth2SecurityScheme: {
    flows: { clientCredentials: { tokenUrl: 'https://login.example.com/token', scopes: { use: 'Use' } } },
    ...(oauth2MetadataUrl === undefined ? {} : { oauth2MetadataUrl }),
  },
})

/** A policy for one bearer scheme; `extra` goes over it. */
function policyOf(extra: Json = {}): Json {
  return {
    version: 1,
    card: cardOf({ token: BEARER }),
    audience: 'https://agent.example.com',
    schemes: { token: { issuer: 'https://login.example.com', algorithms: ['ES256'], jwks: 'file:jwks.json' } },
    ...extra,
  }
}

async function load(extra: Json = {}) {
  return loadPolicy({ policy: policyOf(extra), baseDir: parts, env, clock })
}

/** The problems of a policy, as the user reads them. */
async function problemsOf(extra: Json = {}): Promise<string[]> {
  const { problems } = await lintPolicy({ policy: policyOf(extra), baseDir: parts, env, clock })
  return problems.map(formatProblem)
}

const scratch = mkdtempSync(join(tmpdir(), 'a2a-trust-policy-'))
afterAll(() => rmSync(scratch, { recursive: true }))

describe('a loaded policy', () => {
  it('has every default filled in', async () => {
    const policy = await load()
    expect(policy).toMatchObject({
      audience: ['https://agent.example.com'],
      anonymous: false,
      skills: { select: { metadata: 'skillId' }, undeclared: 'agent', combine: 'add' },
      access: undefined,
      limits: {},
      egress: {},
      mode: 'enforce',
      maxBodyBytes: 4_194_304,
      warnings: [],
    })
    expect(policy.schemes.get('token')).toMatchObject({
      type: 'jwt',
      name: 'token',
      kind: 'http',
      audience: ['https://agent.example.com'],
      typ: 'any',
      rfc9068: false,
      scopeClaims: ['scope', 'scp'],
      clockToleranceSeconds: 30,
      maxTokenBytes: 16_384,
      requiredScopes: [],
      senderConstraint: 'off',
    })
  })

  it('keeps what was written', async () => {
    const policy = await load({
      audience: ['https://agent.example.com', 'urn:agent'],
      publicUrl: 'https://agent.example.com/',
      skills: { select: { extension: true }, undeclared: 'deny' },
      limits: { perPrincipal: '600/min', failedAuthentication: '7/hour' },
      egress: { ports: [443, 8443] },
      maxBodyBytes: 2048,
      access: [
        { allow: { operations: ['*'], principals: { scopes: ['use'], issuer: 'https://login.example.com' } } },
        { deny: { operations: ['CancelTask'], skills: ['search'], principals: { clientId: ['a', 'b'] } } },
      ],
    })
    expect(policy).toMatchObject({
      audience: ['https://agent.example.com', 'urn:agent'],
      publicUrl: 'https://agent.example.com',
      skills: { select: { extension: true }, undeclared: 'deny' },
      limits: {
        perPrincipal: { count: 600, windowSeconds: 60 },
        failedAuthentication: { count: 7, windowSeconds: 3600 },
      },
      egress: { ports: [443, 8443] },
      maxBodyBytes: 2048,
    })
    expect(policy.access).toEqual([
      { effect: 'allow', index: 0, principals: { scopes: ['use'], issuers: ['https://login.example.com'] } },
      {
        effect: 'deny',
        index: 1,
        operations: new Set(['CancelTask']),
        skills: new Set(['search']),
        principals: { clientIds: ['a', 'b'] },
      },
    ])
  })

  it('P54 P74 is frozen to the bottom', async () => {
    const policy = await load({ access: [{ deny: { skills: ['search'] } }] })
    const jwt = policy.schemes.get('token') as unknown as { issuers: unknown[] }
    expect(() => jwt.issuers.push('https://evil.example')).toThrow(TypeError)
    expect(() => (policy.schemes as Map<string, unknown>).set('x', 1)).toThrow(TypeError)
    expect(() => (policy.access as unknown as { skills: Set<string> }[])[0]?.skills.delete('search')).toThrow(TypeError)
    expect(() => (policy.card.schemes as Map<string, unknown>).clear()).toThrow(TypeError)
    expect(() => Object.assign(policy.cardJson, { name: 'Other' })).toThrow(TypeError)
    expect(policy.access?.[0]?.skills?.has('search')).toBe(true)
  })

  it('P165 does not follow later changes of the object it was given', async () => {
    const given = policyOf()
    const policy = await loadPolicy({ policy: given, baseDir: parts, env, clock })
    ;(given.card as Json).name = 'Changed'
    ;(given.schemes as { token: Json }).token.issuer = 'https://evil.example'
    expect(policy.cardJson.name).toBe('Agent')
    expect(policy.schemes.get('token')).toMatchObject({ issuers: [{ issuer: 'https://login.example.com' }] })
  })
})

describe('schemes', () => {
  const jwt = (settings: Json = {}): Json => ({
    issuer: 'https://login.example.com',
    algorithms: ['ES256'],
    ...settings,
  })
  const loadScheme = async (scheme: Json, settings: Json) =>
    (await load({ card: cardOf({ s: scheme }), schemes: { s: settings } })).schemes.get('s')

  it('openIdConnect takes its keys from the discovery document of its issuer, byte for byte', async () => {
    for (const issuer of [
      'https://login.example.com',
      'https://login.example.com/',
      'https://login.example.com/realms/a',
    ]) {
      const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
      expect(await loadScheme(OIDC(url), jwt({ issuer }))).toMatchObject({
        kind: 'openIdConnect',
        typ: 'at+jwt',
        rfc9068: true,
        issuers: [{ issuer, keys: { from: 'discovery', url } }],
      })
    }
  })

  it('oauth2 takes them from the metadata of RFC 8414, or where the card says', async () => {
    const issuer = 'https://login.example.com/realms/a'
    const rfc8414 = 'https://login.example.com/.well-known/oauth-authorization-server/realms/a'
    const oidc = `${issuer}/.well-known/openid-configuration`
    for (const [named, url] of [
      [undefined, rfc8414],
      [rfc8414, rfc8414],
      [oidc, oidc],
    ]) {
      expect(await loadScheme(OAUTH2(named), jwt({ issuer }))).toMatchObject({
        kind: 'oauth2',
        typ: 'at+jwt',
        rfc9068: true,
        issuers: [{ issuer, keys: { from: 'discovery', url } }],
      })
    }
  })

  it('keys may come from a URL or a file instead', async () => {
    const url = 'https://keys.example.com/jwks.json?v=1'
    expect(await loadScheme(BEARER, jwt({ jwks: url }))).toMatchObject({ issuers: [{ keys: { from: 'url', url } }] })
    expect(await loadScheme(BEARER, jwt({ jwks: 'file:jwks.json' }))).toMatchObject({
      issuers: [{ keys: { from: 'file', jwks: { keys: [{ kid: 'ec-1' }, { kid: 'rsa-1' }] } } }],
    })
  })

  it('A54 several issuers are listed one by one, each with its own keys', async () => {
    const issuers = [
      { issuer: 'https://login.example.com', jwks: 'file:jwks.json' },
      { issuer: 'https://sts.example.net/', jwks: 'https://sts.example.net/keys' },
    ]
    expect(await loadScheme(BEARER, { issuers, algorithms: ['RS256'] })).toMatchObject({
      issuers: [
        { issuer: 'https://login.example.com', keys: { from: 'file' } },
        { issuer: 'https://sts.example.net/', keys: { from: 'url', url: 'https://sts.example.net/keys' } },
      ],
    })
  })

  it('plain bearer with typ at+jwt is held to RFC 9068', async () => {
    expect(await loadScheme(BEARER, jwt({ jwks: 'file:jwks.json', typ: 'at+jwt' }))).toMatchObject({
      typ: 'at+jwt',
      rfc9068: true,
    })
  })

  it('A36 the http scheme is Bearer in any case', async () => {
    const scheme = { httpAuthSecurityScheme: { scheme: 'bEARER' } }
    expect(await loadScheme(scheme, jwt({ jwks: 'file:jwks.json' }))).toMatchObject({ kind: 'http' })
  })

  it('an issuer on this machine may use plain http', async () => {
    for (const issuer of ['http://127.0.0.1:8080', 'http://localhost:8080', 'http://[::1]:8080']) {
      expect(await loadScheme(OAUTH2(), jwt({ issuer }))).toMatchObject({ issuers: [{ issuer }] })
    }
    expect(
      await problemsOf({ card: cardOf({ s: OAUTH2() }), schemes: { s: jwt({ issuer: 'http://127.0.0.1.example' }) } }),
    ).toEqual([expect.stringContaining('ERR_POLICY_VALUE the issuer must be an https:// URL')])
  })

  it('apiKey reads digests, owners and times from the key file', async () => {
    const scheme = { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } }
    const config = await loadScheme(scheme, { keys: 'file:keys.yaml' })
    expect(config).toMatchObject({ type: 'apiKey', location: 'header', parameter: 'x-api-key' })
    expect((config as unknown as { keys: unknown[] }).keys).toEqual([
      {
        id: 'partner-1',
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        owner: 'partner',
        scopes: ['agent:use'],
        expiresAt: Date.UTC(2030, 0, 1) / 1000,
      },
      { id: 'partner-2', sha256: expect.stringMatching(/^[0-9a-f]{64}$/), owner: 'other-partner', scopes: [] },
    ])
  })

  it('a bare list of keys in JSON is a key file too, with positions in it', async () => {
    const entry = { id: 'a', sha256: 'AB'.repeat(32), owner: 'a' }
    writeFileSync(join(scratch, 'bare.json'), JSON.stringify([entry]))
    writeFileSync(join(scratch, 'bad.json'), `[\n  ${JSON.stringify({ ...entry, sha256: 'x' })}\n]`)
    const scheme = { apiKeySecurityScheme: { location: 'query', name: 'Key' } }
    const card = cardOf({ s: scheme })
    const at = (keys: string) => ({
      policy: policyOf({ card, schemes: { s: { keys } } }),
      baseDir: scratch,
      env,
      clock,
    })
    expect((await loadPolicy(at('file:bare.json'))).schemes.get('s')).toMatchObject({
      parameter: 'Key',
      keys: [{ id: 'a', sha256: 'ab'.repeat(32) }],
    })
    const { problems } = await lintPolicy(at('file:bad.json'))
    expect(problems.map(formatProblem)).toContainEqual(
      expect.stringMatching(/^bad\.json:2:22 {2}ERR_POLICY_VALUE "sha256" must be the SHA-256/),
    )
  })

  it('A34 a v0.3 card is read in its own shapes', async () => {
    const card = {
      protocolVersion: '0.3.0',
      name: 'Agent',
      version: '1.0.0',
      url: 'https://agent.example.com/a2a',
      additionalInterfaces: [{ url: 'https://other.example.com/a2a', transport: 'HTTP+JSON' }],
      securitySchemes: { s: { type: 'http', scheme: 'bearer' } },
      security: [{ s: [] }],
      skills: [],
    }
    const schemes = { s: jwt({ jwks: 'file:jwks.json' }) }
    expect((await load({ card, schemes })).schemes.get('s')).toMatchObject({ kind: 'http' })
    expect(await problemsOf({ card, schemes, publicUrl: 'https://agent.example.com' })).toEqual([
      expect.stringMatching(/^policy#\/card\/additionalInterfaces\/0\/url {2}ERR_POLICY_PUBLIC_URL /),
    ])
    expect(await problemsOf({ card: { ...card, security: [{}] }, schemes })).toEqual([
      expect.stringMatching(/^policy#\/card\/security\/0 {2}ERR_POLICY_ANONYMOUS /),
    ])
  })
})

describe('skills', () => {
  const strict = (list: string[]) => [
    { id: 'search', name: 'Search' },
    { id: 'pay', name: 'Pay', securityRequirements: [{ schemes: { token: { list } } }] },
  ]

  it('A53 a message without a skill is denied as soon as a skill asks for more than the agent', async () => {
    const undeclaredOf = async (extra: Json) => (await load(extra)).skills.undeclared
    expect(await undeclaredOf({ card: cardOf({ token: BEARER }, { skills: strict(['pay']) }) })).toBe('deny')
    expect(await undeclaredOf({ card: cardOf({ token: BEARER }, { skills: strict([]) }) })).toBe('agent')
    expect(await undeclaredOf({ access: [{ deny: { skills: ['search'] } }] })).toBe('deny')
    expect(await undeclaredOf({ access: [{ deny: { operations: ['CancelTask'] } }] })).toBe('agent')
  })

  it('combine: override names every skill that it weakens', async () => {
    const card = cardOf(
      { token: BEARER },
      {
        skills: strict(['pay']),
        securityRequirements: [{ schemes: { token: { list: ['use'] } } }],
      },
    )
    expect(await problemsOf({ card, skills: { combine: 'override', undeclared: 'deny' } })).toEqual([
      'policy#/skills/combine  ERR_POLICY_WEAK the skill "pay" can be reached with less than the agent asks for',
    ])
  })

  it('override does not let a skill be open without anonymous: true', async () => {
    const skills = [{ id: 'search', name: 'Search', securityRequirements: [{ schemes: {} }] }]
    const card = cardOf({ token: BEARER }, { skills })
    expect(await problemsOf({ card })).toEqual([])
    expect(await problemsOf({ card, skills: { combine: 'override' } })).toContainEqual(
      expect.stringMatching(/^policy#\/card\/skills\/0\/securityRequirements\/0 {2}ERR_POLICY_ANONYMOUS /),
    )
  })
})

describe('a policy given as an object', () => {
  it('is reported by pointer, all mistakes at once', async () => {
    const problems = await problemsOf({
      audience: [''],
      anonymus: true,
      schemes: { token: { issuer: 'https://login.example.com', algorithms: ['HS256'] } },
      access: [{ allow: { skills: ['serch'] } }],
    })
    expect(problems).toEqual([
      'policy#/audience/0  ERR_POLICY_VALUE an entry of "audience" is empty or blank',
      'policy#/anonymus  ERR_POLICY_UNKNOWN_KEY "anonymus" has no meaning here; did you mean "anonymous"?',
      expect.stringContaining('policy#/schemes/token/algorithms/0  ERR_POLICY_VALUE'),
      expect.stringContaining('policy#/schemes/token/jwks  ERR_POLICY_MISSING'),
      'policy#/access/0/allow/skills/0  ERR_POLICY_SKILL_UNKNOWN the card has no skill "serch"; did you mean "search"?',
    ])
  })

  it('is plain data or refused', async () => {
    const only = async (extra: Json) => (await problemsOf(extra))[0]
    expect(await only({ audience: new URL('https://agent.example.com') })).toMatch(/#\/audience .*instance of a class/)
    expect(await only({ maxBodyBytes: Number.NaN })).toMatch(/#\/maxBodyBytes .*not finite/)
    expect(await only({ audience: () => 'x' })).toMatch(/#\/audience .*function is not plain data/)
    expect(await only(JSON.parse('{"schemes":{"__proto__":{}}}'))).toMatch(/#\/schemes\/__proto__ .*not accepted/)
    const cycle: Json = {}
    cycle.card = cycle
    expect(await only(cycle)).toMatch(/nested deeper than 64/)
  })

  it('P19 a setting that came out undefined is said, and a mandatory one refused', async () => {
    expect(await problemsOf({ publicUrl: undefined })).toEqual([
      'policy#/publicUrl  ERR_POLICY_VALUE is undefined and was read as absent: leave the key out',
    ])
    expect(await problemsOf({ audience: undefined })).toContainEqual(
      expect.stringMatching(/^policy#\/audience {2}ERR_POLICY_MISSING /),
    )
  })

  it('inherits nothing', async () => {
    const policy = Object.create({ anonymous: true }) as Json
    Object.assign(policy, policyOf({ card: cardOf({}, { securityRequirements: [] }), schemes: {} }))
    const { problems } = await lintPolicy({ policy, baseDir: parts, env, clock })
    expect(problems.some(({ code }) => code === 'ERR_POLICY_ANONYMOUS' || code === 'ERR_POLICY_VALUE')).toBe(true)
  })
})

describe('options', () => {
  it('of the wrong type throw a TypeError that names them', async () => {
    const wrong = (options: object) => expect(lintPolicy(options as never)).rejects.toThrow(TypeError)
    await wrong({ policy: 1 })
    await wrong({ policy: [] })
    await wrong({ policy: '' })
    await wrong({ policy: 'version: 1\ncard: x' })
    await wrong({ policy: policyOf(), baseDir: '' })
    await wrong({ policy: policyOf(), clock: 5 })
    await wrong({ policy: policyOf(), env: 'production' })
  })

  it('a policy file that is not there is an error without a place', async () => {
    const thrown = await loadPolicy({ policy: 'nowhere.yaml', baseDir: scratch }).catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(TrustError)
    expect(thrown).toBeInstanceOf(PolicyError)
    expect((thrown as Error).message).toBe(
      'The policy has mistakes: 1 problem\nnowhere.yaml  ERR_POLICY_UNREADABLE the policy file does not exist',
    )
  })

  it('paths start from the policy file, and follow symbolic links', async () => {
    symlinkSync(parts, join(scratch, 'mounted'))
    const { card: _, ...rest } = policyOf()
    const policy = { ...rest, card: './mounted/card-bearer-only.json' }
    writeFileSync(join(scratch, 'mounted-policy.json'), JSON.stringify(policy).replace('file:', 'file:mounted/'))
    const { problems } = await lintPolicy({ policy: join(scratch, 'mounted-policy.json'), env, clock })
    expect(problems.map(({ code, pointer }) => [code, pointer])).toEqual([['ERR_POLICY_UNREADABLE', '/card']])
    writeFileSync(join(scratch, 'mounted-policy.json'), JSON.stringify(policyOf()).replace('file:', 'file:mounted/'))
    expect(await loadPolicy({ policy: join(scratch, 'mounted-policy.json'), env, clock })).toBeTruthy()
  })

  it('example keys are refused in production only', async () => {
    const at = (NODE_ENV: string) => ({
      policy: policyOf({
        schemes: {
          token: { issuer: 'https://login.example.com', algorithms: ['ES256'], jwks: 'file:jwks-example.json' },
        },
      }),
      baseDir: parts,
      env: { NODE_ENV },
      clock,
    })
    expect((await lintPolicy(at('development'))).policy).toBeDefined()
    await expect(loadPolicy(at('production'))).rejects.toThrow('ERR_POLICY_EXAMPLE_KEY')
  })
})

it('docs/policy.md shows mistakes as they are said', async () => {
  const page = readFileSync(new URL('../../../docs/policy.md', import.meta.url), 'utf8')
  const example = (/^```yaml\n([\s\S]*?)^```/m.exec(page) as RegExpExecArray)[1] as string
  const shown = (/^```text\n([\s\S]*?)^```/m.exec(page) as RegExpExecArray)[1] as string
  writeFileSync(join(scratch, 'policy.yaml'), example.replace('audience:', 'audiance:').replace('[ES256', '[HS256'))
  const { problems } = await lintPolicy({ policy: 'policy.yaml', baseDir: scratch, env, clock })
  expect(problems.map(formatProblem)).toEqual(expect.arrayContaining(shown.trimEnd().split('\n')))
})

it('token schemes can be required together where they have an issuer in common, and where nobody can tell', async () => {
  const together = async (one: Json, two: Json) => {
    const card = cardOf(
      { one: BEARER, two: BEARER },
      { securityRequirements: [{ schemes: { one: { list: [] }, two: { list: [] } } }] },
    )
    const policy = { version: 1, card, audience: 'https://agent.example.com', schemes: { one, two } }
    const { problems } = await lintPolicy({
      policy,
      baseDir: parts,
      env: { ...env, SECRET: 'a-long-secret-for-tests-only-0001' },
      clock,
    })
    return problems.filter(({ severity }) => severity === 'error').map(({ code }) => code)
  }
  const [a, b] = ['https://a.example.com', 'https://b.example.com']
  const jwt = (issuer: string) => ({ issuer, algorithms: ['ES256'], jwks: 'file:./jwks.json' })
  const opaque = (issuer: string) => {
    const client = { id: 'agent', auth: 'basic', secret: 'env:SECRET' }
    return { token: 'opaque', issuer, introspection: { endpoint: `${issuer}/introspect`, client } }
  }
  expect(await together(jwt(a), jwt(a))).toEqual([])
  expect(await together(jwt(a), opaque(a))).toEqual([])
  expect(await together(opaque(a), opaque(b))).toEqual([])
  expect(await together(jwt(a), jwt(b))).toEqual(['ERR_POLICY_REQUIREMENT_UNSATISFIABLE'])
  expect(await together(jwt(a), opaque(b))).toEqual(['ERR_POLICY_REQUIREMENT_UNSATISFIABLE'])
})
