/**
 * Canonical JSON text. RFC 8785 is the one form this package signs; the other two exist only to verify what Python and
 * Go SDKs have signed. Input is what `parseStrictJson` returns: no lone surrogate, no lossy number, bounded depth.
 */
import { parseStrictJson } from '../internal/json.ts'

/** How one language writes JSON. */
export interface Dialect {
  /** Order of member names; absent: by UTF-16 code unit, which is ECMAScript's own. */
  readonly compare?: (a: string, b: string) => number
  readonly string: (value: string) => string
  readonly number: (value: number) => string
}

/** RFC 8785 §3.2: keys by UTF-16 code unit, ECMAScript numbers, only the mandatory escapes. */
export const JCS: Dialect = {
  // ECMAScript writes exactly these strings and numbers: RFC 8785 is defined by it.
  string: quote,
  number: (value) => JSON.stringify(value),
}

/** Python `json.dumps(sort_keys=True)`, every number a double as protobuf's `Struct` holds it. */
export const PYTHON: Dialect = {
  compare: byCodePoint,
  string: (value) =>
    JSON.stringify(value).replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  number: pythonFloat,
}

/** Go `encoding/json`. */
export const GO: Dialect = {
  compare: byCodePoint,
  string: (value) =>
    JSON.stringify(value).replace(
      /[<>&\u2028\u2029]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
  number: (value) => (Object.is(value, -0) ? '-0' : JSON.stringify(value)),
}

/** A number literal kept as it was written, for a dialect that tells `1` from `1.0`. */
export class NumberLiteral {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export function serialize(value: unknown, dialect: Dialect): string {
  switch (typeof value) {
    case 'string':
      return dialect.string(value)
    case 'number':
      return dialect.number(value)
    // An integer that no double is (RFC 8785 §3.2.2.3): it is signed as its double.
    case 'bigint':
      return dialect.number(Number(value))
    case 'boolean':
      return String(value)
    case 'object':
      break
    default:
      throw new TypeError('"value" must be JSON')
  }
  if (value === null) return 'null'
  if (Array.isArray(value)) {
    let items = ''
    for (const item of value) items += `${items === '' ? '' : ','}${serialize(item, dialect)}`
    return `[${items}]`
  }
  if (value instanceof NumberLiteral) {
    // Integers stay integers, of any size; the rest is a double.
    return /^-?\d+$/.test(value.text) ? value.text.replace(/^-0$/, '0') : dialect.number(Number(value.text))
  }
  const object = value as Record<string, unknown>
  const names = Object.keys(object)
  if (names.length > 1) names.sort(dialect.compare)
  let members = ''
  for (const name of names) {
    members += `${members === '' ? '' : ','}${dialect.string(name)}:${serialize(object[name], dialect)}`
  }
  return `{${members}}`
}

/** No quote, no backslash, no control character. */
const PLAIN = /^[ !#-[\]-\uffff]*$/

/** Most strings need no escape, and then the quotes are all there is to do. Lone surrogates do not come this far. */
function quote(value: string): string {
  return PLAIN.test(value) ? `"${value}"` : JSON.stringify(value)
}

/**
 * RFC 8785 text of a JSON text. Throws `TrustError` with the `ERR_JSON_*` code of `parseStrictJson`.
 * An integer beyond ±(2^53−1) becomes its double, as RFC 8785 §3.2.2.3 has it.
 * Does no Unicode normalisation (RFC 8785 §3.1).
 */
export function canonicalizeJson(text: string | Uint8Array): string {
  return serialize(parseStrictJson(text, { unsafeIntegers: 'round' }), JCS)
}

/** Code-point order differs from UTF-16 order where surrogates meet U+E000 to U+FFFF. */
function byCodePoint(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length)
  for (let index = 0; index < shorter; index += 1) {
    const [x, y] = [a.charCodeAt(index), b.charCodeAt(index)]
    if (x !== y) return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1
  }
  return a.length - b.length
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff
}

/** `repr(float)`: shortest digits, exponent form below 1e-4 and from 1e16. */
function pythonFloat(value: number): string {
  if (Object.is(value, -0)) return '-0.0'
  const [mantissa = '', power = ''] = value.toExponential().split('e')
  const exponent = Number(power)
  if (exponent < -4 || exponent >= 16) {
    return `${mantissa}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
  }
  // Below 1e21 and from 1e-6 ECMAScript writes plain decimals; 1e-4 is well inside.
  const plain = String(value)
  return plain.includes('.') ? plain : `${plain}.0`
}
