/** What was served and is not in the result. */

/** Pointers below top-level members, and their characters in all: beyond these the top-level member is named instead. */
const MOST_POINTERS = 1000
const MOST_CHARACTERS = 256 * 1024

/**
 * JSON Pointers of every member of `served` that is absent from `covered` or different there, the outermost of each.
 *
 * Bounded without ever leaving a member out: whoever changes a card in transit could otherwise push a telling pointer
 * over the limit with harmless ones before it. Top-level members are always named, so the size is that of the card.
 */
export function uncoveredPointers(served: Json, covered: Json): string[] {
  const left = { pointers: MOST_POINTERS, characters: MOST_CHARACTERS }
  return Object.entries(served).flatMap(([name, value]) => {
    const pointer = pointerTo('', name)
    if (!Object.hasOwn(covered, name)) return [pointer]
    const inside: string[] = []
    const complete = compare(value, covered[name], pointer, (found) => {
      left.pointers -= 1
      left.characters -= found.length
      inside.push(found)
      return left.pointers >= 0 && left.characters >= 0
    })
    return complete ? inside : [pointer]
  })
}

/** Whether everything in `card` is in `other` as well, and the same there. */
export function isCoveredBy(card: Json, other: Json): boolean {
  return compare(card, other, '', () => false)
}

/** Gives each difference to `found`, until that answers false; then the answer is false too. */
function compare(served: unknown, covered: unknown, pointer: string, found: (pointer: string) => boolean): boolean {
  // Zero has one canonical text, and `===` knows one zero.
  if (served === covered) return true
  if (Array.isArray(served) && Array.isArray(covered)) {
    // Elements that vanished shift the rest: then the list as a whole is what differs.
    return served.length === covered.length
      ? served.every((item, index) => compare(item, covered[index], `${pointer}/${index}`, found))
      : found(pointer)
  }
  if (!isObject(served) || !isObject(covered)) return found(pointer)
  return Object.entries(served).every(([name, value]) => {
    const at = pointerTo(pointer, name)
    return Object.hasOwn(covered, name) ? compare(value, covered[name], at, found) : found(at)
  })
}

/** RFC 6901 §3. */
function pointerTo(parent: string, name: string): string {
  return `${parent}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
}

type Json = Record<string, unknown>

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Members that decide how a client authenticates and where it connects. */
export function isSecurityMember(pointer: string): boolean {
  return /^\/(?:securitySchemes|security_schemes|securityRequirements|security_requirements|security|supportedInterfaces|supported_interfaces|url|additionalInterfaces|additional_interfaces|preferredTransport|preferred_transport)(?:\/|$)|^\/skills(?:\/\d+(?:\/(?:securityRequirements|security_requirements|security)(?:\/|$)|$)|$)/.test(
    pointer,
  )
}
