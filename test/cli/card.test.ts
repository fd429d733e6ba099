/** Transcripts of the card commands, as processes. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rigCard } from '../support/rig.ts'

const command = join(import.meta.dirname, '../../dist/cli/main.js')
const examples = join(import.meta.dirname, '../../keys-example')
let folder = ''

function run(args: readonly string[], input: string | Buffer = '') {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, 'card', ...args], {
    input,
    encoding: 'utf8',
    cwd: folder,
  })
  return { status, stdout, stderr }
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'a2a-trust-cli-card-'))
  writeFileSync(
    join(folder, 'card.json'),
    JSON.stringify(rigCard({ securityRequirements: [{ schemes: { login: { list: ['a2a:use'] } } }] })),
  )
  writeFileSync(
    join(folder, 'trust.yaml'),
    `version: 1\nsigners:\n  - name: us\n    origins: [https://agent.example]\n    jwks: file:${examples}/jwks.json\n`,
  )
})
afterAll(() => rmSync(folder, { recursive: true }))

describe('card sign, verify, inspect, diff', () => {
  it('signs into a new file, never over one, and what it signed is trusted', () => {
    const key = join(examples, 'example-signing-key.private.jwk.json')
    expect(run(['sign', 'card.json', '--key', key, '-o', 'signed.json'])).toEqual({ status: 0, stdout: '', stderr: '' })
    expect(run(['sign', 'card.json', '--key', key, '-o', 'signed.json'])).toEqual({
      status: 4,
      stdout: '',
      stderr: 'error: signed.json exists already and is left as it is\n',
    })
    expect(run(['verify', 'signed.json', '--trust', 'trust.yaml', '--origin', 'https://agent.example'])).toEqual({
      status: 0,
      stdout: 'trusted: signed by us\nprofile   raw (full coverage)\nsignature 0: good kid example-2026 ES256\n',
      stderr: '',
    })
    const json = run(
      ['verify', '-', '--jwks', join(examples, 'jwks.json'), '--strict', '--json'],
      readFileSync(join(folder, 'signed.json'), 'utf8'),
    )
    expect(json.status).toBe(0)
    expect(JSON.parse(json.stdout)).toMatchObject({
      ok: true,
      signer: 'example-2026',
      profile: 'raw',
      coverage: 'full',
      uncovered: [],
      warnings: [],
    })
  })

  it('says when SDKs would refuse what was signed, and writes nothing of the key', () => {
    const keyFile = join(examples, 'example-signing-key.private.jwk.json')
    const { d } = JSON.parse(readFileSync(keyFile, 'utf8')) as { d: string }
    writeFileSync(join(folder, 'accents.json'), JSON.stringify(rigCard({ name: 'Café' })))
    const one = run(['sign', 'accents.json', '--key', keyFile])
    expect([one.status, one.stderr]).toEqual([
      0,
      'hint: some SDKs sign this card in another form and would refuse it: --compat adds their signatures\n',
    ])
    const all = run(['sign', 'accents.json', '--key', keyFile, '--compat'])
    expect([all.status, all.stderr]).toEqual([0, ''])
    expect(one.stdout + all.stdout).not.toContain(d)
  })

  it.each([
    [['verify', 'signed.json', 'evil.json', '--trust', 'trust.yaml']],
    [['sign', 'card.json', 'accents.json', '--key', 'k']],
    [['lint', 'card.json', 'x.json']],
    [['diff', 'card.json', 'card.json', 'x.json']],
    [['canonicalize']],
  ])('%j is a mistake: no file passes unlooked at', (args) => {
    const { status, stdout, stderr } = run(args)
    expect([status, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^error: card \w+ needs /)
  })

  it('P18 bytes that are no UTF-8 are invalid input, in a file and on stdin', () => {
    const bytes = Buffer.concat([Buffer.from('{"name":"a'), Buffer.from([0xff]), Buffer.from('"}')])
    writeFileSync(join(folder, 'not-utf8.json'), bytes)
    for (const args of [
      ['canonicalize', 'not-utf8.json'],
      ['canonicalize', '-'],
      ['verify', '-', '--jwks', join(examples, 'jwks.json')],
      ['lint', 'not-utf8.json'],
    ]) {
      const { status, stdout } = run(args, bytes)
      expect([args[0], status, /a\ufffd/.test(stdout)]).toEqual([args[0], 4, false])
    }
  })

  it('says why a card is not trusted, with exit code 3', () => {
    writeFileSync(
      join(folder, 'evil.json'),
      readFileSync(join(folder, 'signed.json'), 'utf8').replace('"name":"Rig"', '"name":"Evil"'),
    )
    expect(run(['verify', 'evil.json', '--trust', 'trust.yaml'])).toEqual({
      status: 3,
      stdout:
        'not trusted: ERR_CARD_SIGNATURE_INVALID The signature verifies over no canonical form of the card\nsignature 0: ERR_CARD_SIGNATURE_INVALID kid example-2026 ES256\n',
      stderr: '',
    })
    expect(run(['verify', 'signed.json', '--trust', 'trust.yaml', '--origin', 'https://evil.example']).status).toBe(3)
    expect(run(['verify', 'card.json', '--trust', 'trust.yaml']).stdout).toContain('ERR_CARD_UNSIGNED')
    expect(run(['verify', '-', '--trust', 'trust.yaml'], '{"a":1,"a":2}').status).toBe(4)
  })

  it('inspect and diff show structure; a weaker card is exit code 3', () => {
    expect(run(['inspect', 'signed.json']).stdout).toBe(
      `Rig 1.0.0 (A2A 1.0, 1 signature)
interface   https://agent.example/a2a JSONRPC 0.3
interface   https://agent.example/a2a JSONRPC 1.0
interface   https://agent.example/rest HTTP+JSON 1.0
scheme      key {"apiKeySecurityScheme":{"location":"header","name":"X-API-Key"}}
scheme      login {"oauth2SecurityScheme":{"flows":{"clientCredentials":{"scopes":["a2a:pay","a2a:use"],"tokenUrl":"https://issuer.example/token"}}}}
requires    login(a2a:use)
skill       echo
`,
    )
    writeFileSync(
      join(folder, 'open.json'),
      JSON.stringify(rigCard({ securityRequirements: [{ schemes: {} }], version: '0.9.0' })),
    )
    expect(run(['diff', 'card.json', 'open.json'])).toEqual({
      status: 3,
      stdout:
        '! requirement added anonymous\n! version changed version: 1.0.0 -> 0.9.0\n  requirement removed login(a2a:use)\n',
      stderr: '',
    })
    expect(run(['diff', 'card.json', 'card.json'])).toEqual({ status: 0, stdout: '', stderr: '' })
  })

  it('canonicalize prints the exact text of a profile', () => {
    expect(run(['canonicalize', '-', '--profile', 'clean'], '{"skills":[],"name":"é","x":1}')).toEqual({
      status: 0,
      stdout: '{"name":"é"}',
      stderr: '',
    })
    expect(run(['canonicalize', '-', '--profile', 'nope'], '{}').status).toBe(2)
  })
})

describe('card lint', () => {
  const lint = (changes: Record<string, unknown>) => {
    const card = Object.fromEntries(Object.entries(rigCard(changes)).filter(([, value]) => value !== undefined))
    return run(['lint', '-'], JSON.stringify(card))
  }

  it.each([
    ['A27 schemes that nothing requires', { securityRequirements: undefined }, 0, '/securityRequirements'],
    ['A29 no scheme at all', { securitySchemes: undefined, securityRequirements: undefined }, 0, '/securitySchemes'],
    ['A34 an unknown kind', { securitySchemes: { f: { futureScheme: {} } } }, 4, 'ERR_CARD_SCHEME_UNKNOWN'],
    [
      'A34 two kinds at once',
      { securitySchemes: { f: { mtlsSecurityScheme: {}, apiKeySecurityScheme: { location: 'header', name: 'X' } } } },
      4,
      'ERR_CARD_SCHEME',
    ],
    ['A35 v0.3 security in a v1.0 card', { security: [{ google: ['openid'] }] }, 4, 'ERR_CARD_VERSION_MIXED'],
    [
      'A35 a requirement without list',
      { securityRequirements: [{ schemes: { login: ['a2a:use'] } }] },
      4,
      'ERR_CARD_REQUIREMENT',
    ],
    [
      'A36 an HTTP scheme without a name',
      { securitySchemes: { h: { httpAuthSecurityScheme: {} } } },
      4,
      'ERR_CARD_SCHEME',
    ],
    [
      'A53 a skill naming an undeclared scheme',
      {
        skills: [
          {
            id: 's',
            name: 'S',
            description: 'd',
            tags: ['t'],
            securityRequirements: [{ schemes: { nope: { list: [] } } }],
          },
        ],
      },
      4,
      'ERR_CARD_REQUIREMENT_UNDECLARED',
    ],
    ['A33 an alternative that lets everybody in', { securityRequirements: [{ schemes: {} }] }, 0, 'lets everybody in'],
    [
      'plain http',
      { supportedInterfaces: [{ url: 'http://agent.example', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }] },
      0,
      'plain http',
    ],
    ['A01 a REQUIRED member that is empty', { description: '' }, 0, '/description'],
    ['a REQUIRED member that is missing', { version: undefined }, 4, '/version'],
  ])('%s', (_, changes, status, text) => {
    const result = lint(changes as Record<string, unknown>)
    expect(result.stdout).toContain(text)
    expect(result.status).toBe(status)
  })

  it('a duplicated member is invalid input', () => {
    expect(run(['lint', '-'], '{"name":"a","name":"b"}')).toMatchObject({ status: 4, stdout: '' })
  })
})
