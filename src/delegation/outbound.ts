/** The watch on everything that this process sends. */
import type { Guard } from '../guard.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { type Installation, install, type OutboundLeak, type OutboundMode, originOf } from './outbound-check.ts'
import { createGuardedFetch } from './outbound-fetch.ts'
import { watchHttp } from './outbound-http.ts'
import { watchHttp2 } from './outbound-http2.ts'
import { watchUndici } from './outbound-undici.ts'

export interface OutboundGuardOptions {
  /** `enforce` (default) ends the request before the credential is written; `report` only tells. */
  readonly mode?: OutboundMode
  /** Told of each request at its first find, in both modes. Default: nobody, or a process warning in `report`. */
  readonly onLeak?: (leak: OutboundLeak) => void
}

export interface OutboundGuard {
  /** Ends this watch. Others go on. */
  uninstall(): void
}

let watching = 0
let unwatch: readonly (() => void)[] = []

/**
 * From now on no request of this process carries a credential that arrived with the request it is made for: the token or
 * its signature, the key, the password, a cookie, a DPoP proof; in URL, headers, body or trailers; as it is,
 * percent-encoded, escaped in JSON, in base64, base64url or hex. Such a request fails with `ERR_OUTBOUND_CREDENTIAL`
 * before the piece that holds it is sent. `guard` says by its `publicUrl` which origin is the caller's own audience; to
 * that one everything may go.
 *
 * Watched: the global `fetch`, undici with any dispatcher, `node:http`, `node:https`, `node:http2`, and so everything
 * built on them, gRPC included. Not watched: raw sockets, WebSocket frames, child processes, worker threads, native addons,
 * compressed or encrypted bodies, credentials under eight characters, and code that has left its request's asynchronous
 * context (see `bindCaller`).
 *
 * May be called for several guards, and several times: each reports, and one `enforce` is enough. Throws `TypeError`
 * quoting the option.
 */
export function installOutboundGuard(
  guard: Pick<Guard, 'publicUrl'>,
  options: OutboundGuardOptions = {},
): OutboundGuard {
  const { mode, onLeak } = checked('installOutboundGuard', options)
  const given: unknown = guard
  if (typeof given !== 'object' || given === null || !('publicUrl' in given))
    throw new TypeError('"guard" must be a guard')
  const installation: Installation = {
    mode,
    onLeak,
    audience: () => (guard.publicUrl === undefined ? undefined : originOf(guard.publicUrl)),
  }
  const remove = install(installation)
  if (watching === 0) unwatch = [watchHttp(), watchHttp2(), watchUndici()]
  watching += 1
  let isInstalled = true
  return Object.freeze({
    uninstall() {
      if (!isInstalled) return
      isInstalled = false
      remove()
      watching -= 1
      if (watching > 0) return
      for (const undo of unwatch) undo()
      unwatch = []
    },
  })
}

/**
 * A `fetch` that sends no credential of `currentCaller()`, for a client of its own kind or where the process is not
 * watched. Rejects with `ERR_OUTBOUND_CREDENTIAL`; what streams fails while it is read. Not checked: where redirects
 * lead, unless the process is watched.
 */
export function guardFetch(
  fetch: typeof globalThis.fetch,
  options: OutboundGuardOptions = {},
): typeof globalThis.fetch {
  if (typeof fetch !== 'function') throw new TypeError('"fetch" must be a function')
  const { mode, onLeak } = checked('guardFetch', options)
  return createGuardedFetch(fetch, mode, onLeak)
}

function checked(call: string, options: OutboundGuardOptions): { mode: OutboundMode; onLeak: Installation['onLeak'] } {
  assertKnownOptions(call, options, ['mode', 'onLeak'])
  const { mode = 'enforce', onLeak } = options
  if (mode !== 'enforce' && mode !== 'report') throw new TypeError('"mode" must be enforce or report')
  if (onLeak !== undefined && typeof onLeak !== 'function') throw new TypeError('"onLeak" must be a function')
  return { mode, onLeak }
}
