/**
 * Reads a configuration text (policy, key file, card, trust file) into plain data that remembers where each value
 * stood. Only the part of YAML that means one thing to every reader is accepted: no anchors, aliases, tags, merge
 * keys, directives, second documents or keys that are not text. `.json` files go through the strict JSON reader.
 */
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, type ParsedNode, parseAllDocuments } from 'yaml'
import { type ErrorCode, messageOf, TrustError } from '../errors.ts'
import { parseStrictJson } from '../internal/json.ts'
import { step } from '../protocol/card-reader.ts'
import { jsonOffsets, lineIndex, type Offsets, type Position } from './positions.ts'
import type { Problem } from './problem.ts'

export type { Position } from './positions.ts'

/** Plain data and where it came from. */
export interface Source {
  /** As the user named it. */
  readonly file: string
  /** Objects have null prototypes; there are no cycles, no `undefined` and no number that JSON could not carry. */
  readonly value: unknown
  /**
   * Where the value at a JSON Pointer begins, or its key. `undefined` for data that was given as an object. A pointer to
   * something absent gives the place of the nearest parent that is there.
   */
  locate(pointer: string, part?: 'key' | 'value'): Position | undefined
}

export type SourceResult =
  | { readonly ok: true; readonly source: Source; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] }

export interface SourceOptions {
  /** Code of every problem found here. Default `ERR_POLICY_SYNTAX`. */
  readonly code?: ErrorCode
  /** Largest text, in UTF-16 code units. Default 262144. */
  readonly maxLength?: number
}

const MAX_LENGTH = 256 * 1024
const MAX_DEPTH = 64

/**
 * Reads `text`. JSON where `file` ends in `.json`, YAML 1.2 (core schema) otherwise. Never throws on bad text: every
 * mistake found is a problem with its place.
 */
export function readSource(text: string, file: string, options: SourceOptions = {}): SourceResult {
  const { code = 'ERR_POLICY_SYNTAX', maxLength = MAX_LENGTH } = options
  if (text.length > maxLength) {
    const message = `the text is longer than ${maxLength} characters`
    return { ok: false, problems: [{ code, file, line: 1, column: 1, pointer: '', message, severity: 'error' }] }
  }
  return /\.json$/i.test(file) ? readJson(text, file, code) : readYaml(text, file, code)
}

/** Reads data given as an object: copied, so that the caller's later changes do nothing. */
export function objectSource(value: unknown, file = 'policy', code: ErrorCode = 'ERR_POLICY_VALUE'): SourceResult {
  const problems: Problem[] = []
  const copy = copyPlain(value, '', 0, (pointer, message, severity) =>
    problems.push({ code, file, pointer, message, severity }),
  )
  if (problems.some(({ severity }) => severity === 'error')) return { ok: false, problems }
  return { ok: true, source: { file, value: copy, locate: () => undefined }, warnings: problems }
}

function readJson(text: string, file: string, code: ErrorCode): SourceResult {
  const lines = lineIndex(text)
  try {
    const value = parseStrictJson(text, { maxDepth: MAX_DEPTH })
    const offsets = jsonOffsets(text)
    const reserved = [...offsets.keys()].find((pointer) => pointer.endsWith('/__proto__'))
    if (reserved === undefined) return { ok: true, source: located(file, value, offsets, lines), warnings: [] }
    const place = lines(offsets.get(reserved)?.key ?? 0)
    const message = '"__proto__" is not accepted as a key'
    return { ok: false, problems: [{ code, file, ...place, pointer: reserved, message, severity: 'error' }] }
  } catch (error) {
    if (!(error instanceof TrustError)) throw error
    const { offset } = error.details
    const place = typeof offset === 'number' ? lines(offset) : { line: 1, column: 1 }
    const why = error.code === 'ERR_JSON_SYNTAX' ? 'something else is expected here' : lowerFirst(messageOf(error.code))
    const message = `not valid JSON: ${why}`
    return { ok: false, problems: [{ code, file, ...place, pointer: '', message, severity: 'error' }] }
  }
}

function readYaml(text: string, file: string, code: ErrorCode): SourceResult {
  const lines = lineIndex(text)
  const problems: Problem[] = []
  const refuse = (offset: number, pointer: string, message: string): void => {
    problems.push({ code, file, ...lines(offset), pointer, message, severity: 'error' })
  }
  const documents = parseYaml(text)
  if (documents === undefined) {
    refuse(0, '', `the value is nested deeper than ${MAX_DEPTH} levels`)
    return { ok: false, problems }
  }
  const [document, second] = documents
  if (document === undefined) {
    refuse(0, '', 'the file is empty')
    return { ok: false, problems }
  }
  // A directive can turn `no` into false (YAML 1.1) or give tags a meaning; neither has a use here.
  const { yaml, tags } = document.directives
  if (yaml.explicit === true || Object.keys(tags).length > 1) {
    refuse(0, '', 'a % directive is not accepted: remove the line (the file is read as YAML 1.2)')
  }
  if (second !== undefined) {
    refuse(second.range[0], '', 'a second document begins here; put one document in one file')
  }
  // After the first syntax error the parser guesses, and reports its guesses too.
  const [mistake] = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
  if (mistake !== undefined) refuse(mistake.pos[0], '', yamlMessage(mistake.message))
  if (problems.length > 0) return { ok: false, problems }

  const offsets = new Map<string, Offsets>()
  const value = plainValue(document.contents, '', 0, { offsets, refuse, lines })
  if (problems.length > 0) return { ok: false, problems }
  return { ok: true, source: located(file, value, offsets, lines), warnings: [] }
}

