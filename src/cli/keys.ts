/** `keys generate|jwks|hash|certs`: signing keys, key sets, API key digests and development certificates. */
import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose'
import { writeNewFile } from './files.ts'
import { exit, fail, type Io, itemsOf, readAll } from './io.ts'

const ALGORITHMS = ['ES256', 'ES384', 'ES512', 'EdDSA', 'RS256', 'PS256']
/** Members of a private JWK that must not leave (RFC 7518 §6.2.2, §6.3.2). */
const PUBLIC_MEMBERS = ['kty', 'crv', 'x', 'y', 'n', 'e', 'kid', 'alg', 'use', 'key_ops', 'example']

/** `keys generate -o FILE [--alg ES256] [--kid ID] [--example]`: a private JWK, 0600, never over a file. stdout: its public JWK. */
export async function keysGenerateCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      alg: { type: 'string', default: 'ES256' },
      kid: { type: 'string' },
      output: { type: 'string', short: 'o' },
      example: { type: 'boolean', default: false },
    },
  })
  const { alg, output, example } = values
  if (output === undefined || !ALGORITHMS.includes(alg)) {
    fail(io, output === undefined ? 'keys generate needs -o FILE' : `"${alg}" is not one of ${ALGORITHMS.join(', ')}`)
    return exit.usage
  }
  const { privateKey } = await generateKeyPair(alg, { extractable: true })
  const jwk = await exportJWK(privateKey)
  const thumbprint = await calculateJwkThumbprint(jwk)
  const kid = values.kid ?? (example ? `example-${thumbprint.slice(0, 8)}` : thumbprint)
  const named: JWK = { ...jwk, kid, alg, use: 'sig', ...(example ? { example: true } : {}) }
  if (!(await create(io, output, `${JSON.stringify(named, null, 2)}\n`, 'secret'))) return exit.invalid
  io.stdout.write(`${JSON.stringify(publicPart(named))}\n`)
  return exit.ok
}

/** `keys jwks FILE…`: the public JWK Set of private or public JWK files. */
export async function keysJwksCommand(args: readonly string[], io: Io): Promise<number> {
  const { positionals } = parseArgs({ args: [...args], allowPositionals: true })
  if (positionals.length === 0) {
    fail(io, 'keys jwks needs at least one JWK file')
    return exit.usage
  }
  const keys: JWK[] = []
  for (const path of positionals) {
    const value = JSON.parse(await readFile(path, 'utf8')) as JWK & { keys?: JWK[] }
    for (const jwk of value.keys ?? [value]) {
      if (jwk.kty === 'oct' || jwk.kty === undefined) {
        fail(io, `${path} holds ${jwk.kty === undefined ? 'no JWK' : 'a symmetric key, which has no public part'}`)
        return exit.invalid
      }
      keys.push(publicPart(jwk))
    }
  }
  io.stdout.write(`${JSON.stringify({ keys }, null, 2)}\n`)
  return exit.ok
}

/**
 * `keys hash [--new] [--id ID --owner OWNER]`: the SHA-256 of each API key on stdin, one a line; with `--new` of a fresh
 * key, which is written to stderr once and stored nowhere. With id and owner: an entry for the policy's key file.
 */
export async function keysHashCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { new: { type: 'boolean', default: false }, id: { type: 'string' }, owner: { type: 'string' } },
  })
  const keys = values.new ? [randomBytes(32).toString('base64url')] : itemsOf(await readAll(io))
  for (const key of keys) {
    if (key.length < 16 || /\s/.test(key)) {
      fail(io, 'an API key must have at least 16 characters and no white space', 'keys hash --new makes one')
      return exit.invalid
    }
    if (values.new) io.stderr.write(`new API key, shown once: ${key}\n`)
    const sha256 = createHash('sha256').update(key).digest('hex')
    const { id, owner } = values
    io.stdout.write(id === undefined || owner === undefined ? `${sha256}\n` : `- id: ${JSON.stringify(id)}\n  sha256: ${sha256}\n  owner: ${JSON.stringify(owner)}\n`)
  }
  return exit.ok
}

/**
 * `keys certs --dir DIR [--identity URI] [--days 30]`: a *development* CA and a client certificate with that SAN, as
 * ca.pem, client.pem and client-key.pem.
 */
export async function keysCertsCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      dir: { type: 'string' },
      identity: { type: 'string', default: 'spiffe://example.org/agents/demo' },
      days: { type: 'string', default: '30' },
    },
  })
  const days = Number(values.days)
  if (values.dir === undefined || !(Number.isSafeInteger(days) && days > 0 && days <= 3650) || !URL.canParse(values.identity)) {
    fail(io, 'keys certs needs --dir DIR, an --identity that is a URI, and --days from 1 to 3650')
    return exit.usage
  }
  const { developmentCertificates } = await import('./certificates.ts')
  const made = developmentCertificates(values.identity, days)
  const files = [
    ['ca.pem', made.ca, 'public'],
    ['client.pem', made.client, 'public'],
    ['client-key.pem', made.clientKey, 'secret'],
  ] as const
  for (const [name, text, access] of files) if (!(await create(io, join(values.dir, name), text, access))) return exit.invalid
  io.stderr.write('for development only: the CA key was not kept\n')
  for (const [name] of files) io.stdout.write(`${join(values.dir, name)}\n`)
  return exit.ok
}

function publicPart(jwk: JWK): JWK {
  return Object.fromEntries(Object.entries(jwk).filter(([name]) => PUBLIC_MEMBERS.includes(name))) as JWK
}

async function create(io: Io, path: string, text: string, access: 'secret' | 'public'): Promise<boolean> {
  try {
    await writeNewFile(path, text, access)
    return true
  } catch (fault) {
    const { code } = fault as NodeJS.ErrnoException
    if (code !== 'EEXIST' && code !== 'ENOENT') throw fault
    fail(io, code === 'EEXIST' ? `${path} exists already and is left as it is` : `the folder of ${path} does not exist`)
    return false
  }
}
