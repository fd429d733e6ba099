/** The users file of a Basic scheme: who may present which password. It holds scrypt hashes with a salt each. */
import { z } from 'zod'
import { parsePasswordHash } from '../internal/password-hash.ts'
import { step } from '../protocol/card-reader.ts'
import type { BasicUser } from './compiled.ts'
import type { LoadContext } from './files.ts'
import { type KeyFileForm, label, loadKeyFile, time, toSeconds } from './key-file.ts'
import type { Report } from './report.ts'
import { quote } from './source.ts'

const entrySchema = z.strictObject({
  user: label
    .regex(/^[^:]*$/, 'has a colon, which ends a user name (RFC 7617 §2)')
    .refine((name) => name === name.normalize('NFC'), 'must be in Unicode normal form C, as callers are read')
    .meta({ description: 'The user name. Unique.' }),
  scrypt: z.string().superRefine((text, issues) => {
    const parsed = parsePasswordHash(text)
    if (typeof parsed === 'string') issues.addIssue({ code: 'custom', message: parsed })
  }),
  owner: label.optional().meta({ description: 'The subject of the principal. Default: the user name.' }),
  scopes: z.array(label).optional(),
  tenant: label.optional(),
  expiresAt: time.optional(),
  revoked: z.boolean().optional(),
})

const FORM: KeyFileForm<z.infer<typeof entrySchema>> = {
  list: 'users',
  entry: entrySchema,
  clearText: ['password', 'pass', 'secret', 'plain', 'value'],
  instead: {
    member: 'scrypt',
    message: (name) =>
      `"${name}" holds a password in clear text: write scrypt (a2a-trust keys hash --password prints it), and replace the password`,
  },
}

/** Loads the users file that `reference` names; reports every mistake in it. `undefined` when there is one. */
export async function loadUsers(
  reference: string,
  pointer: string,
  context: LoadContext,
  report: Report,
): Promise<readonly BasicUser[] | undefined> {
  const file = await loadKeyFile(FORM, reference, pointer, context, report)
  if (file === undefined) return undefined
  const names = new Set<string>()
  const hashes = new Set<string>()
  file.entries.forEach(({ user, scrypt }, index) => {
    const at = file.base + step(index)
    if (names.has(user)) file.report.error('ERR_POLICY_KEY_FILE', `${at}/user`, `${quote(user)} is listed twice`)
    // Salts are random: the same text again is a copied entry, and one password for two people.
    if (hashes.has(scrypt)) {
      file.report.error('ERR_POLICY_KEY_FILE', `${at}/scrypt`, '"scrypt" is that of another user: make each its own')
    }
    names.add(user)
    hashes.add(scrypt)
  })
  return file.entries.map(({ user, scrypt, owner = user, scopes, tenant, expiresAt, revoked }) => ({
    user,
    scrypt,
    owner,
    scopes: [...new Set(scopes)],
    ...(tenant === undefined ? {} : { tenant }),
    ...(expiresAt === undefined ? {} : { expiresAt: toSeconds(expiresAt) }),
    ...(revoked === true ? { revoked } : {}),
  }))
}
