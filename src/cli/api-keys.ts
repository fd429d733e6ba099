/** `keys generate --api-key` and `keys hash [--password]`: keys and passwords for callers, and the entries that let a policy know them. */
import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { generateApiKey, KEY_ID, readApiKey } from '../internal/api-key-format.ts'
import { hashPassword } from '../internal/password-hash.ts'
import { sha256Hex } from '../internal/sha256.ts'
import { createFiles } from './files.ts'
import { exit, fail, type Io, itemsOf, readAll } from './io.ts'
import { secondsOf } from './time.ts'

/** What the guard accepts as an API key, and long enough that an unsalted digest gives nothing away. */
const API_KEY = /^[\x21-\x7e]{16,1024}$/
/** RFC 6749 §3.3. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/

/**
 * `keys generate --api-key --owner OWNER [--id ID] [--scopes 'A B'] [--tenant T] [--not-before TIME] [--expires TIME]
 * [-o FILE] [--json]`: a new API key and its entry for the key file. The key is shown here and stored nowhere; with `-o`
 * it goes to a new file, 0600, and stdout is the entry alone.
 */
export async function keysGenerateApiKeyCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      'api-key': { type: 'boolean' },
      owner: { type: 'string' },
      id: { type: 'string' },
      scopes: { type: 'string', multiple: true },
      tenant: { type: 'string' },
      'not-before': { type: 'string' },
      expires: { type: 'string' },
      output: { type: 'string', short: 'o' },
      json: { type: 'boolean' },
    },
  })
  const { owner, tenant, output, id = randomBytes(6).toString('hex') } = values
  const scopes = (values.scopes ?? []).flatMap((list) => list.split(' ')).filter((scope) => scope !== '')
  const wrong = !isLabel(owner)
    ? 'keys generate --api-key needs --owner OWNER'
    : !KEY_ID.test(id)
      ? '--id must be 1 to 64 of a-z, 0-9 and -, with no - at an end'
      : tenant !== undefined && !isLabel(tenant)
        ? '--tenant must be a name'
        : scopes.some((scope) => !SCOPE.test(scope))
          ? '--scopes must be scopes with spaces between them'
          : undefined
  const notBefore = secondsOf('--not-before', values['not-before'])
  const expires = secondsOf('--expires', values.expires)
  if (wrong !== undefined || (expires !== undefined && expires <= (notBefore ?? Date.now() / 1000))) {
    fail(io, wrong ?? '--expires must be in the future, and after --not-before')
    return exit.usage
  }
  const key = generateApiKey(id)
  const entry = {
    id,
    sha256: sha256Hex(key),
    owner,
    ...(scopes.length === 0 ? {} : { scopes }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(notBefore === undefined ? {} : { notBefore: rfc3339(notBefore) }),
    ...(expires === undefined ? {} : { expiresAt: rfc3339(expires) }),
  }
  if (output !== undefined) {
    const status = await createFiles(io, [{ path: output, text: `${key}\n`, access: 'secret' }])
    if (status !== exit.ok) return status
    io.stdout.write(values.json === true ? `${JSON.stringify({ entry })}\n` : yamlEntry(entry))
    return exit.ok
  }
  if (values.json === true) io.stdout.write(`${JSON.stringify({ key, entry })}\n`)
  else io.stdout.write(`${key}\n\n${yamlEntry(entry)}`)
  io.stderr.write('the key is for its owner and is shown this once; the entry goes into the key file of the policy\n')
  return exit.ok
}

/**
 * `keys hash [--id ID --owner OWNER] [--json]`: the SHA-256 of each API key on stdin, one a line. With id and owner, for
 * one key: an entry for the policy's key file.
 *
 * `keys hash --password [--user NAME [--owner OWNER]] [--json]`: the scrypt hash of the one password on stdin, or with a
 * user the entry for the users file of a Basic scheme.
 */
