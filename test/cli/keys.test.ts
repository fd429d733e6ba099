import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { sha256Hex } from '../../src/internal/sha256.ts'

const command = join(import.meta.dirname, '../../dist/cli/main.js')
const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-keys-'))
afterAll(() => rmSync(folder, { recursive: true }))

function run(args: readonly string[], input = '') {
  return spawnSync(process.execPath, [command, 'keys', ...args], { input, encoding: 'utf8', cwd: folder })
}

describe('keys', () => {
  it('generate writes a private key for its owner only, prints the public one, and never writes over a file', () => {
    const made = run(['generate', '-o', 'key.json', '--alg', 'EdDSA'])
    expect(made.status).toBe(0)
    const secret = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as Record<string, string>
    const shown = JSON.parse(made.stdout) as Record<string, string>
    expect(statSync(join(folder, 'key.json')).mode & 0o777).toBe(0o600)
    expect(secret.d).toBeDefined()
    expect(shown).toEqual(Object.fromEntries(Object.entries(secret).filter(([name]) => name !== 'd')))
    const again = run(['generate', '-o', 'key.json'])
    expect(again).toMatchObject({
      status: 4,
      stdout: '',
      stderr: 'error: key.json exists already and is left as it is\n',
    })
    expect(JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8'))).toEqual(secret)
  })

  it('jwks prints public keys only, and refuses a symmetric one', () => {
    run(['generate', '-o', 'one.json'])
    const { stdout, status } = run(['jwks', 'one.json'])
    expect(status).toBe(0)
    expect(stdout).not.toContain('"d"')
    expect(JSON.parse(stdout)).toMatchObject({ keys: [{ kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig' }] })
  })

  it('hash: the digest of a key, or its entry', () => {
    expect(run(['hash'], 'a-key-that-is-long-enough\n').stdout).toBe(`${sha256Hex('a-key-that-is-long-enough')}\n`)
    expect(run(['hash', '--id', 'p', '--owner', 'o'], 'a-key-that-is-long-enough').stdout).toBe(
      `- id: "p"\n  sha256: ${sha256Hex('a-key-that-is-long-enough')}\n  owner: "o"\n`,
    )
    expect(run(['hash'], 'short\n')).toMatchObject({ status: 4, stdout: '' })
  })

  it.each([
    ['not JSON', 'hello', 'error: The text is not valid JSON\n  (offset 0)\n'],
    ['a member twice', '{"kty":"EC","kty":"EC"}', 'error: An object has the same member name twice\n  (offset 12)\n'],
    [
      'a symmetric key',
      '{"kty":"oct","k":"AAAA"}',
      'error: in.json holds a key that cannot be in a set: symmetric key\n',
    ],
    ['no key', '{"a":1}', 'error: in.json holds a key that cannot be in a set: unsupported kty or crv\n'],
    ['null', 'null', 'error: in.json holds a key that cannot be in a set: unsupported kty or crv\n'],
  ])('jwks refuses %s and prints nothing', (_, text, stderr) => {
    writeFileSync(join(folder, 'in.json'), text)
    const { status, stdout, ...talk } = run(['jwks', 'in.json'])
    expect({ status, stdout, stderr: talk.stderr }).toEqual({ status: 4, stdout: '', stderr })
  })

  it('jwks refuses the same kid twice, and a file that is not there', () => {
    run(['generate', '-o', 'twin.json', '--kid', 'twin'])
    expect(run(['jwks', 'twin.json', 'twin.json'])).toMatchObject({ status: 4, stdout: '' })
    expect(run(['jwks', 'nowhere.json'])).toMatchObject({ status: 4, stdout: '' })
  })

  it('hash refuses what the guard would not accept as a key, all keys before any digest', () => {
    for (const input of ['', '\n', 'good-enough-key-0001\nwith space in the key\n', `${'é'.repeat(20)}\n`]) {
      expect(run(['hash'], input)).toMatchObject({ status: 4, stdout: '' })
    }
    expect(run(['hash', '--id', 'p'], 'good-enough-key-0001\n')).toMatchObject({ status: 2, stdout: '' })
    expect(run(['hash', '--id', 'p', '--owner', 'o'], 'good-enough-key-0001\ngood-enough-key-0002\n')).toMatchObject({
      status: 4,
      stdout: '',
    })
    expect(run(['hash', '--json'], 'good-enough-key-0001\n').stdout).toBe(
      `{"line":1,"sha256":"${sha256Hex('good-enough-key-0001')}"}\n`,
    )
  })

  it('generate --api-key: the key once, a blank line, and its entry with the digest alone', () => {
    const { status, stdout, stderr } = run([
      ...['generate', '--api-key', '--owner', 'partner', '--id', 'partner-2026', '--scopes', 'agent:read agent:write'],
      ...['--tenant', 'acme', '--not-before', '1800000000', '--expires', '2040-01-31T00:00:00+01:00'],
    ])
    expect(status).toBe(0)
    const [key = '', blank, ...entry] = stdout.split('\n')
    expect(key).toMatch(/^a2a_partner-2026_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/)
    expect(blank).toBe('')
    expect(stderr).not.toContain(key)
    expect(parse(entry.join('\n'))).toEqual([
      {
        id: 'partner-2026',
        sha256: sha256Hex(key),
        owner: 'partner',
        scopes: ['agent:read', 'agent:write'],
        tenant: 'acme',
        notBefore: '2027-01-15T08:00:00Z',
        expiresAt: '2040-01-30T23:00:00Z',
      },
    ])
    // The same digest again from the key, and the id in the key is the id of its entry.
    expect(run(['hash'], `${key}\n`).stdout).toBe(`${sha256Hex(key)}\n`)
    expect(run(['hash', '--id', 'other', '--owner', 'o'], `${key}\n`)).toMatchObject({ status: 4, stdout: '' })
    expect(run(['hash'], `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}\n`)).toMatchObject({
      status: 4,
      stdout: '',
    })
  })

  it('generate --api-key --json and -o: the key apart from the entry, never over a file', () => {
    const made = JSON.parse(run(['generate', '--api-key', '--owner', 'o', '--json']).stdout) as {
      key: string
      entry: { id: string; sha256: string }
    }
    expect(made.entry).toEqual({ id: made.key.split('_')[1], sha256: sha256Hex(made.key), owner: 'o' })
    const { stdout } = run(['generate', '--api-key', '--owner', 'o', '--id', 'k', '-o', 'partner.key'])
    const key = readFileSync(join(folder, 'partner.key'), 'utf8').trim()
    expect(statSync(join(folder, 'partner.key')).mode & 0o777).toBe(0o600)
    expect(stdout).toBe(`- id: "k"\n  sha256: ${sha256Hex(key)}\n  owner: "o"\n`)
    expect(run(['generate', '--api-key', '--owner', 'o', '-o', 'partner.key'])).toMatchObject({ status: 4, stdout: '' })
  })

  it.each([
    [[]],
    [['--owner', ' ']],
    [['--owner', 'o', '--id', 'a_b']],
    [['--owner', 'o', '--scopes', 'a"b']],
    [['--owner', 'o', '--tenant', '']],
    [['--owner', 'o', '--expires', 'tomorrow']],
    [['--owner', 'o', '--expires', '1000']],
    [['--owner', 'o', '--not-before', '3000000000', '--expires', '2999999999']],
    [['--owner', 'o', '--alg', 'ES256']],
  ])('generate --api-key %j is a usage error and makes nothing', (args) => {
    expect(run(['generate', '--api-key', ...args])).toMatchObject({ status: 2, stdout: '' })
  })

  it('certs: all files or none', () => {
    mkdirSync(join(folder, 'half'))
    writeFileSync(join(folder, 'half/client-key.pem'), 'mine')
    expect(run(['certs', '--dir', 'half'])).toMatchObject({ status: 4, stdout: '' })
    expect(existsSync(join(folder, 'half/ca.pem'))).toBe(false)
    expect(readFileSync(join(folder, 'half/client-key.pem'), 'utf8')).toBe('mine')
    expect(run(['certs', '--dir', 'nowhere'])).toMatchObject({ status: 4, stdout: '' })
  })

  it('certs: a client certificate that the CA signed, with the identity', () => {
    expect(run(['certs', '--dir', '.']).status).toBe(0)
    const ca = new X509Certificate(readFileSync(join(folder, 'ca.pem')))
    const client = new X509Certificate(readFileSync(join(folder, 'client.pem')))
    expect(client.verify(ca.publicKey)).toBe(true)
    expect(client.subjectAltName).toBe('URI:spiffe://example.org/agents/demo')
    expect(statSync(join(folder, 'client-key.pem')).mode & 0o777).toBe(0o600)
  })
})
