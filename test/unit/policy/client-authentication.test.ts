/** Keys and secrets with which an issuer is asked, from the file to the wire. */
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { OpaqueSchemeConfig } from '../../../src/policy/compiled.ts'
import { lintPolicy } from '../../../src/policy/index.ts'
import {
  CLIENT_SECRET,
  type IntrospectionEndpoint,
  opaqueRig,
  startIntrospection,
} from '../../support/introspection.ts'
import { AUDIENCE, ISSUER, rigCard } from '../../support/rig.ts'

let folder: string
let endpoint: IntrospectionEndpoint
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'a2a-trust-client-'))
  endpoint = await startIntrospection()
})
afterAll(async () => {
  await endpoint.close()
  rmSync(folder, { recursive: true })
})

const { login } = rigCard().securitySchemes as Record<string, object>
const card = rigCard({ securitySchemes: { login }, securityRequirements: [{ schemes: { login: { list: [] } } }] })

async function lint(client: Record<string, unknown>, env: Record<string, string> = {}) {
  const { problems, policy } = await lintPolicy({
    policy: {
      version: 1,
      card,
      audience: AUDIENCE,
      schemes: {
        login: {
          token: 'opaque',
          issuer: ISSUER,
          introspection: { endpoint: `${endpoint.origin}/introspect`, client: { id: 'agent', ...client } },
        },
      },
    },
    baseDir: folder,
    env: { SECRET: CLIENT_SECRET, ...env },
  })
  const said = problems.filter(({ severity }) => severity === 'error').map(({ code, message }) => `${code} ${message}`)
  return { said, scheme: policy?.schemes.get('login') as OpaqueSchemeConfig | undefined, policy }
}

const byKey = async (text: string, env = {}) => {
  writeFileSync(join(folder, 'key'), text)
  return lint({ auth: 'private_key_jwt', key: 'file:./key' }, env)
}
const pem = (key: { export(options: object): string | Buffer }) => String(key.export({ type: 'pkcs8', format: 'pem' }))
const ec = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve }).privateKey
const jwk = (change: object = {}) => JSON.stringify({ ...ec('P-256').export({ format: 'jwk' }), ...change })

it.each([
  ['ES256', () => pem(ec('P-256'))],
  ['ES384', () => pem(ec('P-384'))],
  ['ES512', () => pem(ec('P-521'))],
  ['RS256', () => pem(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey)],
  ['EdDSA', () => pem(generateKeyPairSync('ed25519').privateKey)],
  ['ES256', () => jwk({ kid: 'k1', alg: 'ES256' })],
  [
    'PS256',
    () =>
      JSON.stringify({
        ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }),
        alg: 'PS256',
      }),
  ],
])('a key file signs assertions with %s', async (alg, make) => {
  const { said, scheme } = await byKey(make())
  expect(said).toEqual([])
  endpoint.questions.length = 0
  await opaqueRig(endpoint, { client: (scheme as OpaqueSchemeConfig).client }).present('t')
  const [header] = endpoint.questions[0]?.form.get('client_assertion')?.split('.') ?? []
  expect(JSON.parse(Buffer.from(header ?? '', 'base64url').toString())).toMatchObject({ alg })
})

it.each([
  ['is not there', () => lint({ auth: 'private_key_jwt', key: 'file:./none' }), 'ERR_POLICY_REFERENCE'],
  ['is empty', () => byKey(''), 'ERR_POLICY_KEY_FILE'],
  [
    'is public',
    () =>
      byKey(
        String(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'pem' })),
      ),
    'ERR_POLICY_KEY_FILE',
  ],
  [
    'is symmetric',
    () => byKey('{"kty":"oct","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}'),
    'ERR_POLICY_KEY_FILE',
  ],
  ['is weak', () => byKey(pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey)), 'ERR_POLICY_KEY_FILE'],
  ['is of a curve nobody takes', () => byKey(pem(ec('secp256k1'))), 'ERR_POLICY_KEY_FILE'],
  ['states an algorithm of another key', () => byKey(jwk({ alg: 'RS256' })), 'ERR_POLICY_KEY_FILE'],
  ['is a list', () => byKey('[]'), 'ERR_POLICY_KEY_FILE'],
  ['is null', () => byKey('null'), 'ERR_POLICY_KEY_FILE'],
  ['is half of two pairs', () => byKey(jwk({ d: ec('P-256').export({ format: 'jwk' }).d })), 'ERR_POLICY_KEY_FILE'],
  [
    'is an example in production',
    () => byKey(jwk({ kid: 'example-1' }), { NODE_ENV: 'production' }),
    'ERR_POLICY_EXAMPLE_KEY',
  ],
] as const)('P01 a key file that %s is an error', async (_name, make, code) => {
  const { said } = await make()
  expect(said).toHaveLength(1)
  expect(said[0]).toMatch(new RegExp(`^${code} `))
})

it('no secret and no key shows in the compiled policy', async () => {
  const { policy } = await lint({ auth: 'post', secret: 'env:SECRET' })
  const text = jwk()
  const { policy: other } = await byKey(text)
  const shown = [policy, other].map((each) => inspect(each, { depth: 20 }) + JSON.stringify([...(each?.schemes ?? [])]))
  expect(shown.join('')).toContain('agent')
  for (const secret of [CLIENT_SECRET, (JSON.parse(text) as { d: string }).d])
    expect(shown.join('')).not.toContain(secret)
})
