/** The settings of a scheme with access tokens, and where the keys of its issuers are. */
import { signatureAlgorithms } from '../internal/verification-key.ts'
import type { CardScheme } from '../protocol/card-model.ts'
import { step } from '../protocol/card-reader.ts'
import type { IssuerConfig, JwtSchemeConfig } from './compiled.ts'
import { cardUrlOf, checkTransport, discoveryUrls, reportForeignUrl, type TokenCardScheme } from './issuer-urls.ts'
import { loadKeySet } from './jwks-file.ts'
import type { Report } from './report.ts'
import { type JwtSchemeSettings, jwtSchemeSchema } from './schema-schemes.ts'
import type { SchemeInput } from './scheme-input.ts'
import { quote } from './source.ts'
import { senderConstraintOf } from './token-schemes.ts'
import { validMembers } from './validate.ts'

/** `undefined` after reporting what is wrong. */
export async function compileJwt(
  input: SchemeInput,
  declared: CardScheme,
  settings: JwtSchemeSettings,
): Promise<JwtSchemeConfig | undefined> {
  const { name, sections } = input
  const { kind } = declared as TokenCardScheme
  const issuers = await compileIssuers(input, declared as TokenCardScheme, settings)
  const audience = settings.audience ?? sections.audience
  if (issuers === undefined || audience === undefined) return undefined
  const typ = settings.typ ?? (kind === 'http' ? 'any' : 'at+jwt')
  return {
    type: 'jwt',
    name,
    kind,
    issuers,
    audience: typeof audience === 'string' ? [audience] : [...audience],
    typ,
    algorithms: [...settings.algorithms],
    scopeClaims: settings.scopeClaims ?? ['scope', 'scp'],
    ...(settings.tenantClaim === undefined ? {} : { tenantClaim: settings.tenantClaim }),
    rfc9068: kind !== 'http' || typ === 'at+jwt',
    clockToleranceSeconds: settings.clockToleranceSeconds ?? 30,
    maxTokenBytes: settings.maxTokenBytes ?? 16_384,
    ...(settings.maxTokenAgeSeconds === undefined ? {} : { maxTokenAgeSeconds: settings.maxTokenAgeSeconds }),
    requiredScopes: settings.requiredScopes ?? [],
    senderConstraint: senderConstraintOf(declared as TokenCardScheme, settings.senderConstraint, input.report),
  }
}

/** Checks the issuers of settings with other mistakes, so that all of them are said at once. */
export async function checkIssuersOf(input: SchemeInput, declared: TokenCardScheme): Promise<void> {
  const {
    issuer,
    issuers,
    jwks,
    algorithms = [...signatureAlgorithms],
  } = validMembers(jwtSchemeSchema.shape, input.settings)
  if (issuer === undefined && issuers === undefined) return
  await compileIssuers(input, declared, { issuer, issuers, jwks, algorithms })
}

interface IssuerEntry {
  readonly issuer: string
  readonly jwks?: string | undefined
  readonly at: string
  readonly keysAt: string
}

async function compileIssuers(input: SchemeInput, declared: TokenCardScheme, settings: JwtSchemeSettings) {
  const entries = issuerEntries(settings, input.report)
  if (entries === undefined) return undefined
  const known = new Set<string>()
  let transported = true
  for (const { issuer, at } of entries) {
    if (known.has(issuer)) input.report.error('ERR_POLICY_VALUE', at, `the issuer ${quote(issuer)} is here twice`)
    known.add(issuer)
    transported = checkTransport(issuer, at, 'the issuer', input) && transported
  }
  const cardUrl = cardUrlOf(declared)
  const own =
    cardUrl === undefined
      ? undefined
      : entries.find(({ issuer }) => discoveryUrls(issuer, declared.kind).includes(cardUrl))
  if (cardUrl !== undefined && own === undefined && transported) reportForeignUrl(input, declared, cardUrl, entries[0]!)

  const issuers: IssuerConfig[] = []
  for (const entry of entries) {
    const keys = await issuerKeys(entry, entry === own ? cardUrl : undefined, input, declared, settings.algorithms)
    if (keys !== undefined) issuers.push({ issuer: entry.issuer, keys })
  }
  return issuers.length === entries.length ? issuers : undefined
}

function issuerEntries(settings: JwtSchemeSettings, report: Report): readonly IssuerEntry[] | undefined {
  const { issuer, issuers, jwks } = settings
  if (issuer !== undefined && issuers !== undefined) {
    report.error('ERR_POLICY_VALUE', '/issuers', 'write issuer or issuers, not both', 'key')
    return undefined
  }
  if (issuer !== undefined) return [{ issuer, jwks, at: '/issuer', keysAt: '/jwks' }]
  if (issuers === undefined) {
    report.error(
      'ERR_POLICY_MISSING',
      '/issuer',
      '"issuer" is missing: write the issuer of the tokens, or a list as issuers',
    )
    return undefined
  }
  if (jwks !== undefined) {
    // Keys shared by several issuers would let each speak for the others (P56).
    const message = 'with issuers, each has its own keys: write issuers: [{ issuer: https://…, jwks: … }]'
    report.error('ERR_POLICY_VALUE', '/jwks', message, 'key')
    return undefined
  }
  return issuers.map((entry, index) => {
    const at = `/issuers${step(index)}`
    return typeof entry === 'string'
      ? { issuer: entry, at, keysAt: at }
      : { issuer: entry.issuer, jwks: entry.jwks, at: `${at}/issuer`, keysAt: `${at}/jwks` }
  })
}

/** Where the keys of one issuer are: in a file, at a URL, or where its metadata says. */
export async function issuerKeys(
  entry: IssuerEntry,
  cardUrl: string | undefined,
  input: SchemeInput,
  declared: TokenCardScheme,
  algorithms: readonly string[],
): Promise<IssuerConfig['keys'] | undefined> {
  const { report, context } = input
  if (entry.jwks?.startsWith('file:')) {
    const jwks = await loadKeySet(entry.jwks, entry.keysAt, algorithms, context, report)
    return jwks === undefined ? undefined : { from: 'file', jwks }
  }
  if (entry.jwks !== undefined) {
    checkTransport(entry.jwks, entry.keysAt, 'the key set', input)
    return { from: 'url', url: entry.jwks }
  }
  if (declared.kind === 'http') {
    const message =
      '"jwks" is missing: a plain bearer scheme has no discovery; write file:PATH or the URL of the key set'
    report.error('ERR_POLICY_MISSING', entry.keysAt, message, 'key')
    return undefined
  }
  return { from: 'discovery', url: cardUrl ?? discoveryUrls(entry.issuer, declared.kind)[0]! }
}
