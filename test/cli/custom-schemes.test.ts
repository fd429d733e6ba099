/** Commands on a policy with schemes that only the operator's program can check. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { sha256Hex } from '../../src/internal/sha256.ts'
import { API_KEY, AUDIENCE, rigCard } from '../support/rig.ts'

const command = join(import.meta.dirname, '../../dist/cli/main.js')
const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-custom-'))
afterAll(() => rmSync(folder, { recursive: true }))

const card = rigCard({
  capabilities: {},
  securitySchemes: {
    legacy: { httpAuthSecurityScheme: { scheme: 'Digest' } },
    key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
  },
  securityRequirements: [{ schemes: { legacy: { list: [] } } }, { schemes: { key: { list: [] } } }],
})
const schemes = { legacy: { custom: true }, key: { keys: 'file:./keys.json' } }
writeFileSync(join(folder, 'policy.json'), JSON.stringify({ version: 1, card, audience: AUDIENCE, schemes }))
writeFileSync(
  join(folder, 'keys.json'),
  JSON.stringify([{ id: 'partner-1', owner: 'partner', sha256: sha256Hex(API_KEY) }]),
)

function run(args: readonly string[], input: string) {
  const options = { encoding: 'utf8', cwd: folder, input } as const
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...args, '--policy', 'policy.json'], options)
  return { status, stdout, stderr }
}
const request = (headers: Record<string, string>) =>
  JSON.stringify({ method: 'GET', target: '/rest/tasks/t', headers: { 'a2a-version': '1.0', ...headers } })

describe('a policy with custom: true', () => {
  it('is explained: other schemes as ever, and its own is nobody’s here', () => {
    const good = run(['policy', 'explain', '-'], request({ 'x-api-key': API_KEY }))
    expect(good).toMatchObject({ status: 0, stderr: expect.stringContaining('hint: legacy: checked by') as string })
    expect(good.stdout).toContain('principal  apiKey:key:partner')
    const other = run(['policy', 'explain', '-'], request({ authorization: 'Digest x=1' }))
    expect(other.status).toBe(3)
    expect(other.stdout).toContain('legacy: unavailable ERR_CUSTOM_FAILED')
  })

  it('has its tokens checked', () => {
    expect(run(['token', 'check', '-'], 'x.y.z\n')).toMatchObject({
      status: 3,
      stdout: expect.stringContaining('"invalid"') as string,
    })
  })
})
