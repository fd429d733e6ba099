/** Delegation rules: names checked, secrets resolved, and every default that says where authority flows filled in. */
import { step } from '../protocol/card-reader.ts'
import type { LoadedCard, Sections } from './compare-card.ts'
import { compileMatch, type KnownNames } from './compile-access.ts'
import { compileClient } from './compile-client.ts'
import type { DelegationRule, ObtainingRule, SchemeConfig } from './compiled.ts'
import type { LoadContext } from './files.ts'
import { checkTransport, discoveryUrls } from './issuer-urls.ts'
import type { Report } from './report.ts'
import { type DelegationRuleSettings, delegationRuleSchema } from './schema-delegation.ts'
import { quote } from './source.ts'
import { issuersOf, isTokenScheme } from './token-schemes.ts'
import { accepted } from './validate.ts'

export interface DelegationInput {
  /** As written; what does not fit the schema has been reported. */
  readonly delegation: unknown
  readonly sections: Sections
  readonly schemes: ReadonlyMap<string, SchemeConfig>
  readonly known: KnownNames
  readonly card: LoadedCard
  readonly context: LoadContext
  readonly report: Report
}

const IN_THE_CLEAR = 'tokens that travel over http can be read on the way'

/** The rules that are good; what is wrong with the others has been reported. */
export async function compileDelegation(input: DelegationInput): Promise<DelegationRule[]> {
  const rules: DelegationRule[] = []
  for (const [index, entry] of (Array.isArray(input.delegation) ? input.delegation : []).entries()) {
    // A rule that is well-formed is looked at although another is not, so that all mistakes are said at once.
    const settings = accepted(delegationRuleSchema, entry)
    const rule = settings === undefined ? undefined : await compileRule(settings, index, input)
    if (rule !== undefined) rules.push(rule)
  }
  return rules
}

async function compileRule(
  settings: DelegationRuleSettings,
  index: number,
  input: DelegationInput,
): Promise<DelegationRule | undefined> {
  const { report, known } = input
  const at = `/delegation${step(index)}`
  const { to, obtain } = settings
  let complete = checkTransport(to, `${at}/to`, 'the other agent', input, IN_THE_CLEAR)
  const head = {
    index,
    to: new URL(to).href,
    match: settings.for === undefined ? {} : compileMatch(settings.for, `${at}/for`, known, report),
  }
  const withoutMeaning = (members: readonly (keyof DelegationRuleSettings)[]): void => {
    for (const member of members) {
      if (settings[member] === undefined) continue
      const message = `"${member}" has no meaning with obtain: ${obtain}: remove it`
      report.error('ERR_POLICY_VALUE', `${at}/${member}`, message, 'key')
      complete = false
    }
  }
  if (obtain === 'none') {
    withoutMeaning(['issuer', 'tokenEndpoint', 'client', 'scopes', 'audience', 'resource', 'actor', 'maxActors'])
    return complete ? { ...head, obtain } : undefined
  }
  if (obtain === 'client_credentials') withoutMeaning(['actor', 'maxActors'])

  const need = (member: 'client' | 'scopes', what: string): void => {
    if (settings[member] !== undefined) return
    report.error('ERR_POLICY_MISSING', `${at}/${member}`, `"${member}" is missing: ${what}`, 'key')
    complete = false
  }
  need('client', 'write who this agent is at the issuer, such as client: { id: my-agent, secret: env:CLIENT_SECRET }')
  // Without any the issuer chooses, and what it chooses may be everything.
  need('scopes', 'write the scopes that the other agent needs, such as scopes: [invoice:read]')
  const issuer = issuerOf(settings, at, input)
  if (issuer === undefined) complete = false
  else if (settings.issuer !== undefined && !checkTransport(issuer, `${at}/issuer`, 'the issuer', input, IN_THE_CLEAR))
    complete = false
  const { tokenEndpoint, scopes = [], audience } = settings
  if (tokenEndpoint !== undefined) {
    const place = `${at}/tokenEndpoint`
    complete = checkTransport(tokenEndpoint, place, 'the token endpoint', input, IN_THE_CLEAR) && complete
  }
  const client =
    settings.client === undefined
      ? undefined
      : await compileClient(
          { ...settings.client, auth: settings.client.auth ?? (settings.client.key ? 'private_key_jwt' : 'basic') },
          `${at}/client`,
          issuer,
          input.context,
          report,
        )
  if (!complete || client === undefined || issuer === undefined) return undefined
  const resource = settings.resource ?? (audience === undefined ? to : undefined)
  const declared = declaredScopes(input.card)
  return {
    ...head,
    obtain,
    issuer,
    endpoint:
      tokenEndpoint === undefined
        ? { from: 'discovery', url: discoveryUrls(issuer, kindOf(issuer, input.schemes))[0]! }
        : { from: 'policy', url: tokenEndpoint },
    client,
    scopes: [...scopes],
    heldScopes: new Set(scopes.filter((scope) => declared.has(scope))),
    ...(audience === undefined ? {} : { audience }),
    ...(resource === undefined ? {} : { resource }),
    actor: settings.actor ?? 'token',
    maxActors: settings.maxActors ?? 4,
  } satisfies ObtainingRule
}

/** A token goes to the issuer it came from, so an exchange names one of the schemes' issuers. */
function issuerOf(settings: DelegationRuleSettings, at: string, { known, report }: DelegationInput) {
  const { issuer, obtain } = settings
  const [only, ...others] = known.issuers
  if (issuer === undefined) {
    if (only !== undefined && others.length === 0) return only
    const why = only === undefined ? 'no scheme has one' : `the schemes have ${others.length + 1}`
    report.error('ERR_POLICY_MISSING', `${at}/issuer`, `"issuer" is missing: ${why}; write who issues the token`, 'key')
    return undefined
  }
  if (obtain === 'exchange' && !known.issuers.has(issuer)) {
    const message = `no scheme takes tokens of ${quote(issuer)}, so there is nothing to exchange: issuers are compared byte by byte`
    report.error('ERR_POLICY_ISSUER_MISMATCH', `${at}/issuer`, message)
    return undefined
  }
  return issuer
}

function kindOf(issuer: string, schemes: ReadonlyMap<string, SchemeConfig>) {
  for (const scheme of schemes.values())
    if (isTokenScheme(scheme) && issuersOf(scheme).includes(issuer)) return scheme.kind
  return 'oauth2'
}

/** Scopes in the vocabulary of this agent: what its card declares or asks for. */
function declaredScopes({ model }: LoadedCard): Set<string> {
  const scopes = new Set<string>()
  for (const scheme of model.schemes.values())
    if (scheme.kind === 'oauth2') for (const each of scheme.scopes) scopes.add(each)
  for (const list of [model.requirements, ...[...model.skills.values()].map(({ requirements = [] }) => requirements)])
    for (const requirement of list)
      for (const { scopes: required } of requirement.schemes) for (const each of required) scopes.add(each)
  return scopes
}
