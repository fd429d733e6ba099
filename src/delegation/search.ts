/**
 * The search of outgoing bytes, chunk by chunk: one pass with a rolling hash, and nothing kept of what went by but the last
 * 16 bytes. Where a hash fits, the bytes that follow are collected and compared by digest. What is percent-encoded or
 * escaped as JSON does it is searched again as what it means.
 */
import {
  BASE,
  type Encoding,
  type Fingerprint,
  FOLD,
  type Form,
  keyedDigest,
  SKIPPED,
  WINDOWS,
} from './fingerprints.ts'

const [LONG, SHORT] = WINDOWS
const power = (exponent: number): number => {
  let value = 1
  for (let i = 0; i < exponent; i += 1) value = Math.imul(value, BASE)
  return value
}
const LONG_POWER = power(LONG)
const SHORT_POWER = power(SHORT)
const FILTER_BITS = 12
const FILTER_SHIFT = 32 - FILTER_BITS
/** Comparisons at one time. More lookalikes than this inside of each other count as found. */
const MOST_CANDIDATES = 64
/** `%2541` is an `A` for somebody who decodes twice. */
const MOST_DECODINGS = 2
const SLICE = 16_384

export interface Found<T> {
  readonly item: T
  readonly encoding: Encoding
}

/** The forms of several credentials, ready to be looked for. */
export interface Table<T> {
  readonly long: ReadonlyMap<number, readonly Entry<T>[]>
  readonly short: ReadonlyMap<number, readonly Entry<T>[]>
  /** One for each beginning of a hash that any form has. */
  readonly filter: Uint8Array
}

interface Entry<T> {
  readonly item: T
  readonly form: Form
}

export function createTable<T>(items: Iterable<readonly [item: T, fingerprint: Fingerprint]>): Table<T> {
  const long = new Map<number, Entry<T>[]>()
  const short = new Map<number, Entry<T>[]>()
  const filter = new Uint8Array(1 << FILTER_BITS)
  for (const [item, { forms }] of items) {
    for (const form of forms) {
      const table = form.window === LONG ? long : short
      const entries = table.get(form.hash)
      if (entries === undefined) table.set(form.hash, [{ item, form }])
      else entries.push({ item, form })
      filter[form.hash >>> FILTER_SHIFT] = 1
    }
  }
  return { long, short, filter }
}

interface Candidate<T> extends Entry<T> {
  readonly bytes: Uint8Array
  at: number
}

class Scanner<T> {
  readonly #table: Table<T>
  readonly #last = new Uint8Array(LONG)
  #at = 0
  #longHash = 0
  #shortHash = 0
  #candidates: Candidate<T>[] = []

  constructor(table: Table<T>) {
    this.#table = table
  }

  get undecided(): T | undefined {
    return this.#candidates[0]?.item
  }

  clone(): Scanner<T> {
    const copy = new Scanner(this.#table)
    copy.#last.set(this.#last)
    copy.#at = this.#at
    copy.#longHash = this.#longHash
    copy.#shortHash = this.#shortHash
    copy.#candidates = this.#candidates.map((one) => ({ ...one, bytes: one.bytes.slice() }))
    return copy
  }

  push(bytes: Uint8Array): Found<T> | undefined {
    const { filter, short } = this.#table
    const last = this.#last
    const hasShort = short.size > 0
    let at = this.#at
    let longHash = this.#longHash
    let shortHash = this.#shortHash
    let found: Found<T> | undefined
    for (let i = 0; i < bytes.length && found === undefined; i += 1) {
      const byte = FOLD[bytes[i] as number] as number
      if (byte === SKIPPED) continue
      longHash = (Math.imul(longHash, BASE) + byte - Math.imul(last[at] as number, LONG_POWER)) | 0
      if (hasShort) {
        const leaving = last[(at + LONG - SHORT) % LONG] as number
        shortHash = (Math.imul(shortHash, BASE) + byte - Math.imul(leaving, SHORT_POWER)) | 0
      }
      last[at] = byte
      at = (at + 1) % LONG
      if (this.#candidates.length > 0) found = this.#feed(byte)
      if (filter[longHash >>> FILTER_SHIFT] === 1) found ??= this.#begin(this.#table.long.get(longHash), at)
      if (hasShort && filter[shortHash >>> FILTER_SHIFT] === 1) found ??= this.#begin(short.get(shortHash), at)
    }
    this.#at = at
    this.#longHash = longHash
    this.#shortHash = shortHash
    return found
  }

  #begin(entries: readonly Entry<T>[] | undefined, at: number): Found<T> | undefined {
    for (const { item, form } of entries ?? []) {
      const bytes = new Uint8Array(form.length)
      for (let i = 0; i < form.window; i += 1) bytes[i] = this.#last[(at + LONG - form.window + i) % LONG] as number
      const candidate = { item, form, bytes, at: form.window }
      if (candidate.at < form.length) this.#candidates.push(candidate)
      else if (isSame(candidate)) return foundOf(candidate)
    }
    const [first] = this.#candidates
    return this.#candidates.length > MOST_CANDIDATES && first !== undefined ? foundOf(first) : undefined
  }

  #feed(byte: number): Found<T> | undefined {
    let isOver = false
    for (const candidate of this.#candidates) {
      candidate.bytes[candidate.at] = byte
      candidate.at += 1
      if (candidate.at < candidate.form.length) continue
      isOver = true
      if (isSame(candidate)) return foundOf(candidate)
    }
    if (isOver) this.#candidates = this.#candidates.filter(({ at, form }) => at < form.length)
    return undefined
  }
}

