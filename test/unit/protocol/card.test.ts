import { describe, expect, it } from 'vitest'
import { parseStrictJson } from '../../../src/internal/json.ts'
import { parseCard } from '../../../src/protocol/card.ts'

const interfaces = [{ url: 'https://a.example/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }]
const v1 = (members: object) => parseCard({ name: 'a', version: '1', supportedInterfaces: interfaces, ...members })
const v03 = (members: object) =>
  parseCard({ protocolVersion: '0.3.0', name: 'a', version: '1', url: 'https://a.example/', ...members })
const codes = ({ problems }: ReturnType<typeof parseCard>) =>
  problems.map(({ code, pointer, severity }) => `${severity === 'warning' ? '~' : ''}${code} ${pointer}`)

const bearer = { httpAuthSecurityScheme: { scheme: 'Bearer' } }

describe('version', () => {
  it.each([
    ['supportedInterfaces', { supportedInterfaces: interfaces }, '1.0'],
    ['protocolVersion 0.3.0', { protocolVersion: '0.3.0', url: 'https://a.example/' }, '0.3'],
    ['protocolVersion 0.2.5', { protocolVersion: '0.2.5', url: 'https://a.example/' }, '0.3'],
    ['url alone', { url: 'https://a.example/' }, '0.3'],
    [
      'both, as the SDK serves to v0.3 clients',
      { protocolVersion: '0.3.0', url: 'https://a.example/', supportedInterfaces: interfaces },
      '0.3',
    ],
    ['a v1.0 card that kept protocolVersion', { protocolVersion: '1.0', supportedInterfaces: interfaces }, '1.0'],
  ])('A35 %s', (_, card, version) => {
    const { model, problems } = parseCard(card)
    expect(model.protocol).toBe(version)
    expect(problems).toEqual([])
  })

  it.each([[{}], [{ protocolVersion: '1.0', url: 'https://a.example/' }], [{ protocolVersion: 3 }], [{ name: 'x' }]])(
    '%j is neither',
    (card) => {
      expect(codes(parseCard(card)).join()).toContain('ERR_CARD_VERSION ')
    },
  )

  it.each([[null], [[]], ['card'], [7], [undefined]])('%j is no card', (json) => {
    expect(codes(parseCard(json))).toEqual(['ERR_CARD_MEMBER '])
  })
})

describe('schemes', () => {
  const five = {
    key: { apiKeySecurityScheme: { location: 'header', name: 'X-Key' } },
    basic: { httpAuthSecurityScheme: { scheme: 'BEARER', bearerFormat: 'JWT' } },
    oauth: {
      oauth2SecurityScheme: {
        oauth2MetadataUrl: 'https://i.example/.well-known/oauth-authorization-server',
        flows: { clientCredentials: { tokenUrl: 'https://i.example/token', scopes: { a: 'A', b: 'B' } } },
      },
    },
    login: { openIdConnectSecurityScheme: { openIdConnectUrl: 'https://i.example/.well-known/openid-configuration' } },
    mesh: { mtlsSecurityScheme: {} },
  }

  it('A34 A36 all five kinds of v1.0', () => {
    const { model, problems } = v1({ securitySchemes: five })
    expect(problems).toEqual([])
    expect(Object.fromEntries(model.schemes)).toEqual({
      key: { kind: 'apiKey', location: 'header', name: 'X-Key' },
      basic: { kind: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
      oauth: {
        kind: 'oauth2',
        scopes: ['a', 'b'],
        tokenUrls: ['https://i.example/token'],
        metadataUrl: 'https://i.example/.well-known/oauth-authorization-server',
      },
      login: { kind: 'openIdConnect', url: 'https://i.example/.well-known/openid-configuration' },
      mesh: { kind: 'mtls' },
    })
  })

  it('A34 all five kinds of v0.3', () => {
    const { model, problems } = v03({
      securitySchemes: {
        key: { type: 'apiKey', in: 'cookie', name: 'sid' },
        basic: { type: 'http', scheme: 'Basic' },
        oauth: {
          type: 'oauth2',
          flows: {
            implicit: { authorizationUrl: 'https://i.example/a', scopes: { a: 'A' } },
            password: { tokenUrl: 'https://i.example/t', scopes: { b: 'B' } },
          },
        },
        login: { type: 'openIdConnect', openIdConnectUrl: 'https://i.example/.well-known/openid-configuration' },
        mesh: { type: 'mutualTLS' },
      },
    })
    expect(problems).toEqual([])
    expect([...model.schemes.values()].map(({ kind }) => kind)).toEqual([
      'apiKey',
      'http',
      'oauth2',
      'openIdConnect',
      'mtls',
    ])
    expect(model.schemes.get('oauth')).toMatchObject({ scopes: ['a', 'b'], tokenUrls: ['https://i.example/t'] })
  })

  it.each<[string, object, string, string?]>([
    ['an unknown kind', { futureScheme: {} }, '~ERR_CARD_SCHEME_UNKNOWN /securitySchemes/s', 'futureScheme'],
    ['two kinds', { ...bearer, mtlsSecurityScheme: {} }, 'ERR_CARD_SCHEME /securitySchemes/s'],
    ['a kind and a future one', { ...bearer, futureScheme: {} }, 'ERR_CARD_SCHEME /securitySchemes/s'],
    ['no kind', {}, 'ERR_CARD_SCHEME /securitySchemes/s'],
    ['the v0.3 shape', { type: 'http', scheme: 'bearer' }, 'ERR_CARD_VERSION_MIXED /securitySchemes/s/type'],
    ['both shapes', { type: 'http', ...bearer }, 'ERR_CARD_VERSION_MIXED /securitySchemes/s/type'],
    ['in_', { in_: 'header', name: 'X' }, 'ERR_CARD_VERSION_MIXED /securitySchemes/s/in_'],
    [
      'in',
      { apiKeySecurityScheme: { in: 'header', name: 'X' } },
      'ERR_CARD_VERSION_MIXED /securitySchemes/s/apiKeySecurityScheme/in',
    ],
    [
      'no location',
      { apiKeySecurityScheme: { name: 'X' } },
      'ERR_CARD_SCHEME /securitySchemes/s/apiKeySecurityScheme/location',
    ],
    [
      'body location',
      { apiKeySecurityScheme: { location: 'body', name: 'X' } },
      'ERR_CARD_SCHEME /securitySchemes/s/apiKeySecurityScheme/location',
    ],
    [
      'a header name with CR LF',
      { apiKeySecurityScheme: { location: 'header', name: 'X\r\nY' } },
      'ERR_CARD_SCHEME /securitySchemes/s/apiKeySecurityScheme/name',
    ],
    [
      'no http scheme',
      { httpAuthSecurityScheme: {} },
      'ERR_CARD_SCHEME /securitySchemes/s/httpAuthSecurityScheme/scheme',
    ],
    [
      'an http scheme that is none',
      { httpAuthSecurityScheme: { scheme: 'Bearer token' } },
      'ERR_CARD_SCHEME /securitySchemes/s/httpAuthSecurityScheme/scheme',
    ],
    ['a number', { httpAuthSecurityScheme: 7 }, 'ERR_CARD_SCHEME /securitySchemes/s/httpAuthSecurityScheme'],
    ['no flows', { oauth2SecurityScheme: {} }, 'ERR_CARD_SCHEME /securitySchemes/s/oauth2SecurityScheme/flows'],
    [
      'no discovery URL',
      { openIdConnectSecurityScheme: {} },
      'ERR_CARD_SCHEME /securitySchemes/s/openIdConnectSecurityScheme/openIdConnectUrl',
    ],
    [
      'snake_case',
      { http_auth_security_scheme: { scheme: 'bearer' } },
      '~ERR_CARD_SCHEME_UNKNOWN /securitySchemes/s',
      'http_auth_security_scheme',
    ],
    [
      'the object of the SDK',
      { scheme: { $case: 'mtlsSecurityScheme', value: {} } },
      'ERR_CARD_SCHEME /securitySchemes/s',
    ],
  ])('A34 A36 %s is nothing anybody can satisfy', (_, scheme, problem, member = '') => {
    const parsed = v1({ securitySchemes: { s: scheme } })
    expect(codes(parsed)).toEqual([problem])
    expect(parsed.model.schemes.get('s')).toEqual({ kind: 'unknown', member })
  })

  it('A34 the v1.0 shape in a v0.3 card, and a v0.3 key with "location"', () => {
    expect(codes(v03({ securitySchemes: { s: bearer } }))).toEqual([
      'ERR_CARD_VERSION_MIXED /securitySchemes/s/httpAuthSecurityScheme',
    ])
    expect(codes(v03({ securitySchemes: { s: { type: 'apiKey', location: 'header', name: 'X' } } }))).toEqual([
      'ERR_CARD_VERSION_MIXED /securitySchemes/s/location',
    ])
    expect(codes(v03({ securitySchemes: { s: { type: 'futureType' } } }))).toEqual([
      '~ERR_CARD_SCHEME_UNKNOWN /securitySchemes/s',
    ])
  })

  it('A26 prototype-like names are names', () => {
    const card = parseStrictJson(
      `{"supportedInterfaces":[],"securitySchemes":{"__proto__":{"mtlsSecurityScheme":{}},"a/b~c":{"mtlsSecurityScheme":{}}},
        "securityRequirements":[{"schemes":{"__proto__":{}}},{"schemes":{"constructor":{}}},{"schemes":{"a/b~c":{},"d/e~f":{}}}]}`,
    )
    const parsed = parseCard(card)
    expect([...parsed.model.schemes.keys()]).toEqual(['__proto__', 'a/b~c'])
    expect(codes(parsed)).toEqual([
      'ERR_CARD_REQUIREMENT_UNDECLARED /securityRequirements/1/schemes/constructor',
      'ERR_CARD_REQUIREMENT_UNDECLARED /securityRequirements/2/schemes/d~1e~0f',
    ])
  })
})

describe('requirements', () => {
  const securitySchemes = { bearer, key: { apiKeySecurityScheme: { location: 'header', name: 'X' } } }
  const requirements = (list: unknown) => v1({ securitySchemes, securityRequirements: list })

  it('A33 a list is OR, a requirement is AND, in card order', () => {
    const { model, problems } = requirements([
      { schemes: { key: { list: [] }, bearer: { list: ['a', 'b'] } } },
      { schemes: { bearer: {} } },
      { schemes: {} },
    ])
    expect(problems).toEqual([])
    expect(model.requirements).toEqual([
      {
        schemes: [
          { name: 'key', scopes: [] },
          { name: 'bearer', scopes: ['a', 'b'] },
        ],
      },
      { schemes: [{ name: 'bearer', scopes: [] }] },
      { schemes: [] },
    ])
  })

  it.each<[string, unknown, string]>([
    ['scopes without list', [{ schemes: { bearer: ['openid'] } }], '/securityRequirements/0/schemes/bearer'],
    ['the v0.3 shape', [{ bearer: ['openid'] }], '/securityRequirements/0/bearer'],
    ['another member beside schemes', [{ schemes: { bearer: {} }, note: 1 }], '/securityRequirements/0/note'],
    [
      'another member beside list',
      [{ schemes: { bearer: { list: [], scopes: [] } } }],
      '/securityRequirements/0/schemes/bearer',
    ],
    ['a scope that is no text', [{ schemes: { bearer: { list: [1] } } }], '/securityRequirements/0/schemes/bearer'],
    ['an empty scope', [{ schemes: { bearer: { list: [''] } } }], '/securityRequirements/0/schemes/bearer'],
    ['schemes as a list', [{ schemes: ['bearer'] }], '/securityRequirements/0/schemes'],
    ['null', [null], '/securityRequirements/0'],
    ['a name', ['bearer'], '/securityRequirements/0'],
    ['an object for the list', { schemes: { bearer: {} } }, '/securityRequirements'],
    ['null for the list', null, '/securityRequirements'],
  ])('A35 %s is an error, and nobody meets it', (_, list, pointer) => {
    const parsed = requirements(list)
    expect(codes(parsed)).toEqual([`ERR_CARD_REQUIREMENT ${pointer}`])
    expect(parsed.model.requirements).toEqual([{ schemes: [{ name: '', scopes: [] }] }])
    expect(parsed.model.schemes.has('')).toBe(false)
  })

  it('A27 A35 a v1.0 card whose security is in v0.3 members is never open', () => {
    const parsed = v1({ securitySchemes, security: [{ bearer: [] }] })
    expect(codes(parsed)).toEqual(['ERR_CARD_VERSION_MIXED /security'])
    expect(parsed.model.requirements).toEqual([{ schemes: [{ name: '', scopes: [] }] }])
    const skill = v1({ securitySchemes, skills: [{ id: 'pay', security: [] }] })
    expect(codes(skill)).toEqual(['ERR_CARD_VERSION_MIXED /skills/0/security'])
    expect(skill.model.skills.get('pay')?.requirements).toHaveLength(1)
    const other = v03({ securityRequirements: [{ schemes: {} }] })
    expect(codes(other)).toEqual(['ERR_CARD_VERSION_MIXED /securityRequirements'])
  })

  it('A35 v0.3 requirements', () => {
    const { model, problems } = v03({
      securitySchemes: { login: { type: 'http', scheme: 'bearer' } },
      security: [{ login: ['openid'] }, {}],
      skills: [{ id: 's', name: 'S', security: [{ login: ['pay'] }] }],
    })
    expect(problems).toEqual([])
    expect(model.requirements).toEqual([{ schemes: [{ name: 'login', scopes: ['openid'] }] }, { schemes: [] }])
    expect(model.skills.get('s')).toEqual({
      id: 's',
      name: 'S',
      requirements: [{ schemes: [{ name: 'login', scopes: ['pay'] }] }],
    })
    expect(codes(v03({ security: [{ login: { list: [] } }] }))).toEqual(['ERR_CARD_REQUIREMENT /security/0/login'])
  })

  it('A53 a requirement names only declared schemes, for the agent and for each skill', () => {
    const parsed = v1({
      securitySchemes,
      securityRequirements: [{ schemes: { nope: {} } }],
      skills: [{ id: 'pay', name: 'Pay', securityRequirements: [{ schemes: { bearer: {}, nope: {} } }] }],
    })
    expect(codes(parsed)).toEqual([
      'ERR_CARD_REQUIREMENT_UNDECLARED /securityRequirements/0/schemes/nope',
      'ERR_CARD_REQUIREMENT_UNDECLARED /skills/0/securityRequirements/0/schemes/nope',
    ])
    expect(parsed.model.requirements).toEqual([{ schemes: [{ name: 'nope', scopes: [] }] }])
  })
})

describe('skills, interfaces, capabilities', () => {
  it('A53 skills keep card order; an id twice, or none, is an error', () => {
    const parsed = v1({ skills: [{ id: 'b', name: 'B' }, { id: 'a' }, { id: 'b' }, {}, { id: '' }, { id: 7 }, 'c'] })
    expect([...parsed.model.skills]).toEqual([
      ['b', { id: 'b', name: 'B' }],
      ['a', { id: 'a', name: 'a' }],
    ])
    expect(codes(parsed)).toEqual([
      'ERR_CARD_SKILL_DUPLICATE /skills/2/id',
      'ERR_CARD_MEMBER /skills/3/id',
      'ERR_CARD_MEMBER /skills/4/id',
      'ERR_CARD_MEMBER /skills/5/id',
      'ERR_CARD_MEMBER /skills/6',
    ])
  })

  it('an empty list of a skill is no list', () => {
    expect(v1({ skills: [{ id: 'a', securityRequirements: [] }] }).model.skills.get('a')).toEqual({
      id: 'a',
      name: 'a',
    })
  })

  it('interfaces of both versions', () => {
    const listed = [
      { url: 'https://a.example/rest', protocolBinding: 'HTTP+JSON', protocolVersion: '1.0', tenant: 't' },
    ]
    expect(v1({ supportedInterfaces: listed }).model.interfaces).toEqual([
      { url: 'https://a.example/rest', binding: 'HTTP+JSON', version: '1.0', tenant: 't' },
    ])
    const { model, problems } = v03({
      additionalInterfaces: [{ url: 'https://a.example/rest', transport: 'HTTP+JSON' }],
      supportedInterfaces: interfaces,
    })
    expect(problems).toEqual([])
    expect(model.interfaces).toEqual([
      { url: 'https://a.example/', binding: 'JSONRPC', version: '0.3' },
      { url: 'https://a.example/rest', binding: 'HTTP+JSON', version: '0.3' },
      { url: 'https://a.example/a2a', binding: 'JSONRPC', version: '1.0' },
    ])
    expect(codes(v1({ supportedInterfaces: [{ url: 'https://a.example' }] }))).toEqual([
      'ERR_CARD_MEMBER /supportedInterfaces/0/protocolBinding',
      '~ERR_CARD_MEMBER /supportedInterfaces/0/protocolVersion',
    ])
  })

  it('capabilities of both versions', () => {
    const stated = { streaming: true, extendedAgentCard: true }
    expect(v1({ capabilities: stated }).model.capabilities).toEqual({ ...stated, pushNotifications: false })
    expect(
      v03({ capabilities: stated, supportsAuthenticatedExtendedCard: false }).model.capabilities.extendedAgentCard,
    ).toBe(false)
    expect(v03({ supportsAuthenticatedExtendedCard: true }).model.capabilities.extendedAgentCard).toBe(true)
    expect(codes(v1({ capabilities: { streaming: 'true' }, supportsAuthenticatedExtendedCard: true }))).toEqual([
      '~ERR_CARD_VERSION_MIXED /supportsAuthenticatedExtendedCard',
      'ERR_CARD_MEMBER /capabilities/streaming',
    ])
  })
})
