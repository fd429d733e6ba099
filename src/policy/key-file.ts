/** What files of keys and files of passwords have in common. Neither holds anything that opens a door. */
import { z } from 'zod'
import { step } from '../protocol/card-reader.ts'
import { isProduction, type LoadContext, openSource } from './files.ts'
import type { Report } from './report.ts'
import { validate } from './validate.ts'

export const label = z
  .string()
  .min(1, 'is empty')
  .max(256, 'is longer than 256 characters')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  .regex(/^(?=\S)[^\u0000-\u001f\u007f]*\S$/, 'has a control character, or a space at an end')

/** Seconds since the epoch, or RFC 3339. Milliseconds would be a date in the far future, so they are refused. */
export const time = z.union([
  z.int().min(0, 'is before 1970').max(99_999_999_999, 'looks like milliseconds: write seconds or an RFC 3339 time'),
  z.iso.datetime({ offset: true, error: 'must be unix seconds or an RFC 3339 time such as 2027-01-31T00:00:00Z' }),
])

export function toSeconds(value: number | string): number {
  return typeof value === 'number' ? value : Math.floor(Date.parse(value) / 1000)
}

export interface KeyFileForm<T> {
  /** The member that holds the list: `keys`, `users`. */
  readonly list: string
  readonly entry: z.ZodType<T>
  /** Names under which people put the secret itself, and the member that belongs there instead. */
  readonly clearText: readonly string[]
  readonly instead: { readonly member: string; readonly message: (name: string) => string }
}

export interface KeyFile<T> {
  readonly entries: readonly T[]
  /** Pointer of the list in the file. */
  readonly base: string
  readonly report: Report
}

/** Loads the file that `reference` names; reports every mistake in it. `undefined` when there is one. */
export async function loadKeyFile<T>(
  form: KeyFileForm<T>,
  reference: string,
  pointer: string,
  context: LoadContext,
  report: Report,
): Promise<KeyFile<T> | undefined> {
  const opened = await openSource(reference, pointer, context, report)
  if (opened === undefined) return undefined
  const { source, report: inFile } = opened
  // A bare list is the same file without the marker.
  const bare = Array.isArray(source.value)
  const content = bare ? { [form.list]: source.value } : source.value
  const base = bare ? '' : `/${form.list}`
  const entries = bare ? source.value : (content as Record<string, unknown> | null)?.[form.list]
  const quieter = quiet(inFile, reportClearText(entries, form, base, inFile))
  const schema = z.strictObject({
    example: z.boolean().optional(),
    [form.list]: z.array(form.entry).min(1, 'is empty, so nobody could call'),
  })
  const file = validate(schema, content, bare ? withoutPrefix(quieter, `/${form.list}`) : quieter)
  if (file === undefined) return undefined
  // Marks what is published with the package, so that everybody has it.
  if (file.example === true && isProduction(context)) {
    inFile.error('ERR_POLICY_EXAMPLE_KEY', '/example', 'these keys are published with the package: make your own')
  }
  return { entries: file[form.list] as readonly T[], base, report: inFile }
}

/** Reports entries with a clear-text secret; returns the pointers, so that the schema does not report them again. */
function reportClearText<T>(
  entries: unknown,
  { clearText, instead }: KeyFileForm<T>,
  base: string,
  report: Report,
): ReadonlySet<string> {
  const found = new Set<string>()
  if (!Array.isArray(entries)) return found
  entries.forEach((entry: unknown, index) => {
    if (typeof entry !== 'object' || entry === null) return
    for (const name of clearText) {
      if (!Object.hasOwn(entry, name)) continue
      const pointer = base + step(index) + step(name)
      found.add(pointer).add(base + step(index) + step(instead.member))
      report.error('ERR_POLICY_KEY_FILE', pointer, instead.message(name), 'key')
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
