/** The kinds of value that a policy holds, each with the words for a wrong one. */
import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { isOriginPattern } from '../internal/url-pattern.ts'
import { signatureAlgorithms } from '../internal/verification-key.ts'

/** One line that means what it shows: not blank, nothing at the ends, no control characters. */
export const text = z
  .string()
  .max(2048, 'is longer than 2048 characters')
  .regex(/\S/, 'is empty or blank')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  .regex(/^[^\u0000-\u001f\u007f]*$/, 'has more than one line or a control character')
  .regex(/^\S(?:.*\S)?$/, 'begins or ends with white space')

/** Text that is compared with what callers send; an unfilled template or an unset variable must not become one. */
export const identifier = text
  .regex(/^(?!env:|file:)/, 'is not a secret and takes no reference: write the value itself')
  .regex(
    /^(?!.*(?:\$\{|[<>{}]|CHANGE_?ME|REPLACE_?ME|(?:^|[^A-Za-z])YOUR[_-]))/,
    'looks like a template that was not filled in',
  )

/** An absolute http or https URL in the one spelling that byte-exact comparison needs. */
export const webUrl = identifier
  .regex(/^https?:\/\//, 'must be a URL that begins with https://')
  .regex(/^https?:\/\/[^/_]+(?:\/|$)/, 'looks like a template that was not filled in: a host name has no underscore')
  .refine(
    isCleanUrl,
    'must be an absolute URL in normal form: lower-case host, no user name, password, default port, dot segment, query or fragment',
  )
  .meta({ format: 'uri' })

/** A file named where only a file can be meant. */
export const path = text.regex(
  /^(?![a-z][a-z0-9+.-]+:)/i,
  'must be the path of a file, without file: or https: before it',
)

export const fileReference = text
  .regex(/^file:.*\S/, 'must be a reference to a file: write file:PATH')
  .regex(/^(?!file:\/\/)/, 'must be file:PATH, not a file:// URL')

/** `env:NAME` or `file:PATH`: the only way a secret enters the policy. */
export const secretReference = z
  .string()
  .regex(/^(?:env|file):/, 'must be a reference, never the secret itself: write env:NAME or file:PATH')
  .regex(/^(?!env:(?![A-Za-z_][A-Za-z0-9_]*$))/, 'must name a variable after env:, of letters, digits and underscores')
  .regex(/^(?!file:(?:\/\/|\s*$))/, 'must name a file after file:, as in file:PATH')

/** Where public keys are: never the keys themselves, so that a key is never taken for anything else (P01, P02). */
export const keySetReference = z
  .string('must be file:PATH or the https:// URL of a JWK Set')
  .regex(/^(?:file:(?!\/\/)|https?:\/\/)\S(?:[^\r\n]*\S)?$/, 'must be file:PATH or the https:// URL of a JWK Set')
  .refine(
    (value) => value.startsWith('file:') || isFetchable(value),
    'must be a URL without user name, password or fragment',
  )

/** Something that is fetched and never compared: it may have a query. */
export const endpointUrl = text
  .regex(/^https?:\/\//, 'must be a URL that begins with https://')
  .refine(isFetchable, 'must be a URL without user name, password or fragment')
  .meta({ format: 'uri' })

/** RFC 6749 §3.3. */
export const scope = text.regex(
  /^[\x21\x23-\x5b\x5d-\x7e]+$/,
  'is not one scope: it has a space, quote or other script',
)

export const algorithm = z.enum(signatureAlgorithms as [string, ...string[]], {
  error: ({ input }) => {
    if (typeof input !== 'string') return undefined
    if (/^HS\d+$/i.test(input)) {
      return 'is symmetric, so whoever can check a token can also make one: use ES256, EdDSA, PS256 or RS256'
    }
    return /^none$/i.test(input) ? 'would accept unsigned tokens: use ES256, EdDSA, PS256 or RS256' : undefined
  },
})

export const host = text.regex(
  /^(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$|^\[[0-9a-f:.]+\]$/,
  'must be a host name in lower case (punycode for other scripts), or *.example.com for its sub-domains',
)

export const addressRange = text.refine(
  (value) => isAddress(value) || (isAddress(value.replace(/\/(?:0|[1-9]\d*)$/, '')) && ipaddr.isValidCIDR(value)),
  'must be an IP address or a range such as 10.0.0.0/8',
)

/** The proxies whose headers are believed. */
export const trustedProxies = listOf(
  addressRange
    .refine((value) => !isWide(value), 'is wider than any network of your own (/8, IPv6 /7): name the proxies alone')
    .refine(
      (value) => !hasHostBits(value),
      'is an address with the width of its network: write 10.1.2.3, or 10.0.0.0/8',
    )
    // As Node prints a peer on a dual-stack socket; such a peer is taken for the IPv4 address it is (P92).
    .refine(
      (value) => !isMapped(value),
      'is IPv4 inside IPv6, which is compared as IPv4: write it as 10.1.2.3 or 10.0.0.0/8',
    ),
)

/** Headers that already have a meaning, which a certificate must not take over. */
const TAKEN =
  /^(?:authorization|proxy-.*|cookie|dpop|host|connection|accept.*|(?:x-)?a2a-.*|content-.*|transfer-.*|forwarded|x-forwarded-for)$/i

/** A header that a proxy sets. With `_` it would be another one to the next server (CGI makes `_` and `-` the same). */
export const proxyHeader = text
  .regex(/^[A-Za-z0-9-]+$/, 'must be the name of a header: letters, digits and -')
  .refine((value) => !TAKEN.test(value), 'is a header with another meaning')

/** Exact, or a beginning that is long enough to mean somebody. */
export const identityHeader = text.regex(
  /^(?:[A-Za-z0-9_-]+|[A-Za-z0-9][A-Za-z0-9_-]{2,}[-_]\*)$/,
  'must be the name of a header, or its beginning up to a - and *, such as x-acme-*',
)

export const rate = z
  .string('must be a count per sec, min or hour, such as 600/min')
  .regex(/^[1-9][0-9]{0,6}\/(?:sec|min|hour)$/, 'must be a count per sec, min or hour, such as 600/min')

/** A whole number in a range. `unit` as in `seconds`. */
export function whole(minimum: number, maximum: number, unit: string) {
  const range = `must be a whole number of ${unit} from ${minimum} to ${maximum}`
  return z.int(range).min(minimum, range).max(maximum, range)
}

/** A list with at least one entry and none twice: an empty restriction would be read as either all or nothing. */
export function listOf<T extends z.ZodType>(item: T) {
  return z
    .array(item)
    .min(1, 'is an empty list: leave the key out or give it an entry')
    .refine(
      (items) => new Set(items.map((entry) => JSON.stringify(entry))).size === items.length,
      'has the same entry twice',
    )
}

export function oneOrMore<T extends z.ZodType>(item: T) {
  return z.union([item, listOf(item)])
}

/** Whether an object says anything. */
export function hasMembers(value: object): boolean {
  return Object.values(value).some((member) => member !== undefined)
}

function isCleanUrl(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined
  return (
    url !== undefined &&
    url.username === '' &&
    url.password === '' &&
    !/[?#\\\s]/.test(value) &&
    // What the URL parser would rewrite has a second spelling.
    (url.href === value || url.href === `${value}/`)
  )
}

function isFetchable(value: string): boolean {
  if (!URL.canParse(value)) return false
  const { username, password, hash } = new URL(value)
  return username === '' && password === '' && hash === ''
}

/** Strict literals: no octal, hexadecimal or shortened IPv4, no zone. */
function isAddress(value: string): boolean {
  return value.includes(':')
    ? !value.includes('%') && ipaddr.IPv6.isValid(value)
    : /^(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})$/.test(value) && ipaddr.IPv4.isValid(value)
}

function isWide(range: string): boolean {
  const [base = '', bits] = range.split('/')
  return bits !== undefined && Number(bits) < (base.includes(':') ? 7 : 8)
}

function hasHostBits(range: string): boolean {
  if (!isAddress(range.replace(/\/\d+$/, '')) || !ipaddr.isValidCIDR(range)) return false
  const kind = range.includes(':') ? ipaddr.IPv6 : ipaddr.IPv4
  const [address] = ipaddr.parseCIDR(range)
  return kind.networkAddressFromCIDR(range).toString() !== address.toString()
}

function isMapped(range: string): boolean {
  const [base = ''] = range.split('/')
  return isAddress(base) && base.includes(':') && ipaddr.IPv6.parse(base).isIPv4MappedAddress()
}

/** `https://hooks.example.com`, or `*.` in place of one or more whole labels. */
export const originPattern = z
  .string('must be text')
  .refine(isOriginPattern, 'must be an origin such as https://hooks.example.com or https://*.example.com')
