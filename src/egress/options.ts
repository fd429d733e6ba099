/** Options of `createEgress`: checked, copied and frozen once. */
import { lookup } from 'node:dns/promises'
import { createSecureContext } from 'node:tls'
import type { ErrorCode } from '../errors.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { addressSet } from './address.ts'
import { hostName } from './host.ts'

/** Addresses of a name. Rejecting or an empty list means there are none. */
export type Resolver = (name: string) => Promise<readonly string[]>

export interface EgressOptions {
  /** URL schemes with colon. Default `['https:', 'http:']`, of which `requireHttps` leaves `https:`. */
  readonly schemes?: readonly string[]
  /** Ports that may be reached. Default `[443]`, and 80 with `requireHttps: false`. */
  readonly ports?: readonly number[]
  /** Refuse everything but https. Default true. */
  readonly requireHttps?: boolean
  /** Allow user name and password in a URL; they are sent as `Authorization: Basic`. Default false. */
  readonly userinfo?: boolean
  /** Longest URL in characters. Default 2048. */
  readonly maxUrlLength?: number
  /** Allow names without a dot. Default false. */
  readonly singleLabelNames?: boolean
  /** Last labels of names that are never public. Default: `localhost`, `local`, `internal` and others like them. */
  readonly deniedSuffixes?: readonly string[]
  /**
   * Only these hosts: a name, an address or range of address literals, or `*.example.com` for every name below it.
   * Names in any case and in either form of IDNA. Default: any. It opens no address that is not public.
   */
  readonly allowHosts?: readonly string[]
  /** Never these hosts, and for an address or range: never these addresses, what names resolve to included. Wins. */
  readonly denyHosts?: readonly string[]
  /** Addresses or CIDR ranges that may be reached although they are not public. Default: none. */
  readonly allowAddresses?: readonly string[]
  /** Replaces DNS. Its answers are checked in the same way. Default: the system's resolver. */
  readonly resolver?: Resolver
  /** `'error'` refuses every redirect (default); a number is how many are followed, each checked like the first URL. */
  readonly redirects?: 'error' | number
  /** Largest response body after decompression, in bytes. Default 1 MiB. */
  readonly maxResponseBytes?: number
  /** From the call to the end of the body, also of one that is never read. Milliseconds, 1 to 600 000. Default 10 000. */
  readonly timeoutMs?: number
  /**
   * `report`: denied targets are handed to `onDenied` and the request is made all the same. Redirects, size and time are
   * limited in either mode. Default `enforce`.
   */
  readonly mode?: 'enforce' | 'report'
  /** Called for each denied target. What it throws is ignored. */
  readonly onDenied?: (denial: EgressDenial) => void
  /**
   * HTTP proxy that every request goes through, by CONNECT, as `http://host:port` or `http://user:password@host:port`.
   * The proxy resolves names and dials, so addresses can neither be checked nor pinned here, except where the URL spells
   * one: bar private ranges at the proxy too. Its own address is not checked. The environment's proxies are not used.
   */
  readonly proxy?: string
  /**
   * Certificate and private key (PEM) that every connection shows when it is asked, and authorities (PEM) that are
   * believed in place of the usual ones. Not with `proxy`. Give `allowHosts` with it: the certificate says who this is.
   */
  readonly clientCertificate?: { readonly cert: string; readonly key: string; readonly ca?: string }
}

export interface EgressDenial {
  readonly reason: ErrorCode
  /** Scheme, host and port; never path, query or user name. */
  readonly origin: string
  /** The address that is not allowed, where the name has one. */
  readonly address?: string
  readonly mode: 'enforce' | 'report'
}

export interface EgressRules {
  readonly schemes: ReadonlySet<string>
  readonly ports: ReadonlySet<number>
  readonly userinfo: boolean
  readonly maxUrlLength: number
  readonly singleLabelNames: boolean
  readonly deniedSuffixes: readonly string[]
  readonly allowHosts: HostMatch | undefined
  readonly denyHosts: HostMatch
  readonly denyAddress: AddressMatch
  readonly allowAddress: AddressMatch
  readonly resolver: Resolver
  readonly redirects: number
  readonly maxResponseBytes: number
  readonly timeoutMs: number
  readonly mode: 'enforce' | 'report'
  readonly onDenied: ((denial: EgressDenial) => void) | undefined
  readonly proxy: string | undefined
  readonly clientCertificate: EgressOptions['clientCertificate'] | undefined
}

