/** What a client has to authenticate with, as its operator configures it. Checked and copied once. */
import type { webcrypto } from 'node:crypto'
import type { ClientAuthentication } from '../internal/client-authentication.ts'
import { assertKnownOptions } from '../internal/options.ts'

/** A secret, or a function that reads it each time. */
export type Secret = string | (() => string | Promise<string>)

export type Provider =
  | { readonly type: 'apiKey'; readonly in: 'header' | 'query' | 'cookie'; readonly name: string; readonly key: Secret }
  | { readonly type: 'bearer'; readonly token: Secret }
  | { readonly type: 'basic'; readonly user: string; readonly password: Secret }
  /** PEM; `ca` in place of the usual authorities. */
  | { readonly type: 'mtls'; readonly cert: string; readonly key: string; readonly ca?: string }
  | OAuthProvider

export type OAuthProvider =
  | ({ readonly type: 'clientCredentials' } & OAuthSettings)
  | ({
      readonly type: 'authorizationCode'
      readonly authorizationEndpoint?: string
      readonly redirectUri: string
      /** Has the user visit `url` and returns the URL that they were sent back to. PKCE and `state` are in it already. */
      readonly authorize: (url: string, options: { readonly signal: AbortSignal }) => Promise<string>
    } & OAuthSettings)
  | ({
      readonly type: 'deviceCode'
      readonly deviceAuthorizationEndpoint?: string
      /** Shows the user where to go and what to enter. */
      readonly prompt: (device: DevicePrompt) => void | Promise<void>
    } & OAuthSettings)
  | ({
      readonly type: 'tokenExchange'
      /** The user's token at the same issuer. Asked for at each request. */
      readonly subjectToken: Secret
      readonly actorToken?: Secret
    } & OAuthSettings)

export interface DevicePrompt {
  readonly verificationUri: string
  readonly verificationUriComplete?: string
  readonly userCode: string
}

export interface OAuthSettings {
  /** Byte-exact; its metadata says where endpoints are that are not given. */
  readonly issuer: string
  readonly tokenEndpoint?: string
  readonly client: OAuthClient
  /** The most that is ever asked for. */
  readonly scopes?: readonly string[]
  /** For whom the token is. Default without `audience`: `to`. */
  readonly resource?: string
  readonly audience?: string
  /** Bind tokens to a key of this process (RFC 9449). Default false. */
  readonly dpop?: boolean
}

export type OAuthClient =
  | { readonly id: string; readonly auth?: 'basic' | 'post'; readonly secret: string }
  | {
      readonly id: string
      readonly auth: 'private_key_jwt'
      readonly key: webcrypto.CryptoKey
      readonly kid?: string
      /** `aud` of the assertion. Default: the issuer. */
      readonly audience?: string
    }
  | { readonly id: string; readonly auth: 'tls'; readonly cert: string; readonly key: string; readonly ca?: string }
  | { readonly id: string; readonly auth: 'none' }

