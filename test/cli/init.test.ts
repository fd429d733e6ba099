import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { lintPolicy } from '../../src/policy/index.ts'
import { paySkill, rigCard } from '../support/rig.ts'

const command = join(import.meta.dirname, '../../dist/cli/main.js')
const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-init-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** The one of docs/policy.md. */
const SCRYPT = '$scrypt$ln=15,r=8,p=3$lOtimYAY8+2Gg+CWiFlQXw$HvhRbpRHkTw8paAFDHsS9vIOTEm/I+6sCCMaUMJtt14'

function init(card: object) {
  writeFileSync(join(folder, 'agent-card.json'), JSON.stringify(card))
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, 'init'], { encoding: 'utf8', cwd: folder })
  return { status, stdout, stderr }
}

describe('init', () => {
  it('writes a policy that fits the card: once keys and issuer are there, lint is content', async () => {
    const { status, stdout } = init(rigCard({ skills: [paySkill], capabilities: {} }))
    expect(status).toBe(0)
    expect(stdout).toBe(`version: 1
card: ./agent-card.json
audience: https://agent.example          # what a token's aud must contain
publicUrl: https://agent.example         # the URL callers know this agent by
schemes:
  login:
    issuer: https://issuer.example    # must be what iss says, byte by byte
    algorithms: [ES256, RS256]
  key:
    keys: file:./api-keys.yaml      # a2a-trust keys generate --api-key --owner OWNER -o partner.key >> api-keys.yaml
skills:
  select: { metadata: skillId }   # pay ask for more than the agent
  undeclared: deny
`)
    writeFileSync(join(folder, 'policy.yaml'), stdout)
    writeFileSync(join(folder, 'api-keys.yaml'), `- { id: a, sha256: '${'ab'.repeat(32)}', owner: a }\n`)
    const { problems } = await lintPolicy({ policy: 'policy.yaml', baseDir: folder, env: {} })
    expect(problems.filter(({ severity }) => severity === 'error')).toEqual([])
  })

  it('what the card cannot say is marked, and refused until it is filled in', async () => {
    const { stdout } = init(
      rigCard({
        securitySchemes: { h: { httpAuthSecurityScheme: { scheme: 'bearer' } } },
        securityRequirements: [{ schemes: { h: { list: [] } } }],
      }),
    )
    writeFileSync(join(folder, 'policy.yaml'), stdout)
    const { problems } = await lintPolicy({ policy: 'policy.yaml', baseDir: folder, env: {} })
    expect(problems.some(({ pointer, severity }) => severity === 'error' && pointer === '/schemes/h/issuer')).toBe(true)
  })

  it('an http scheme gets what its auth-scheme needs', async () => {
    const { stdout } = init(
      rigCard({
        capabilities: {},
        securitySchemes: {
          staff: { httpAuthSecurityScheme: { scheme: 'Basic' } },
          legacy: { httpAuthSecurityScheme: { scheme: 'Digest' } },
        },
        securityRequirements: [{ schemes: { staff: { list: [] } } }, { schemes: { legacy: { list: [] } } }],
      }),
    )
    expect(stdout).toContain('users: file:./users.yaml')
    expect(stdout).toContain('custom: true')
    writeFileSync(join(folder, 'policy.yaml'), stdout)
    writeFileSync(join(folder, 'users.yaml'), `- { user: a, scrypt: '${SCRYPT}' }\n`)
    const { problems } = await lintPolicy({ policy: 'policy.yaml', baseDir: folder, env: {} })
    expect(problems.filter(({ severity }) => severity === 'error')).toEqual([])
  })

  it('a card with mistakes gets no policy', () => {
    expect(init({ name: 'x' })).toEqual({
      status: 4,
      stdout: '',
      stderr: expect.stringContaining('card lint') as string,
    })
  })
})
