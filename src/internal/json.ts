/**
 * Strict JSON (RFC 8259 within I-JSON, RFC 7493): one text, one value, or a coded error. It exists because
 * `JSON.parse` keeps the last of two equal names, turns large integers into other integers and lets half a surrogate
 * pair through, and each of these lets two readers of one text see different things.
 */
import { type ErrorCode, TrustError } from '../errors.ts'

export interface StrictJsonOptions {
  /** Largest text in bytes. Default 4 MiB. */
  readonly maxBytes?: number
  /** Deepest nesting of arrays and objects. Default 128. */
  readonly maxDepth?: number
  /** Reads integers beyond ±(2^53−1) as the nearest double, as most readers do. Default: they are refused. */
  readonly unsafeIntegers?: 'refuse' | 'round'
  /** Makes the value of a number literal, where a double does not say enough. */
  readonly number?: (literal: string) => unknown
}

const MAX_BYTES = 4 * 1024 * 1024
const MAX_DEPTH = 128

/**
 * Parses `input` (UTF-8 bytes, or text). Objects have a null prototype, so `__proto__` is data.
 *
 * Refuses: a byte order mark, invalid UTF-8, unpaired surrogates (raw or escaped), a member name twice in one object
 * (compared after unescaping), integers beyond ±(2^53−1), numbers that overflow, nesting over `maxDepth`, text over
 * `maxBytes`, anything after the value. Throws `TrustError` with an `ERR_JSON_*` code and `details.offset`.
 */
export function parseStrictJson(input: string | Uint8Array, options: StrictJsonOptions = {}): unknown {
  if (typeof input !== 'string' && !ArrayBuffer.isView(input)) {
    throw new TypeError(
      '"input" must be the text or the bytes as received: a parsed value has lost what is checked here',
    )
  }
  const { maxBytes = MAX_BYTES, maxDepth = MAX_DEPTH } = options
  const size = typeof input === 'string' ? input.length : input.byteLength
  // A string has at most three bytes for each code unit: measure it only where that matters.
  if (size > maxBytes || (typeof input === 'string' && size * 3 > maxBytes && Buffer.byteLength(input) > maxBytes)) {
    throw new TrustError('ERR_JSON_SIZE', { details: { maxBytes } })
  }
  return new Parser(typeof input === 'string' ? input : decodeUtf8(input), maxDepth, options).document()
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new TrustError('ERR_JSON_ENCODING')
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
}
/** Control characters, the backslash and surrogates: what makes a string more than a slice of the text. */
const SPECIAL = /[^ -[\]-\ud7ff\ue000-\uffff]/
const HEX4 = /^[0-9a-fA-F]{4}$/

class Parser {
  readonly #text: string
  readonly #maxDepth: number
  readonly #round: boolean
  readonly #literal: ((literal: string) => unknown) | undefined
  #at = 0
  #depth = 0

  constructor(text: string, maxDepth: number, { unsafeIntegers, number }: StrictJsonOptions) {
    this.#text = text
    this.#maxDepth = maxDepth
    this.#round = unsafeIntegers === 'round'
    this.#literal = number
  }

