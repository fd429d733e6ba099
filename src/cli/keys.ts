/** `keys generate|jwks|certs`: signing keys, key sets and development certificates. API keys are in `api-keys.ts`. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose'
import { parseStrictJson } from '../internal/json.ts'
import { loadVerificationKey } from '../internal/verification-key.ts'
import { generateWebhookSecret } from '../webhook/index.ts'
import { keysGenerateApiKeyCommand } from './api-keys.ts'
import { createFiles } from './files.ts'
import { exit, fail, type Io } from './io.ts'

const ALGORITHMS = ['ES256', 'ES384', 'ES512', 'EdDSA', 'RS256', 'PS256']
/** All that leaves a JWK: a list of what is public cannot forget a private member (RFC 7518 §6.2.2, §6.3.2). */
const PUBLIC_MEMBERS = ['kty', 'crv', 'x', 'y', 'n', 'e', 'kid', 'alg', 'use', 'example']

/**
 * `keys generate -o FILE [--alg ES256] [--kid ID] [--example] [--json]`: a private JWK, 0600, never over a file. stdout:
 * its public JWK. The kid is its RFC 7638 thumbprint unless one is given.
 */
export async function keysGenerateCommand(args: readonly string[], io: Io): Promise<number> {
  if (args.includes('--api-key')) return keysGenerateApiKeyCommand(args, io)
  if (args.includes('--webhook')) return keysGenerateWebhookCommand(args, io)
  const { values } = parseArgs({
    args: [...args],
    options: {
      alg: { type: 'string', default: 'ES256' },
      kid: { type: 'string' },
      output: { type: 'string', short: 'o' },
      example: { type: 'boolean', default: false },
      json: { type: 'boolean' },
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
  const status = await createFiles(io, [
    { path: output, text: `${JSON.stringify(named, null, 2)}\n`, access: 'secret' },
  ])
  if (status === exit.ok) io.stdout.write(`${JSON.stringify(publicPart(named))}\n`)
  return status
}

/** `keys generate --webhook [-o FILE]`: a secret to sign webhooks with, on stdout or in a file for its owner only. */
async function keysGenerateWebhookCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { webhook: { type: 'boolean' }, output: { type: 'string', short: 'o' }, json: { type: 'boolean' } },
  })
  const text = `${generateWebhookSecret()}\n`
  if (values.output !== undefined) return createFiles(io, [{ path: values.output, text, access: 'secret' }])
  io.stdout.write(text)
  return exit.ok
}

/** `keys jwks FILE… [--json]`: the public JWK Set of files that hold a JWK or a set. Unusable keys are refused. */
export async function keysJwksCommand(args: readonly string[], io: Io): Promise<number> {
  const { positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { json: { type: 'boolean' } },
  })
  if (positionals.length === 0) {
    fail(io, 'keys jwks needs at least one JWK file')
    return exit.usage
  }
  const keys: JWK[] = []
  for (const path of positionals) {
    const value = parseStrictJson(await readFile(path)) as { keys?: unknown } | null
    for (const entry of Array.isArray(value?.keys) ? value.keys : [value]) {
      const jwk = publicPart((entry ?? {}) as JWK)
      const loaded = loadVerificationKey(jwk)
      if (!loaded.ok) {
        fail(io, `${path} holds a key that cannot be in a set: ${loaded.reason}`)
        return exit.invalid
      }
      const named = { ...jwk, kid: jwk.kid ?? (await calculateJwkThumbprint(jwk)) }
      if (keys.some(({ kid }) => kid === named.kid)) {
        fail(io, `${path} holds a second key with the kid "${named.kid}"`, 'give each key its own kid')
        return exit.invalid
      }
      keys.push(named)
    }
  }
  io.stdout.write(`${JSON.stringify({ keys }, null, 2)}\n`)
  return exit.ok
}

/**
 * `keys certs --dir DIR [--identity URI] [--days 30] [--json]`: a *development* CA and a client certificate with that
 * SAN, as ca.pem, client.pem and client-key.pem. stdout: their paths.
 */
export async function keysCertsCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      dir: { type: 'string' },
      identity: { type: 'string', default: 'spiffe://example.org/agents/demo' },
      days: { type: 'string', default: '30' },
      json: { type: 'boolean' },
    },
  })
  const { dir, identity } = values
  const days = Number(values.days)
  const valid = Number.isSafeInteger(days) && days > 0 && days <= 3650 && URL.canParse(identity)
  if (dir === undefined || !valid) {
    fail(io, 'keys certs needs --dir DIR, an --identity that is a URI, and --days from 1 to 3650')
    return exit.usage
  }
  const { developmentCertificates } = await import('./certificates.ts')
  const made = developmentCertificates(identity, days)
  const paths = { ca: join(dir, 'ca.pem'), client: join(dir, 'client.pem'), clientKey: join(dir, 'client-key.pem') }
  const status = await createFiles(io, [
    { path: paths.ca, text: made.ca, access: 'public' },
    { path: paths.client, text: made.client, access: 'public' },
    { path: paths.clientKey, text: made.clientKey, access: 'secret' },
  ])
  if (status !== exit.ok) return status
  io.stderr.write('for development only: the CA key was not kept\n')
  io.stdout.write(values.json === true ? `${JSON.stringify(paths)}\n` : `${Object.values(paths).join('\n')}\n`)
  return exit.ok
}

function publicPart(jwk: JWK): JWK {
  return Object.fromEntries(Object.entries(jwk).filter(([name]) => PUBLIC_MEMBERS.includes(name))) as JWK
}