function parseYaml(text: string) {
  try {
    const documents = parseAllDocuments(text, {
      version: '1.2',
      schema: 'core',
      merge: false,
      strict: true,
      stringKeys: false,
      uniqueKeys: false, // checked below, where it costs linear time and both places are known
      prettyErrors: false,
      lineCounter: new LineCounter(),
    })
    return Array.isArray(documents) ? documents : []
  } catch (error) {
    if (error instanceof RangeError) return undefined // the parser recurses: depth is what exhausts it
    throw error
  }
}

interface Walk {
  readonly offsets: Map<string, Offsets>
  readonly refuse: (offset: number, pointer: string, message: string) => void
  readonly lines: (offset: number) => Position
}

/** The value of a node, or `undefined` where a problem was recorded. */
function plainValue(node: Node | null, pointer: string, depth: number, walk: Walk, at = 0): unknown {
  const start = (node as ParsedNode | null)?.range?.[0] ?? at
  if (!walk.offsets.has(pointer)) walk.offsets.set(pointer, { value: start })
  if (node === null) return null
  if (isAlias(node)) return walk.refuse(start, pointer, 'an alias (*) is not accepted: write the value out')
  const { anchor, tag } = node as { anchor?: string; tag?: string }
  if (anchor !== undefined) return walk.refuse(start, pointer, 'an anchor (&) is not accepted: write the value out')
  if (tag !== undefined) return walk.refuse(start, pointer, 'a tag (!) is not accepted: write the plain value')
  if (depth > MAX_DEPTH) return walk.refuse(start, pointer, `the value is nested deeper than ${MAX_DEPTH} levels`)

  if (isSeq(node)) {
    return node.items.map((item, index) =>
      plainValue(item as Node | null, pointer + step(index), depth + 1, walk, start),
    )
  }
  if (!isMap(node)) {
    const value = isScalar(node) ? node.value : undefined
    if (typeof value !== 'number' || Number.isFinite(value)) return value
    return walk.refuse(start, pointer, 'the number is not finite')
  }

  const object: Record<string, unknown> = Object.create(null)
  const seen = new Map<string, number>()
  for (const pair of node.items) {
    const key = pair.key as ParsedNode | null
    const keyStart = key?.range?.[0] ?? start
    if (!isScalar(key) || typeof key.value !== 'string' || key.anchor !== undefined || key.tag !== undefined) {
      walk.refuse(keyStart, pointer, 'a key must be plain text: put it in quotes')
      continue
    }
    const name = key.value
    const child = pointer + step(name)
    const first = seen.get(name)
    if (first !== undefined) {
      walk.refuse(keyStart, child, `${quote(name)} is here twice, first on line ${walk.lines(first).line}: keep one`)
      continue
    }
    seen.set(name, keyStart)
    if (name === '<<') {
      walk.refuse(keyStart, child, 'a merge key (<<) is not accepted: write the keys out')
    } else if (name === '__proto__') {
      walk.refuse(keyStart, child, '"__proto__" is not accepted as a key')
    } else {
      const value = pair.value as ParsedNode | null
      walk.offsets.set(child, { key: keyStart, value: value?.range?.[0] ?? keyStart })
      object[name] = plainValue(value, child, depth + 1, walk, keyStart)
    }
  }
  return object
}

function located(
  file: string,
  value: unknown,
  offsets: ReadonlyMap<string, Offsets>,
  lines: (offset: number) => Position,
): Source {
  return {
    file,
    value,
    locate(pointer, part = 'value') {
      const found = offsets.get(pointer)
      if (found !== undefined) return lines(part === 'key' ? (found.key ?? found.value) : found.value)
      const parent = pointer.slice(0, Math.max(0, pointer.lastIndexOf('/')))
      return pointer === '' ? { line: 1, column: 1 } : this.locate(parent, 'key')
    },
  }
}

function copyPlain(
  value: unknown,
  pointer: string,
  depth: number,
  report: (pointer: string, message: string, severity: Problem['severity']) => void,
): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) report(pointer, 'the number is not finite', 'error')
    return value
  }
  if (depth > MAX_DEPTH) return report(pointer, `the value is nested deeper than ${MAX_DEPTH} levels`, 'error')
  if (Array.isArray(value)) {
    return Array.from(value, (item, i) => copyPlain(item, pointer + step(i), depth + 1, report))
  }
  if (typeof value !== 'object' || !isPlain(value)) {
    const what = typeof value === 'object' ? 'an instance of a class' : typeof value
    return report(pointer, `${what} is not plain data: give text, numbers, booleans, lists and plain objects`, 'error')
  }
  const copy: Record<string, unknown> = Object.create(null)
  for (const [name, member] of Object.entries(value)) {
    const child = pointer + step(name)
    if (name === '__proto__') report(child, '"__proto__" is not accepted as a key', 'error')
    // A setting computed from something unset must not vanish without a trace.
    else if (member === undefined) report(child, 'is undefined and was read as absent: leave the key out', 'warning')
    else copy[name] = copyPlain(member, child, depth + 1, report)
  }
  return copy
}

function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}

/** The parser's words, on one line and bounded. */
function yamlMessage(message: string): string {
  if (/^tabs are not allowed/i.test(message)) return 'a tab is not accepted as indentation: use spaces'
  if (/^flow (?:sequence|map)/i.test(message)) return 'a [ or { before this is not closed, or its end is not indented'
  return `not valid YAML: ${lowerFirst(oneLine(message))}`
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').slice(0, 200)
}

/** A name from a file, safe to print: JSON-quoted, without control characters, bounded. */
export function quote(name: string): string {
  const short = name.length > 120 ? `${name.slice(0, 120)}…` : name
  return JSON.stringify(short).replace(/[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '?')
}