  document(): unknown {
    if (this.#text.charCodeAt(0) === 0xfeff) this.#fail('ERR_JSON_BOM')
    const value = this.#value()
    if (this.#peek() !== -1) this.#fail('ERR_JSON_TRAILING_DATA')
    return value
  }

  /** Code of the next character that is not white space, or -1 at the end. Does not consume it. */
  #peek(): number {
    const text = this.#text
    for (;;) {
      const code = text.charCodeAt(this.#at)
      if (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) this.#at += 1
      else return Number.isNaN(code) ? -1 : code
    }
  }

  #value(): unknown {
    switch (this.#peek()) {
      case 0x7b:
        return this.#object()
      case 0x5b:
        return this.#array()
      case QUOTE:
        return this.#string()
      case 0x74:
        return this.#word('true', true)
      case 0x66:
        return this.#word('false', false)
      case 0x6e:
        return this.#word('null', null)
      default:
        return this.#number()
    }
  }

  #object(): Record<string, unknown> {
    this.#enter()
    const object: Record<string, unknown> = Object.create(null)
    if (this.#peek() === 0x7d) return this.#leave(object)
    for (;;) {
      if (this.#peek() !== QUOTE) this.#fail('ERR_JSON_SYNTAX')
      const start = this.#at
      const name = this.#string()
      if (name in object) {
        this.#at = start
        this.#fail('ERR_JSON_DUPLICATE_NAME')
      }
      if (this.#peek() !== 0x3a) this.#fail('ERR_JSON_SYNTAX')
      this.#at += 1
      object[name] = this.#value()
      const next = this.#peek()
      if (next === 0x7d) return this.#leave(object)
      if (next !== 0x2c) this.#fail('ERR_JSON_SYNTAX')
      this.#at += 1
    }
  }

  #array(): unknown[] {
    this.#enter()
    const array: unknown[] = []
    if (this.#peek() === 0x5d) return this.#leave(array)
    for (;;) {
      array.push(this.#value())
      const next = this.#peek()
      if (next === 0x5d) return this.#leave(array)
      if (next !== 0x2c) this.#fail('ERR_JSON_SYNTAX')
      this.#at += 1
    }
  }

  #enter(): void {
    this.#depth += 1
    if (this.#depth > this.#maxDepth) this.#fail('ERR_JSON_DEPTH')
    this.#at += 1
  }

  #leave<T>(value: T): T {
    this.#depth -= 1
    this.#at += 1
    return value
  }

  #string(): string {
    const start = this.#at + 1
    // Native search is several times faster than the loop below, and most strings need no more.
    const end = this.#text.indexOf('"', start)
    const raw = this.#text.slice(start, end)
    if (end === -1 || SPECIAL.test(raw)) return this.#specialString(start)
    this.#at = end + 1
    return raw
  }

  #specialString(start: number): string {
    const text = this.#text
    let at = start
    let plain = true
    let surrogates = false
    for (;;) {
      const code = text.charCodeAt(at)
      if (code === QUOTE) break
      if (code === BACKSLASH) {
        plain = false
        at += 2
      } else if (code >= 0x20) {
        if (code >= 0xd800 && code <= 0xdfff) surrogates = true
        at += 1
      } else {
        // A control character, or the end of the text (NaN).
        this.#at = at
        this.#fail('ERR_JSON_SYNTAX')
      }
    }
    const raw = text.slice(start, at)
    const value = plain ? raw : this.#unescape(raw, start)
    if ((surrogates || !plain) && !value.isWellFormed()) this.#fail('ERR_JSON_LONE_SURROGATE')
    this.#at = at + 1
    return value
  }

  #unescape(raw: string, start: number): string {
    let value = ''
    let from = 0
    for (;;) {
      const slash = raw.indexOf('\\', from)
      if (slash === -1) return value + raw.slice(from)
      value += raw.slice(from, slash)
      const letter = raw[slash + 1] as string
      if (letter === 'u') {
        const digits = raw.slice(slash + 2, slash + 6)
        if (!HEX4.test(digits)) {
          this.#at = start + slash
          this.#fail('ERR_JSON_SYNTAX')
        }
        value += String.fromCharCode(Number.parseInt(digits, 16))
        from = slash + 6
      } else {
        const known = ESCAPES[letter]
        if (known === undefined) {
          this.#at = start + slash
          this.#fail('ERR_JSON_SYNTAX')
        }
        value += known
        from = slash + 2
      }
    }
  }

  #number(): unknown {
    NUMBER.lastIndex = this.#at
    const match = NUMBER.exec(this.#text)
    if (match === null) this.#fail('ERR_JSON_SYNTAX')
    const [literal, fraction, exponent] = match
    const value = Number(literal)
    const integer = fraction === undefined && exponent === undefined
    if (!Number.isFinite(value) || (integer && !this.#round && !Number.isSafeInteger(value)))
      this.#fail('ERR_JSON_UNSAFE_NUMBER')
    this.#at += literal.length
    return this.#literal === undefined ? value : this.#literal(literal)
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) this.#fail('ERR_JSON_SYNTAX')
    this.#at += word.length
    return value
  }

  #fail(code: ErrorCode): never {
    throw new TrustError(code, { details: { offset: this.#at } })
  }
}
