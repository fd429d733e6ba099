import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'

const command = join(import.meta.dirname, '../../dist/cli/main.js')
const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-webhook-'))
afterAll(() => rmSync(folder, { recursive: true }))

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const BODY = '{"statusUpdate":{"taskId":"t1","contextId":"c1"}}'
const env = { ...process.env, HOOK: SECRET, WEAK: 'whsec_c2hvcnQ=' }
writeFileSync(join(folder, 'event.json'), BODY)

function run(args: readonly string[], input = BODY) {
  return spawnSync(process.execPath, [command, ...args], { input, encoding: 'utf8', cwd: folder, env })
}
const AT = ['--at', '1614265330']

describe('webhook sign and verify', () => {
  it('prints the headers that a receiver accepts', () => {
    const { stdout, status } = run(
      ['webhook', 'sign', '--secret', 'env:HOOK', '--id', 'msg_p5jXN8AQM9LWM0D4loKWxJek', ...AT, '-'],
      '{"test": 2432232314}',
    )
    expect(status).toBe(0)
    expect(stdout).toBe(
      'webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\nwebhook-timestamp: 1614265330\nwebhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\n',
    )
  })

  const headersOf = (body = BODY) => {
    const signed = run(['webhook', 'sign', '--secret', 'env:HOOK', ...AT, '--json', '-'], body)
    return Object.entries(JSON.parse(signed.stdout) as Record<string, string>).flatMap(([name, value]) => [
      '--header',
      `${name}: ${value}`,
    ])
  }

  it('says what a good one tells', () => {
    const verified = run([
      'webhook',
      'verify',
      '--secret',
      'env:HOOK',
      ...headersOf(),
      '--task',
      't1',
      ...AT,
      '--json',
      'event.json',
    ])
    expect(JSON.parse(verified.stdout)).toMatchObject({
      verdict: 'valid',
      kind: 'statusUpdate',
      version: '1.0',
      taskId: 't1',
    })
    expect(verified.status).toBe(0)
  })

  it.each([
    ['a changed body', ['-'], `${BODY}\n`, 'ERR_WEBHOOK_SIGNATURE'],
    ['another task', ['--task', 't2', '-'], BODY, 'ERR_WEBHOOK_TASK'],
  ])('%s: 3 and the reason', (_what, more, input, reason) => {
    const { stdout, status } = run(['webhook', 'verify', '--secret', 'env:HOOK', ...headersOf(), ...AT, ...more], input)
    expect(stdout).toContain(`invalid ${reason}`)
    expect(status).toBe(3)
  })

  it('a later time is a timestamp out of tolerance', () => {
    const { stdout, status } = run([
      'webhook',
      'verify',
      '--secret',
      'env:HOOK',
      ...headersOf(),
      '--at',
      '1614266330',
      '-',
    ])
    expect(stdout).toContain('ERR_WEBHOOK_TIMESTAMP')
    expect(status).toBe(3)
  })

  it.each([
    ['no secret', ['webhook', 'sign', '-'], 'needs --secret'],
    ['a secret in the clear', ['webhook', 'sign', '--secret', SECRET, '-'], 'env:NAME or file:PATH'],
    ['a weak secret', ['webhook', 'sign', '--secret', 'env:WEAK', '-'], '24 to 64'],
    ['a variable that is not set', ['webhook', 'sign', '--secret', 'env:NOT_SET_HERE', '-'], 'not set'],
    ['no headers', ['webhook', 'verify', '--secret', 'env:HOOK', '-'], '--header'],
  ])('%s is a usage error that shows no secret', (_what, args, message) => {
    const { stderr, stdout, status } = run(args)
    expect(status).toBe(2)
    expect(stderr).toContain(message)
    expect(stdout + stderr).not.toContain('MfKQ9r8G')
  })
})

describe('keys generate --webhook', () => {
  it('makes a secret that signs, for its owner only', () => {
    const { status, stdout } = run(['keys', 'generate', '--webhook', '-o', 'hook.secret'])
    expect({ status, stdout }).toEqual({ status: 0, stdout: '' })
    expect(statSync(join(folder, 'hook.secret')).mode & 0o777).toBe(0o600)
    expect(run(['webhook', 'sign', '--secret', 'file:hook.secret', '-']).status).toBe(0)
    expect(run(['keys', 'generate', '--webhook', '-o', 'hook.secret']).status).toBe(4)
    expect(run(['keys', 'generate', '--webhook']).stdout).toMatch(/^whsec_[A-Za-z0-9+/]{43}=\n$/)
  })
})

describe('webhook send and listen', () => {
  it('what is sent arrives and verifies; nothing is sent to where it must not go', async () => {
    const listener = spawn(
      process.execPath,
      [command, 'webhook', 'listen', '--secret', 'env:HOOK', '--count', '2', '--json'],
      { env },
    )
    let talk = ''
    listener.stderr.on('data', (chunk: Buffer) => {
      talk += chunk.toString()
    })
    let data = ''
    listener.stdout.on('data', (chunk: Buffer) => {
      data += chunk.toString()
    })
    const ended = once(listener, 'close')
    await expect.poll(() => talk, { timeout: 10_000 }).toMatch(/listening on/)
    const url = /http:\S+/.exec(talk)?.[0] as string
    const { port } = new URL(url)
    const refused = run(['webhook', 'send', url, '--secret', 'env:HOOK', 'event.json'])
    expect(refused.status).toBe(1)
    expect(refused.stderr).toMatch(/URL scheme|reached/)
    const reach = ['--allow-http', '--allow-address', '127.0.0.1', '--port', port]
    expect(run(['webhook', 'send', url, '--secret', 'env:HOOK', ...reach, 'event.json'])).toMatchObject({
      status: 0,
      stdout: '204\n',
    })
    const other = run(['keys', 'generate', '--webhook', '-o', 'other.secret'])
    expect(other.status).toBe(0)
    expect(run(['webhook', 'send', url, '--secret', 'file:other.secret', ...reach, 'event.json'])).toMatchObject({
      status: 3,
      stdout: '401\n',
    })
    expect((await ended)[0]).toBe(0)
    const verdicts = data
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { verdict: string })
    expect(verdicts).toMatchObject([
      { verdict: 'valid', taskId: 't1' },
      { verdict: 'invalid', reason: 'ERR_WEBHOOK_SIGNATURE' },
    ])
  })
})