const COMMON = ['type', 'issuer', 'tokenEndpoint', 'client', 'scopes', 'resource', 'audience', 'dpop'] as const
const MEMBERS: { readonly [Type in Provider['type']]: readonly string[] } = {
  apiKey: ['type', 'in', 'name', 'key'],
  bearer: ['type', 'token'],
  basic: ['type', 'user', 'password'],
  mtls: ['type', 'cert', 'key', 'ca'],
  clientCredentials: COMMON,
  authorizationCode: [...COMMON, 'authorizationEndpoint', 'redirectUri', 'authorize'],
  deviceCode: [...COMMON, 'deviceAuthorizationEndpoint', 'prompt'],
  tokenExchange: [...COMMON, 'subjectToken', 'actorToken'],
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** Headers with another meaning, which an API key must not take over. */
const TAKEN =
  /^(?:host|authorization|proxy-.*|cookie2?|set-cookie.*|dpop|sec-.*|accept.*|content-.*|transfer-encoding|te|trailer|connection|keep-alive|upgrade|expect|via|date|origin|referer|user-agent|forwarded|x-forwarded-.*|(?:x-)?a2a-.*|last-event-id|access-control-.*)$/i
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/

/** Throws `TypeError` naming the option; a value is never quoted. Returns a frozen copy. */
export function checkProvider(scheme: string, given: Provider): Provider {
  const at = `providers.${scheme}`
  const bad = (member: string, what: string) => new TypeError(`"${at}.${member}" ${what}`)
  if (typeof given !== 'object' || (given as unknown) === null) throw new TypeError(`"${at}" must be an object`)
  const provider = copyOf(given)
  const { type } = provider
  if (!Object.hasOwn(MEMBERS, type)) throw bad('type', `must be one of ${Object.keys(MEMBERS).join(', ')}`)
  assertKnownOptions(`"${at}"`, provider, MEMBERS[type] as (keyof Provider)[])
  const text = (member: string, value: unknown): void => {
    if (typeof value !== 'string' || value.trim() === '') throw bad(member, 'must be a text that is not empty')
  }
  const secret = (member: string, value: unknown): void => {
    if (typeof value !== 'function' && !isSecret(value))
      throw bad(member, 'must be a secret on one line, or a function')
  }
  switch (provider.type) {
    case 'apiKey': {
      const { in: place, name } = provider
      if (!['header', 'query', 'cookie'].includes(place)) throw bad('in', 'must be header, query or cookie')
      if (typeof name !== 'string' || (place === 'query' ? !/^[\w.~-]+$/.test(name) : !TOKEN.test(name)))
        throw bad('name', 'is no name that can be there')
      if (place === 'header' && TAKEN.test(name)) throw bad('name', 'is a header with another meaning')
      secret('key', provider.key)
      break
    }
    case 'bearer':
      secret('token', provider.token)
      break
    case 'basic':
      text('user', provider.user)
      if (/[:\p{Cc}]/u.test(provider.user))
        throw bad('user', 'must not have a colon or control character (RFC 7617 §2)')
      if (typeof provider.password !== 'function' && !isPassword(provider.password))
        throw bad('password', 'must be a text on one line that is not empty, or a function')
      break
    case 'mtls':
      text('cert', provider.cert)
      text('key', provider.key)
      break
    default:
      checkOAuth(provider, { bad, text, secret })
  }
  return provider
}

/** What is checked is what is used, whatever becomes of what was given. */
function copyOf(given: Provider): Provider {
  const copy: Record<string, unknown> = { ...given }
  if (typeof copy.client === 'object' && copy.client !== null) copy.client = Object.freeze({ ...copy.client })
  if (Array.isArray(copy.scopes)) copy.scopes = Object.freeze([...(copy.scopes as unknown[])])
  return Object.freeze(copy) as unknown as Provider
}

interface Checks {
  readonly bad: (member: string, what: string) => TypeError
  readonly text: (member: string, value: unknown) => void
  readonly secret: (member: string, value: unknown) => void
}

function checkOAuth(provider: OAuthProvider, { bad, text, secret }: Checks): void {
  const url = (member: string, value: unknown): void => {
    if (value !== undefined && !isSecureUrl(value))
      throw bad(member, 'must be an https:// URL without user name and fragment (http only to this machine)')
  }
  text('issuer', provider.issuer)
  for (const member of ['issuer', 'tokenEndpoint', 'resource'] as const) url(member, provider[member])
  if (provider.audience !== undefined) text('audience', provider.audience)
  if (provider.dpop !== undefined && typeof provider.dpop !== 'boolean') throw bad('dpop', 'must be true or false')
  const { scopes, client } = provider
  if (scopes !== undefined && !(Array.isArray(scopes) && scopes.every((scope) => SCOPE.test(String(scope)))))
    throw bad('scopes', 'must be a list of scopes')
  if (typeof client !== 'object' || (client as unknown) === null) throw bad('client', 'must be an object')
  text('client.id', client.id)
  switch (client.auth) {
    case undefined:
    case 'basic':
    case 'post':
      // An empty one would be sent as if it were one (P198): who has none says `auth: none`.
      if (!isSecret(client.secret))
        throw bad('client.secret', "must be a text that is not empty; without one write auth: 'none'")
      break
    case 'private_key_jwt':
      if ((client.key as unknown as { type?: string } | undefined)?.type !== 'private')
        throw bad('client.key', 'must be a private CryptoKey')
      break
    case 'tls':
      text('client.cert', client.cert)
      text('client.key', client.key)
      break
    case 'none':
      break
    default:
      throw bad('client.auth', 'must be basic, post, private_key_jwt, tls or none')
  }
  switch (provider.type) {
    case 'authorizationCode':
      url('authorizationEndpoint', provider.authorizationEndpoint)
      if (!isSecureUrl(provider.redirectUri))
        throw bad('redirectUri', 'must be an https:// URL, or http:// of this machine')
      if (typeof provider.authorize !== 'function') throw bad('authorize', 'must be a function')
      break
    case 'deviceCode':
      url('deviceAuthorizationEndpoint', provider.deviceAuthorizationEndpoint)
      if (typeof provider.prompt !== 'function') throw bad('prompt', 'must be a function')
      break
    case 'tokenExchange':
      secret('subjectToken', provider.subjectToken)
      if (provider.actorToken !== undefined) secret('actorToken', provider.actorToken)
      break
    case 'clientCredentials':
      if (client.auth === 'none') throw bad('client.auth', 'cannot be none: the client itself is what is authenticated')
  }
}

/** A line that can stand in a header. */
export function isSecret(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 65_536 && /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value)
}

/** RFC 7617 §2: any character but those that control. */
export function isPassword(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= 1024 && !/\p{Cc}/u.test(value)
}

/** https, or http to this machine, for development (P193). */
export function isSecureUrl(value: unknown): value is string {
  if (typeof value !== 'string' || !URL.canParse(value)) return false
  const { protocol, hostname, username, password, hash } = new URL(value)
  const isLocal = hostname === 'localhost' || hostname === '127.0.0.1' || hostname === '[::1]'
  if (username !== '' || password !== '' || hash !== '') return false
  return /^https:\/\//.test(value) ? true : /^http:\/\//.test(value) && protocol === 'http:' && isLocal
}

/** The secret as it is now. Rejects with `TypeError` for what cannot be one. */
export async function readSecret(
  secret: Secret,
  isOne: (value: unknown) => value is string = isSecret,
): Promise<string> {
  const value: unknown = typeof secret === 'function' ? await secret() : secret
  if (!isOne(value)) throw new TypeError('the function of a secret must return a text on one line')
  return value
}

export function isOAuth(provider: Provider): provider is OAuthProvider {
  return Object.hasOwn(provider, 'issuer')
}

/** For the token endpoint. Secrets hide in functions. */
export function clientOf({ client, issuer }: OAuthProvider): ClientAuthentication {
  const { id } = client
  switch (client.auth) {
    case 'none':
    case 'tls':
      return { auth: client.auth, id }
    case 'private_key_jwt': {
      const { key, kid, audience = issuer } = client
      return { auth: client.auth, id, key: () => key, audience, ...(kid === undefined ? {} : { kid }) }
    }
    default: {
      const { secret } = client
      return { auth: client.auth ?? 'basic', id, secret: () => secret }
    }
  }
}
