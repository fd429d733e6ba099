/** `a2a-trust token check` for opaque tokens, as a process: it asks the issuer, or says that it cannot. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CLIENT_SECRET, goodAnswer, type IntrospectionEndpoint, startIntrospection } from '../support/introspection.ts'
import { sendJson } from '../support/loopback.ts'
import { AUDIENCE, ISSUER, makeRig, NOW, type Rig, rigCard } from '../support/rig.ts'

const command = join(import.meta.dirname, '../../dist/cli/main.js')
let endpoint: IntrospectionEndpoint
let rig: Rig

beforeAll(async () => {
  endpoint = await startIntrospection()
  endpoint.answer = ({ form }, response) => {
    const good = goodAnswer({ iss: ISSUER, aud: AUDIENCE, iat: NOW - 60, exp: NOW + 600, scope: 'a2a:use' })
    sendJson(response, form.get('token') === 'a-good-token' ? good : { active: false })
  }
  rig = await makeRig()
  const { login } = rigCard().securitySchemes as Record<string, object>
  const policy = {
    version: 1,
    card: { ...rigCard({ securitySchemes: { login } }), securityRequirements: [{ schemes: { login: { list: [] } } }] },
    audience: AUDIENCE,
    schemes: {
      login: {
        token: 'opaque',
        issuer: ISSUER,
        introspection: {
          endpoint: `${endpoint.origin}/introspect`,
          client: { id: 'agent', auth: 'basic', secret: 'env:SECRET' },
        },
      },
    },
    egress: { requireHttps: false, ports: [Number(new URL(endpoint.origin).port)], allowAddresses: ['127.0.0.1'] },
  }
  writeFileSync(join(rig.folder, 'policy.json'), JSON.stringify(policy))
})
afterAll(() => rig.close())

function run(
  input: string,
): Promise<{ readonly status: number | null; readonly stdout: string; readonly stderr: string }> {
  const args = ['token', 'check', '-', '--policy', join(rig.folder, 'policy.json'), '--at', String(NOW), '--json']
  const child = spawn(process.execPath, [command, ...args], { env: { ...process.env, SECRET: CLIENT_SECRET } })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => (said[name] += text))
  child.stdin.end(input)
  return new Promise((resolve) => child.on('close', (status) => resolve({ status, ...said })))
}

it('asks the issuer about each token, and prints none', async () => {
  const { status, stdout } = await run('a-good-token\na-guess\n')
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines).toEqual([
    { line: 1, verdict: 'valid', scheme: 'login', principal: expect.stringContaining('alice'), scopes: ['a2a:use'] },
    { line: 2, verdict: 'invalid', reason: 'ERR_TOKEN_INACTIVE', scheme: 'login' },
  ])
  expect(status).toBe(3)
  expect(stdout).not.toContain('a-good-token')
})

it('says that the issuer cannot be asked, and judges nothing', async () => {
  await endpoint.close()
  const { status, stdout, stderr } = await run('a-good-token\n')
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toContain('The issuer cannot be asked about a token')
  expect(stderr).toContain(`${endpoint.origin}/introspect`)
  expect(stderr).not.toContain(CLIENT_SECRET)
})
