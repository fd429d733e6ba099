/** The two questions asked before a byte leaves: may this URL be reached, and may this address. */
import type { ErrorCode } from '../errors.ts'
import { familyOf, isPublicAddress } from './address.ts'
import { isHostName } from './host.ts'
import type { EgressRules } from './options.ts'

export type UrlVerdict =
  /** `host`: lower case, without brackets or final dot. `literal`: it is an address. */
  | { readonly allowed: true; readonly url: URL; readonly host: string; readonly literal: boolean }
  | { readonly allowed: false; readonly reason: ErrorCode }

/** Characters that the URL parser drops or rewrites, so that text and parsed URL would say different things. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const REWRITTEN = /[\u0000-\u0020\u007f\\]/

/** Metadata services that answer on public addresses; those on private ones need no entry. */
const METADATA_HOSTS = new Set(['metadata.packet.net', 'metadata.platformequinix.com', 'metadata.tencentyun.com'])

/** Everything that can be told from the URL alone, an address literal included. */
export function checkUrl(text: string, rules: EgressRules): UrlVerdict {
  const deny = (reason: ErrorCode): UrlVerdict => ({ allowed: false, reason })
  if (text.length > rules.maxUrlLength || REWRITTEN.test(text) || !URL.canParse(text)) return deny('ERR_EGRESS_URL')
  const url = new URL(text)
  if (!rules.schemes.has(url.protocol)) return deny('ERR_EGRESS_SCHEME')
  // `https:host` and `https:/host` parse to the same URL as `https://host`, and are read otherwise elsewhere.
  const authority = /^[a-z]+:\/\/([^/?#]*)/i.exec(text)?.[1]
  if (authority === undefined || authority === '') return deny('ERR_EGRESS_URL')
  if (!rules.userinfo && authority.includes('@')) return deny('ERR_EGRESS_USERINFO')
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  if (!rules.ports.has(port)) return deny('ERR_EGRESS_PORT')

  const bare = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const literal = familyOf(bare) !== 0
  const host = literal ? bare : bare.replace(/\.$/, '')
  if (!literal && !isHostName(host)) return deny('ERR_EGRESS_HOST')
  if (METADATA_HOSTS.has(host) || rules.denyHosts(host) || rules.allowHosts?.(host) === false)
    return deny('ERR_EGRESS_HOST')
  if (literal) {
    if (!isAllowedAddress(host, rules)) return deny('ERR_EGRESS_ADDRESS')
  } else {
    if (!rules.singleLabelNames && !host.includes('.')) return deny('ERR_EGRESS_HOST')
    if (rules.deniedSuffixes.some((suffix) => host === suffix || host.endsWith(`.${suffix}`)))
      return deny('ERR_EGRESS_HOST')
  }
  return { allowed: true, url, host, literal }
}

/** For literals and for what names resolve to alike. */
export function isAllowedAddress(address: string, rules: EgressRules): boolean {
  return !rules.denyAddress(address) && (isPublicAddress(address) || rules.allowAddress(address))
}

/** More answers than any honest name has. */
const MAX_ADDRESSES = 64

export type Resolution =
  | { readonly allowed: true; readonly addresses: readonly string[] }
  | { readonly allowed: false; readonly reason: ErrorCode; readonly addresses: readonly string[] }

/** All answers must be allowed: with one that is not, the name is under somebody's control who means no good. */
export async function resolveHost(host: string, rules: EgressRules): Promise<Resolution> {
  const addresses = await answersOf(host, rules)
  if (addresses === undefined) return { allowed: false, reason: 'ERR_EGRESS_TIMEOUT', addresses: [] }
  if (addresses.length === 0 || addresses.length > MAX_ADDRESSES)
    return { allowed: false, reason: 'ERR_EGRESS_DNS', addresses: [] }
  if (!addresses.every((address) => isAllowedAddress(address, rules))) {
    return { allowed: false, reason: 'ERR_EGRESS_ADDRESS', addresses }
  }
  return { allowed: true, addresses }
}

/** No answer, a failure and anything but a list are all no address. `undefined`: the resolver took too long. */
async function answersOf(host: string, { resolver, timeoutMs }: EgressRules): Promise<string[] | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), timeoutMs)
    timer.unref()
  })
  try {
    const answer: unknown = await Promise.race([resolver(host), late])
    if (answer === undefined) return undefined
    return Array.isArray(answer) ? answer.map(String) : []
  } catch {
    return []
  } finally {
    clearTimeout(timer)
  }
}
