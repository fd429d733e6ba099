/**
 * Every broken policy in the folder, against the exact messages beside it. To add one: write the policy, name it after
 * its defect, and write `NAME.expected` by hand from what a user should read.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { formatProblem, lintPolicy, loadPolicy, PolicyError } from '../../../src/policy/index.ts'

const folder = fileURLToPath(new URL('../../vectors/broken-policies/', import.meta.url))
const files = readdirSync(folder)
const policies = files.filter((name) => /\.(?:yaml|json)$/.test(name))
const stem = (name: string): string => name.replace(/\.(?:yaml|json)$/, '')

/** Field cases that a file stands for. */
const CASES: Readonly<Record<string, string>> = {
  'algorithm-none': 'P08',
  'algorithm-symmetric': 'P06',
  'algorithms-missing': 'P08 P10',
  'audience-as-reference': 'P19',
  'audience-empty-list': 'P19 P43',
  'audience-empty-text': 'P19',
  'audience-missing': 'P41 P42 P43',
  'audience-unfilled-template': 'A109',
  'card-empty-alternative': 'A33',
  'card-hides-all-security': 'A28',
  'card-http-without-scheme': 'A36',
  'card-no-security': 'A27 A29',
  'card-not-found': 'A29',
  'card-oidc-other-issuer': 'A54',
  'card-oidc-slash': 'P57',
  'access-issuer-slash': 'P57',
  'card-from-the-web': 'A100',
  'card-requires-unknown-scheme': 'A53',
  'card-schemes-and-no-requirements': 'A27 A35',
  'card-scopes-without-list': 'A35',
  'card-skill-requires-unknown-scheme': 'A53',
  'card-unknown-kind-required': 'A34',
  'card-v1-with-v03-scheme': 'A34',
  'card-v1-with-v03-security': 'A35',
  'clock-tolerance-infinite': 'P20',
  'clock-tolerance-too-large': 'P20',
  'clock-tolerance-with-unit': 'P20',
  'extended-card-not-announced': 'A64',
  'issuer-unfilled-template': 'A109',
  'issuers-share-keys': 'P56',
  'json-duplicate-member': 'A26',
  'json-reserved-key': 'A26',
  'jwks-inline-pem': 'P01',
  'jwks-symmetric': 'P02 P06',
  'jwks-weak': 'P61',
  'key-file-times': 'P109',
  'scheme-the-card-hides': 'A28',
  'secret-blank': 'P109',
  'secret-empty': 'P109 P110',
  'secret-is-a-jwk': 'P02',
  'secret-is-a-public-key': 'P01',
  'secret-too-short': 'P04 P110',
  'secret-unset': 'P109',
  'unknown-setting-from-another-product': 'P10',
}

/** What a test policy may refer to. */
function environmentOf(name: string): Record<string, string> {
  return {
    NODE_ENV: name.includes('.production.') ? 'production' : 'test',
    EMPTY: '',
    BLANK: '   ',
    SHORT: 'abc',
    PADDED: ' 0123456789abcdef0123456789abcdef',
    PEM: '-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----',
    JWK: '{"kty":"EC","crv":"P-256","x":"abc","y":"def"}',
    GOOD: '0123456789abcdef0123456789abcdef',
  }
}

function optionsFor(name: string) {
  return { policy: name, baseDir: folder, env: environmentOf(name), clock: () => Date.UTC(2027, 0, 1) }
}

describe('broken policies', () => {
  it('each has its expectation, and no expectation is left over', () => {
    const expectations = files.filter((name) => name.endsWith('.expected')).map((name) => name.slice(0, -9))
    expect([...expectations].sort()).toEqual(policies.map(stem).sort())
    expect(policies.length).toBeGreaterThan(45)
    expect(Object.keys(CASES).filter((name) => !policies.map(stem).includes(name))).toEqual([])
  })

  it.each(policies.map((name) => ({ name, cases: CASES[stem(name)] ?? '' })))('$cases $name', async ({ name }) => {
    const { problems, policy } = await lintPolicy(optionsFor(name))
    const expected = readFileSync(`${folder}${stem(name)}.expected`, 'utf8')
    const lines = problems.map(
      (problem) => `${problem.severity === 'warning' ? 'warning: ' : ''}${formatProblem(problem)}`,
    )
    expect(lines.length === 0 ? 'no problems\n' : `${lines.join('\n')}\n`).toBe(expected)

    const errors = problems.filter(({ severity }) => severity === 'error')
    expect(policy === undefined).toBe(errors.length > 0)
    if (errors.length === 0) return
    const thrown = await loadPolicy(optionsFor(name)).catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(PolicyError)
    expect(thrown).toMatchObject({ code: 'ERR_POLICY_INVALID', problems })
    const { message } = thrown as PolicyError
    expect(message.split('\n').slice(1)).toEqual(errors.map(formatProblem))
  })

  it('no message shows a secret', () => {
    const said = files.filter((name) => name.endsWith('.expected')).map((name) => readFileSync(folder + name, 'utf8'))
    const all = said.join('')
    for (const secret of ['hunter2', 'sk-live', 'plain-text-secret', 'MFkwEwYHKoZI', 'partner-key-for-tests']) {
      expect(all).not.toContain(secret)
    }
  })

  it('every message is one line that names a place, a code and no more than 400 characters', () => {
    for (const name of files.filter((file) => file.endsWith('.expected'))) {
      for (const line of readFileSync(folder + name, 'utf8')
        .trimEnd()
        .split('\n')) {
        if (line === 'no problems') continue
        expect(line).toMatch(/^(?:warning: )?[\w./-]+:\d+:\d+ {2}ERR_(?:POLICY|CARD)_[A-Z0-9_]+ \S/)
        expect(line.length).toBeLessThan(400)
      }
    }
  })
})
