/** The part of `oidc-provider` the demo uses; the package ships no types. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  export interface ResourceServer {
    scope: string
    audience: string
    accessTokenFormat: 'jwt'
    accessTokenTTL: number
    jwt: { sign: { alg: string } }
  }

  export default class Provider {
    constructor(issuer: string, configuration: object)
    callback(): (request: IncomingMessage, response: ServerResponse) => void
  }
}
