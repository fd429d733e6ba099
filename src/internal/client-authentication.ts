/** How this process authenticates at an authorization server (RFC 6749 §2.3, RFC 7523 §2.2). */
import type { webcrypto } from 'node:crypto'
import * as oauth from 'oauth4webapi'

/** How this process proves to an authorization server who it is. Secrets hide in functions, which nothing prints. */
export type ClientAuthentication =
  | { readonly auth: 'basic' | 'post'; readonly id: string; readonly secret: () => string }
  /** A public client, or one whose certificate the connection shows (RFC 8705 §2). */
  | { readonly auth: 'none' | 'tls'; readonly id: string }
  | {
      readonly auth: 'private_key_jwt'
      readonly id: string
      readonly key: () => webcrypto.CryptoKey
      readonly kid?: string
      /** `aud` of the assertion. */
      readonly audience: string | readonly string[]
    }

/** The same for `oauth4webapi`. */
export function authenticationOf(client: ClientAuthentication): oauth.ClientAuth {
  switch (client.auth) {
    case 'basic':
      return oauth.ClientSecretBasic(client.secret())
    case 'post':
      return oauth.ClientSecretPost(client.secret())
    case 'none':
      return oauth.None()
    case 'tls':
      return oauth.TlsClientAuth()
    case 'private_key_jwt': {
      const { key, kid, audience } = client
      return oauth.PrivateKeyJwt(
        { key: key(), ...(kid === undefined ? {} : { kid }) },
        {
          [oauth.modifyAssertion]: (header, payload) => {
            payload.aud = typeof audience === 'string' ? audience : [...audience]
            // The name most servers know (RFC 8037 §3.1).
            if (header.alg === 'Ed25519') header.alg = 'EdDSA'
          },
        },
      )
    }
  }
}
