/**
 * `env:NAME` and `file:PATH`: how a policy points at what it must not contain, and how every file it names is read.
 * A reference that leads nowhere, to nothing or to something that cannot be a secret is a start-up error, because an
 * empty secret is one that everybody knows.
 */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { isAbsolute, resolve } from 'node:path'
import type { Report } from './report.ts'

/** Variables by name, as `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Where references lead. */
export interface ReferenceContext {
  /** Directory that relative paths start from. */
  readonly baseDir: string
  readonly env: Environment
}

type Unread = { readonly ok: false; readonly why: string }
export type FileResult = { readonly ok: true; readonly text: string } | Unread

/** Fewest bytes of a secret: 128 bits, what RFC 6749 §10.10 asks of one that must not be guessed. */
const MIN_SECRET_BYTES = 16
const MAX_SECRET_BYTES = 16 * 1024
const MAX_FILE_BYTES = 1024 * 1024
const READ_NONBLOCK = constants.O_RDONLY | constants.O_NONBLOCK

/** The path of a `file:PATH` reference, from the base directory unless absolute. Symbolic links are followed. */
export function pathOf(reference: string, baseDir: string): string {
  const path = reference.startsWith('file:') ? reference.slice(5) : reference
  return isAbsolute(path) ? path : resolve(baseDir, path)
}

/** Reads a file as UTF-8 text, otherwise as `readBytes`. */
export async function readTextFile(path: string, maxBytes = MAX_FILE_BYTES): Promise<FileResult> {
  const file = await readBytes(path, maxBytes)
  if (!file.ok) return file
  try {
    return { ok: true, text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(file.bytes) }
  } catch {
    return { ok: false, why: 'is not UTF-8 text' }
  }
}

/**
 * Reads a file. Follows symbolic links (mounted secrets are links), and then insists on a regular file of at most
 * `maxBytes`, so that a device or pipe can neither block nor exhaust the start.
 */
export async function readBytes(
  path: string,
  maxBytes: number,
): Promise<{ readonly ok: true; readonly bytes: Buffer } | Unread> {
  let file: Awaited<ReturnType<typeof open>>
  try {
    // O_NONBLOCK: opening a pipe that nobody writes would wait for ever.
    file = await open(path, READ_NONBLOCK)
  } catch (error) {
    return { ok: false, why: reasonOf(error) }
  }
  try {
    if (!(await file.stat()).isFile()) return { ok: false, why: 'is not a regular file' }
    const bytes = Buffer.alloc(maxBytes + 1)
    let length = 0
    while (length <= maxBytes) {
      const { bytesRead } = await file.read(bytes, length, bytes.length - length, null)
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length > maxBytes) return { ok: false, why: `is larger than ${maxBytes} bytes` }
    return { ok: true, bytes: bytes.subarray(0, length) }
  } catch (error) {
    return { ok: false, why: reasonOf(error) }
  } finally {
    await file.close()
  }
}

/**
 * The secret behind `reference`, or `undefined` after reporting why there is none. One line end at the end of a file is
 * dropped; any other white space around a secret is an error, since it is either a slip or lost on the way.
 */
export async function resolveSecret(
  reference: string,
  pointer: string,
  context: ReferenceContext,
  report: Report,
): Promise<string | undefined> {
  const secret = reference.startsWith('env:')
    ? fromEnvironment(reference.slice(4), pointer, context.env, report)
    : await fromFile(reference, pointer, context.baseDir, report)
  if (secret === undefined) return undefined
  const weakness = weaknessOf(secret)
  if (weakness === undefined) return secret
  report.error('ERR_POLICY_SECRET_WEAK', pointer, `the secret behind ${reference} ${weakness}`)
  return undefined
}

function fromEnvironment(name: string, pointer: string, env: Environment, report: Report): string | undefined {
  const value = Object.hasOwn(env, name) ? env[name] : undefined
  if (value === undefined) {
    report.error('ERR_POLICY_REFERENCE', pointer, `the environment variable ${name} is not set`)
  }
  return value
}

async function fromFile(reference: string, pointer: string, baseDir: string, report: Report) {
  const result = await readTextFile(pathOf(reference, baseDir), MAX_SECRET_BYTES)
  if (result.ok) return result.text.replace(/\r?\n$/, '')
  report.error('ERR_POLICY_REFERENCE', pointer, `the file of ${reference} ${result.why}`)
  return undefined
}

function weaknessOf(secret: string): string | undefined {
  if (secret === '') return 'is empty'
  if (secret.trim() === '') return 'is blank'
  if (secret.trim() !== secret) return 'begins or ends with white space: remove it'
  // A public key taken for a shared secret is one that everybody has (P01, P02).
  if (/-----BEGIN /.test(secret) || /"kty"\s*:/.test(secret)) return 'is a key in PEM or JWK form, not a shared secret'
  const length = Buffer.byteLength(secret)
  if (length < MIN_SECRET_BYTES) return `is shorter than ${MIN_SECRET_BYTES} bytes: use a random one of 32`
  return undefined
}

function reasonOf(error: unknown): string {
  switch ((error as { code?: string }).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return 'does not exist'
    case 'EACCES':
    case 'EPERM':
      return 'may not be read by this process'
    case 'EISDIR':
      return 'is not a regular file'
    case 'ELOOP':
      return 'is a symbolic link that leads to itself'
    case 'ENAMETOOLONG':
    case 'ERR_INVALID_ARG_VALUE':
      return 'has a path that no file can have'
    default:
      return 'cannot be read'
  }
}
