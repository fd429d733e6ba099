/** The settings of a scheme that a function in code checks, and where the card says its credential is. */
import type { CardScheme } from '../protocol/card-model.ts'
import type { CustomPlace, CustomSchemeConfig } from './compiled.ts'
import type { CustomSchemeSettings } from './schema-schemes.ts'

export function compileCustom(
  name: string,
  declared: Exclude<CardScheme, { kind: 'unknown' }>,
  { headers = [], timeoutMs = 5000, tenants = false }: CustomSchemeSettings,
): CustomSchemeConfig {
  return { type: 'custom', name, place: placeOf(declared), headers: [...headers], timeoutMs, tenants }
}

function placeOf(declared: Exclude<CardScheme, { kind: 'unknown' }>): CustomPlace {
  switch (declared.kind) {
    case 'apiKey': {
      const { location, name } = declared
      return { at: location, parameter: location === 'header' ? name.toLowerCase() : name }
    }
    case 'mtls':
      return { at: 'tls' }
    case 'http':
      return { at: 'authorization', authScheme: declared.scheme.toLowerCase() }
    case 'oauth2':
    case 'openIdConnect':
      return { at: 'authorization', authScheme: 'bearer' }
  }
}
