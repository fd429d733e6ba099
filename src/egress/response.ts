/** What comes back: a response of this process's own kind whose body ends at the limits, or a fault with a code. */
import type { ReadableStreamDefaultReader } from 'node:stream/web'
import type { Response } from 'undici'
import { TrustError } from '../errors.ts'
import type { Deadline } from './deadline.ts'
import type { EgressRules } from './options.ts'

/** The size is counted after decompression, as the bytes arrive. */
export function limitedResponse(
  rules: EgressRules,
  response: Response,
  url: URL,
  redirected: boolean,
  deadline: Deadline,
): globalThis.Response {
  const { status, statusText, headers } = response
  const copy = (body: ReadableStream | null): globalThis.Response => {
    const made = new globalThis.Response(body, { status, statusText, headers: [...headers] })
    Object.defineProperties(made, {
      url: { value: withoutFragment(url), configurable: true },
      redirected: { value: redirected },
    })
    return made
  }
  const refuse = (fault: TrustError): never => {
    deadline.done()
    void response.body?.cancel().catch(() => undefined)
    throw fault
  }
  if (Number(headers.get('content-length') ?? 0) > rules.maxResponseBytes && response.body !== null) {
    return refuse(tooLarge(rules, url))
  }
  try {
    if (response.body !== null) return copy(limitedBody(rules, response.body, url, deadline))
    deadline.done()
    return copy(null)
  } catch {
    // The constructor knows no status above 599 and no control characters in its text; undici lets both in.
    return refuse(new TrustError('ERR_EGRESS_FAILED', { details: { origin: url.origin, reason: 'status line' } }))
  }
}

function withoutFragment(url: URL): string {
  const bare = new URL(url)
  bare.hash = ''
  return bare.href
}

function tooLarge(rules: EgressRules, url: URL): TrustError {
  const details = { origin: url.origin, maxResponseBytes: rules.maxResponseBytes }
  return new TrustError('ERR_EGRESS_RESPONSE_SIZE', { details })
}

function limitedBody(
  rules: EgressRules,
  stream: NonNullable<Response['body']>,
  url: URL,
  deadline: Deadline,
): ReadableStream<Uint8Array> {
  // Read only when somebody reads: nothing is taken from the stream of a response that is not wanted after all.
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  let size = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        reader ??= stream.getReader()
        try {
          const { done, value } = await reader.read()
          if (!done) {
            size += value.byteLength
            if (size <= rules.maxResponseBytes) return controller.enqueue(value)
            void reader.cancel().catch(() => undefined)
            controller.error(tooLarge(rules, url))
          } else {
            controller.close()
          }
        } catch (fault) {
          controller.error(codedFault(fault, url, deadline))
        }
        return deadline.done()
      },
      async cancel(reason) {
        deadline.done()
        await (reader ?? stream).cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}

/** Codes of undici and what they are here. */
const KNOWN: ReadonlyMap<unknown, 'ERR_EGRESS_TIMEOUT' | 'ERR_EGRESS_RESPONSE_SIZE'> = new Map([
  ['UND_ERR_CONNECT_TIMEOUT', 'ERR_EGRESS_TIMEOUT'],
  ['UND_ERR_HEADERS_OVERFLOW', 'ERR_EGRESS_RESPONSE_SIZE'],
])

/**
 * What a fault of the connection is to the caller: the reason of the abort, a denial from the connect step, or a code.
 * The fault itself becomes the cause, unless it quotes what the server sent.
 */
export function codedFault(fault: unknown, url: URL, deadline: Deadline): unknown {
  if (deadline.signal.aborted) return deadline.signal.reason
  const chain = causesOf(fault)
  const own = chain.find((each) => each instanceof TrustError)
  if (own !== undefined) return own
  const code = chain.map((each) => (each as { code?: unknown }).code).findLast((each) => typeof each === 'string')
  const quotes = chain.some((each) => 'data' in each)
  return new TrustError(KNOWN.get(code) ?? 'ERR_EGRESS_FAILED', {
    details: { origin: url.origin, reason: typeof code === 'string' ? code : 'no answer' },
    ...(quotes ? {} : { cause: fault }),
  })
}

/** The fault, its causes, and the faults of each address that was tried. */
function causesOf(fault: unknown, depth = 0): Error[] {
  if (!(fault instanceof Error) || depth > 4) return []
  const parts: unknown[] = fault instanceof AggregateError ? fault.errors : []
  return [fault, ...parts.flatMap((part) => causesOf(part, depth + 1)), ...causesOf(fault.cause, depth + 1)]
}
