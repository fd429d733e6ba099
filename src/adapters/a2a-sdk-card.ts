/** A signature generator for the SDK's `DefaultRequestHandler`. */
import { AgentCard, type AgentCardSignatureGenerator } from '@a2a-js/sdk'
import { publicJwkOf, type SignCardOptions, signCard } from '../card/sign.ts'
import { verifyCard } from '../card/verify.ts'
import { TrustError } from '../errors.ts'

/**
 * Signs what the SDK will serve. Its own generator signs the typed object, in which the security schemes are not where
 * its canonical form looks for them, and so signs a card without them (issue 663); this one signs the ProtoJSON.
 *
 * Each distinct card is signed once, and checked in the form in which the SDK writes it. Throws as `signCard`.
 */
export function cardSignatureGenerator(options: SignCardOptions): AgentCardSignatureGenerator {
  let last: { readonly text: string; readonly signed: Promise<AgentCard> } | undefined
  return async (card) => {
    const text = JSON.stringify(AgentCard.toJSON({ ...card, signatures: [] }))
    if (last?.text !== text) {
      const signed = sign(text, options)
      last = { text, signed }
      signed.catch(() => {
        last = undefined
      })
    }
    return structuredClone(await last.signed)
  }
}

async function sign(text: string, options: SignCardOptions): Promise<AgentCard> {
  const { card } = await signCard(text, options)
  const typed = AgentCard.fromJSON(card)
  const written = JSON.stringify(AgentCard.toJSON(typed))
  const check = await verifyCard(written, { jwks: { keys: [await publicJwkOf(options)] } })
  if (!check.ok || check.warnings.length > 0) {
    throw new TrustError('ERR_CARD_SIGNING_KEY', {
      details: { reason: check.ok ? 'the SDK would serve uncovered members' : check.reason },
    })
  }
  return typed
}
