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
  return Object.keys(served).flatMap((name) => {
    const path = [name]
    if (!Object.hasOwn(covered, name)) return [pointerTo(path)]
    const inside: string[] = []
    const complete = compare(served[name], covered[name], path, () => {
      const pointer = pointerTo(path)
      left.pointers -= 1
      left.characters -= pointer.length
      inside.push(pointer)
      return left.pointers >= 0 && left.characters >= 0
    })
    return complete ? inside : [pointerTo([name])]
  })
}

/** Whether everything in `card` is in `other` as well, and the same there. */
export function isCoveredBy(card: Json, other: Json): boolean {
  return compare(card, other, [], () => false)
}

/**
 * Calls `differs` at each difference, until that answers false; then the answer is false too. `path` leads to where the
 * comparison stands: pointers are made only where something differs, which for most cards is nowhere.
 */
function compare(served: unknown, covered: unknown, path: (string | number)[], differs: () => boolean): boolean {
  // Zero has one canonical text, and `===` knows one zero.
  if (served === covered) return true
  if (Array.isArray(served) && Array.isArray(covered)) {
    // Elements that vanished shift the rest: then the list as a whole is what differs.
    if (served.length !== covered.length) return differs()
    return served.every((item, index) => below(index, item, covered[index], path, differs))
  }
  if (!isObject(served) || !isObject(covered)) return differs()
  for (const name of Object.keys(served)) {
    const same = Object.hasOwn(covered, name)
      ? below(name, served[name], covered[name], path, differs)
      : below(name, true, false, path, differs)
    if (!same) return false
  }
  return true
}

function below(
  step: string | number,
  served: unknown,
  covered: unknown,
  path: (string | number)[],
  differs: () => boolean,
): boolean {
  path.push(step)
  const go = compare(served, covered, path, differs)
  path.pop()
  return go
}

/** RFC 6901 §3. */
function pointerTo(path: readonly (string | number)[]): string {
  return path.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
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
