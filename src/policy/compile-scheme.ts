/** One scheme: its settings, judged by the kind the card declares, with every default filled in. */
import type { z } from 'zod'
import type { CardScheme } from '../protocol/card-model.ts'
import { isObject } from '../protocol/json-object.ts'
import { loadApiKeys } from './api-key-file.ts'
import { schemePlace } from './card-places.ts'
import { compileCustom } from './compile-custom.ts'
import { checkIssuersOf, compileJwt } from './compile-jwt.ts'
import { compileMtls } from './compile-mtls.ts'
import { compileOpaque } from './compile-opaque.ts'
import type { SchemeConfig } from './compiled.ts'
import type { TokenCardScheme } from './issuer-urls.ts'
import { loadUsers } from './password-file.ts'
import { type OpaqueSchemeSettings, opaqueSchemeSchema } from './schema-opaque.ts'
import {
  type ApiKeySchemeSettings,
  apiKeySchemeSchema,
  type BasicSchemeSettings,
  basicSchemeSchema,
  type CustomSchemeSettings,
  customSchemeSchema,
  type JwtSchemeSettings,
  jwtSchemeSchema,
  type MtlsSchemeSettings,
  mtlsSchemeSchema,
} from './schema-schemes.ts'
import type { SchemeInput } from './scheme-input.ts'
import { quote } from './source.ts'
import { accepted, validate } from './validate.ts'

const SCHEMAS = {
  jwt: jwtSchemeSchema,
  opaque: opaqueSchemeSchema,
  apiKey: apiKeySchemeSchema,
  mtls: mtlsSchemeSchema,
  basic: basicSchemeSchema,
  custom: customSchemeSchema,
} as const

/** `undefined` after reporting what is wrong. */
export async function compileScheme(input: SchemeInput): Promise<SchemeConfig | undefined> {
  const { name, settings, card, sections, report, context } = input
  const declared = card.model.schemes.get(name)
  if (declared === undefined) return undefined // reported by the comparison
  if (declared.kind === 'unknown') return undefined
  const wanted = settingsKind(declared, settings)
  if (typeof wanted !== 'string') {
    const message = `http authentication with ${quote(wanted.unknown)} cannot be checked: use Bearer or Basic, or write custom: true and give a function`
    card.report.error('ERR_POLICY_UNSUPPORTED', schemePlace(name), message, 'key')
    return undefined
  }
  const other = (['jwt', 'opaque', 'apiKey', 'mtls', 'basic'] as const).find(
    (kind) => kind !== wanted && accepted(SCHEMAS[kind], settings),
  )
  if (other !== undefined) {
    const message = `the card says ${quote(name)} is ${describe(declared)}, and these are the settings of ${SETTINGS_OF[other]}`
    report.error('ERR_POLICY_SCHEME_MISMATCH', '', message, 'key')
    return undefined
  }
  const valid = validate(SCHEMAS[wanted] as z.ZodType, settings, report)
  if (wanted === 'opaque')
    return compileOpaque(input, declared as TokenCardScheme, valid as OpaqueSchemeSettings | undefined)
  if (wanted === 'mtls') return compileMtls(input, valid as MtlsSchemeSettings | undefined)
  if (valid === undefined) {
    if (wanted === 'jwt') await checkIssuersOf(input, declared as TokenCardScheme)
    return undefined
  }
  if (declared.kind === 'apiKey' && declared.location !== 'header') {
    const message = `${quote(name)} takes keys ${WEAK_PLACE[declared.location]}: prefer a header`
    report.warning('ERR_POLICY_WEAK', '', message, 'key')
  }
  if (wanted === 'custom') return compileCustom(name, declared, valid as CustomSchemeSettings)
  if (wanted === 'basic') {
    if (/^http:/i.test(sections.publicUrl ?? '')) {
      const message = `${quote(name)} takes passwords, and publicUrl is plain http: whoever is on the way reads them`
      report.warning('ERR_POLICY_WEAK', '', message, 'key')
    }
    const users = await loadUsers((valid as BasicSchemeSettings).users, '/users', context, report)
    return users === undefined ? undefined : { type: 'basic', name, users }
  }
  if (declared.kind === 'apiKey') {
    const keys = await loadApiKeys((valid as ApiKeySchemeSettings).keys, '/keys', context, report)
    if (keys === undefined) return undefined
    const parameter = declared.location === 'header' ? declared.name.toLowerCase() : declared.name
    return { type: 'apiKey', name, location: declared.location, parameter, keys }
  }
  return compileJwt(input, declared, valid as JwtSchemeSettings)
}

/** What the card declares decides, unless the settings hand the scheme to code. */
function settingsKind(
  scheme: Exclude<CardScheme, { kind: 'unknown' }>,
  settings: unknown,
): keyof typeof SCHEMAS | { readonly unknown: string } {
  if (isObject(settings) && Object.hasOwn(settings, 'custom')) return 'custom'
  const ofTokens = isObject(settings) && settings.token === 'opaque' ? 'opaque' : 'jwt'
  switch (scheme.kind) {
    case 'apiKey':
    case 'mtls':
      return scheme.kind
    case 'oauth2':
    case 'openIdConnect':
      return ofTokens
    case 'http':
      if (scheme.scheme === 'bearer' || scheme.scheme === 'dpop') return ofTokens
      return scheme.scheme === 'basic' ? 'basic' : { unknown: scheme.scheme }
  }
}

const WEAK_PLACE = {
  query: 'in the URL, where proxies and logs keep them',
  cookie: 'in a cookie, which a browser sends along with what other sites ask for',
} as const

const SETTINGS_OF = {
  jwt: 'a token scheme',
  opaque: 'a token scheme',
  apiKey: 'an apiKey scheme',
  mtls: 'an mtls scheme',
  basic: 'a Basic scheme',
} as const

function describe(scheme: CardScheme): string {
  const how = scheme.kind === 'http' && scheme.scheme !== 'bearer' ? ` with ${quote(scheme.scheme)}` : ''
  return `${/^[aeiou]/.test(scheme.kind) ? 'an' : 'a'} ${scheme.kind} scheme${how}`
}
