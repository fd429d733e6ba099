/** Fetches cards and hands out only what the trust lets through. */
import { LRUCache } from 'lru-cache'
import { createEgress, type Egress } from '../egress/index.ts'
import { TrustError } from '../errors.ts'
import { readBounded, withoutQuery } from '../internal/fetch-json.ts'
import { parseStrictJson } from '../internal/json.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { deepFreeze } from '../policy/freeze.ts'
import type { Clock } from '../types.ts'
import { type Drift, driftOf, type Pin, pinOf } from './pins.ts'
import { type LoadedTrust, loadTrust } from './trust.ts'
import { type VerifyOptions, type VerifyResult, verifyCard } from './verify.ts'

export interface CardClientOptions {
  /** A loaded trust, or what `loadTrust` takes. */
  readonly trust: LoadedTrust | string | object
  /** Default: that of a `createEgress()` of its own. A card of more than 2 MiB is refused whatever fetches it. */
  readonly fetch?: typeof globalThis.fetch
  readonly clock?: Clock
  /** Pins by URL: a card that drifted from its pin is refused, and so is an extended card that weakens it. */
  readonly pins?: Readonly<Record<string, Pin>>
  /** Most URLs remembered, 1 to 100000, within 64 MiB of cards. Default 500. */
  readonly maxEntries?: number
  readonly verify?: Pick<VerifyOptions, 'profiles' | 'strict' | 'onUncovered'>
}

export interface FetchedCard {
  readonly url: string
  /** What the trust lets through, frozen: for a verified card only what the signature covers. */
  readonly card: Record<string, unknown>
  readonly verified: boolean
  /** Absent with `mode: off`. */
  readonly verification?: VerifyResult
  /** Differences from the pin, where there is one and the mode is `audit`. */
  readonly drift: readonly Drift[]
}

export interface CardClient {
  /**
   * The card at `url` (the card itself, or an origin whose `/.well-known/agent-card.json` is meant). Answers from memory
   * while `max-age` lasts and asks with `ETag` after that, once for all who ask at the same time; what is remembered is
   * the text, judged anew each time.
   * With `mode: prefer`, once a verified card was seen, an unsigned one in its place is refused.
   * Rejects with `ERR_CARD_*`, `ERR_JSON_*`, `ERR_EGRESS_*` or `ERR_CARD_FETCH`; the previous good card stays `current`.
   */
  fetchCard(url: string): Promise<FetchedCard>
  /** Makes an extended card, received from the agent of `url`, the current one if it is trusted as that card was. */
  acceptExtendedCard(url: string, cardText: string): Promise<FetchedCard>
  /** The last card of `url` that was let through. */
  current(url: string): FetchedCard | undefined
  close(): Promise<void>
}

interface Remembered {
  /** As received: decoding would replace what is no UTF-8. */
  readonly text: Uint8Array
  readonly etag: string | undefined
  readonly freshUntilMs: number
}

const fetchedCards = new WeakSet<object>()

/** Whether a card client of this module has made it: whoever serves a card cannot say that it has. */
export function isFetchedCard(value: object): value is FetchedCard {
  return fetchedCards.has(value)
}

const WELL_KNOWN = '/.well-known/agent-card.json'
const MAX_AGE_SECONDS = 86_400
const MAX_CARD_BYTES = 2 * 1024 * 1024
const MAX_MEMORY_BYTES = 64 * 1024 * 1024
const TIMEOUT_MS = 15_000