type HostMatch = (host: string) => boolean
type AddressMatch = (address: string) => boolean

const DENIED_SUFFIXES = [
  'localhost',
  'local',
  'internal',
  'localdomain',
  'home.arpa',
  'lan',
  'corp',
  'home',
  'intranet',
  'private',
  'onion',
  'test',
  'invalid',
  'example',
  'alt',
]

/** Throws `TypeError` that names the option in quotes. Unknown options are refused: a typo must not open anything. */
export function egressRules(options: EgressOptions): EgressRules {
  assertKnownOptions('createEgress', options, OPTION_NAMES)
  const requireHttps = flag(options, 'requireHttps', true)
  const schemes = list(options, 'schemes', isScheme, 'http: or https:') ?? ['https:', 'http:']
  const {
    redirects = 'error',
    mode = 'enforce',
    resolver = systemResolver,
    onDenied,
    proxy,
    clientCertificate,
  } = options
  if (typeof resolver !== 'function') throw new TypeError('"resolver" must be a function')
  if (onDenied !== undefined && typeof onDenied !== 'function') throw new TypeError('"onDenied" must be a function')
  if (mode !== 'enforce' && mode !== 'report') throw new TypeError('"mode" must be enforce or report')
  if (redirects !== 'error' && !isWhole(redirects, 0, 20))
    throw new TypeError('"redirects" must be "error" or a whole number from 0 to 20')
  if (proxy !== undefined && !isProxy(proxy))
    throw new TypeError('"proxy" must be an http:// or https:// URL of host and port')
  if (clientCertificate !== undefined) assertCertificate(clientCertificate, proxy)
  const reachable = schemes.filter((scheme) => !requireHttps || scheme === 'https:')
  if (reachable.length === 0) throw new TypeError('"schemes" must hold https:, or "requireHttps" be false')
  const denyHosts = hostsOf(options, 'denyHosts')
  return Object.freeze({
    schemes: new Set(reachable),
    ports: new Set(
      list(options, 'ports', (port) => isWhole(port, 1, 65_535), 'ports from 1 to 65535') ??
        (requireHttps ? [443] : [443, 80]),
    ),
    userinfo: flag(options, 'userinfo', false),
    maxUrlLength: whole(options, 'maxUrlLength', 1, 65_536, 2048),
    singleLabelNames: flag(options, 'singleLabelNames', false),
    deniedSuffixes:
      list(options, 'deniedSuffixes', isName, 'names without a first dot')?.map((name) => hostName(name) as string) ??
      DENIED_SUFFIXES,
    allowHosts: hostsOf(options, 'allowHosts')?.match,
    denyHosts: denyHosts?.match ?? (() => false),
    denyAddress: denyHosts?.address ?? (() => false),
    allowAddress: addressSet(list(options, 'allowAddresses', isRange, 'IP addresses or CIDR ranges') ?? []),
    resolver,
    redirects: redirects === 'error' ? 0 : redirects,
    maxResponseBytes: whole(options, 'maxResponseBytes', 1, 1_073_741_824, 1_048_576),
    timeoutMs: whole(options, 'timeoutMs', 1, 600_000, 10_000),
    mode,
    onDenied,
    proxy,
    clientCertificate: clientCertificate === undefined ? undefined : Object.freeze({ ...clientCertificate }),
  })
}

const OPTION_NAMES = [
  'schemes',
  'ports',
  'requireHttps',
  'userinfo',
  'maxUrlLength',
  'singleLabelNames',
  'deniedSuffixes',
  'allowHosts',
  'denyHosts',
  'allowAddresses',
  'resolver',
  'redirects',
  'maxResponseBytes',
  'timeoutMs',
  'mode',
  'onDenied',
  'proxy',
  'clientCertificate',
] satisfies (keyof EgressOptions)[]

