/**
 * Token exchange (RFC 8693) for `oidc-provider`, which has none: subject token in, narrower token for one resource out,
 * with the agent that asked as actor. And a grant that logs a user in by name, so that a test can have many.
 */
import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { type JWK, jwtVerify } from 'jose'

export const EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange'
export const LOGIN_GRANT = 'urn:a2a-trust:test:login'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

export interface ExchangeOptions {
  /** Scopes that a user has at the resources, by user. */
  readonly rights: (user: string) => readonly string[]
  /** Claims of the tokens of a login, besides. */
  readonly claims?: (user: string) => Readonly<Record<string, unknown>>
  /** Changes an answer of the exchange before it is sent. */
  readonly spoil?: (answer: Record<string, unknown>, form: Readonly<Record<string, string>>) => void
}

interface Context {
  body: unknown
  readonly oidc: {
    readonly params: Readonly<Record<string, string | undefined>>
    readonly client: { readonly clientId: string }
  }
}
interface Token {
  resourceServer: unknown
  scope: string
  save(): Promise<string>
}
export interface ExchangeProvider {
  registerGrantType(name: string, handler: (context: Context) => Promise<void>, params: readonly string[]): void
  readonly AccessToken: new (properties: object) => Token
  readonly ClientCredentials: { find(token: string): Promise<{ readonly clientId: string } | undefined> }
  readonly ResourceServer: new (identifier: string, info: object) => unknown
}

const extra = new WeakMap<object, object>()

/** For `extraTokenClaims` of the provider. */
export function exchangeClaims(_context: unknown, token: object): object | undefined {
  return extra.get(token)
}

export function addExchange(
  provider: ExchangeProvider,
  issuer: string,
  key: JWK,
  info: (resource: string) => object,
  options: ExchangeOptions,
): void {
  const { d: _d, ...publicJwk } = key
  const publicKey = createPublicKey({ key: publicJwk as JsonWebKey, format: 'jwk' })

  /** Answers with a token of `sub` for one resource. */
  async function issue(context: Context, sub: string, scope: string, claims: object): Promise<void> {
    const { client, params } = context.oidc
    const token = new provider.AccessToken({ accountId: sub, client, scope, gty: 'exchange' })
    const { resource = '' } = params
    token.resourceServer = new provider.ResourceServer(resource, info(resource))
    token.scope = scope
    extra.set(token, claims)
    const body = {
      access_token: await token.save(),
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      expires_in: 300,
      scope,
    }
    options.spoil?.(body, params as Record<string, string>)
    context.body = body
  }

  const refused = (error: string): never => {
    throw Object.assign(new Error(error), { name: error, error, status: 400, statusCode: 400, expose: true })
  }

  provider.registerGrantType(
    LOGIN_GRANT,
    async (context) => {
      const { user = '', scope = '' } = context.oidc.params
      await issue(context, user, scope, options.claims?.(user) ?? {})
    },
    ['user', 'scope', 'resource'],
  )
  provider.registerGrantType(
    EXCHANGE_GRANT,
    async (context) => {
      const { subject_token: subject = '', actor_token: actor, scope = '', resource } = context.oidc.params
      if (resource === undefined) return refused('invalid_target')
      const { payload } = await jwtVerify(subject, publicKey, { issuer }).catch(() => refused('invalid_grant'))
      const acting =
        actor === undefined ? context.oidc.client.clientId : (await provider.ClientCredentials.find(actor))?.clientId
      if (acting === undefined) return refused('invalid_grant')
      const sub = payload.sub as string
      const granted = scope.split(' ').filter((each) => options.rights(sub).includes(each))
      if (granted.length === 0) return refused('invalid_scope')
      const act = { sub: acting, ...(payload.act === undefined ? {} : { act: payload.act }) }
      return issue(context, sub, granted.join(' '), { act })
    },
    [
      'subject_token',
      'subject_token_type',
      'actor_token',
      'actor_token_type',
      'requested_token_type',
      'audience',
      'resource',
      'scope',
    ],
  )
}
