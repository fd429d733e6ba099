/** `a2a-trust/egress`: everything this package sends, and whatever else should not reach your own network. */
import type { ErrorCode } from '../errors.ts'
import { checkUrl, resolveHost } from './check.ts'
import { createGuardedFetch } from './fetch.ts'
import { type EgressOptions, egressRules } from './options.ts'

export { isPublicAddress } from './address.ts'
export type { EgressDenial, EgressOptions, Resolver } from './options.ts'

export interface EgressVerdict {
  readonly verdict: 'allow' | 'deny'
  /** `allowed`, or the code of the denial. */
  readonly reason: 'allowed' | ErrorCode
  /** What the name resolved to, or the literal; absent where nothing was resolved. */
  readonly addresses?: readonly string[]
}

export interface Egress {
  /**
   * As the global `fetch`, for allowed targets only, and with a `dispatcher` in the options ignored. Rejects with
   * `TrustError`: `ERR_EGRESS_URL`, `_SCHEME`, `_USERINFO`, `_PORT`, `_HOST`, `_ADDRESS`, `_DNS` for a target that is not
   * allowed, `_REDIRECT`, `_TIMEOUT`, `_RESPONSE_SIZE` (the last two also while the body is read), `_FAILED`. Rejects
   * with the caller's own reason where the caller's `signal` ended it, and with `TypeError` for impossible headers.
   */
  readonly fetch: typeof globalThis.fetch
  /**
   * What `fetch` would say of the target in mode `enforce`, without sending. DNS may answer otherwise later; `fetch` asks
   * again. With `resolve: false`, and with a proxy, names are not resolved.
   */
  check(url: string | URL, options?: { readonly resolve?: boolean }): Promise<EgressVerdict>
  /** Ends every connection. */
  close(): Promise<void>
}

/**
 * A fetch that reaches only the public Internet, or what the options add to it. Throws `TypeError` naming the option.
 *
 * Checked: scheme, port, user name, host rules, every address of the name, the address of the connection, redirects,
 * size and time. Not checked: what the other side does with the request; with `proxy`, which address the proxy dials.
 */
export function createEgress(options: EgressOptions = {}): Egress {
  const rules = egressRules(options)
  const { fetch, close } = createGuardedFetch(rules)
  return Object.freeze({
    fetch,
    close,
    async check(target: string | URL, { resolve = true }: { readonly resolve?: boolean } = {}): Promise<EgressVerdict> {
      const verdict = checkUrl(String(target), rules)
      if (!verdict.allowed) return { verdict: 'deny', reason: verdict.reason }
      if (verdict.literal) return { verdict: 'allow', reason: 'allowed', addresses: [verdict.host] }
      if (!resolve || rules.proxy !== undefined) return { verdict: 'allow', reason: 'allowed' }
      const resolution = await resolveHost(verdict.host, rules)
      const known = resolution.addresses.length === 0 ? {} : { addresses: resolution.addresses }
      return resolution.allowed
        ? { verdict: 'allow', reason: 'allowed', ...known }
        : { verdict: 'deny', reason: resolution.reason, ...known }
    },
  })
}
