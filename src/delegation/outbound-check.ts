/** The judgement on one outgoing request, the same for every client: what is looked for, and what is done when it is there. */
import { TrustError } from '../errors.ts'
import type { OperationName } from '../types.ts'
import { type Caller, watchedFor } from './caller.ts'
import type { CredentialKind, InboundCredential } from './credentials.ts'
import type { Encoding } from './fingerprints.ts'
import { createSearch, type Found, type Search, type Table } from './search.ts'

export type OutboundMode = 'enforce' | 'report'

/** What was about to leave. Holds no credential, no path and no query. */
export interface OutboundLeak {
  readonly mode: OutboundMode
  readonly kind: CredentialKind
  /** The credential's id: `jti` of a verified token, or a name that is good in this process only. */
  readonly id: string
  /** Where it had arrived. */
  readonly arrived: string
  /** Where it was found: `url`, `header x-forwarded-authorization`, `body`, `trailer x`, `text`. */
  readonly found: string
  readonly encoding: Encoding
  /** Scheme, host and port; '' where the text has no destination yet. */
  readonly origin: string
  readonly principal?: string
  readonly operation?: OperationName
  readonly skill?: string
}

export interface Installation {
  readonly mode: OutboundMode
  readonly onLeak: ((leak: OutboundLeak) => void) | undefined
  /** Origin of the guard's `publicUrl`. */
  readonly audience: () => string | undefined
}

/** What is being watched for, in the order of installation. */
const installations: Installation[] = []

export function install(installation: Installation): () => void {
  installations.push(installation)
  return () => {
    const at = installations.indexOf(installation)
    if (at !== -1) installations.splice(at, 1)
  }
}

/** One outgoing request. Each answer is the error to end it with, or `undefined`. */
export interface OutboundCheck {
  url(text: string): TrustError | undefined
  header(name: string, value: string, where?: 'header' | 'trailer'): TrustError | undefined
  /** A whole text or block of bytes, or the next piece of a stream. */
  body(chunk: unknown, encoding?: BufferEncoding): TrustError | undefined
  /** A body that is complete by itself. */
  whole(chunk: string | Uint8Array): TrustError | undefined
  /** Whether something was found, in either mode. */
  readonly hasFound: boolean
}

/** `undefined` where nothing has to be looked at: no guard, no caller, no credential, or the caller's own audience. */
export function outboundCheck(
  origin: string | undefined,
  extra: readonly Installation[] = [],
): OutboundCheck | undefined {
  const active = extra.length === 0 ? installations : extra
  if (active.length === 0) return undefined
  const watched = watchedFor(
    origin,
    active.flatMap(({ audience }) => audience() ?? []),
  )
  return watched === undefined ? undefined : createCheck(watched.caller, watched.table, origin ?? '', active)
}

function createCheck(
  caller: Caller,
  table: Table<InboundCredential>,
  origin: string,
  active: readonly Installation[],
): OutboundCheck {
  let stream: Search<InboundCredential> | undefined
  let hasFound = false

  function judge(found: Found<InboundCredential> | undefined, where: string): TrustError | undefined {
    if (found === undefined || hasFound) return undefined
    hasFound = true
    // Nor is the report to say it.
    const named = createSearch(table).push(origin) === undefined ? origin : '(withheld)'
    return judgement(found, where, caller, named, active)
  }
  const search = (text: string | Uint8Array, where: string) => {
    if (hasFound) return undefined
    return judge(createSearch(table).push(text), where)
  }
  return {
    get hasFound() {
      return hasFound
    },
    url: (text) => search(text, 'url'),
    header: (name, value, where = 'header') =>
      search(name, `name of a ${where}`) ?? search(value, `${where} ${name.toLowerCase().slice(0, 64)}`),
    whole: (chunk) => search(chunk, 'body'),
    body(chunk, encoding) {
      const bytes = bytesOf(chunk)
      if (hasFound || bytes === undefined) return undefined
      stream ??= createSearch(table)
      const found = stream.push(bytes, encoding)
      const { undecided } = stream
      return judge(found ?? (undecided === undefined ? undefined : { item: undecided, encoding: 'as it is' }), 'body')
    },
  }
}

export function judgement(
  { item, encoding }: Found<InboundCredential>,
  found: string,
  caller: Caller,
  origin: string,
  active: readonly Installation[] = installations,
): TrustError | undefined {
  const { principal, operation, skill } = caller
  const leak = {
    kind: item.kind,
    id: item.id,
    arrived: item.place,
    found,
    encoding,
    origin,
    ...(principal === undefined ? {} : { principal: principal.id }),
    ...(operation === undefined ? {} : { operation }),
    ...(skill === undefined ? {} : { skill }),
  }
  for (const { mode, onLeak } of active) tell(Object.freeze({ mode, ...leak }), onLeak)
  if (active.every(({ mode }) => mode === 'report')) return undefined
  return new TrustError('ERR_OUTBOUND_CREDENTIAL', { details: leak, hint: hintOf(leak) })
}

function tell(leak: OutboundLeak, onLeak: Installation['onLeak']): void {
  try {
    if (onLeak !== undefined) onLeak(leak)
    else if (leak.mode === 'report') {
      process.emitWarning(`${hintOf(leak)} (reported, not stopped)`, { code: 'ERR_OUTBOUND_CREDENTIAL' })
    }
  } catch {
    // Whoever watches does not decide.
  }
}

function hintOf({ kind, id, arrived, found, encoding, origin, skill }: Omit<OutboundLeak, 'mode'>): string {
  const what = `${kind} ${id}, which arrived in ${arrived}, stands in the ${found}${encoding === 'as it is' ? '' : ` (${encoding})`}`
  if (origin === '') return what
  const rule = { to: origin, ...(skill === undefined ? {} : { for: { skills: [skill] } }), obtain: 'exchange' }
  return `${what} of a request to ${origin}. To act there for the caller, let the policy say delegation: [${JSON.stringify(rule)}]`
}

function bytesOf(chunk: unknown): string | Uint8Array | undefined {
  if (typeof chunk === 'string') return chunk
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  return chunk instanceof ArrayBuffer || chunk instanceof SharedArrayBuffer ? new Uint8Array(chunk) : undefined
}

/** Scheme, host and port of a URL; `undefined` for what is none. */
export function originOf(url: unknown): string | undefined {
  const text = String(url)
  if (!URL.canParse(text)) return undefined
  const { protocol, host } = new URL(text)
  return `${protocol}//${host}`
}
