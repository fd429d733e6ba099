/** One scheme: its settings, judged by the kind the card declares, with every default filled in. */
import type { CardScheme } from '../protocol/card-model.ts'
import { isObject } from '../protocol/json-object.ts'
import { loadApiKeys } from './api-key-file.ts'
import { schemePlace } from './card-places.ts'
import { checkIssuersOf, compileJwt } from './compile-jwt.ts'
import { compileMtls } from './compile-mtls.ts'
import { compileOpaque } from './compile-opaque.ts'
import type { SchemeConfig } from './compiled.ts'
import type { TokenCardScheme } from './issuer-urls.ts'
import { type OpaqueSchemeSettings, opaqueSchemeSchema } from './schema-opaque.ts'
import {
  apiKeySchemeSchema,
  type JwtSchemeSettings,
  jwtSchemeSchema,
  type MtlsSchemeSettings,
  mtlsSchemeSchema,
  type SchemeSettings,
} from './schema-schemes.ts'
import type { SchemeInput } from './scheme-input.ts'
import { quote } from './source.ts'
import { accepted, validate } from './validate.ts'

const SCHEMAS = {
  jwt: jwtSchemeSchema,
  opaque: opaqueSchemeSchema,
  apiKey: apiKeySchemeSchema,
  mtls: mtlsSchemeSchema,
} as const

/** `undefined` after reporting what is wrong. */
export async function compileScheme(input: SchemeInput): Promise<SchemeConfig | undefined> {
  const { name, settings, card, report, context } = input
  const declared = card.model.schemes.get(name)
  if (declared === undefined) return undefined // reported by the comparison
  const wanted = settingsKind(declared, settings)
  if (wanted === undefined) return undefined

  const other = (['jwt', 'opaque', 'apiKey', 'mtls'] as const).find(
    (kind) => kind !== wanted && accepted(SCHEMAS[kind], settings),
  )
  if (other !== undefined) {
    const message = `the card says ${quote(name)} is ${describe(declared)}, and these are the settings of ${SETTINGS_OF[other]}`
    report.error('ERR_POLICY_SCHEME_MISMATCH', '', message, 'key')
    return undefined
  }
  if (declared.kind === 'http' && declared.scheme !== 'bearer' && declared.scheme !== 'dpop') {
    const message = `http authentication with ${quote(declared.scheme)} cannot be checked: use Bearer`
    card.report.error('ERR_POLICY_UNSUPPORTED', `${schemePlace(name)}`, message, 'key')
    return undefined
  }
  const valid: SchemeSettings | OpaqueSchemeSettings | undefined = validate(SCHEMAS[wanted], settings, report)
  if (wanted === 'opaque')
    return compileOpaque(input, declared as TokenCardScheme, valid as OpaqueSchemeSettings | undefined)
  if (declared.kind === 'mtls') return compileMtls(input, valid as MtlsSchemeSettings | undefined)
  if (valid === undefined) {
    if (wanted === 'jwt') await checkIssuersOf(input, declared as TokenCardScheme)
    return undefined
  }
  if (declared.kind === 'apiKey') {
    if (declared.location !== 'header') {
      const message = `${quote(name)} takes keys ${WEAK_PLACE[declared.location]}: prefer a header`
      report.warning('ERR_POLICY_WEAK', '', message, 'key')
    }
    const keys = 'keys' in valid ? await loadApiKeys(valid.keys, '/keys', context, report) : undefined
    if (keys === undefined) return undefined
    const parameter = declared.location === 'header' ? declared.name.toLowerCase() : declared.name
    return { type: 'apiKey', name, location: declared.location, parameter, keys }
  }
  return compileJwt(input, declared, valid as JwtSchemeSettings)
}

function settingsKind(scheme: CardScheme, settings: unknown): keyof typeof SCHEMAS | undefined {
  switch (scheme.kind) {
    case 'apiKey':
      return 'apiKey'
    case 'mtls':
      return 'mtls'
    case 'http':
    case 'oauth2':
    case 'openIdConnect':
      return isObject(settings) && settings.token === 'opaque' ? 'opaque' : 'jwt'
    case 'unknown':
      return undefined
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
} as const

function describe(scheme: CardScheme): string {
  return `${/^[aeiou]/.test(scheme.kind) ? 'an' : 'a'} ${scheme.kind} scheme`
}
