import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { readTextFile, resolveSecret } from '../../../src/policy/references.ts'

const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-references-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = (name: string): string => join(folder, name)
const SECRET = '0123456789abcdef0123456789abcdef'

/** The secret, or the complaints. */
async function resolve(reference: string, env: Record<string, string> = {}) {
  const said: string[] = []
  const note = (code: string, _pointer: string, message: string): void => void said.push(`${code} ${message}`)
  const secret = await resolveSecret(reference, '/s', { baseDir: folder, env }, { error: note, warning: note })
  expect(secret === undefined).toBe(said.length > 0)
  return secret ?? said.join('; ')
}

describe('secrets', () => {
  it('come from a variable as they are', async () => {
    expect(await resolve('env:S', { S: SECRET })).toBe(SECRET)
  })

  it('come from a file without its last line end, and only that', async () => {
    for (const end of ['', '\n', '\r\n']) {
      writeFileSync(file('s'), SECRET + end)
      expect(await resolve('file:s')).toBe(SECRET)
      expect(await resolve(`file:${file('s')}`)).toBe(SECRET)
    }
    for (const text of [`${SECRET}\n\n`, ` ${SECRET}`, `${SECRET}\t`]) {
      writeFileSync(file('s'), text)
      expect(await resolve('file:s')).toMatch(/^ERR_POLICY_SECRET_WEAK .*white space/)
    }
  })

  it('P04 P109 P110 unset, empty, blank and short are refused, without showing them', async () => {
    expect(await resolve('env:S')).toBe('ERR_POLICY_REFERENCE the environment variable S is not set')
    expect(await resolve('env:S', { S: '' })).toMatch(/^ERR_POLICY_SECRET_WEAK .* is empty$/)
    expect(await resolve('env:S', { S: ' \t ' })).toMatch(/ is blank$/)
    expect(await resolve('env:S', { S: 'fifteen-bytes-x' })).toMatch(/shorter than 16 bytes/)
    expect(await resolve('env:S', { S: 'fifteen-bytes-x' })).not.toContain('fifteen')
    expect(await resolve('env:S', { S: 'sixteen-bytes-xy' })).toBe('sixteen-bytes-xy')
  })

  it('P01 P02 a public key is never a secret, whatever stands before it', async () => {
    const pem = '-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQ==\n-----END PUBLIC KEY-----'
    for (const before of ['', '#x\n', '\u200b', '\ufeff']) {
      expect(await resolve('env:S', { S: before + pem })).toMatch(/^ERR_POLICY_SECRET_WEAK /)
      expect(await resolve('env:S', { S: `${before}{"kty":"EC","crv":"P-256"}` })).toMatch(/^ERR_POLICY_SECRET_WEAK /)
    }
  })

  it('variables are own members only', async () => {
    expect(await resolve('env:constructor')).toMatch(/is not set$/)
  })
})

describe('files', () => {
  it('are followed through links and must then be regular, readable, UTF-8 and bounded', async () => {
    writeFileSync(file('target'), 'text')
    mkdirSync(file('directory'))
    symlinkSync('target', file('link'))
    symlinkSync('loop', file('loop'))
    writeFileSync(file('latin1'), Buffer.from([0x61, 0xe9]))
    expect(await readTextFile(file('link'))).toEqual({ ok: true, text: 'text' })
    expect(await readTextFile(file('target'), 4)).toEqual({ ok: true, text: 'text' })
    const why = async (path: string, max?: number) => ((await readTextFile(path, max)) as { why?: string }).why
    expect(await why(file('target'), 3)).toBe('is larger than 3 bytes')
    expect(await why(file('directory'))).toBe('is not a regular file')
    expect(await why(file('loop'))).toBe('is a symbolic link that leads to itself')
    expect(await why(file('latin1'))).toBe('is not UTF-8 text')
    expect(await why(file('nothing'))).toBe('does not exist')
    expect(await why(file('target/below'))).toBe('does not exist')
    expect(await why('/dev/zero')).toBe('is not a regular file')
    expect(await why('a\0b')).toBe('has a path that no file can have')
  })

  it('a pipe that nobody writes does not keep the start waiting', async () => {
    execFileSync('mkfifo', [file('pipe')])
    expect(await readTextFile(file('pipe'))).toEqual({ ok: false, why: 'is not a regular file' })
  })
})
