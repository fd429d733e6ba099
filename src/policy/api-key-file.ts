/**
 * The key file of an apiKey scheme: who owns which key. It holds SHA-256 digests only, so that reading it gives nobody
 * a key (the keys are random, which is why a plain digest is enough).
 */
import { z } from 'zod'
import { step } from '../protocol/card-reader.ts'
import type { ApiKeyRecord } from './compiled.ts'
import { isProduction, type LoadContext, openSource } from './files.ts'
import type { Report } from './report.ts'
import { quote } from './source.ts'
import { validate } from './validate.ts'

const label = z
  .string()
  .min(1, 'is empty')
  .max(256, 'is longer than 256 characters')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  .regex(/^(?=\S)[^\u0000-\u001f\u007f]*\S$/, 'has a control character, or a space at an end')

/** Seconds since the epoch, or RFC 3339. Milliseconds would be a date in the far future, so they are refused. */
const time = z.union([
  z.int().min(0, 'is before 1970').max(99_999_999_999, 'looks like milliseconds: write seconds or an RFC 3339 time'),
  z.iso.datetime({ offset: true, error: 'must be unix seconds or an RFC 3339 time such as 2027-01-31T00:00:00Z' }),
])

const entrySchema = z.strictObject({
  id: label.meta({ description: 'Name of the key in audit events and in revocation. Unique.' }),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/i, 'must be the SHA-256 of the key in 64 hex digits (a2a-trust keys hash prints it)')
    .meta({ description: "SHA-256 of the key's UTF-8 bytes, in hex." }),
  owner: label.meta({ description: 'Whose key it is: the subject of the principal.' }),
  scopes: z.array(label).optional().meta({ description: 'Scopes the key carries. Default: none.' }),
  tenant: label.optional(),
  notBefore: time.optional(),
  expiresAt: time.optional(),
  revoked: z.boolean().optional().meta({ description: 'Refused whatever else holds. Default false.' }),
})

const fileSchema = z.strictObject({
  example: z.boolean().optional().meta({ description: 'Marks keys that everybody has. Refused in production.' }),
  keys: z.array(entrySchema).min(1, 'is empty, so nobody could call'),
})

/** Names under which people put the key itself. */
const CLEAR_TEXT = ['key', 'apiKey', 'api_key', 'secret', 'value', 'token', 'plain', 'password']

/** Loads the key file that `reference` names; reports every mistake in it. `undefined` when there is one. */
export async function loadApiKeys(
  reference: string,
  pointer: string,
  context: LoadContext,
  report: Report,
): Promise<readonly ApiKeyRecord[] | undefined> {
  const opened = await openSource(reference, pointer, context, report)
  if (opened === undefined) return undefined
  const { source, report: inFile } = opened
  // A bare list is the same file without the marker.
  const bare = Array.isArray(source.value)
  const content = bare ? { keys: source.value } : source.value
  const base = bare ? '' : '/keys'
  const shifted = bare ? withoutPrefix(inFile, '/keys') : inFile

  const clear = reportClearText(bare ? source.value : (content as { keys?: unknown } | null)?.keys, base, inFile)
  const file = validate(fileSchema, content, clear ? quiet(shifted, clear) : shifted)
  if (file === undefined) return undefined

  if (file.example === true && isProduction(context)) {
    inFile.error('ERR_POLICY_EXAMPLE_KEY', '/example', 'these keys are published with the package: make your own')
  }
  const records = file.keys.map(recordOf)
  reportConflicts(records, base, context, inFile)
  return records
}

function recordOf(entry: z.infer<typeof entrySchema>): ApiKeyRecord {
  return {
    id: entry.id,
    sha256: entry.sha256.toLowerCase(),
    owner: entry.owner,
    scopes: [...new Set(entry.scopes)],
    ...(entry.tenant === undefined ? {} : { tenant: entry.tenant }),
    ...(entry.notBefore === undefined ? {} : { notBefore: toSeconds(entry.notBefore) }),
    ...(entry.expiresAt === undefined ? {} : { expiresAt: toSeconds(entry.expiresAt) }),
    ...(entry.revoked === true ? { revoked: true } : {}),
  }
}

function toSeconds(value: number | string): number {
  return typeof value === 'number' ? value : Math.floor(Date.parse(value) / 1000)
}

function reportConflicts(records: readonly ApiKeyRecord[], base: string, context: LoadContext, report: Report): void {
  const ids = new Map<string, number>()
  const digests = new Map<string, string>()
  records.forEach((record, index) => {
    const at = base + step(index)
    const sameDigest = digests.get(record.sha256)
    if (ids.has(record.id)) {
      report.error('ERR_POLICY_KEY_FILE', `${at}/id`, `${quote(record.id)} is the id of two keys: ids are unique`)
    } else if (sameDigest !== undefined) {
      report.error(
        'ERR_POLICY_KEY_FILE',
        `${at}/sha256`,
        `"sha256" is that of ${quote(sameDigest)}: a key has one entry`,
      )
    }
    if (record.sha256 === EMPTY_SHA256) {
      report.error('ERR_POLICY_SECRET_WEAK', `${at}/sha256`, '"sha256" is the digest of an empty key')
    }
    ids.set(record.id, index)
    if (!digests.has(record.sha256)) digests.set(record.sha256, record.id)
    if (record.expiresAt === undefined) return
    if (record.notBefore !== undefined && record.expiresAt <= record.notBefore) {
      report.error(
        'ERR_POLICY_KEY_FILE',
        `${at}/expiresAt`,
        '"expiresAt" is not after notBefore, so the key is never valid',
      )
    } else if (record.expiresAt * 1000 <= context.now) {
      report.warning('ERR_POLICY_KEY_FILE', `${at}/expiresAt`, `the key ${quote(record.id)} has expired: remove it`)
    }
  })
}

/** SHA-256 of nothing: what an unset variable hashes to (P109). */
const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** Reports entries with a clear-text key; returns the pointers, so that the schema does not report them again. */
function reportClearText(entries: unknown, base: string, report: Report): ReadonlySet<string> | undefined {
  if (!Array.isArray(entries)) return undefined
  const found = new Set<string>()
  entries.forEach((entry: unknown, index) => {
    if (typeof entry !== 'object' || entry === null) return
    for (const name of CLEAR_TEXT) {
      if (!Object.hasOwn(entry, name)) continue
      const pointer = base + step(index) + step(name)
      found.add(pointer).add(`${base}${step(index)}/sha256`)
      const message = `"${name}" holds a key in clear text: write sha256 (a2a-trust keys hash prints it), and replace the key`
      report.error('ERR_POLICY_KEY_FILE', pointer, message, 'key')
    }
  })
  return found
}

function quiet(report: Report, pointers: ReadonlySet<string>): Report {
  return {
    ...report,
    error: (code, pointer, message, part) => {
      if (!pointers.has(pointer)) report.error(code, pointer, message, part)
    },
  }
}

function withoutPrefix(report: Report, prefix: string): Report {
  const strip = (pointer: string): string => (pointer.startsWith(prefix) ? pointer.slice(prefix.length) : pointer)
  return {
    error: (code, pointer, message, part) => report.error(code, strip(pointer), message, part),
    warning: (code, pointer, message, part) => report.warning(code, strip(pointer), message, part),
  }
}
