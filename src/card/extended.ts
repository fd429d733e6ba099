/** The extended card as one caller may see it: only skills they may use, signed, and never cached by anybody else. */
import { LRUCache } from 'lru-cache'
import { parseStrictJson } from '../internal/json.ts'
import { PolicyError } from '../policy/policy-error.ts'
import { parseCard } from '../protocol/card.ts'
import type { Principal } from '../types.ts'
import { JCS, serialize } from './canonicalize.ts'
import { type SignCardOptions, signWithAll } from './sign.ts'

export interface ExtendedCardOptions {
  /**
   * Makes the card for a caller, in place of the policy's `extendedCard`. Called for each request that is allowed. Skills
   * that neither card of the policy has are left out: the guard could not say who may use them.
   */
  readonly card?: (caller: { readonly principal: Principal }) => object | Promise<object>
  /** Keys that sign what leaves, the current one first. Default: a card that is shown whole keeps its signatures. */
  readonly keys?: readonly Omit<SignCardOptions, 'signatures'>[]
}

export interface ExtendedCard {
  readonly card: Readonly<Record<string, unknown>>
  /** What to serve, byte for byte. */
  readonly text: string
  /** Headers to serve it with. */
  readonly headers: Readonly<Record<string, string>>
}

type Json = Readonly<Record<string, unknown>>

/** Signed views kept; the least recently used leaves first. */
const MAX_VIEWS = 100

export interface ExtendedCardViews {
  /** What this caller sees. Rejects for a function that makes no card, and as `signCard`. */
  of(principal: Principal, skills: readonly string[]): Promise<Omit<ExtendedCard, 'headers'>>
}

/** `json`: the policy's extended card. `undefined` when there is none, and no function that makes one. */
export function createExtendedCardViews(
  json: Json | undefined,
  { card: make, keys = [] }: ExtendedCardOptions,
): ExtendedCardViews | undefined {
  if (json === undefined && make === undefined) return undefined
  const signed = new LRUCache<string, Promise<string>>({ max: MAX_VIEWS })
  return {
    async of(principal, skills) {
      const whole = make === undefined ? (json as Json) : checked(await make({ principal }))
      const view = viewOf(whole, new Set(skills), keys.length > 0)
      const unsigned = serialize(view, JCS)
      let signing = signed.get(unsigned)
      if (signing === undefined) {
        signing = signWithAll(unsigned, keys)
        signed.set(unsigned, signing)
        signing.catch(() => signed.delete(unsigned))
      }
      const text = await signing
      return { card: parseStrictJson(text) as Json, text }
    },
  }
}

/** Without the skills this caller may not use; signatures stay only where they still cover what is left. */
function viewOf(whole: Json, allowed: ReadonlySet<string>, resigned: boolean): Json {
  const { signatures, ...card } = whole
  const listed = Array.isArray(card.skills) ? (card.skills as { id?: unknown }[]) : []
  const skills = listed.filter(({ id }) => typeof id === 'string' && allowed.has(id))
  const isWhole = skills.length === listed.length && !resigned && signatures !== undefined
  return { ...card, ...(card.skills === undefined ? {} : { skills }), ...(isWhole ? { signatures } : {}) }
}

/** What a function of the host has made: read like a card from a file, as a copy. */
function checked(made: unknown): Json {
  const json = parseStrictJson(String(JSON.stringify(made))) as Json
  const { problems } = parseCard(json)
  const errors = problems.filter(({ severity }) => severity === 'error')
  if (errors.length > 0) throw new PolicyError(errors.map((problem) => ({ ...problem, file: 'extendedCard.card' })))
  return json
}