const systemResolver: Resolver = async (name) =>
  (await lookup(name, { all: true, order: 'verbatim' })).map(({ address }) => address)

function flag(options: EgressOptions, name: 'requireHttps' | 'userinfo' | 'singleLabelNames', usual: boolean): boolean {
  const { [name]: value = usual } = options
  if (typeof value !== 'boolean') throw new TypeError(`"${name}" must be true or false`)
  return value
}

function whole(
  options: EgressOptions,
  name: 'maxUrlLength' | 'maxResponseBytes' | 'timeoutMs',
  minimum: number,
  maximum: number,
  usual: number,
): number {
  const { [name]: value = usual } = options
  if (!isWhole(value, minimum, maximum))
    throw new TypeError(`"${name}" must be a whole number from ${minimum} to ${maximum}`)
  return value
}

function isWhole(value: unknown, minimum: number, maximum: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= minimum && (value as number) <= maximum
}

type ListName = 'schemes' | 'ports' | 'deniedSuffixes' | 'allowHosts' | 'denyHosts' | 'allowAddresses'

function list<N extends ListName>(
  options: EgressOptions,
  name: N,
  accepts: (entry: unknown) => boolean,
  what: string,
): EgressOptions[N] {
  const value = options[name]
  if (value === undefined) return undefined as EgressOptions[N]
  if (!Array.isArray(value)) throw new TypeError(`"${name}" must be a list of ${what}`)
  const copy: unknown[] = [...value]
  const bad = copy.findIndex((entry) => !accepts(entry))
  if (bad !== -1) throw new TypeError(`"${name}" must hold ${what}; entry ${bad} is something else`)
  return copy as unknown as EgressOptions[N]
}

function assertCertificate(given: NonNullable<EgressOptions['clientCertificate']>, proxy: unknown): void {
  assertKnownOptions('"clientCertificate"', given, ['cert', 'key', 'ca'])
  if (proxy !== undefined) throw new TypeError('"clientCertificate" cannot be given with "proxy"')
  try {
    createSecureContext(given)
  } catch {
    // The platform's message may quote what was given.
    throw new TypeError('"clientCertificate" must have "cert" and its "key" in PEM')
  }
  if (typeof given.cert !== 'string' || typeof given.key !== 'string')
    throw new TypeError('"clientCertificate" must have "cert" and its "key" in PEM')
}

function isScheme(entry: unknown): boolean {
  return entry === 'http:' || entry === 'https:'
}

function isName(entry: unknown): boolean {
  return typeof entry === 'string' && hostName(entry) !== undefined
}

function isHostPattern(entry: unknown): boolean {
  return typeof entry === 'string' && (isRange(withoutBrackets(entry)) || isName(entry.replace(/^\*\./, '')))
}

function isRange(entry: unknown): boolean {
  try {
    addressSet([entry as string])
    return true
  } catch {
    return false
  }
}

function isProxy(proxy: unknown): boolean {
  if (typeof proxy !== 'string' || !/^https?:\/\//.test(proxy) || !URL.canParse(proxy)) return false
  const { pathname, search, hash } = new URL(proxy)
  return pathname === '/' && search === '' && hash === ''
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1')
}

/** A wildcard stands for one or more whole labels, so `*.example.com` is neither `example.com` nor `evilexample.com` (P60). */
function hostsOf(
  options: EgressOptions,
  name: 'allowHosts' | 'denyHosts',
): { readonly match: HostMatch; readonly address: AddressMatch } | undefined {
  const patterns = list(options, name, isHostPattern, 'host names, addresses, ranges, or *.example.com')
  if (patterns === undefined) return undefined
  const ranges = patterns.map(withoutBrackets).filter(isRange)
  const names = patterns.filter((pattern) => !isRange(withoutBrackets(pattern)))
  const exact = new Set(names.filter((pattern) => !pattern.startsWith('*.')).map(hostName))
  const below = names.filter((pattern) => pattern.startsWith('*.')).map((pattern) => `.${hostName(pattern.slice(2))}`)
  const address = addressSet(ranges)
  const match = (host: string) => exact.has(host) || address(host) || below.some((end) => host.endsWith(end))
  return { match, address }
}