function isSame<T>({ bytes, form }: Candidate<T>): boolean {
  return keyedDigest(bytes).equals(form.digest)
}

function foundOf<T>({ item, form: { encoding } }: Candidate<T>): Found<T> {
  return { item, encoding }
}

/** A search of one text or stream. */
export interface Search<T> {
  /** The first of what is looked for that ends in this chunk. */
  push(chunk: Uint8Array | string, encoding?: BufferEncoding): Found<T> | undefined
  /** The bytes so far end in the beginning of this one. Of a stream it cannot be told whether the rest will follow. */
  readonly undecided: T | undefined
}

export function createSearch<T>(table: Table<T>): Search<T> {
  return new Layer(new Scanner(table), MOST_DECODINGS)
}

const PERCENT = 0x25
const BACKSLASH = 0x5c
const LOWER_U = 0x75
const SLASH = 0x2f

/** What is searched as it is, and from its first escape on also as what it means. */
class Layer<T> implements Search<T> {
  readonly #scanner: Scanner<T>
  readonly #decodings: number
  #decoded: Layer<T> | undefined
  #kept: Uint8Array = new Uint8Array(0)

  constructor(scanner: Scanner<T>, decodings: number) {
    this.#scanner = scanner
    this.#decodings = decodings
  }

  get undecided(): T | undefined {
    return this.#scanner.undecided ?? this.#decoded?.undecided
  }

  push(chunk: Uint8Array | string, encoding: BufferEncoding = 'utf8'): Found<T> | undefined {
    if (typeof chunk !== 'string') return this.#pushBytes(chunk)
    // By slices, so that no long text is there twice.
    for (let start = 0; start < chunk.length; start += SLICE) {
      const found = this.#pushBytes(Buffer.from(chunk.slice(start, start + SLICE), encoding))
      if (found !== undefined) return found
    }
    return undefined
  }

  #pushBytes(bytes: Uint8Array): Found<T> | undefined {
    if (this.#decodings > 0 && this.#decoded === undefined && (bytes.includes(PERCENT) || bytes.includes(BACKSLASH))) {
      this.#decoded = new Layer(this.#scanner.clone(), this.#decodings - 1)
    }
    const found = this.#scanner.push(bytes)
    if (found !== undefined || this.#decoded === undefined) return found
    for (let start = 0; start < bytes.length; start += SLICE) {
      const decoded = this.#decode(bytes.subarray(start, start + SLICE))
      const meant = this.#decoded.push(decoded)
      if (meant !== undefined) return meant
    }
    return undefined
  }

  /** RFC 3986 §2.1 and RFC 8259 §7. An escape that is not complete waits for the next slice. */
  #decode(slice: Uint8Array): Uint8Array {
    const bytes = this.#kept.length === 0 ? slice : Buffer.concat([this.#kept, slice])
    this.#kept = new Uint8Array(0)
    const decoded = new Uint8Array(bytes.length)
    let length = 0
    let i = 0
    while (i < bytes.length) {
      const size = escapeAt(bytes, i)
      if (i + size > bytes.length) {
        this.#kept = bytes.slice(i)
        break
      }
      const value = meantBy(bytes, i, size)
      decoded[length] = value ?? (bytes[i] as number)
      length += 1
      i += value === undefined ? 1 : size
    }
    return decoded.subarray(0, length)
  }
}

/** How many bytes an escape that begins here would have. */
function escapeAt(bytes: Uint8Array, at: number): number {
  if (bytes[at] === PERCENT) return 3
  if (bytes[at] !== BACKSLASH) return 1
  return bytes[at + 1] === LOWER_U ? 6 : 2
}

function meantBy(bytes: Uint8Array, at: number, size: number): number | undefined {
  if (size === 1) return undefined
  if (size === 2) return bytes[at + 1] === SLASH ? SLASH : undefined
  let value = 0
  for (let i = at + (size === 3 ? 1 : 2); i < at + size; i += 1) {
    const digit = HEX.indexOf(String.fromCharCode(bytes[i] as number).toLowerCase())
    if (digit < 0) return undefined
    value = value * 16 + digit
  }
  return value < 256 ? value : undefined
}

const HEX = '0123456789abcdef'
