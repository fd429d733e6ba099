/** `a2a-trust url check`, as a process: one JSON line for each URL, DNS replaced by a file, nothing sent. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'

const command = join(import.meta.dirname, '../../dist/cli/main.js')
const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-url-'))
afterAll(() => rmSync(folder, { recursive: true }))

const hosts = {
  'hooks.example.com': ['93.184.216.34'],
  'mixed.example.com': ['93.184.216.34', '10.0.0.1'],
  'inside.example.com': ['127.0.0.1'],
  'xn--exmple-cua.com': ['93.184.216.34'],
  'BÜCHER.example.com.': ['93.184.216.34'],
}
writeFileSync(join(folder, 'hosts.json'), JSON.stringify(hosts))

function run(args: readonly string[], input = '') {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, 'url', 'check', ...args], {
    input,
    encoding: 'utf8',
    cwd: folder,
  })
  return { status, stdout, stderr }
}

/** Verdict and reason of each URL. */
function verdicts(urls: readonly string[], ...args: string[]): string[] {
  const { stdout, status } = run(
    ['-', '--hosts', 'hosts.json', ...args],
    urls.map((url) => `${JSON.stringify(url)}\n`).join(''),
  )
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { line: number; verdict: string; reason: string })
  expect(lines.map(({ line }) => line)).toEqual(urls.map((_, index) => index + 1))
  expect(status).toBe(lines.some(({ verdict }) => verdict === 'deny') ? 3 : 0)
  return lines.map(({ verdict }) => verdict)
}

describe('url check', () => {
  it('A67 P145 private targets are denied in every spelling, plain http allowed or not', () => {
    const inside = [
      'http://169.254.169.254/latest/meta-data/',
      'http://127.0.0.1:8080',
      'http://[::1]',
      'http://[::ffff:10.0.0.1]',
      'http://0x7f000001',
      'http://0177.0.0.1',
      'http://2130706433',
      'http://100.64.0.1',
      'http://[fd00::1]',
      'http://0.0.0.0',
      'http://metadata.google.internal',
      'file:///etc/passwd',
      'gopher://x',
      'https://user:pw@hooks.example.com',
      'http://localhost.',
      'https://hooks.example.com\n@evil.example',
      '',
    ]
    const denied = inside.map(() => 'deny')
    expect(verdicts(inside)).toEqual(denied)
    expect(verdicts(inside, '--allow-http', '--port', '80', '--port', '8080', '--port', '443')).toEqual(denied)
  })

  it('A68 every address counts, and a name without one is denied', () => {
    const urls = ['hooks', 'mixed', 'inside', 'nowhere'].map((name) => `https://${name}.example.com/`)
    expect(verdicts(urls)).toEqual(['allow', 'deny', 'deny', 'deny'])
  })

  it('A70 both forms of an international name are one host', () => {
    expect(verdicts(['https://exämple.com/hook', 'https://xn--exmple-cua.com/hook', 'https://EXÄMPLE.com/'])).toEqual([
      'allow',
      'allow',
      'allow',
    ])
  })

  it('A70 names of the hosts file are in that form too', () => {
    expect(verdicts(['https://bücher.example.com/', 'https://xn--bcher-kva.example.com./'])).toEqual(['allow', 'allow'])
  })

  it('--no-resolve judges the text alone', () => {
    const urls = ['https://inside.example.com/', 'https://nowhere.example.com/', 'https://10.0.0.1/']
    expect(verdicts(urls, '--no-resolve')).toEqual(['allow', 'allow', 'deny'])
    expect(run(['https://inside.example.com/', '--no-resolve', '--json']).stdout).toBe(
      '{"line":1,"verdict":"allow","reason":"allowed"}\n',
    )
  })

  it('transcript: one URL for people, with --json for programs', () => {
    expect(run(['https://hooks.example.com/a2a?token=secret', '--hosts', 'hosts.json'])).toEqual({
      status: 0,
      stdout: 'allow allowed 93.184.216.34\n',
      stderr: '',
    })
    expect(run(['https://inside.example.com/', '--hosts', 'hosts.json', '--json'])).toEqual({
      status: 3,
      stdout: '{"line":1,"verdict":"deny","reason":"ERR_EGRESS_ADDRESS","addresses":["127.0.0.1"]}\n',
      stderr: '',
    })
  })

  it('mistakes: hosts that are no map are invalid input, and no line is printed', () => {
    writeFileSync(join(folder, 'list.json'), '[1]')
    writeFileSync(join(folder, 'text.json'), 'hello')
    writeFileSync(join(folder, 'empty-list.json'), '[]')
    writeFileSync(join(folder, 'no-text.json'), '{"hooks.example.com":[1]}')
    for (const file of ['list.json', 'text.json', 'nowhere.json', 'empty-list.json', 'no-text.json']) {
      expect(run(['https://hooks.example.com/', '--hosts', file])).toMatchObject({ status: 4, stdout: '' })
    }
    expect(run(['-', 'https://hooks.example.com/'])).toMatchObject({ status: 2, stdout: '' })
    expect(run([])).toMatchObject({ status: 2, stdout: '' })
    expect(run(['https://hooks.example.com/', '--port', 'x'])).toMatchObject({ status: 2, stdout: '' })
  })
})
