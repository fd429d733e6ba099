/** What an operation is done with, as one text: what is shown, what is approved and what is used are the same bytes. */
import { canonicalizeJson } from '../card/canonicalize.ts'
import { sha256Hex } from '../internal/sha256.ts'

/** More than that nobody reads before pressing a button. */
const MAX_CHARACTERS = 16_384

/**
 * RFC 8785 text of a value. Throws `TypeError` for what JSON would change or leave out (`undefined`, NaN, a Date, a
 * `toJSON`, a class): two different values would be approved as one.
 */
export function canonicalParameters(value: unknown): string {
  const text = JSON.stringify(value, function (this: Record<string, unknown>, name: string, member: unknown) {
    if (!isJson(member) || !Object.is(this[name], member)) throw new TypeError('"parameters" must be plain JSON')
    return member
  })
  // Refuses what JSON can write and readers disagree about, such as half of a surrogate pair.
  const canonical = canonicalizeJson(text)
  if (canonical.length > MAX_CHARACTERS)
    throw new TypeError(`"parameters" must be at most ${MAX_CHARACTERS} characters of JSON`)
  return canonical
}

function isJson(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object') return typeof value === 'string' || typeof value === 'boolean'
  if (value === null || Array.isArray(value)) return true
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Names what is approved without saying it: task, operation and parameters. */
export function approvalDigest(taskId: string, operation: string, parameters: string): string {
  return sha256Hex(JSON.stringify([taskId, operation, parameters]))
}
