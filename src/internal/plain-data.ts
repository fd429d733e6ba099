/**
 * Limits for a value that a decoder of somebody else has made: as many bytes, levels and kinds of value as JSON of the
 * same meaning could have. What follows may then read it as if it were parsed JSON.
 */

/** Deepest nesting, as `parseStrictJson` has it. */
const MAX_DEPTH = 128

export type PlainDataFault = 'too large' | 'not plain'

/**
 * Bytes are counted about as JSON text would have them. Not plain: an object with a prototype of its own, whose
 * inherited members one reader sees and another does not; numbers that JSON cannot write; functions and symbols.
 */
export function findFault(value: unknown, maxBytes: number): PlainDataFault | undefined {
  let left = maxBytes
  const visit = (each: unknown, depth: number): boolean => {
    if (depth > MAX_DEPTH) return false
    left -= 1
    switch (typeof each) {
      case 'undefined':
      case 'boolean':
      case 'bigint':
        return true
      case 'number':
        return Number.isFinite(each)
      case 'string':
        left -= Buffer.byteLength(each)
        return true
      case 'object':
        return each === null || visitObject(each, depth)
      default:
        return false
    }
  }
  const visitObject = (each: object, depth: number): boolean => {
    if (each instanceof Uint8Array) {
      left -= each.byteLength
      return true
    }
    if (each instanceof Date) return true
    if (Array.isArray(each)) return each.every((item) => left >= 0 && visit(item, depth + 1))
    const prototype: unknown = Object.getPrototypeOf(each)
    if (prototype !== Object.prototype && prototype !== null) return false
    return Object.entries(each).every(([name, member]) => {
      left -= Buffer.byteLength(name)
      return left >= 0 && visit(member, depth + 1)
    })
  }
  const plain = visit(value, 0)
  return left < 0 ? 'too large' : plain ? undefined : 'not plain'
}
