/** The client of an agent that calls another agent on behalf of whoever called it. */
import { TrustError } from '../errors.ts'
import { type Authority, authorityOf } from '../guard/authority.ts'
import type { Loaded } from '../guard/load.ts'
import type { ObtainingRule } from '../policy/compiled.ts'
import { isUnder, ruleFor } from '../policy/delegate.ts'
import { type Caller, currentCaller } from './caller.ts'
import { createObtainer, type Obtainer } from './obtain.ts'
import { guardFetch } from './outbound.ts'
import { refuseCredentials, sendWith, takeApart, targetOf } from './send.ts'

const obtainers = new WeakMap<Loaded, Obtainer>()

/**
 * A `fetch` for `destination` (origin or beginning of a URL) that goes where a `delegation` rule of the policy lets the
 * authority of the current caller go, with the credential that the rule names: a token exchanged for the caller's, one of
 * the agent's own, or none. The caller's own credential is never sent.
 *
 * Throws `TypeError` for a destination that is no http(s) URL. The function it returns rejects before anything is sent with
 *
 * - `ERR_DELEGATION_CALLER` outside a request that a guard has allowed, and for anonymous callers;
 * - `ERR_DELEGATION_DENIED` where no rule fits caller, operation, skill and URL, and for URLs outside `destination`;
 * - `ERR_DELEGATION_SUBJECT`, `ERR_DELEGATION_SCOPE` where the caller has nothing that could flow on;
 * - `ERR_DELEGATION_CREDENTIAL` for a request that brings a credential of its own, and `ERR_OUTBOUND_CREDENTIAL` for one
 *   with the caller's in its URL or body;
 * - `ERR_TOKEN_REQUEST`, `ERR_TOKEN_ANSWER`, `ERR_OVERLOADED` where no token was to be had, and `ERR_CREDENTIAL_REVOKED`;
 *
 * and as `egress.fetch` does. Redirects are not followed. After a 401 a new token is obtained, once. Not checked: what the
 * token says, and what the other agent does with it.
 */
export function delegatedFetch(destination: string | URL): typeof globalThis.fetch {
  const text = String(destination)
  if (!/^https?:\/\//.test(text) || !URL.canParse(text))
    throw new TypeError(
      '"destination" must be an http(s) URL: the origin of the other agent, or what its URLs begin with',
    )
  const { href } = new URL(text)
  return async (...request) => {
    const url = targetOf(request[0])
    // Before the first wait, so that nothing that runs meanwhile can stand in for the caller.
    const caller = currentCaller()
    const authority = caller?.principal === undefined ? undefined : authorityOf(caller.principal)
    if (caller === undefined || authority === undefined)
      throw new TrustError('ERR_DELEGATION_CALLER', { details: { origin: url.origin } })
    const loaded = authority.inForce()
    const rule = isUnder(url, href) ? ruleFor(loaded.policy.delegation, delegator(caller, authority), url) : undefined
    if (rule === undefined || loaded.agentFetch === undefined) throw denied(url, caller, authority)
    assertStanding(loaded, authority)
    const outgoing = await takeApart(url, request)
    refuseCredentials(outgoing, headersIn(loaded.credentialLocations))
    // Whatever the request says: what arrived does not leave in its body or URL either.
    return sendWith(guardFetch(loaded.agentFetch), outgoing, () =>
      rule.obtain === 'none' ? Promise.resolve(NOTHING) : bearer(loaded, rule, authority),
    )
  }
}

const NOTHING = { headers: {}, isWorthAnother: () => false }

async function bearer(loaded: Loaded, rule: ObtainingRule, authority: Authority) {
  const obtainer = obtainers.get(loaded) ?? createObtainer(loaded)
  obtainers.set(loaded, obtainer)
  const { token, forget } = await obtainer.obtain(rule, authority)
  const isWorthAnother = ({ status }: Response) => {
    if (status !== 401) return false
    forget()
    return true
  }
  return { headers: { authorization: `Bearer ${token}` }, isWorthAnother }
}

function delegator({ skill }: Caller, authority: Authority) {
  const { parts, subject, operation } = authority
  const running = skill ?? operation.declaredSkill
  const skills = running !== undefined && authority.skills.includes(running) ? [running] : []
  return { parts, subject, operation, skills }
}

/** What let the caller in must still hold: a task may go on for longer than a credential. */
function assertStanding({ revoked, clock }: Loaded, { parts, principal }: Authority): void {
  for (const part of parts.values()) {
    const refusal = revoked(part)
    if (refusal !== undefined) throw new TrustError(refusal.code)
  }
  if (principal.expiresAt !== undefined && principal.expiresAt * 1000 <= clock())
    throw new TrustError('ERR_DELEGATION_SUBJECT', { details: { reason: "the caller's credential has expired" } })
}

function headersIn(locations: readonly string[]): string[] {
  return locations.flatMap((location) => (location.startsWith('header:') ? [location.slice('header:'.length)] : []))
}

function denied(url: URL, caller: Caller, { operation, principal }: Authority): TrustError {
  const skill = caller.skill ?? operation.declaredSkill
  return new TrustError('ERR_DELEGATION_DENIED', {
    details: {
      origin: url.origin,
      principal: principal.id,
      operation: operation.name,
      ...(skill === undefined ? {} : { skill: skill.slice(0, 256) }),
    },
  })
}
