/** A push notification config as a client registers it (A2A §4.3.1), checked before it is kept. */
import { signingKeys } from '../internal/webhook-secret.ts'

/** The v1.0 shape, which the SDK also gives for v0.3 requests. */
export interface PushConfig {
  tenant: string
  /** Set by the store where it is empty. */
  id: string
  taskId: string
  url: string
  token: string
  authentication: { scheme: string; credentials: string } | undefined
}

/** Credentials are the key of a signature and never sent. */
export const IN_BAND_SECRET = 'hmac-sha256'

/** What stands where a secret is; written back, it keeps the secret. */
export const REDACTED = '[redacted]'

const MAX_ID_LENGTH = 256
const MAX_SECRET_LENGTH = 8192
/** RFC 9110 §5.6.2 token. */
const SCHEME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/
/** What a header value may hold and nobody has to trim: no control character, so that it adds no line (P163). */
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const CONTROL = /[\x00-\x1f\x7f]/

/** What is wrong with a config, as a member and what it must be; `undefined` for one that may be kept. Holds no value. */
export function pushConfigProblem(config: unknown): string | undefined {
  if (typeof config !== 'object' || config === null) return 'must be an object'
  const { id = '', taskId, url, token = '', authentication } = config as Partial<PushConfig>
  if (!isId(taskId) || taskId === '') return 'taskId must be 1 to 256 characters'
  if (!isId(id)) return 'id must be at most 256 characters'
  if (typeof url !== 'string' || url === '') return 'url must be given'
  if (!URL.canParse(url)) return 'url must be an absolute URL'
  if (typeof token !== 'string' || (token !== '' && !isHeaderValue(token)))
    return 'token must be visible ASCII, without control characters'
  if (authentication === undefined || authentication === null) return undefined
  const { scheme, credentials } = authentication
  if (typeof scheme !== 'string' || !SCHEME.test(scheme)) return 'authentication.scheme must be an HTTP auth scheme'
  if (typeof credentials !== 'string' || !isHeaderValue(credentials))
    return 'authentication.credentials must be given, in visible ASCII without control characters'
  if (scheme.toLowerCase() === IN_BAND_SECRET && credentials !== REDACTED && !isSigningSecret(credentials))
    return 'authentication.credentials must be whsec_ and base64 of 24 to 64 bytes'
  return undefined
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_ID_LENGTH && !CONTROL.test(value)
}

function isHeaderValue(value: string): boolean {
  return value.length <= MAX_SECRET_LENGTH && HEADER_VALUE.test(value)
}

function isSigningSecret(credentials: string): boolean {
  try {
    return signingKeys(credentials, 'credentials').every(({ version }) => version === 'v1')
  } catch {
    return false
  }
}
