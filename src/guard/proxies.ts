/** What the proxies that a policy trusts say about the caller, and what anybody else says in their name. */
import { LRUCache } from 'lru-cache'
import { addressSet } from '../egress/address.ts'
import type { HeaderView } from '../internal/headers.ts'
import { sha256Hex } from '../internal/sha256.ts'
import type { ClientAddressConfig, ClientCertificateConfig, CompiledPolicy } from '../policy/compiled.ts'
import type { UnreadableCertificate } from '../schemes/scheme.ts'
import type { Peer, PeerCertificate } from '../types.ts'
import { readCertificateHeader } from './certificate-header.ts'
import { forwardedAddress, plainAddress } from './forwarded-address.ts'

/** Who the caller is on the network, after proxies. */
export interface Caller {
  readonly address?: string
  readonly certificate?: PeerCertificate | UnreadableCertificate
  /** Headers of a proxy that came from somebody who is none: not read. Lower case. */
  readonly ignoredHeaders: readonly string[]
  /** Headers that no handler may see: those, and wherever a certificate may stand. Lower case. */
  readonly hiddenHeaders: readonly string[]
}

export type Proxies = (headers: HeaderView, peer: Peer) => Caller

const NONE: readonly string[] = Object.freeze([])

export function createProxies({
  clientCertificate,
  clientAddress,
}: Pick<CompiledPolicy, 'clientAddress' | 'clientCertificate'>): Proxies {
  const readCertificate = clientCertificate === undefined ? undefined : certificateReader(clientCertificate)
  const readAddress = clientAddress === undefined ? undefined : addressReader(clientAddress)
  if (readCertificate === undefined && readAddress === undefined) {
    return (_, peer) => ({ ...peer, ignoredHeaders: NONE, hiddenHeaders: NONE })
  }
  const certificateHeaders = clientCertificate === undefined ? NONE : headersOf(clientCertificate)
  return (headers, { address, certificate }) => {
    const peer = plainAddress(address)
    const ignoredHeaders: string[] = []
    const caller = {
      address: readAddress?.(headers, peer, ignoredHeaders) ?? address,
      certificate:
        readCertificate === undefined ? certificate : readCertificate(headers, peer, ignoredHeaders, certificate),
    }
    return {
      ...(caller.address === undefined ? {} : { address: caller.address }),
      ...(caller.certificate === undefined ? {} : { certificate: caller.certificate }),
      ignoredHeaders,
      hiddenHeaders: [...new Set([...certificateHeaders, ...ignoredHeaders])],
    }
  }
}

function headersOf({ header, format }: ClientCertificateConfig): readonly string[] {
  return format === 'rfc9440' ? [header, `${header}-chain`] : [header]
}

function addressReader({ header, trustedProxies }: ClientAddressConfig) {
  const trusted = addressSet(trustedProxies)
  return (headers: HeaderView, peer: string | undefined, ignored: string[]): string | undefined => {
    const lines = headers.all(header)
    if (peer !== undefined && trusted(peer)) return forwardedAddress(header, lines, peer, trusted)
    if (lines.length > 0) ignored.push(header)
    return undefined
  }
}

/** Certificates kept, so that a path is judged once for each and not at every request. */
const MAX_KNOWN = 1000

function certificateReader(config: ClientCertificateConfig) {
  const { header, format } = config
  const [, chainHeader] = headersOf(config)
  const trusted = addressSet(config.trustedProxies)
  const known = new LRUCache<string, PeerCertificate>({ max: MAX_KNOWN })

  function fromProxy(headers: HeaderView): PeerCertificate | UnreadableCertificate | undefined {
    const [value, second] = headers.all(header)
    const chain = chainHeader === undefined ? [] : headers.all(chainHeader)
    // RFC 9110 §7.6.1: a header listed there belongs to the last hop, and the next proxy would remove it (P89).
    const hopByHop = headers.all('connection').join(',').toLowerCase()
    if (hopByHop.split(',').some((name) => headersOf(config).includes(name.trim()))) {
      return { unreadable: 'Connection lists the header, as if it were not the proxy that set it' }
    }
    if (value === undefined) return chain.length === 0 ? undefined : { unreadable: 'a chain without a certificate' }
    if (second !== undefined) return { unreadable: 'the header is there more than once' }
    const key = sha256Hex(JSON.stringify([value, ...chain]))
    const found = known.get(key) ?? readCertificateHeader(format, value, chain)
    if (!('unreadable' in found)) known.set(key, found)
    return found
  }

  return (
    headers: HeaderView,
    peer: string | undefined,
    ignored: string[],
    own: PeerCertificate | undefined,
  ): PeerCertificate | UnreadableCertificate | undefined => {
    // Behind a proxy the certificate of the connection is the proxy's, never the caller's.
    if (peer !== undefined && trusted(peer)) return fromProxy(headers)
    ignored.push(...headersOf(config).filter((name) => headers.all(name).length > 0))
    return own
  }
}
