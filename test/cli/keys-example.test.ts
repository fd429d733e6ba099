/** The example files fit together, are what their README says, and are refused in production. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { signCard, verifyCard } from '../../src/card/index.ts'
import { sha256Hex } from '../../src/internal/sha256.ts'
import { lintPolicy } from '../../src/policy/index.ts'

const folder = join(import.meta.dirname, '../../keys-example')
const read = (name: string) => readFileSync(join(folder, name), 'utf8')

const card = {
  name: 'Example',
  description: 'An agent',
  version: '1.0.0',
  supportedInterfaces: [{ url: 'https://agent.example.com/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  capabilities: { streaming: false },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 'echo', name: 'Echo', description: 'Says it again', tags: ['demo'] }],
  securitySchemes: { 'partner-key': { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } } },
  securityRequirements: [{ schemes: { 'partner-key': { list: [] } } }],
}
const policy = {
  version: 1,
  card,
  audience: 'https://agent.example.com',
  schemes: { 'partner-key': { keys: 'file:./api-keys.yaml' } },
}
const key = JSON.parse(read('example-signing-key.private.jwk.json')) as Record<string, string>

describe('keys-example', () => {
  it('what the key signs, the trust file trusts, for its origins only', async () => {
    const { text } = await signCard(JSON.stringify(card), { key })
    const trust = join(folder, 'trust.example.yaml')
    const verified = await verifyCard(text, { trust, origin: 'https://agent.example.com' })
    expect(verified).toMatchObject({ ok: true })
    expect(await verifyCard(text, { trust, origin: 'https://agent.example.org' })).toMatchObject({ ok: false })
  })

  it('jwks.json is the public part of the private key, both marked as examples', () => {
    const { d, ...shown } = key
    expect(d).toBeDefined()
    expect(JSON.parse(read('jwks.json'))).toEqual({ keys: [shown] })
    expect(shown).toMatchObject({ example: true, kid: expect.stringMatching(/^example-/) as string })
  })

  it('the key file holds the digest of the key that the README tells', async () => {
    const clear = /`(example-partner-key[^`]*)`/.exec(read('README.md'))?.[1] as string
    expect(read('api-keys.yaml')).toContain(sha256Hex(clear))
    expect((await lintPolicy({ policy, baseDir: folder, env: {} })).problems).toEqual([])
  })

  it('the client certificate is of the CA and of its private key', () => {
    const ca = new X509Certificate(read('ca.pem'))
    const client = new X509Certificate(read('example-client.pem'))
    expect(client.verify(ca.publicKey) && client.checkIssued(ca)).toBe(true)
    expect(client.checkPrivateKey(createPrivateKey(read('example-client-key.pem')))).toBe(true)
  })

  it('production refuses the API keys, and the key set as that of an issuer', async () => {
    const refused = async (used: object) => {
      const { problems } = await lintPolicy({ policy: used, baseDir: folder, env: { NODE_ENV: 'production' } })
      return problems.map(({ code }) => code)
    }
    expect(await refused(policy)).toEqual(['ERR_POLICY_EXAMPLE_KEY'])
    const url = 'https://login.example.com'
    const login = { openIdConnectSecurityScheme: { openIdConnectUrl: `${url}/.well-known/openid-configuration` } }
    const issuer = { issuer: url, algorithms: ['ES256'], jwks: 'file:./jwks.json' }
    expect(
      await refused({
        ...policy,
        card: { ...card, securitySchemes: { login }, securityRequirements: [{ schemes: { login: { list: [] } } }] },
        schemes: { login: issuer },
      }),
    ).toEqual(['ERR_POLICY_EXAMPLE_KEY'])
  })
})
