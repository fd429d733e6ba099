/** A signature generator for the SDK's `DefaultRequestHandler`. */
import { AgentCard, type AgentCardSignatureGenerator } from '@a2a-js/sdk'
import { LRUCache } from 'lru-cache'
import { checkSignOptions, publicJwkOf, type SignCardOptions, signCard } from '../card/sign.ts'
import { verifyCard } from '../card/verify.ts'
import { TrustError } from '../errors.ts'

const MAX_CARDS = 100

/**
 * Signs what the SDK will serve. Its own generator signs the typed object, in which the security schemes are not where
 * its canonical form looks for them, and so signs a card without them (issue 663); this one signs the ProtoJSON.
 *
 * The SDK writes a card in two ways: `JSON.stringify` at the well-known path, its own `toJSON` over the protocol. What
 * is returned gives the signed card in both. Each distinct card is signed once, among the last 100. Throws as `signCard`.
 */
export function cardSignatureGenerator(options: SignCardOptions): AgentCardSignatureGenerator {
  checkSignOptions(options)
  // The SDK asks on every message, for the public card as well as for each caller's extended one.
  const made = new LRUCache<string, Promise<Record<string, unknown>>>({ max: MAX_CARDS })
  return async (card) => {
    const text = JSON.stringify(AgentCard.toJSON({ ...card, signatures: [] }))
    let signing = made.get(text)
    if (signing === undefined) {
      signing = sign(text, options)
      made.set(text, signing)
      signing.catch(() => made.delete(text))
    }
    const signed = await signing
    return Object.defineProperty(AgentCard.fromJSON(signed), 'toJSON', { value: () => structuredClone(signed) })
  }
}

async function sign(text: string, options: SignCardOptions): Promise<Record<string, unknown>> {
  const { card } = await signCard(text, options)
  const written = JSON.stringify(AgentCard.toJSON(AgentCard.fromJSON(card)))
  const check = await verifyCard(written, { jwks: { keys: [await publicJwkOf(options)] } })
  if (!check.ok || check.warnings.length > 0) {
    const reason = check.ok ? 'the SDK would serve members that are not covered' : check.reason
    throw new TrustError('ERR_CARD_SIGNING_KEY', { details: { reason } })
  }
  return card
}
