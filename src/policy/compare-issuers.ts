/** Card against issuers: what is required together must be what one request can show. */
import { requirementPlace } from './card-places.ts'
import { type LoadedCard, requirementLists } from './compare-card.ts'
import type { SchemeConfig } from './compiled.ts'
import { quote } from './source.ts'
import { issuersOf, isTokenScheme } from './token-schemes.ts'

/**
 * A request has one `Authorization` header, so one token, and that names one issuer. Where all schemes take opaque tokens
 * nothing is proven: one server may answer for several issuers.
 */
export function checkIssuersTogether(loaded: LoadedCard, schemes: ReadonlyMap<string, SchemeConfig>): void {
  const { model, report } = loaded
  for (const { owner, list, place } of requirementLists(loaded)) {
    list.forEach((requirement, index) => {
      const configs = requirement.schemes.flatMap(({ name }) => schemes.get(name) ?? []).filter(isTokenScheme)
      const [first, ...others] = configs
      if (first === undefined || configs.every(({ type }) => type === 'opaque')) return
      if (issuersOf(first).some((issuer) => others.every((other) => issuersOf(other).includes(issuer)))) return
      const message = `${owner} requires ${configs.map(({ name }) => quote(name)).join(' and ')} together, which take tokens of different issuers, and a request has one token: make them alternatives`
      report.error('ERR_POLICY_REQUIREMENT_UNSATISFIABLE', requirementPlace(model, place, index), message)
    })
  }
}
