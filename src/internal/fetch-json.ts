/** Reads one JSON document from the network: bounded in bytes and time, no redirect, strict JSON. */
import { TrustError } from '../errors.ts'
import { parseStrictJson } from './json.ts'

export const TIMEOUT_MS = 5000
export const MAX_BYTES = 256 * 1024

/** Rejects with `ERR_FETCH_FAILED`; `details` say what failed, for which URL (without its query). */
export async function fetchJson(fetch: typeof globalThis.fetch, url: string, accept: string): Promise<unknown> {
  const details = { url: withoutQuery(url) }
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  let response: Response
  try {
    response = await abandonable(fetch(url, { redirect: 'error', headers: { accept }, signal }), signal)
  } catch (cause) {
    throw new TrustError('ERR_FETCH_FAILED', { details: { ...details, reason: reasonOf(cause, 'no answer') }, cause })
  }
  if (response.status !== 200) {
    await response.body?.cancel().catch(() => undefined)
    throw new TrustError('ERR_FETCH_FAILED', { details: { ...details, reason: `status ${response.status}` } })
  }
  try {
    return parseStrictJson(await abandonable(readBounded(response, MAX_BYTES), signal))
  } catch (cause) {
    throw new TrustError('ERR_FETCH_FAILED', {
      details: { ...details, reason: reasonOf(cause, 'not a JSON document within the limits') },
      cause,
    })
  }
}

/** The code of the first coded fault behind `cause`, which says which rule of `egress` or of the document it was. */
function reasonOf(cause: unknown, otherwise: string): string {
  // A fetch of the caller's may have wrapped it (undici: `fetch failed`), and so may that one's.
  for (let depth = 0, fault = cause; depth < 4 && fault instanceof Error; depth += 1, fault = fault.cause)
    if (fault instanceof TrustError) return fault.code
  return otherwise
}

/** Settles with the signal even where `work` does not listen to it. */
export function abandonable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    work.then(resolve, reject)
  })
}

/** Rejects with `ERR_EGRESS_RESPONSE_SIZE`. */
export async function readBounded(response: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  // Counted as it arrives: Content-Length is the sender's claim, and a compressed body is larger than it says.
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    if (size > maxBytes) throw new TrustError('ERR_EGRESS_RESPONSE_SIZE', { details: { limit: maxBytes } })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** For errors and logs: a query may carry a secret. */
export function withoutQuery(url: string): string {
  return url.split(/[?#]/, 1)[0] as string
}
