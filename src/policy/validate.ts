/** Checks a parsed file against its schema and says each mistake in words, in its place. */
import { z } from 'zod'
import { didYouMean, nearest } from '../internal/suggest.ts'
import { step } from '../protocol/card-reader.ts'
import { isObject, own } from '../protocol/json-object.ts'
import type { Report } from './report.ts'
import { quote } from './source.ts'

type Issue = z.core.$ZodIssue
type RawIssue = z.core.$ZodRawIssue
type Path = readonly PropertyKey[]

/**
 * Validates `value` and reports every mistake. Returns the value when there is none.
 * Says what is expected and what kind of value was found, never the value: it might be a secret in the wrong place.
 */
export function validate<T extends z.ZodType>(schema: T, value: unknown, report: Report): z.infer<T> | undefined {
  const result = schema.safeParse(value, { error: wording, reportInput: true })
  if (result.success) return result.data
  // One mistake makes several checks fail: what is said first about a place is what is wrong with it.
  const said = new Set<string>()
  const covered = new Set(misspelt(result.error.issues, schema))
  const once: Report = {
    ...report,
    error: (code, pointer, message, part) => {
      if (said.has(pointer) || (code === 'ERR_POLICY_MISSING' && covered.has(pointer))) return
      said.add(pointer)
      report.error(code, pointer, message, part)
    },
  }
  for (const issue of result.error.issues) reportIssue(issue, { schema, value, report: once }, [])
  return undefined
}

/** Pointers of keys that are there under a misspelt name: that they are missing need not be said as well. */
function misspelt(issues: readonly Issue[], schema: z.ZodType): string[] {
  return issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') return []
    const known = knownKeys(schemaAt(schema, issue.path))
    const parent = issue.path.map((part) => step(String(part))).join('')
    return issue.keys.flatMap((key) => nearest(key, known) ?? []).map((meant) => parent + step(meant))
  })
}

/** Whether `value` is valid, without saying anything. */
export function accepted<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> | undefined {
  const result = schema.safeParse(value)
  return result.success ? result.data : undefined
}

/** The members of a broken object that are valid by themselves, so that what depends on them is still checked. */
export function validMembers<T extends z.ZodRawShape>(shape: T, value: unknown): Partial<z.infer<z.ZodObject<T>>> {
  const valid: Record<string, unknown> = {}
  for (const [key, schema] of Object.entries(shape)) {
    const member = isObject(value) ? accepted(schema as z.ZodType, own(value, key)) : undefined
    if (member !== undefined) valid[key] = member
  }
  return valid as Partial<z.infer<z.ZodObject<T>>>
}

interface Subject {
  readonly schema: z.ZodType
  readonly value: unknown
  readonly report: Report
}

function reportIssue(issue: Issue, subject: Subject, base: Path): void {
  const { report } = subject
  const path = [...base, ...issue.path]
  const pointer = path.map((part) => step(String(part))).join('')
  const value = valueAt(subject.value, path)
  if (issue.code === 'unrecognized_keys') {
    const messages = issue.message.split('\n')
    issue.keys.forEach((key, i) => {
      report.error('ERR_POLICY_UNKNOWN_KEY', pointer + step(key), messages[i] ?? '', 'key')
    })
  } else if (value === undefined) {
    const name = String(path.at(-1))
    report.error('ERR_POLICY_MISSING', pointer, `${quote(name)} is missing${example(subject.schema, path)}`, 'key')
  } else if (issue.code === 'invalid_union') {
    const inner = branchFor(issue)
    if (inner.some(isMistyped)) {
      report.error('ERR_POLICY_VALUE', pointer, sentence(path, `must be ${expectedOf(issue)}${found(issue.input)}`))
    } else for (const each of inner) reportIssue(each, subject, path)
  } else if (issue.code !== 'custom' || !hasUnknownKeys(value, subject.schema, path)) {
    report.error('ERR_POLICY_VALUE', pointer, sentence(path, issue.message))
  }
}

/** A rule on a whole object says nothing useful while one of its keys is misspelt. */
function hasUnknownKeys(value: unknown, schema: z.ZodType, path: Path): boolean {
  const known = knownKeys(schemaAt(schema, path))
  return known.length > 0 && typeof value === 'object' && Object.keys(value ?? {}).some((key) => !known.includes(key))
}

function isMistyped(issue: Issue): boolean {
  return issue.code === 'invalid_type' && issue.path.length === 0
}

