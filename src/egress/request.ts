/** A request in the one form that `fetch` works on, and what is left of it after a redirect. */
import type { fetch as undiciFetch } from 'undici'

export type FetchInput = Parameters<typeof globalThis.fetch>[0]
export type FetchInit = Parameters<typeof globalThis.fetch>[1]
export type UndiciInit = NonNullable<Parameters<typeof undiciFetch>[1]>
type HeadersInput = ConstructorParameters<typeof Headers>[0]
type Body = NonNullable<UndiciInit['body']> | null

export interface PlainRequest {
  readonly url: string
  readonly method: string
  readonly headers: Headers
  readonly body: Body
  readonly signal: AbortSignal | null | undefined
  readonly redirect: 'follow' | 'error' | 'manual'
  readonly rest: UndiciInit
}

/** From URL and options, or from a `Request` of this process's own fetch. Throws `TypeError` as `fetch` does. */
export async function plainRequest(input: FetchInput, init: FetchInit): Promise<PlainRequest> {
  const given = typeof input === 'string' || input instanceof URL ? undefined : input
  const { method, headers, body, signal, redirect, ...rest } = (init ?? {}) as unknown as UndiciInit
  const plain = {
    url: given === undefined ? String(input as string | URL) : given.url,
    method: (method ?? given?.method ?? 'GET').toUpperCase(),
    headers: headersOf((headers ?? given?.headers) as HeadersInput),
    body: body === undefined ? ((given?.body ?? null) as Body) : body,
    signal: (signal ?? given?.signal) as AbortSignal | null | undefined,
    redirect: redirect ?? given?.redirect ?? 'follow',
    rest,
  }
  if (!((plain.body as unknown) instanceof globalThis.FormData)) return plain
  // The platform's FormData is another class than undici's, which would send the text `[object FormData]`.
  const form = new globalThis.Response(plain.body as unknown as FormData)
  if (!plain.headers.has('content-type')) plain.headers.set('content-type', form.headers.get('content-type') ?? '')
  return { ...plain, body: new Uint8Array(await form.arrayBuffer()) }
}

/** The platform's message quotes the value, which may well be a credential (P163). */
function headersOf(given: HeadersInput): Headers {
  try {
    return new Headers(given)
  } catch {
    throw new TypeError('"headers" has a name or value that HTTP does not allow')
  }
}

/** RFC 7617, for callers that allow user names in URLs: sent as a header and taken off the URL. */
export function withoutUserinfo(url: URL, headers: Headers): { readonly url: URL; readonly headers: Headers } {
  if (url.username === '' && url.password === '') return { url, headers }
  const bare = new URL(url)
  bare.username = ''
  bare.password = ''
  const sent = new Headers(headers)
  const pair = Buffer.from(`${decode(url.username)}:${decode(url.password)}`).toString('base64')
  if (!sent.has('authorization')) sent.set('authorization', `Basic ${pair}`)
  return { url: bare, headers: sent }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Statuses that say where to go on. */
export const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const SAFELISTED = new Set(['accept', 'accept-language', 'content-language', 'content-type', 'user-agent'])

/**
 * The request to make after a redirect from `from`, or `undefined` where it may not be followed: the Location can be
 * read in two ways, leads from https to http, or would carry a body to another origin or a second time.
 */
export function redirected(
  request: PlainRequest,
  from: URL,
  status: number,
  location: string,
): PlainRequest | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the URL parser drops or rewrites them
  if (/[\u0000-\u0020\u007f\\]/.test(location) || !URL.canParse(location, from.href)) return undefined
  const next = new URL(location, from.href)
  if (from.protocol === 'https:' && next.protocol !== 'https:') return undefined
  let { method, headers, body } = request
  // Fetch standard, HTTP-redirect fetch, step 12.
  const toGet =
    status === 303 ? method !== 'GET' && method !== 'HEAD' : status !== 307 && status !== 308 && method === 'POST'
  if (toGet) {
    method = 'GET'
    body = null
    headers = without(headers, (name) => name.startsWith('content-'))
  }
  if (next.origin !== from.origin) {
    // What was meant for one origin is not carried to another, in no header and not in the body.
    if (body !== null) return undefined
    headers = without(headers, (name) => !SAFELISTED.has(name))
  } else if (!isReplayable(body)) {
    return undefined
  }
  return { ...request, url: next.href, method, headers, body }
}

function isReplayable(body: Body): boolean {
  return (
    body === null ||
    typeof body === 'string' ||
    body instanceof URLSearchParams ||
    body instanceof ArrayBuffer ||
    ArrayBuffer.isView(body)
  )
}

function without(headers: Headers, drop: (name: string) => boolean): Headers {
  return new Headers([...headers].filter(([name]) => !drop(name)))
}
