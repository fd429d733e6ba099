/**
 * The key file of an apiKey scheme: who owns which key. It holds SHA-256 digests only, so that reading it gives nobody
 * a key (the keys are random, which is why a plain digest is enough).
 */
import { z } from 'zod'
import { step } from '../protocol/card-reader.ts'
import type { ApiKeyRecord } from './compiled.ts'
import type { LoadContext } from './files.ts'
import { type KeyFileForm, label, loadKeyFile, time, toSeconds } from './key-file.ts'
import type { Report } from './report.ts'
import { quote } from './source.ts'

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

const FORM: KeyFileForm<z.infer<typeof entrySchema>> = {
  list: 'keys',
  entry: entrySchema,
  clearText: ['key', 'apiKey', 'api_key', 'secret', 'value', 'token', 'plain', 'password'],
  instead: {
    member: 'sha256',
    message: (name) =>
      `"${name}" holds a key in clear text: write sha256 (a2a-trust keys hash prints it), and replace the key`,
  },
}

/** Loads the key file that `reference` names; reports every mistake in it. `undefined` when there is one. */
export async function loadApiKeys(
  reference: string,
  pointer: string,
  context: LoadContext,
  report: Report,
): Promise<readonly ApiKeyRecord[] | undefined> {
  const file = await loadKeyFile(FORM, reference, pointer, context, report)
  if (file === undefined) return undefined
  const records = file.entries.map(recordOf)
  reportConflicts(records, file.base, context, file.report)
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
