/** What was served and is not in the result. */

/** JSON Pointers of every member of `served` that is absent from `covered` or different there, the outermost of each. */
export function uncoveredPointers(served: unknown, covered: unknown): string[] {
  const found: string[] = []
  compare(served, covered, '', found)
  return found
}

/** A report longer than this says nothing more. */
const MOST = 1000

function compare(served: unknown, covered: unknown, pointer: string, found: string[]): void {
  if (found.length >= MOST || Object.is(served, covered)) return
  if (Array.isArray(served) && Array.isArray(covered)) {
    // Elements that vanished shift the rest: then the list as a whole is what differs.
    if (served.length !== covered.length) found.push(pointer)
    else for (const [index, item] of served.entries()) compare(item, covered[index], `${pointer}/${index}`, found)
    return
  }
  if (isObject(served) && isObject(covered)) {
    for (const [name, value] of Object.entries(served)) {
      const at = `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
      if (Object.hasOwn(covered, name)) compare(value, covered[name], at, found)
      else if (found.length < MOST) found.push(at)
    }
    return
  }
  // Zero has one canonical text.
  if (served === 0 && covered === 0) return
  found.push(pointer)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Members that decide how a client authenticates and where it connects. */
export function isSecurityMember(pointer: string): boolean {
  return /^\/(?:securitySchemes|security_schemes|securityRequirements|security_requirements|security|supportedInterfaces|supported_interfaces|url|additionalInterfaces|preferredTransport)(?:\/|$)|^\/skills(?:\/\d+(?:\/(?:securityRequirements|security_requirements|security)(?:\/|$)|$)|$)/.test(
    pointer,
  )
}
