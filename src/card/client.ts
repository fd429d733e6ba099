/** Fetches cards and hands out only what the trust lets through. */
import { LRUCache } from 'lru-cache'
import { createEgress, type Egress } from '../egress/index.ts'
import { type ErrorCode, TrustError } from '../errors.ts'
import { parseStrictJson } from '../internal/json.ts'
import type { Clock } from '../types.ts'
import { type Drift, driftOf, type Pin, pinOf } from './pins.ts'
import { type LoadedTrust, loadTrust } from './trust.ts'
import { type VerifyOptions, type VerifyResult, verifyCard } from './verify.ts'

export interface CardClientOptions {
  /** A loaded trust, or what `loadTrust` takes. */
  readonly trust: LoadedTrust | string | object
  /** Default: that of a `createEgress()` of its own, with the `/.well-known/` card's size limit. */
  readonly fetch?: typeof globalThis.fetch
  readonly clock?: Clock
  /** Pins by URL: a card that drifted from its pin is refused. */
  readonly pins?: Readonly<Record<string, Pin>>
  /** Most URLs remembered. Default 500. */
  readonly maxEntries?: number
  readonly verify?: Pick<VerifyOptions, 'profiles' | 'strict' | 'onUncovered'>
}

export interface FetchedCard {
  readonly url: string
  /** What the trust lets through: for a verified card only what the signature covers. */
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
   * while `max-age` lasts and asks with `ETag` after that; what is remembered is the text, judged anew each time.
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

const WELL_KNOWN = '/.well-known/agent-card.json'
const MAX_AGE_SECONDS = 86_400

/** Rejects as `loadTrust` does. Nothing is shared between two clients, so two trusts never share a card. */
export async function createCardClient(options: CardClientOptions): Promise<CardClient> {
  const { clock = Date.now, pins = {}, maxEntries = 500, verify = {} } = options
  const given = options.trust
  const trust = isLoaded(given) ? given : await loadTrust({ trust: given, clock })
  const egress: Egress | undefined =
    options.fetch === undefined ? createEgress({ maxResponseBytes: 2 * 1024 * 1024 }) : undefined
  const { fetch } = egress ?? (options as { readonly fetch: typeof globalThis.fetch })
  const texts = new LRUCache<string, Remembered>({ max: maxEntries })
  const currents = new LRUCache<string, FetchedCard>({ max: maxEntries })

  async function judge(url: string, text: string | Uint8Array): Promise<FetchedCard> {
    const verification =
      trust.mode === 'off'
        ? undefined
        : await verifyCard(text, { trust, origin: new URL(url).origin }, { ...verify, at: clock() / 1000 })
    const passes =
      verification === undefined ||
      verification.ok ||
      trust.mode === 'audit' ||
      (trust.mode === 'prefer' && verification.reason === 'ERR_CARD_UNSIGNED')
    if (!passes) throw new TrustError(verification.reason, { details: { url: withoutQuery(url) } })
    const card = verification?.ok === true ? verification.card : objectOf(text)
    const pin = Object.hasOwn(pins, url) ? pins[url] : undefined
    const drift =
      pin === undefined ? [] : driftOf(pin, pinOf(card, verification?.ok === true ? verification.signer : null))
    if (drift.length > 0 && trust.mode !== 'audit') {
      throw new TrustError('ERR_CARD_DRIFT', {
        details: {
          url: withoutQuery(url),
          drift: drift.map(({ kind, change, subject }) => `${kind} ${change} ${subject}`),
        },
      })
    }
    const found = {
      url,
      card,
      verified: verification?.ok === true,
      ...(verification === undefined ? {} : { verification }),
      drift,
    }
    currents.set(url, found)
    return found
  }

  async function textOf(url: string): Promise<Uint8Array> {
    const known = texts.get(url)
    if (known !== undefined && clock() < known.freshUntilMs) return known.text
    const response = await fetch(url, {
      headers: { accept: 'application/json', ...(known?.etag === undefined ? {} : { 'if-none-match': known.etag }) },
    })
    if (response.status === 304 && known !== undefined) {
      texts.set(url, { ...known, freshUntilMs: freshUntil(response, clock()) })
      return known.text
    }
    const text = new Uint8Array(await response.arrayBuffer())
    if (response.status !== 200)
      throw new TrustError('ERR_CARD_FETCH', { details: { url: withoutQuery(url), status: response.status } })
    texts.set(url, {
      text,
      etag: response.headers.get('etag') ?? undefined,
      freshUntilMs: freshUntil(response, clock()),
    })
    return text
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
    acceptExtendedCard: (given: string, cardText: string) => judge(cardUrl(given), cardText),
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
  if (!URL.canParse(text)) throw new TypeError('"url" must be an absolute URL')
  const url = new URL(text)
  url.hash = ''
  return url.pathname === '/' && url.search === '' ? new URL(WELL_KNOWN, url).href : url.href
}

function freshUntil(response: Response, nowMs: number): number {
  const control = response.headers.get('cache-control') ?? ''
  if (/\bno-(?:store|cache)\b/i.test(control)) return nowMs
  const seconds = Number(/\bmax-age=(\d{1,9})\b/i.exec(control)?.[1] ?? 0)
  return nowMs + Math.min(seconds, MAX_AGE_SECONDS) * 1000
}

function objectOf(text: string | Uint8Array): Record<string, unknown> {
  const value = parseStrictJson(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new TrustError('ERR_CARD_SHAPE' satisfies ErrorCode)
  return value as Record<string, unknown>
}

function isLoaded(trust: LoadedTrust | string | object): trust is LoadedTrust {
  return typeof trust === 'object' && 'keysFor' in trust && 'mode' in trust
}

/** A query may carry a secret: errors name the rest. */
function withoutQuery(url: string): string {
  return url.split('?', 1)[0] as string
}
