/** The texts that may lie under a card's signatures: one for each profile that can express the card. */
import { TrustError } from '../errors.ts'
import { parseStrictJson } from '../internal/json.ts'
import { JCS, serialize } from './canonicalize.ts'
import { canonicalFormOf, type Profile, type ReceivedCard } from './profiles.ts'

export interface Payload {
  readonly profile: Profile
  /** As it stands in the signing input: its base64url. */
  readonly encoded: Buffer
  /** What the text says: parsed from it, never from what was served. */
  readonly card: () => Record<string, unknown>
}

/** Each text is made at most once, only when it is asked for, and differs from those before it. */
export class Payloads {
  readonly #received: ReceivedCard
  readonly #remaining: Profile[]
  readonly #texts = new Set<string>()
  readonly #made: Payload[] = []
  #defect: { readonly encoded: Buffer | undefined } | undefined

  constructor(received: ReceivedCard, profiles: readonly Profile[]) {
    this.#received = received
    this.#remaining = [...profiles]
  }

  /** In the order of the profiles. Most cards are signed in the first form. */
  *all(): Generator<Payload> {
    yield* this.#made
    for (let profile = this.#remaining.shift(); profile !== undefined; profile = this.#remaining.shift()) {
      const text = this.#textOf(profile)
      if (text === undefined || this.#texts.has(text)) continue
      this.#texts.add(text)
      const made = { profile, encoded: encode(text), card: once(() => parse(text)) }
      this.#made.push(made)
      yield made
    }
  }

  /** What a2a-js signs when it is given its own typed object: the card without its schemes (its issue 663). */
  withoutSecuritySchemes(): Buffer | undefined {
    this.#defect ??= { encoded: this.#makeDefect() }
    return this.#defect.encoded
  }

  #makeDefect(): Buffer | undefined {
    const text = this.#textOf('clean')
    if (text === undefined) return undefined
    // Its schemes lose their content and, being empty then, their names.
    const { securitySchemes, ...rest } = parse(text)
    return securitySchemes === undefined ? undefined : encode(serialize(rest, JCS))
  }

  /** A profile that cannot express the card has no text. */
  #textOf(profile: Profile): string | undefined {
    try {
      return canonicalFormOf(this.#received, profile)
    } catch (fault) {
      if (fault instanceof TrustError) return undefined
      throw fault
    }
  }
}

function encode(text: string): Buffer {
  return Buffer.from(Buffer.from(text).toString('base64url'), 'latin1')
}

/** Python escapes make a text up to six times as long as the card that was let in. */
const MAX_PAYLOAD_BYTES = 16 * 1024 * 1024

function parse(text: string): Record<string, unknown> {
  return parseStrictJson(text, { maxBytes: MAX_PAYLOAD_BYTES, unsafeIntegers: 'round' }) as Record<string, unknown>
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
