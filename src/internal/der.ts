/** Strict DER (X.690 §10): one reading for each text, nothing left over. Throws `DerError`; callers turn it into a value. */

export class DerError extends Error {}

export interface Element {
  /** Identifier octet; tags above 30 are not read. */
  readonly tag: number
  readonly content: Uint8Array
  /** Identifier, length and content. */
  readonly raw: Uint8Array
}

export const TAG = { boolean: 1, integer: 2, bits: 3, octets: 4, oid: 6, utcTime: 23, generalizedTime: 24 } as const
export const SEQUENCE = 0x30
export const SET = 0x31

/** Elements of `bytes`, which must hold nothing else. */
export function elements(bytes: Uint8Array): Element[] {
  const found: Element[] = []
  let offset = 0
  while (offset < bytes.length) {
    const element = elementAt(bytes, offset)
    found.push(element)
    offset += element.raw.length
  }
  return found
}

/** The one element that `bytes` is. */
export function only(bytes: Uint8Array, tag: number): Element {
  const found = elements(bytes)
  if (found.length !== 1) throw new DerError('not one element')
  return expectTag(found[0], tag)
}

export function expectTag(element: Element | undefined, tag: number): Element {
  if (element?.tag !== tag) throw new DerError('an element is missing or of another type')
  return element
}

/** Members of a SEQUENCE that is all of `bytes`. */
export function sequence(bytes: Uint8Array): Element[] {
  return elements(only(bytes, SEQUENCE).content)
}

function elementAt(bytes: Uint8Array, start: number): Element {
  const tag = bytes[start] as number
  if ((tag & 0x1f) === 0x1f) throw new DerError('high tag number')
  const first = bytes[start + 1]
  if (first === undefined) throw new DerError('truncated')
  let length = first
  let offset = start + 2
  if (first >= 0x80) {
    const count = first - 0x80
    // 0x80 is the indefinite length of BER; three octets are 16 MiB.
    if (count === 0 || count > 3) throw new DerError('length')
    length = 0
    for (let index = 0; index < count; index += 1) {
      const octet = bytes[offset + index]
      if (octet === undefined) throw new DerError('truncated')
      length = length * 256 + octet
    }
    offset += count
    if (length < 0x80 || length < 256 ** (count - 1)) throw new DerError('length is not the shortest')
  }
  const end = offset + length
  if (end > bytes.length) throw new DerError('truncated')
  return { tag, content: bytes.subarray(offset, end), raw: bytes.subarray(start, end) }
}

/** Dotted form. */
export function oidText(content: Uint8Array): string {
  const arcs: number[] = []
  let value = 0
  let inside = false
  for (const octet of content) {
    if (!inside && octet === 0x80) throw new DerError('object identifier')
    value = value * 128 + (octet & 0x7f)
    if (value > Number.MAX_SAFE_INTEGER) throw new DerError('object identifier')
    inside = (octet & 0x80) !== 0
    if (inside) continue
    if (arcs.length === 0) {
      const root = Math.min(Math.floor(value / 40), 2)
      arcs.push(root, value - root * 40)
    } else arcs.push(value)
    value = 0
  }
  if (inside || arcs.length === 0) throw new DerError('object identifier')
  return arcs.join('.')
}

export function boolean(element: Element): boolean {
  const { content } = expectTag(element, TAG.boolean)
  if (content.length !== 1 || (content[0] !== 0 && content[0] !== 0xff)) throw new DerError('boolean')
  return content[0] === 0xff
}

/** A non-negative integer below 2^31. */
export function smallInteger(element: Element): number {
  const { content } = expectTag(element, TAG.integer)
  const [first, second] = content
  if (first === undefined || content.length > 4 || first >= 0x80) throw new DerError('integer')
  if (first === 0 && second !== undefined && second < 0x80) throw new DerError('integer')
  return content.reduce((value, octet) => value * 256 + octet, 0)
}

/** Named bits that are set, by number. */
export function namedBits(element: Element): ReadonlySet<number> {
  const { content } = expectTag(element, TAG.bits)
  const unused = content[0]
  if (unused === undefined || unused > 7 || (content.length === 1 && unused > 0)) throw new DerError('bit string')
  const set = new Set<number>()
  content.subarray(1).forEach((octet, index) => {
    for (let bit = 0; bit < 8; bit += 1) if (octet & (0x80 >> bit)) set.add(index * 8 + bit)
  })
  return set
}

/** Seconds since the epoch, in the forms RFC 5280 §4.1.2.5 allows. */
export function time(element: Element | undefined): number {
  const utc = element?.tag === TAG.utcTime
  const text = Buffer.from(expectTag(element, utc ? TAG.utcTime : TAG.generalizedTime).content).toString('latin1')
  const parts = (utc ? /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/ : /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/).exec(
    text,
  )
  if (parts === null) throw new DerError('time')
  const [year, month, day, hour, minute, second] = parts.slice(1).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const full = utc ? year + (year < 50 ? 2000 : 1900) : year
  const iso = `${String(full).padStart(4, '0')}-${text.slice(-11, -9)}-${text.slice(-9, -7)}`
  const ms = Date.UTC(full, month - 1, day, hour, minute, second)
  const date = new Date(ms)
  if (!Number.isFinite(ms) || !date.toISOString().startsWith(iso) || hour > 23 || minute > 59 || second > 59) {
    throw new DerError('time')
  }
  return ms / 1000
}
