/** Every limit of one version of the policy, and what each of them counts. Memory is bounded by the limiters. */
import { LRUCache } from 'lru-cache'
import { peerKey } from '../internal/peer-key.ts'
import type { LimitConfig } from '../policy/compiled.ts'
import type { Credentials, Refusal } from '../schemes/authenticate.ts'
import type { CredentialSource, Outcome, Scheme } from '../schemes/scheme.ts'
import { createMemoryRateLimiter, type Rate } from '../store/rate-limiter.ts'
import type { OperationName, Principal } from '../types.ts'
import { createFailureLimit } from './failure-limit.ts'

export interface Limits {
  /** Asked before any credential is looked at. */
  attempt(source: CredentialSource, nowMs: number): Attempt
  /** Spends one request of a caller: of the principal, or of an anonymous caller's address. Seconds to wait, or 0. */
  request(principal: Principal | undefined, source: CredentialSource, nowMs: number): number
  /** The same for one operation. */
  operation(name: OperationName, principal: Principal | undefined, source: CredentialSource, nowMs: number): number
}

export interface Attempt {
  /** Above 0: nothing may be looked at, and the attempt is over. */
  readonly waitSeconds: number
  /** Set: the attempt is over, and may be made anew when this resolves. Never rejects. */
  readonly turn?: Promise<void>
  /** Says that it is being checked and not known yet: it counts as failed until it ends. */
  hold(): void
  /** Says how it went; nothing: it could not be told. */
  end(credentials?: Credentials): void
}

export function createLimits(config: LimitConfig, schemes: readonly Scheme[]): Limits {
  const limiterOf = (rate: Rate | undefined) => (rate === undefined ? undefined : createMemoryRateLimiter(rate))
  const perPrincipal = limiterOf(config.perPrincipal)
  const perAddress =
    config.failedAuthentication === undefined ? undefined : createFailureLimit(config.failedAuthentication)
  const perCredential = config.failedCredential === undefined ? undefined : createGuessLimit(config.failedCredential)
  const perOperation = new Map(
    [...(config.perOperation ?? [])].map(([name, rate]) => [name, createMemoryRateLimiter(rate)]),
  )
  const naming = schemes.filter(({ claimedId }) => claimedId !== undefined)

  function attempt(source: CredentialSource, nowMs: number): Attempt {
    const address = peerKey(source.address)
    const wait = perAddress?.ask(address, nowMs) ?? 0
    if (wait !== 0) return typeof wait === 'number' ? over(wait) : { ...over(0), turn: wait }
    const guesses: { readonly scheme: Scheme; readonly guess: Guess }[] = []
    for (const scheme of perCredential === undefined ? [] : naming) {
      const id = scheme.claimedId?.(source)
      if (id === undefined) continue
      const guess = (perCredential as GuessLimit)(`${scheme.name} ${id.slice(0, MAX_ID)}`, address, nowMs)
      guesses.push({ scheme, guess })
      if (guess.waitSeconds === 0) continue
      for (const { guess: begun } of guesses) begun.end('undecided')
      return over(guess.waitSeconds)
    }
    let held: ((failed: boolean) => void) | undefined
    return {
      waitSeconds: 0,
      hold() {
        held = perAddress?.hold(address, nowMs)
      },
      end({ outcomes, refusal } = NOTHING_TOLD) {
        const failed = refusal !== undefined && isFailure(refusal)
        if (held !== undefined) held(failed)
        else if (failed) perAddress?.count(address, nowMs)
        for (const { scheme, guess } of guesses) {
          const outcome = outcomes.get(scheme)
          // What another scheme takes at the same place was no guess at this one.
          const isTaken = [...outcomes].some(
            ([{ location }, { kind }]) => kind === 'satisfied' && location === scheme.location,
          )
          guess.end(
            outcome?.kind === 'satisfied' ? 'right' : !isTaken && outcome && isFailure(outcome) ? 'wrong' : 'undecided',
          )
        }
      },
    }
  }

  const callerKey = (principal: Principal | undefined, source: CredentialSource): string =>
    // Ids begin with the kind of a scheme, so that none is an address.
    principal?.id ?? `address ${peerKey(source.address)}`

  return {
    attempt,
    request: (principal, source, nowMs) => perPrincipal?.take(callerKey(principal, source), nowMs) ?? 0,
    operation: (name, principal, source, nowMs) =>
      perOperation.get(name)?.take(callerKey(principal, source), nowMs) ?? 0,
  }
}

/** Asking for a nonce is how DPoP begins (RFC 9449 §9), and who lacks a scope has authenticated. */
function isFailure(outcome: Outcome | Refusal): boolean {
  return outcome.kind === 'invalid' && outcome.code !== 'ERR_SCOPE_INSUFFICIENT' && outcome.code !== 'ERR_DPOP_NONCE'
}

function over(waitSeconds: number): Attempt {
  return { waitSeconds, hold: () => {}, end: () => {} }
}

const NOTHING_TOLD: Credentials = Object.freeze({ outcomes: new Map(), parts: new Map() })

/** Longer ids share a count, which only what nobody configured can be. */
const MAX_ID = 128
/** How many times what one address may get wrong all addresses together may. */
const EVERYWHERE = 10
const MAX_PROVEN = 100_000

type GuessLimit = (id: string, address: string, nowMs: number) => Guess

interface Guess {
  readonly waitSeconds: number
  end(how: 'right' | 'wrong' | 'undecided'): void
}

/**
 * Wrong guesses at one credential: `rate` from one address, ten times as many from all together. The second count would
 * let strangers lock the owner out, so it does not stop an address from which the credential was right before (device
 * cookies, as OWASP describes them, without a cookie). A guess counts from its beginning, so that many at once are no way
 * around; a right one is given back.
 */
function createGuessLimit(rate: Rate): GuessLimit {
  const here = createMemoryRateLimiter(rate)
  const everywhere = createMemoryRateLimiter({ ...rate, count: rate.count * EVERYWHERE })
  const proven = new LRUCache<string, true>({ max: MAX_PROVEN })
  return (id, address, nowMs) => {
    const pair = `${address} ${id}`
    const waitHere = here.waitSeconds(pair, nowMs)
    if (waitHere > 0) return { waitSeconds: waitHere, end: () => {} }
    const known = proven.get(pair) === true
    const waitSeconds = known ? 0 : everywhere.take(id, nowMs)
    if (waitSeconds > 0) return { waitSeconds, end: () => {} }
    here.take(pair, nowMs)
    return {
      waitSeconds: 0,
      end(how) {
        if (how === 'wrong') return
        here.giveBack(pair, nowMs)
        if (!known) everywhere.giveBack(id, nowMs)
        if (how === 'right') proven.set(pair, true)
      },
    }
  }
}
