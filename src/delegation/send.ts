/** One request to another agent: taken apart, given its credential, sent nowhere else, and sent again once after a 401. */
import { TrustError } from '../errors.ts'

type FetchArguments = Parameters<typeof globalThis.fetch>

/** A request that can be sent twice. */
export interface Outgoing {
  readonly url: URL
  readonly init: RequestInit
  readonly headers: Headers
}

/** Of a body that has to be read so that it can be sent again. */
const MAX_BODY_BYTES = 16 * 1024 * 1024

/** The URL alone, before anything is read. Throws `TypeError` for what `fetch` would not take. */
export function targetOf(input: FetchArguments[0]): URL {
  const text = typeof input === 'string' ? input : input instanceof URL ? input.href : input.url
  if (!URL.canParse(text)) throw new TypeError('the URL of a request to another agent must be absolute')
  return new URL(text)
}

/**
 * The request to `url`, which was read and judged once. Headers in every form that `fetch` takes, from `init` or a `Request` (A106); a body that can be read once is read here.
 * Rejects with `ERR_REQUEST_TOO_LARGE`, and with `TypeError` for what `fetch` would not take.
 */
export async function takeApart(url: URL, [input, init = {}]: FetchArguments): Promise<Outgoing> {
  const given = typeof input === 'string' || input instanceof URL ? undefined : input
  const headers = headersOf(init.headers ?? given?.headers)
  const method = init.method ?? given?.method ?? 'GET'
  const signal = init.signal ?? given?.signal ?? null
  const source = init.body === undefined ? given?.body : init.body
  let body: RequestInit['body'] = null
  if (source !== undefined && source !== null) {
    if (typeof source === 'string' || source instanceof URLSearchParams) body = source
    else {
      // `Response` knows every kind of body, and what content type goes with it.
      const read = new Response(source as ConstructorParameters<typeof Response>[0])
      body = await readBody(read)
      const type = read.headers.get('content-type')
      if (type !== null && !headers.has('content-type')) headers.set('content-type', type)
    }
  }
  // What is not looked at is not passed on: a dispatcher would go round every check.
  return { url, headers, init: { method, body, signal, redirect: redirectOf(init, given) } }
}

/** A redirect is handed to the caller or refused, and never followed: the credential is for this URL (A102). */
function redirectOf(init: RequestInit, given: Request | undefined): 'manual' | 'error' {
  return (init.redirect ?? given?.redirect) === 'manual' ? 'manual' : 'error'
}

async function readBody(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    if (size > MAX_BODY_BYTES)
      throw new TrustError('ERR_REQUEST_TOO_LARGE', { details: { limit: MAX_BODY_BYTES, where: 'to another agent' } })
    chunks.push(chunk)
  }
  return new Uint8Array(Buffer.concat(chunks))
}

/** The platform's message quotes the value, which may well be a credential (P163). */
function headersOf(given: ConstructorParameters<typeof Headers>[0]): Headers {
  try {
    return new Headers(given)
  } catch {
    throw new TypeError('"headers" has a name or value that HTTP does not allow')
  }
}

/** Headers that say who calls, and the one that says whom: another host at the same address is another agent. */
const SPEAKING = ['authorization', 'proxy-authorization', 'cookie', 'dpop', 'host']

/** Who calls is for the rule to say: what somebody else has put there is refused and not replaced. */
export function refuseCredentials({ headers, url }: Outgoing, further: readonly string[] = []): void {
  const header = [...SPEAKING, ...further].find((name) => headers.has(name))
  if (header !== undefined)
    throw new TrustError('ERR_DELEGATION_CREDENTIAL', { details: { origin: url.origin, header } })
}

/** One attempt's credential. */
export interface Attached {
  readonly headers: Readonly<Record<string, string>>
  /** Query parameters, for API keys that the card wants there. */
  readonly query?: Readonly<Record<string, string>>
  /** Looks at the answer, and says whether another attempt with another credential is worth it. */
  isWorthAnother(response: Response): boolean
}

/** Sends with what `attach` gives; and again, where that is worth it, a second and last time. */
export async function sendWith(
  fetch: typeof globalThis.fetch,
  { url, init, headers }: Outgoing,
  attach: () => Promise<Attached>,
): Promise<Response> {
  const attempt = async (attached: Attached) => {
    const own = new Headers(headers)
    for (const [name, value] of Object.entries(attached.headers)) own.set(name, value)
    const target = new URL(url)
    for (const [name, value] of Object.entries(attached.query ?? {})) target.searchParams.set(name, value)
    const response = await fetch(target, { ...init, headers: own })
    // What was added to the URL is not shown in what comes back: it is logged more often than a header (A104).
    if (attached.query !== undefined) Object.defineProperty(response, 'url', { value: url.href })
    return response
  }
  const first = await attach()
  const response = await attempt(first)
  if (!first.isWorthAnother(response)) return response
  await response.body?.cancel().catch(() => undefined)
  return attempt(await attach())
}
