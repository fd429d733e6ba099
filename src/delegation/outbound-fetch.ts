/** One client's `fetch`, for what does not go through Node's own HTTP, or where the process is not watched as a whole. */

import { firstOf } from './first-of.ts'
import { checkedChunks, checkedWebStream } from './outbound-body.ts'
import { type Installation, type OutboundCheck, type OutboundMode, originOf, outboundCheck } from './outbound-check.ts'

/**
 * `fetch`, which rejects with `ERR_OUTBOUND_CREDENTIAL` instead of sending a credential of `currentCaller()`. What
 * streams is looked at as it is read, and the body fails there. A redirect is followed by `fetch` itself and so not
 * looked at, unless the process is watched: a request to the caller's own audience follows none.
 */
export function createGuardedFetch(
  fetch: typeof globalThis.fetch,
  mode: OutboundMode,
  onLeak: Installation['onLeak'],
): typeof globalThis.fetch {
  const installation: Installation = { mode, onLeak, audience: () => undefined }
  return async (input, init = {}) => {
    const request = input instanceof Request ? input : undefined
    const url = request?.url ?? String(input)
    const origin = originOf(url)
    // Nobody is anybody's audience here: a `fetch` may go on from there to where nobody looks.
    const check = outboundCheck(origin, [installation])
    if (check === undefined) {
      const carries =
        outboundCheck(undefined, [{ ...installation, mode: 'report', onLeak: () => undefined }]) !== undefined
      return fetch(input, carries && init.redirect === undefined ? { ...init, redirect: 'error' } : init)
    }
    const headers = new Headers(init.headers ?? request?.headers)
    const error =
      check.url(`${init.method ?? request?.method ?? 'GET'} ${url}`) ??
      firstOf(headers, ([name, value]) => check.header(name, value))
    if (error !== undefined) throw error
    const body: unknown = init.body ?? request?.body
    if (body === null || body === undefined) return fetch(input, init)
    return fetch(input, { ...init, ...(await checkedBody(body, check)) } as RequestInit)
  }
}

async function checkedBody(body: unknown, check: OutboundCheck): Promise<object> {
  if (typeof body === 'string' || body instanceof URLSearchParams)
    return { body: judged(body, check.whole(String(body))) }
  if (ArrayBuffer.isView(body)) {
    const bytes = new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
    return { body: judged(body, check.whole(bytes)) }
  }
  if (body instanceof ArrayBuffer) return { body: judged(body, check.whole(new Uint8Array(body))) }
  if (body instanceof FormData) {
    for (const [name, value] of body) {
      const text = typeof value === 'string' ? value : `${value.name}\t${await value.text()}`
      judged(undefined, check.whole(`${name}\t${text}`))
    }
    return { body }
  }
  if (body instanceof Blob) return { body: judged(body, check.whole(new Uint8Array(await body.arrayBuffer()))) }
  if (body instanceof ReadableStream)
    return { body: checkedWebStream(body as ReadableStream<Uint8Array>, check), duplex: 'half' }
  return { body: checkedChunks(body as AsyncIterable<unknown>, check), duplex: 'half' }
}

function judged<T>(body: T, error: Error | undefined): T {
  if (error !== undefined) throw error
  return body
}