/**
 * The branch the user meant: of the right type, with the fewest unknown keys, then the fewest mistakes.
 * The order of the branches decides between equals.
 */
function branchFor(issue: z.core.$ZodIssueInvalidUnion): readonly Issue[] {
  const score = (issues: readonly Issue[]): number => {
    const unknown = issues.reduce((sum, inner) => sum + (inner.code === 'unrecognized_keys' ? inner.keys.length : 0), 0)
    return (issues.some(isMistyped) ? 1e6 : 0) + unknown * 1e3 + issues.length
  }
  return issue.errors.reduce((best, branch) => (score(branch) < score(best) ? branch : best), issue.errors[0] ?? [])
}

/** Messages for what the schema does not word itself. */
function wording(issue: RawIssue): string | undefined {
  switch (issue.code) {
    case 'unrecognized_keys': {
      const known = knownKeys(issue.inst)
      const all = known.length > 0 && known.length <= 32 ? `; known here: ${known.join(', ')}` : ''
      return issue.keys.map((key) => `${quote(key)} has no meaning here${didYouMean(key, known) || all}`).join('\n')
    }
    case 'invalid_type':
      return `must be ${typeName(issue.expected)}${found(issue.input)}`
    case 'invalid_value': {
      const choices = issue.values.map(String)
      if (typeof issue.input !== 'string') return `must be ${choices.join(' or ')}${found(issue.input)}`
      const hint = didYouMean(issue.input, choices)
      return hint !== '' && choices.length > 4 ? `is not known${hint}` : `must be ${choices.join(' or ')}${hint}`
    }
    default:
      return undefined
  }
}

/** What to write where something is missing. */
function example(schema: z.ZodType, path: Path): string {
  const shown = schemaAt(schema, path)?.meta()?.examples
  return Array.isArray(shown) ? `: write ${String(path.at(-1))}: ${String(shown[0])}` : ''
}

/** The schema of the value at `path`, where no union is on the way. */
function schemaAt(schema: z.ZodType, path: Path): z.ZodType | undefined {
  let at: unknown = schema
  for (const part of path) {
    while (at instanceof z.ZodOptional) at = at.unwrap()
    if (at instanceof z.ZodObject) at = at.shape[part as string]
    else if (at instanceof z.ZodArray) at = at.element
    else if (at instanceof z.ZodRecord) at = at.valueType
    else return undefined
  }
  while (at instanceof z.ZodOptional) at = at.unwrap()
  return at as z.ZodType | undefined
}

/** `text or a list`. */
function expectedOf(issue: z.core.$ZodIssueInvalidUnion): string {
  const types = issue.errors.flatMap((branch) =>
    branch.flatMap((inner) => (inner.code === 'invalid_type' && isMistyped(inner) ? [typeName(inner.expected)] : [])),
  )
  return [...new Set(types)].join(' or ')
}

function typeName(expected: string): string {
  const names: Readonly<Record<string, string>> = {
    string: 'text',
    array: 'a list',
    object: 'a map of keys and values',
    record: 'a map of keys and values',
    boolean: 'true or false',
    number: 'a number',
    int: 'a whole number',
  }
  return names[expected] ?? expected
}

/** What stands there instead, and the usual reason. */
function found(input: unknown): string {
  if (input === undefined) return ''
  if (input === null) return ', and there is no value'
  if (typeof input === 'string') {
    return /^(?:yes|no|on|off|true|false|y|n)$/i.test(input)
      ? ', and this is text: write true or false, without quotes'
      : ', and this is text'
  }
  if (typeof input === 'number') return ', and this is a number: to mean text, put it in quotes'
  if (typeof input === 'boolean') return ', and this is true or false: to mean text, put it in quotes'
  return Array.isArray(input) ? ', and this is a list' : ', and this is a map'
}

/** `"audience" must be …`, `an entry of "audience" must be …`. */
function sentence(path: Path, message: string): string {
  const last = path.at(-1)
  if (last === undefined) return `the file ${message}`
  if (typeof last === 'string') return `${quote(last)} ${message}`
  const list = path.findLast((part) => typeof part === 'string')
  return list === undefined ? `entry ${Number(last) + 1} ${message}` : `an entry of ${quote(String(list))} ${message}`
}

function knownKeys(schema: unknown): string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
}

function valueAt(root: unknown, path: Path): unknown {
  let value = root
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Record<PropertyKey, unknown>)[step]
  }
  return value
}
