/** `a2a-trust token check`, as a process: the same verdicts as the guard, one line a token, and no token in the output. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { attackFolder } from '../support/jwt-attack-policy.ts'
import { type JwtCase, jwtAttackCases } from '../support/jwt-attacks.ts'
import { sign } from '../support/tokens.ts'

const command = join(import.meta.dirname, '../../dist/cli/main.js')

function run(args: readonly string[], input = '') {
  return spawnSync(process.execPath, [command, ...args], { input, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
}

describe('token check - --policy FILE --at 1800000000 --json', () => {
  const byConfig = new Map<string, JwtCase[]>()
  for (const one of jwtAttackCases()) {
    const key = JSON.stringify(one.config)
    byConfig.set(key, [...(byConfig.get(key) ?? []), one])
  }

  it.each([...byConfig.values()].map((cases) => [cases] as const))(
    'gives the verdicts of jwt-attacks (configuration of %#)',
    (cases) => {
      const [{ config }] = cases as [(typeof cases)[number]]
      const folder = attackFolder(config)
      try {
        const input = cases.map(({ token }) => `${JSON.stringify(token)}\n`).join('')
        const { stdout, status } = run(
          ['token', 'check', '-', '--policy', join(folder.path, 'policy.json'), '--at', String(config.now), '--json'],
          input,
        )
        const lines = stdout
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as { line: number; verdict: string; reason?: string })
        expect(lines.map(({ line }) => line)).toEqual(cases.map((_, index) => index + 1))
        const verdicts = Object.fromEntries(cases.map(({ id }, index) => [id, lines[index]?.verdict]))
        expect(verdicts).toEqual(Object.fromEntries(cases.map((one) => [one.id, one.expect])))
        for (const { verdict, reason } of lines) expect(reason === undefined).toBe(verdict === 'valid')
        expect(status).toBe(cases.some((one) => one.expect === 'invalid') ? 3 : 0)
        for (const { token } of cases) if (token.length > 40) expect(stdout).not.toContain(token.slice(-40))
      } finally {
        folder.remove()
      }
    },
  )
})

it('a bound token is not called valid, and what is not checked is said', async () => {
  const [{ config }] = jwtAttackCases() as [JwtCase]
  const folder = attackFolder(config)
  try {
    const claims = { iss: config.issuer, aud: config.audience, iat: config.now - 60, exp: config.now + 60 }
    const cnf = { jkt: 'ez0lU0R-SMTyfz-G7vZsdpO2SKqMWe70VYVO-xgFluw' }
    const args = (token: string) => ['token', 'check', token, '--policy', join(folder.path, 'policy.json')]
    const at = ['--at', String(config.now)]
    const bound = run([...args(await sign({ ...claims, cnf })), ...at])
    expect(bound.status).toBe(3)
    expect(bound.stdout).toMatch(/^invalid: ERR_TOKEN_BOUND /)
    expect(bound.stderr).toMatch(/^hint: a bound token needs its key or certificate/)
    const plain = run([...args(await sign(claims)), ...at])
    expect(plain).toMatchObject({ status: 0, stderr: '' })
  } finally {
    folder.remove()
  }
})

describe('mistakes on the command line', () => {
  it.each([
    [['token', 'check'], 2, 'error: token check needs one TOKEN (or -) and --policy FILE\n'],
    [['token', 'chek'], 2, 'error: there is no command "token chek"\nhint: a2a-trust --help lists them\n'],
    [
      ['token', 'check', 'x', '--policy', 'p', '--at', 'noon'],
      2,
      'error: "--at" must be unix seconds or an RFC 3339 time\n',
    ],
    [['url', 'check'], 2, 'error: url check needs a URL, or - for stdin\n'],
    [['keys', 'generate'], 2, 'error: keys generate needs -o FILE\n'],
  ])('%j ends with %i', (args, status, stderr) => {
    const result = run(args)
    expect({ status: result.status, stdout: result.stdout, stderr: result.stderr }).toEqual({
      status,
      stdout: '',
      stderr,
    })
  })

  it('an unknown option is a usage mistake', () => {
    expect(run(['policy', 'lint', '--polcy', 'x']).status).toBe(2)
  })

  it('a policy with mistakes is invalid input, all mistakes at once', () => {
    const { status, stderr } = run([
      'token',
      'check',
      'x',
      '--policy',
      join(import.meta.dirname, 'no-such-policy.yaml'),
    ])
    expect(status).toBe(4)
    expect(stderr).toContain('ERR_POLICY_UNREADABLE')
  })
})
