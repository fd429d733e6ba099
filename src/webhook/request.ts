/** What arrives at a webhook, from whatever server. */
import { type HeaderView, headerView } from '../internal/headers.ts'

/**
 * Headers in any of the shapes that servers give: alternating names and values as Node's `rawHeaders`, a web `Headers` or other pairs,
 * or an object by name. Only the first tells a header that was sent twice from one with a comma in it.
 */
export type WebhookRequestHeaders =
  | readonly string[]
  | Iterable<readonly [string, string]>
  | Readonly<Record<string, string | readonly string[] | undefined>>

export interface WebhookRequest {
  readonly headers: WebhookRequestHeaders
  /** The bytes as they came: `Buffer`, `Uint8Array`, `ArrayBuffer`, or text that was decoded as UTF-8. Never a parsed body. */
  readonly body: Uint8Array | ArrayBuffer | string
}

/** `undefined` for what are no headers, getters and iterators that throw included. */
export function viewOf(headers: unknown): HeaderView | undefined {
  try {
    return read(headers)
  } catch {
    return undefined
  }
}

function read(headers: unknown): HeaderView | undefined {
  if (Array.isArray(headers)) return headers.every((item) => typeof item === 'string') ? headerView(headers) : undefined
  if (typeof headers !== 'object' || headers === null) return undefined
  const entries: readonly unknown[] =
    Symbol.iterator in headers ? [...(headers as Iterable<unknown>)] : Object.entries(headers)
  const raw: string[] = []
  for (const entry of entries) {
    const [name, given] = Array.isArray(entry) ? (entry as unknown[]) : []
    if (typeof name !== 'string') return undefined
    for (const value of Array.isArray(given) ? (given as unknown[]) : given === undefined ? [] : [given]) {
      if (typeof value !== 'string') return undefined
      raw.push(name, value)
    }
  }
  return headerView(raw)
}
