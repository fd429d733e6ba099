/** The keys of a configured issuer, wherever the policy says that they are. */
import { createJwksCache, type JwksCache } from '../internal/jwks-cache.ts'
import type { IssuerConfig } from '../policy/compiled.ts'
import { createDiscovery } from './discovery.ts'
import type { SchemeContext } from './scheme.ts'

/** Throws `ERR_JWKS_INVALID` for a key file without a key. */
export function createIssuerKeys({ issuer, keys }: IssuerConfig, context: SchemeContext): JwksCache {
  switch (keys.from) {
    case 'file':
      return createJwksCache({ source: { jwks: keys.jwks }, ...context })
    case 'url':
      return createJwksCache({ source: { url: keys.url }, ...context })
    case 'discovery': {
      const discover = createDiscovery({ issuer, url: keys.url }, context)
      return createJwksCache({ source: { url: () => discover('jwks_uri') }, ...context })
    }
  }
}
