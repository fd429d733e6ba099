/** From a configured scheme to one that authenticates. */
import { TrustError } from '../errors.ts'
import type { SchemeConfig } from '../policy/compiled.ts'
import { createApiKeyScheme } from './api-key.ts'
import { createBasicScheme } from './basic.ts'
import { createCustomScheme } from './custom.ts'
import { createJwtScheme } from './jwt.ts'
import { createMtlsScheme } from './mtls.ts'
import { createOpaqueScheme } from './opaque.ts'
import type { Scheme, SchemeContext } from './scheme.ts'

/** Throws `ERR_POLICY_UNSUPPORTED` for a scheme this version cannot check, so that no guard ever starts with one. */
export function createScheme(config: SchemeConfig, context: SchemeContext): Scheme {
  switch (config.type) {
    case 'apiKey':
      return createApiKeyScheme(config, context)
    case 'jwt':
      return createJwtScheme(config, context)
    case 'opaque':
      return createOpaqueScheme(config, context)
    case 'mtls':
      return createMtlsScheme(config, context)
    case 'basic':
      return createBasicScheme(config, context)
    case 'custom':
      return createCustomScheme(config, context.custom.get(config.name), context)
    case 'unavailable':
      throw new TrustError('ERR_POLICY_UNSUPPORTED', { details: { scheme: config.name, reason: config.why } })
  }
}