/** Rejects as `loadTrust` does. Nothing is shared between two clients, so two trusts never share a card. */
export async function createCardClient(options: CardClientOptions): Promise<CardClient> {
  assertKnownOptions('createCardClient', options, ['trust', 'fetch', 'clock', 'pins', 'maxEntries', 'verify'])
  const { clock = Date.now, pins = {}, maxEntries = 500, verify = {} } = options
  assertKnownOptions('"verify"', verify, ['profiles', 'strict', 'onUncovered'])
  if (!Number.isSafeInteger(maxEntries) || maxEntries < 1 || maxEntries > 100_000)
    throw new TypeError('"maxEntries" must be a whole number from 1 to 100000')
  const given = options.trust
  const trust = isLoaded(given) ? given : await loadTrust({ trust: given, clock })
  const egress: Egress | undefined =
    options.fetch === undefined ? createEgress({ maxResponseBytes: MAX_CARD_BYTES }) : undefined
  const { fetch } = egress ?? (options as { readonly fetch: typeof globalThis.fetch })
  const bounds = { max: maxEntries, maxSize: MAX_MEMORY_BYTES }
  const texts = new LRUCache<string, Remembered>({
    ...bounds,
    sizeCalculation: ({ text }, url) => 1 + url.length + text.length,
  })
  const currents = new LRUCache<string, FetchedCard>(bounds)
  const flights = new Map<string, Promise<Uint8Array>>()

  async function judge(url: string, text: string | Uint8Array, isExtended = false): Promise<FetchedCard> {
    const verification =
      trust.mode === 'off'
        ? undefined
        : await verifyCard(text, { trust, origin: new URL(url).origin }, { ...verify, at: clock() / 1000 })
    const passes =
      verification === undefined ||
      verification.ok ||
      trust.mode === 'audit' ||
      // Whoever can take the signature off a card that has one must gain nothing by it.
      (trust.mode === 'prefer' && verification.reason === 'ERR_CARD_UNSIGNED' && currents.get(url)?.verified !== true)
    if (!passes) throw new TrustError(verification.reason, { details: { url: withoutQuery(url) } })
    const card = deepFreeze(verification?.ok === true ? verification.card : objectOf(text))
    const pin = Object.hasOwn(pins, url) ? pins[url] : undefined
    // An extended card shows more than the public one that was pinned: that alone is no drift.
    const drift =
      pin === undefined ? [] : driftOf(pin, pinOf(card, verification)).filter(({ weaker }) => weaker || !isExtended)
    if (drift.length > 0 && trust.mode !== 'audit') {
      throw new TrustError('ERR_CARD_DRIFT', {
        details: {
          url: withoutQuery(url),
          drift: drift.map(({ kind, change, subject }) => `${kind} ${change} ${subject}`),
        },
      })
    }
    const found = Object.freeze({
      url,
      card,
      verified: verification?.ok === true,
      ...(verification === undefined ? {} : { verification }),
      drift,
    })
    fetchedCards.add(found)
    currents.set(url, found, { size: 1 + url.length + text.length })
    return found
  }

  function textOf(url: string): Promise<Uint8Array> {
    const flying = flights.get(url)
    if (flying !== undefined) return flying
    const flight = load(url).finally(() => flights.delete(url))
    flights.set(url, flight)
    return flight
  }

  async function load(url: string): Promise<Uint8Array> {
    const known = texts.get(url)
    if (known !== undefined && clock() < known.freshUntilMs) return known.text
    try {
      const response = await fetch(url, {
        headers: { accept: 'application/json', ...(known?.etag === undefined ? {} : { 'if-none-match': known.etag }) },
        // The scope of a signer is held against this URL, so the card must come from it.
        redirect: 'error',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
      const { status } = response
      if (status !== 200 && !(status === 304 && known !== undefined)) {
        await response.body?.cancel()
        throw new TrustError('ERR_CARD_FETCH', { details: { url: withoutQuery(url), status } })
      }
      const text = status === 304 && known !== undefined ? known.text : await readBounded(response, MAX_CARD_BYTES)
      const etag = response.headers.get('etag') ?? (status === 304 ? known?.etag : undefined)
      const control = response.headers.get('cache-control') ?? ''
      if (/\bno-store\b/i.test(control)) texts.delete(url)
      else texts.set(url, { text, etag, freshUntilMs: freshUntil(control, response.headers.get('age'), clock()) })
      return text
    } catch (cause) {
      if (cause instanceof TrustError) throw cause
      throw new TrustError('ERR_CARD_FETCH', { details: { url: withoutQuery(url) }, cause })
    }
  }

  return Object.freeze({
    async fetchCard(given: string) {
      const url = cardUrl(given)
      try {
        return await judge(url, await textOf(url))
      } catch (fault) {
        // A text that was not let through is not asked for again with its ETag, and not used while it would be fresh.
        texts.delete(url)
        throw fault
      }
    },
    acceptExtendedCard: async (given: string, cardText: string) => judge(cardUrl(given), cardText, true),
    current: (given: string) => currents.get(cardUrl(given)),
    close: async () => egress?.close(),
  })
}

/** One card, without memory. See `CardClient.fetchCard`. */
export async function fetchCard(url: string, options: CardClientOptions): Promise<FetchedCard> {
  const client = await createCardClient(options)
  try {
    return await client.fetchCard(url)
  } finally {
    await client.close()
  }
}

function cardUrl(text: string): string {
  if (!URL.canParse(text)) throw new TrustError('ERR_EGRESS_URL', { hint: 'a card URL is absolute' })
  const url = new URL(text)
  // Whatever fetches: a `fetch` of the caller's would answer `data:`, and no file is ever a card.
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new TrustError('ERR_EGRESS_SCHEME')
  url.hash = ''
  return url.pathname === '/' && url.search === '' ? new URL(WELL_KNOWN, url).href : url.href
}

/** RFC 9111 §4.2, for what is explicit only. */
function freshUntil(control: string, age: string | null, nowMs: number): number {
  if (/\bno-cache\b/i.test(control)) return nowMs
  const maxAge = Number(/(?:^|[\s,])max-age=(\d{1,9})\b/i.exec(control)?.[1] ?? 0)
  const seconds = Math.min(maxAge, MAX_AGE_SECONDS) - (/^\d{1,9}$/.test(age ?? '') ? Number(age) : 0)
  return nowMs + seconds * 1000
}

function objectOf(text: string | Uint8Array): Record<string, unknown> {
  const value = parseStrictJson(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TrustError('ERR_CARD_SHAPE')
  return value as Record<string, unknown>
}

function isLoaded(trust: LoadedTrust | string | object): trust is LoadedTrust {
  return typeof trust === 'object' && 'keysFor' in trust && 'mode' in trust
}