export async function keysHashCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      id: { type: 'string' },
      owner: { type: 'string' },
      password: { type: 'boolean' },
      user: { type: 'string' },
      json: { type: 'boolean' },
    },
  })
  const { id, owner } = values
  if (values.password === true) return hashOnePassword(values, io)
  if (values.user !== undefined) {
    fail(io, '--user is for passwords', 'keys hash --password --user NAME')
    return exit.usage
  }
  if ((id === undefined) !== (owner === undefined) || (id !== undefined && !(isLabel(id) && isLabel(owner)))) {
    fail(io, 'keys hash needs --id and --owner together')
    return exit.usage
  }
  const keys = itemsOf(await readAll(io))
  const wrong =
    keys.length === 0 ? 'there is no API key on stdin' : keys.map(problemOf).find((one) => one !== undefined)
  if (wrong !== undefined || (id !== undefined && keys.length > 1)) {
    fail(io, wrong ?? '--id is for one key', 'keys generate --api-key makes one')
    return exit.invalid
  }
  for (const [index, key] of keys.entries()) {
    const sha256 = sha256Hex(key)
    const named = readApiKey(key)?.id
    if (id !== undefined && named !== undefined && named !== id) {
      // The guard looks for the entry under the id in the key.
      fail(io, `the key carries the id "${named}"`, `write --id ${named}`)
      return exit.invalid
    }
    if (values.json === true) io.stdout.write(`${JSON.stringify({ line: index + 1, id, sha256, owner })}\n`)
    else io.stdout.write(id === undefined ? `${sha256}\n` : yamlEntry({ id, sha256, owner }))
  }
  return exit.ok
}

/** What NIST SP 800-63B-4 §3.1.1.2 asks of a password that is the only factor. */
const MIN_PASSWORD = 15

async function hashOnePassword(
  { user, owner, id, json = false }: { user?: string; owner?: string; id?: string; json?: boolean },
  io: Io,
): Promise<number> {
  const name = user?.normalize('NFC')
  if (id !== undefined || (owner !== undefined && !(isLabel(owner) && name !== undefined))) {
    fail(io, 'keys hash --password takes --user NAME, and with it --owner OWNER')
    return exit.usage
  }
  if (name !== undefined && (!isLabel(name) || name.includes(':'))) {
    fail(io, '--user must be a name without a colon (RFC 7617 §2)')
    return exit.usage
  }
  const lines = itemsOf(await readAll(io))
  // As callers are read (RFC 8265 §4).
  const [password = ''] = lines.map((line) => line.normalize('NFC'))
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused (RFC 7617 §2)
  const unreadable = /[\u0000-\u001f\u007f-\u009f\ufffd]/.test(password)
  if (lines.length !== 1 || unreadable || [...password].length < MIN_PASSWORD || password.length > 512) {
    const one = `one password of ${MIN_PASSWORD} to 512 characters, without control characters`
    fail(io, `stdin must hold ${one}`, "openssl rand -base64 24 | tr -d '\\n' | tee partner.password makes one")
    return exit.invalid
  }
  const scrypt = await hashPassword(password)
  const entry = { user: name, scrypt, owner }
  if (json) io.stdout.write(`${JSON.stringify(entry)}\n`)
  else io.stdout.write(name === undefined ? `${scrypt}\n` : yamlEntry(entry))
  return exit.ok
}

function problemOf(key: string): string | undefined {
  if (!API_KEY.test(key)) return 'an API key has 16 to 1024 visible ASCII characters'
  return readApiKey(key)?.intact === false ? 'the checksum of the key is wrong: it is mistyped or not whole' : undefined
}

/** As the key file's schema has it. */
function isLabel(text: string | undefined): text is string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  return text !== undefined && text.length <= 256 && /^(?=\S)[^\u0000-\u001f\u007f]*\S$/.test(text)
}

function rfc3339(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')
}

/** One entry of a list. Texts are written as JSON, which YAML reads alike; what can only be a plain word is not quoted. */
function yamlEntry(entry: Readonly<Record<string, unknown>>): string {
  const members = Object.entries(entry).filter(([, value]) => value !== undefined)
  const lines = members.map(([name, value]) => `${name}: ${name === 'sha256' ? String(value) : JSON.stringify(value)}`)
  return `- ${lines.join('\n  ')}\n`
}
