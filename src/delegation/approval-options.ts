/** What `createApprovals` and `request` take, and the checks on it. */
import { assertKnownOptions } from '../internal/options.ts'
import type { ApprovalStore } from '../store/stores.ts'
import type { Clock, Logger } from '../types.ts'

export interface ApprovalsOptions {
  /**
   * Where the pages are reached: an https URL below the agent's own public one, such as
   * `https://agent.example.com/approvals`. Never taken from a request. http only for a loopback address.
   */
  readonly url: string
  /** Default: in memory, one process. */
  readonly store?: ApprovalStore
  readonly clock?: Clock
  /** Approvals that one task may wait for at once: 1 to 100, default 8. */
  readonly maxPerTask?: number
  /** Approvals that the tasks of one caller may wait for at once, in this process: 1 to 10 000, default 100. */
  readonly maxPerRequester?: number
  /** Called for everything that happens to an approval. What it throws is logged and changes nothing. */
  readonly onApproval?: (event: ApprovalEvent) => void
  readonly logger?: Logger
}

/** For audit. Neither the link nor what is in it, nor parameters. */
export interface ApprovalEvent {
  readonly time: string
  /** `refused`: somebody's answer was not accepted, and the approval waits on. */
  readonly kind: 'requested' | 'approved' | 'denied' | 'expired' | 'cancelled' | 'refused'
  readonly taskId: string
  readonly operation: string
  /** SHA-256 of task, operation and parameters. */
  readonly digest: string
  readonly actor: string
  /** Of `refused`: who tried, and why it was not accepted. */
  readonly by?: string
  readonly detail?: 'another actor' | 'form token' | 'issuer' | 'callback'
}

export interface ApprovalRequest {
  readonly taskId: string
  /** Name of what may be done: up to 128 of letters, digits and `._:/-`. */
  readonly operation: string
  /** What it is to be done with: plain JSON. The approver sees it, and nothing else is approved. */
  readonly parameters: unknown
  /** What the approver is told: up to 500 characters. Say what will happen, in words. */
  readonly summary: string
  /** The one principal who may answer, as the login of the pages names them (`Principal.id` behind a guard). */
  readonly actor: string
  /** `Principal.id` of whose task it is; shown to the approver. */
  readonly requester?: string
  /** How long answer and use may take: 1 to 86 400, default 600. */
  readonly expiresInSeconds?: number
  /** Makes the approval an authorization code, for a credential of the approver's. */
  readonly authorizationCode?: AuthorizationCodeRequest
}

/**
 * OAuth 2.0 authorization code with PKCE (RFC 7636). All of it is decided here, and kept: the callback brings a code and
 * nothing more. The redirect URI to register is `url` + `/callback`.
 */
export interface AuthorizationCodeRequest {
  /** Byte for byte what the authorization server calls itself. */
  readonly issuer: string
  /** https; from the metadata of the issuer, never from a card or a message. */
  readonly authorizationEndpoint: string
  readonly clientId: string
  readonly scope?: string
  /** RFC 8707. */
  readonly resource?: string
  /**
   * Whether its answers name the issuer (RFC 9207, `authorization_response_iss_parameter_supported`). Default true: an
   * answer without `iss` is refused. `false` gives up that protection where one client has several issuers.
   */
  readonly namesIssuer?: boolean
  /**
   * Trades the code for a credential: `openid-client`'s `authorizationCodeGrant(config, callbackUrl, { pkceCodeVerifier,
   * expectedState })` or its like, through a guarded fetch. Runs once, in the process that asked.
   */
  readonly obtain: (answer: AuthorizationCodeAnswer) => unknown
}

export interface AuthorizationCodeAnswer {
  readonly code: string
  readonly codeVerifier: string
  readonly redirectUri: string
  /** The redirect URI with `code`, `state` and `iss` alone. */
  readonly callbackUrl: URL
  readonly expectedState: string
}

export function checkApprovalsOptions(options: ApprovalsOptions): void {
  const known = ['url', 'store', 'clock', 'maxPerTask', 'maxPerRequester', 'onApproval', 'logger'] as const
  assertKnownOptions('createApprovals', options, known)
  const url = typeof options.url === 'string' && URL.canParse(options.url) ? new URL(options.url) : undefined
  if (url === undefined || !isSecure(url) || url.search + url.hash + url.username + url.password !== '')
    throw new TypeError('"url" must be an https URL without query, fragment and user')
  if (options.url.endsWith('/')) throw new TypeError('"url" must not end in a slash')
  assertInteger('maxPerTask', options.maxPerTask, 100)
  assertInteger('maxPerRequester', options.maxPerRequester, 10_000)
  for (const name of ['clock', 'onApproval'] as const)
    if (options[name] !== undefined && typeof options[name] !== 'function')
      throw new TypeError(`"${name}" must be a function`)
  for (const name of ['put', 'find', 'take', 'announce', 'listen'] as const)
    if (options.store !== undefined && typeof options.store?.[name] !== 'function')
      throw new TypeError(`"store" must have the method ${name}`)
}

export function checkApprovalRequest(request: ApprovalRequest): void {
  const known = [
    'taskId',
    'operation',
    'parameters',
    'summary',
    'actor',
    'requester',
    'expiresInSeconds',
    'authorizationCode',
  ] as const
  assertKnownOptions('an approval', request, known)
  if (!/^[\w.:/-]{1,128}$/.test(request.operation))
    throw new TypeError('"operation" must be up to 128 of letters, digits and ._:/-')
  assertText('summary', request.summary, 500)
  assertText('actor', request.actor, 4096)
  assertText('taskId', request.taskId, 1024)
  if (request.requester !== undefined) assertText('requester', request.requester, 4096)
  assertInteger('expiresInSeconds', request.expiresInSeconds, 86_400)
  if (request.authorizationCode !== undefined) checkAuthorizationCode(request.authorizationCode)
}

function checkAuthorizationCode(asked: AuthorizationCodeRequest): void {
  const known = ['issuer', 'authorizationEndpoint', 'clientId', 'scope', 'resource', 'namesIssuer', 'obtain'] as const
  assertKnownOptions('"authorizationCode"', asked, known)
  assertText('issuer', asked.issuer, 2048)
  assertText('clientId', asked.clientId, 512)
  for (const name of ['scope', 'resource'] as const) if (asked[name] !== undefined) assertText(name, asked[name], 2048)
  if (asked.namesIssuer !== undefined && typeof asked.namesIssuer !== 'boolean')
    throw new TypeError('"namesIssuer" must be true or false')
  if (typeof asked.obtain !== 'function') throw new TypeError('"obtain" must be a function')
  const { authorizationEndpoint: text } = asked
  const endpoint = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined
  if (endpoint === undefined || !isSecure(endpoint) || endpoint.hash + endpoint.username + endpoint.password !== '')
    throw new TypeError('"authorizationEndpoint" must be an https URL without fragment and user')
}

/** https, or on this machine only. */
function isSecure({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || (protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(hostname))
}

function assertText(name: string, value: unknown, max: number): void {
  if (typeof value !== 'string' || value === '' || value.length > max || !value.isWellFormed())
    throw new TypeError(`"${name}" must be text of 1 to ${max} characters`)
}

function assertInteger(name: string, value: number | undefined, max: number): void {
  if (value !== undefined && (!Number.isInteger(value) || value < 1 || value > max))
    throw new TypeError(`"${name}" must be a whole number from 1 to ${max}`)
}
