/**
 * HTTP+JSON targets. A target is an operation only if it is written in the one plain way: literal segments byte for
 * byte, parameters percent-encoded at most once. Case variants, empty and dot segments, a trailing slash, encoded
 * slashes, `;parameters`, fragments and absolute URLs are read differently by different routers, so here they are not
 * operations at all. What remains, an Express router with the SDK's routes reads the same way (A48).
 */
import type { OperationName, ProtocolVersion } from '../types.ts'
import { operations } from './operations.ts'

export interface RouteMatch {
  readonly name: OperationName
  readonly version: ProtocolVersion
  readonly taskId?: string
  readonly configId?: string
  readonly tenant?: string
}

interface Route {
  readonly name: OperationName
  readonly version: ProtocolVersion
  readonly method: string
  readonly segments: readonly Segment[]
}

/** A literal, or a parameter with the literal that must follow it in the same segment. */
type Segment = string | { readonly parameter: 'taskId' | 'configId' | 'tenant'; readonly suffix: string }

const PARAMETER = /^\{(taskId|configId|tenant)\}(.*)$/

function compile(path: string): readonly Segment[] {
  return path
    .slice(1)
    .split('/')
    .map((segment) => {
      const found = PARAMETER.exec(segment)
      return found === null ? segment : { parameter: found[1] as 'taskId', suffix: found[2]! }
    })
}

/** By method and number of segments. A v1.0 route counts twice: plain, and below `/{tenant}` (A2A §11.3). */
const ROUTES: ReadonlyMap<string, readonly Route[]> = index()

function index(): Map<string, Route[]> {
  const found = new Map<string, Route[]>()
  for (const { name, spellings } of operations) {
    for (const version of ['1.0', '0.3'] as const) {
      for (const { method, path } of spellings[version].http) {
        for (const full of version === '1.0' ? [path, `/{tenant}${path}`] : [path]) {
          const segments = compile(full)
          const key = `${method} ${segments.length}`
          const route: Route = { name, version, method, segments }
          found.set(key, [...(found.get(key) ?? []), route])
        }
      }
    }
  }
  return found
}

/** RFC 3986 `pchar` without `;`, in segments separated by single slashes. */
const PLAIN_PATH = /^(?:\/(?:[A-Za-z0-9\-._~!$&'()*+,=:@]|%[0-9A-Fa-f]{2})+)+$/
const LONGEST_PATH = 8192

/** The segments of a plainly written path, still encoded; `undefined` for any other path. */
export function plainSegments(path: string): readonly string[] | undefined {
  if (path.length > LONGEST_PATH || !PLAIN_PATH.test(path)) return undefined
  const segments = path.slice(1).split('/')
  return segments.some((segment) => decodePlain(segment) === undefined || isCaseVariant(segment)) ? undefined : segments
}

/** Literals of the table, in lower case, by how they are spelled there. */
const LITERALS: ReadonlyMap<string, string> = new Map(
  [...ROUTES.values()].flatMap((routes) =>
    routes.flatMap(({ segments }) =>
      segments
        .filter((segment) => typeof segment === 'string')
        .map((segment) => [segment.toLowerCase(), segment] as const),
    ),
  ),
)

/**
 * Routers that ignore case (Express does by default) take `EXTENDEDAGENTCARD` for the route and not for a task id. What
 * they could read as a literal in another case is therefore no plain path.
 */
function isCaseVariant(segment: string): boolean {
  const lower = segment.toLowerCase()
  const literal = LITERALS.get(lower)
  if (literal !== undefined) return literal !== segment
  const suffix = /:(?:cancel|subscribe)$/.exec(lower)?.[0]
  return suffix !== undefined && !segment.endsWith(suffix)
}

/** Decoded text that would change meaning if it were decoded, or split, once more. */
const AMBIGUOUS = /[/\\%;?#\p{Cc}\u2028\u2029\ufeff]/u

function decodePlain(segment: string): string | undefined {
  let text: string
  try {
    text = decodeURIComponent(segment)
  } catch {
    return undefined // not UTF-8
  }
  return text === '.' || text === '..' || AMBIGUOUS.test(text) ? undefined : text
}

/** Every way to read the segments as a route. Where the ways differ, nobody should choose between them. */
export function matchRoutes(method: string, segments: readonly string[]): readonly RouteMatch[] {
  const matches: RouteMatch[] = []
  for (const route of ROUTES.get(`${method} ${segments.length}`) ?? []) {
    const match = matchRoute(route, segments)
    if (match !== undefined) matches.push(match)
  }
  return matches
}

/** The operations that are verbs on a task id. */
const VERB = /:(?:cancel|subscribe)$/i

function matchRoute({ name, version, segments: pattern }: Route, segments: readonly string[]): RouteMatch | undefined {
  const values: { taskId?: string; configId?: string; tenant?: string } = {}
  for (const [index, expected] of pattern.entries()) {
    const segment = segments[index]!
    if (typeof expected === 'string') {
      if (segment !== expected) return undefined
      continue
    }
    const { parameter, suffix } = expected
    if (!segment.endsWith(suffix)) return undefined
    const value = decodePlain(segment.slice(0, segment.length - suffix.length))
    // `/tasks/a:cancel` with another method, or `/tasks/a%3Acancel`, is no task named "a:cancel".
    if (value === undefined || value === '' || VERB.test(value)) return undefined
    values[parameter] = value
  }
  return { name, version, ...values }
}
