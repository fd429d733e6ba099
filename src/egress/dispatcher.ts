/**
 * The connect step: the addresses of a name are checked here and become the connection's, so that what was checked is
 * what is dialled, whatever DNS says a moment later. A kept connection stays with its checked address.
 */
import { isIP, type LookupFunction } from 'node:net'
import { Agent, buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici'
import { type ErrorCode, TrustError } from '../errors.ts'
import { isAllowedAddress, resolveHost } from './check.ts'
import type { EgressRules } from './options.ts'

const CONNECT_TIMEOUT_MS = 10_000

/** Time is limited by the deadline of the whole request, which is never longer than these would be. */
const LIMITS = {
  connections: 64,
  maxHeaderSize: 16_384,
  headersTimeout: 0,
  bodyTimeout: 0,
  keepAliveTimeout: 4000,
  keepAliveMaxTimeout: 60_000,
}

export function createDispatcher(rules: EgressRules): Dispatcher {
  const timeout = Math.min(CONNECT_TIMEOUT_MS, rules.timeoutMs)
  if (rules.proxy !== undefined) {
    // Tunnelled for http as well: the proxy learns host and port and no header. Nothing is pinned: it does the dialling.
    return new ProxyAgent({
      ...LIMITS,
      uri: rules.proxy,
      proxyTunnel: true,
      requestTls: { timeout },
      proxyTls: { timeout },
      clientFactory: (origin, options) => new Pool(origin, { ...options, headersTimeout: timeout }),
    })
  }
  return new Agent({
    ...LIMITS,
    factory: (origin, options) =>
      new Pool(origin, { ...options, connect: connectorFor(rules, String(origin), timeout) }),
  })
}

/** One for each origin, so that a denial can say which. */
function connectorFor(rules: EgressRules, origin: string, timeout: number): buildConnector.connector {
  const lookup: LookupFunction = (hostname, options, callback) => {
    void resolveHost(hostname.replace(/\.$/, ''), rules).then((resolution) => {
      const { addresses } = resolution
      const address = addresses.find((each) => !isAllowedAddress(each, rules))
      const failure = resolution.allowed ? undefined : denied(rules, resolution.reason, origin, address)
      const [first] = addresses
      if (failure !== undefined || first === undefined) {
        return callback(failure ?? new TrustError('ERR_EGRESS_DNS', { details: { origin } }), [])
      }
      if (options.all !== true) return callback(null, first, isIP(first))
      return callback(
        null,
        addresses.map((each) => ({ address: each, family: isIP(each) })),
      )
    })
  }
  const dial = buildConnector({ lookup, timeout, ...rules.clientCertificate })
  const refusal = (address: string): TrustError | undefined =>
    rules.mode === 'enforce' && !isAllowedAddress(address, rules)
      ? denied(rules, 'ERR_EGRESS_ADDRESS', origin, address)
      : undefined
  return (options, callback) => {
    // Node asks no lookup for a literal. The URL check has refused it already; the dispatcher does not rely on that.
    const bare = options.hostname.replace(/^\[(.*)\]$/, '$1')
    const refused = isIP(bare) === 0 ? undefined : refusal(bare)
    if (refused !== undefined) return callback(refused, null)
    // RFC 6066 §3: without final dot. From the URL and not, as undici has it, from the Host header.
    const servername = isIP(bare) === 0 ? bare.replace(/\.$/, '') : ''
    dial({ ...options, servername }, (...[error, socket]) => {
      if (error !== null) return callback(error, null)
      // The last word belongs to the connection itself, whichever way it came about.
      const { remoteAddress } = socket
      const failure =
        remoteAddress === undefined
          ? new TrustError('ERR_EGRESS_FAILED', { details: { origin, reason: 'ECONNRESET' } })
          : refusal(remoteAddress)
      if (failure === undefined) return callback(null, socket)
      socket.destroy()
      return callback(failure, null)
    })
  }
}

/** Every denial of a target goes through here: told always, an error unless the mode is `report`. */
export function denied(
  rules: EgressRules,
  reason: ErrorCode,
  origin: string,
  address?: string,
): TrustError | undefined {
  const details = { origin, ...(address === undefined ? {} : { address }) }
  try {
    const result: unknown = rules.onDenied?.(Object.freeze({ reason, ...details, mode: rules.mode }))
    if (result instanceof Promise) result.catch(() => undefined)
  } catch {
    // Whoever watches does not decide: what it throws neither opens anything nor takes the process down.
  }
  return rules.mode === 'report' ? undefined : new TrustError(reason, { details })
}
