/** Settings this version reads and cannot enforce. They refuse the start: a control that is written is relied upon. */
import { step } from '../protocol/card-reader.ts'
import { isObject } from '../protocol/json-object.ts'
import type { LoadContext } from './files.ts'
import { resolveSecret } from './references.ts'
import type { Report } from './report.ts'
import { secretReference } from './schema-values.ts'
import { accepted } from './validate.ts'

const UNSUPPORTED = ['stores'] as const

/**
 * Reports such settings, and what is wrong with the secrets they refer to, so that nothing is left for later.
 * `file` is the policy as written: a section with other mistakes is refused all the same.
 */
export async function refuseUnsupported(
  file: Readonly<Record<string, unknown>>,
  context: LoadContext,
  report: Report,
): Promise<void> {
  for (const key of UNSUPPORTED) {
    if (!Object.hasOwn(file, key)) continue
    report.error('ERR_POLICY_UNSUPPORTED', `/${key}`, `"${key}" is not enforced by this version: remove it`, 'key')
    await checkSecretsIn(file[key], `/${key}`, context, report)
  }
}

/** Follows the references of a section that is not compiled, as it has other mistakes: all of them are said at once. */
export async function checkSecretsIn(
  section: unknown,
  at: string,
  context: LoadContext,
  report: Report,
): Promise<void> {
  for (const [pointer, reference] of secretsIn(section, at)) await resolveSecret(reference, pointer, context, report)
}

/** Where the schema has a reference to a secret. */
const SECRET_MEMBERS: ReadonlySet<string> = new Set(['current', 'previous', 'secret', 'url'])

function* secretsIn(value: unknown, pointer: string): Generator<[pointer: string, reference: string]> {
  if (!isObject(value) && !Array.isArray(value)) return
  for (const [name, member] of Object.entries(value)) {
    const reference = SECRET_MEMBERS.has(name) ? accepted(secretReference, member) : undefined
    if (reference === undefined) yield* secretsIn(member, pointer + step(name))
    else yield [pointer + step(name), reference]
  }
}
