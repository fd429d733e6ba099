/** Checks a parsed file against its schema and says each mistake in words, in its place. */
import { z } from 'zod'
import { pointerStep } from './positions.ts'
import type { Report } from './report.ts'
import { quote } from './source.ts'
import { didYouMean } from './suggest.ts'

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
  for (const issue of result.error.issues) reportIssue(issue, value, [], report)
  return undefined
}

/** Whether `value` is valid, without saying anything. */
export function accepted<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> | undefined {
  const result = schema.safeParse(value)
  return result.success ? result.data : undefined
}

function reportIssue(issue: Issue, root: unknown, base: Path, report: Report): void {
  const path = [...base, ...issue.path]
  const pointer = path.map((step) => pointerStep(String(step))).join('')
  const value = valueAt(root, path)
  if (issue.code === 'unrecognized_keys') {
    const messages = issue.message.split('\n')
    issue.keys.forEach((key, i) => {
      report.error('ERR_POLICY_UNKNOWN_KEY', pointer + pointerStep(key), messages[i] ?? '', 'key')
    })
  } else if (value === undefined) {
    const name = quote(String(path.at(-1)))
    report.error('ERR_POLICY_MISSING', pointer, `${name} is missing: ${expectation(issue)}`, 'key')
  } else if (issue.code === 'invalid_union') {
    for (const inner of branchFor(issue, value)) {
      if (inner.code === 'invalid_type' && inner.path.length === 0) reportUnion(issue, pointer, report)
      else reportIssue(inner, root, path, report)
    }
  } else {
    report.error('ERR_POLICY_VALUE', pointer, sentence(path, issue.message))
  }
}

function reportUnion(issue: z.core.$ZodIssueInvalidUnion, pointer: string, report: Report): void {
  const path = pointer.split('/')
  report.error('ERR_POLICY_VALUE', pointer, sentence(path, `must be ${expectedOf(issue)}${found(issue.input)}`))
}

/**
 * The branch the user meant: of the right type, with the fewest unknown keys, then the fewest mistakes.
 * The order of the branches decides between equals.
 */
function branchFor(issue: z.core.$ZodIssueInvalidUnion, _value: unknown): readonly Issue[] {
  const score = (issues: readonly Issue[]): number => {
    const mistyped = issues.some((inner) => inner.code === 'invalid_type' && inner.path.length === 0)
    const unknown = issues.reduce((sum, inner) => sum + (inner.code === 'unrecognized_keys' ? inner.keys.length : 0), 0)
    return (mistyped ? 1e6 : 0) + unknown * 1e3 + issues.length
  }
  return issue.errors.reduce((best, branch) => (score(branch) < score(best) ? branch : best), issue.errors[0] ?? [])
}

/** Messages for what the schema does not word itself. */
function wording(issue: RawIssue): string | undefined {
  switch (issue.code) {
    case 'unrecognized_keys': {
      const known = knownKeys(issue.inst)
      const all = known.length > 0 && known.length <= 12 ? `; known here: ${known.join(', ')}` : ''
      return issue.keys.map((key) => `${quote(key)} has no meaning here${didYouMean(key, known) || all}`).join('\n')
    }
    case 'invalid_type':
      return `must be ${typeName(issue.expected)}${found(issue.input)}`
    case 'invalid_value': {
      const choices = issue.values.map(String)
      const hint = typeof issue.input === 'string' ? didYouMean(issue.input, choices) : found(issue.input)
      return `must be ${choices.length === 1 ? choices[0] : `one of ${choices.join(', ')}`}${hint}`
    }
    default:
      return undefined
  }
}

/** What a missing value would have to be. */
function expectation(issue: Issue): string {
  if (issue.code === 'invalid_union') return `write ${expectedOf(issue)}`
  if (issue.code === 'invalid_type') return `write ${typeName(issue.expected)}`
  if (issue.code === 'invalid_value')
    return `write ${issue.values.length === 1 ? '' : 'one of '}${issue.values.join(', ')}`
  return issue.message
}

/** `text or a list`. */
function expectedOf(issue: z.core.$ZodIssueInvalidUnion): string {
  const types = issue.errors.flatMap((branch) =>
    branch.flatMap((inner) =>
      inner.code === 'invalid_type' && inner.path.length === 0 ? [typeName(inner.expected)] : [],
    ),
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

/** `"audience" must be …`; an entry of a list is named by its list. */
function sentence(path: readonly PropertyKey[], message: string): string {
  const name = path.findLast((step) => typeof step === 'string' && step !== '' && !/^\d+$/.test(step))
  return name === undefined ? `the file ${message}` : `${quote(String(name))} ${message}`
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
