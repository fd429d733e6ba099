/** A value in the header, query parameter or cookie that the card names for it. */
import type { ApiKeySchemeConfig } from '../policy/compiled.ts'
import { malformed, type Presented } from './authorization.ts'
import type { CredentialSource } from './scheme.ts'

type Location = ApiKeySchemeConfig['location']
const LOCATIONS: readonly Location[] = ['header', 'query', 'cookie']

/** Inside a value: what a folded line or two joined lines leave (RFC 9110 §5.2, §5.3). */
const SEVERAL = /[ \t\r\n]/

/**
 * What stands at the declared place. The same name at another place too leaves open which of the two is meant, and the
 * one that was not asked for may be in every log on the way (RFC 6750 §2 says the same of tokens).
 */
export function readKey(source: CredentialSource, location: Location, parameter: string): Presented {
  const here = at(source, location, (name) => name === parameter)
  if (here.kind !== 'credentials') return here
  const lowerCase = parameter.toLowerCase()
  const also = LOCATIONS.find(
    (other) => other !== location && at(source, other, (name) => name.toLowerCase() === lowerCase).kind !== 'absent',
  )
  if (also !== undefined) return malformed(`sent as ${location} and as ${also}`)
  return SEVERAL.test(here.text) ? malformed('white space inside: two lines joined, or one folded') : here

  function at({ headers, query }: CredentialSource, place: Location, isNamed: (name: string) => boolean): Presented {
    if (place === 'query') return only(parameters(query, isNamed), 'several query parameters of that name')
    if (place === 'cookie') return only(cookies(headers.all('cookie'), isNamed), 'several cookies of that name')
    return only(headers.all(parameter.toLowerCase()), 'several header lines')
  }
}

function only(values: readonly (string | undefined)[], several: string): Presented {
  const [text = ''] = values
  if (values.length > 1) return malformed(several)
  if (values.length === 1 && values[0] === undefined) return malformed('the query parameter has no single decoding')
  return text.trim() === '' ? { kind: 'absent' } : { kind: 'credentials', text }
}

/** Names are compared after decoding, so that `%6bey` cannot hide a second `key`. `undefined`: more than one reading. */
function parameters(query: string, isNamed: (name: string) => boolean): (string | undefined)[] {
  if (query === '') return []
  return query.split('&').flatMap((pair) => {
    const equals = pair.indexOf('=')
    const name = decode(equals < 0 ? pair : pair.slice(0, equals))
    if (name === undefined || !isNamed(name)) return []
    const value = equals < 0 ? '' : pair.slice(equals + 1)
    // A form decoder reads `+` as a space and a URI decoder reads it as itself.
    return [value.includes('+') ? undefined : decode(value)]
  })
}

function decode(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** RFC 6265 §4.2.1 pairs. HTTP/2 may split the header (RFC 9113 §8.2.3), so all lines are one list. */
function cookies(lines: readonly string[], isNamed: (name: string) => boolean): string[] {
  return lines.flatMap((line) =>
    line.split(';').flatMap((pair) => {
      const equals = pair.indexOf('=')
      return equals >= 0 && isNamed(pair.slice(0, equals).trim()) ? [pair.slice(equals + 1).trim()] : []
    }),
  )
}
