/** A scheme that the operator's own function checks: any other HTTP auth-scheme, or any scheme marked `custom: true`. */
import { z } from 'zod'
import { TrustError } from '../errors.ts'
import { findFault } from '../internal/plain-data.ts'
import { createWorkQueue } from '../internal/work-queue.ts'
import type { CustomPlace, CustomSchemeConfig } from '../policy/compiled.ts'
import type { CustomMaterial, CustomScheme, PrincipalPart } from '../types.ts'
import { malformed, type Presented, readAuthorization } from './authorization.ts'
import { readKey } from './key-place.ts'
import type { Challenge, CredentialSource, Outcome, Scheme, SchemeContext } from './scheme.ts'

/** Longest credentials handed on, in characters. */
const MAX_CREDENTIALS = 16_384
/** Calls that have not settled or run out of time. */
const MAX_CALLS = 256
/** Of claims, as JSON text. */
const MAX_CLAIMS = 16_384
/** Of all of a result, in bytes: claims, scopes and names. */
const MAX_RESULT = 128 * 1024

const text = z
  .string()
  .min(1)
  .max(1024)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  .regex(/^(?=\S)[^\u0000-\u001f\u007f]*\S$/)
  .refine((value) => value.isWellFormed())
const seconds = z.int().min(0).max(99_999_999_999)

const resultSchema = z.strictObject({
  subject: text,
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/))
    .max(256)
    .optional(),
  tenant: text.optional(),
  clientId: text.optional(),
  claims: z.record(z.string(), z.json()).optional(),
  expiresAt: seconds.optional(),
  credential: z.strictObject({ id: text.optional(), keyId: text.optional(), issuedAt: seconds.optional() }).optional(),
})

/**
 * Hands what stands at the scheme's place to the function, and believes what it returns only if it has the shape of a
 * result. Not called when there is nothing at that place (absent), when it can be read in two ways (malformed), or for a
 * certificate that the TLS stack did not verify. `null` refuses the credential; an exception, a rejection or no answer in
 * time is `unavailable`; a result of another shape rejects with `ERR_CUSTOM_RESULT`: a fault, never an allow.
 *
 * Throws `TypeError` without a function.
 */
export function createCustomScheme(
  config: CustomSchemeConfig,
  custom: CustomScheme | undefined,
  { clock, logger }: Pick<SchemeContext, 'clock' | 'logger'>,
): Scheme {
  const { name, place, timeoutMs } = config
  if (custom === undefined) throw new TypeError(`"schemes.custom" has no function for the scheme "${name}"`)
  const { authenticate: check, challenge } = typeof custom === 'function' ? { authenticate: custom } : custom
  const queue = createWorkQueue({ atOnce: MAX_CALLS, waiting: 0 })

  function authenticate(source: CredentialSource): Outcome | Promise<Outcome> {
    const presented = readPlace(place, source)
    if (presented.kind !== 'credentials') return presented
    const material = materialOf(config, source, presented.text)
    return queue.run(() => ask(material)) ?? { kind: 'unavailable', code: 'ERR_OVERLOADED', retryAfterSeconds: 1 }
  }

  async function ask(material: CustomMaterial): Promise<Outcome> {
    const ending = new AbortController()
    const timer = setTimeout(() => ending.abort(), timeoutMs)
    let result: unknown
    try {
      const late = new Promise<never>((_, reject) => {
        ending.signal.addEventListener('abort', () => reject(new DOMException('no answer in time', 'TimeoutError')))
      })
      // Called a turn later, so that what it throws at once is a rejection like any other.
      result = await Promise.race([Promise.resolve().then(() => check(material, { signal: ending.signal })), late])
    } catch (fault) {
      // What was thrown may quote the credential: only its kind is told.
      const detail = ending.signal.aborted ? 'no answer in time' : kindOf(fault)
      logger?.error({ scheme: name, code: 'ERR_CUSTOM_FAILED', detail }, 'the function of a custom scheme failed')
      return { kind: 'unavailable', code: 'ERR_CUSTOM_FAILED', retryAfterSeconds: 1, detail }
    } finally {
      clearTimeout(timer)
    }
    if (result === null) return { kind: 'invalid', code: 'ERR_CUSTOM_REFUSED' }
    const part = partOf(config, result)
    const expired = part.expiresAt !== undefined && clock() / 1000 >= part.expiresAt
    return expired ? { kind: 'invalid', code: 'ERR_CUSTOM_REFUSED', detail: 'expired' } : { kind: 'satisfied', part }
  }

  return {
    name,
    kind: 'custom',
    location: 'parameter' in place ? `${place.at}:${place.parameter}` : LOCATION[place.at],
    get challenges(): readonly Challenge[] {
      return [{ ...challengeAt(place), ...(challenge === undefined ? {} : { params: paramsOf(challenge) }) }]
    },
    authenticate,
  }
}

const LOCATION = { authorization: 'header:authorization', tls: 'tls' } as const

function readPlace(place: CustomPlace, source: CredentialSource): Presented | Outcome {
  switch (place.at) {
    case 'authorization':
      return readAuthorization(source.headers, place.authScheme, MAX_CREDENTIALS)
    case 'tls': {
      const { certificate } = source
      if (certificate === undefined) return { kind: 'absent' }
      if ('unreadable' in certificate) return malformed(certificate.unreadable)
      return certificate.authorized ? { kind: 'credentials', text: '' } : { kind: 'invalid', code: UNTRUSTED }
    }
    default: {
      const presented = readKey(source, place.at, place.parameter)
      const tooLong = presented.kind === 'credentials' && presented.text.length > MAX_CREDENTIALS
      return tooLong ? malformed(`the credentials are longer than ${MAX_CREDENTIALS} characters`) : presented
    }
  }
}

const UNTRUSTED = 'ERR_CERTIFICATE_UNTRUSTED'

function materialOf({ name, headers }: CustomSchemeConfig, source: CredentialSource, credentials: string) {
  const { method, target, address, certificate } = source
  const verified = certificate !== undefined && !('unreadable' in certificate) && certificate.authorized
  return Object.freeze({
    scheme: name,
    credentials,
    headers: Object.freeze(
      Object.fromEntries(headers.map((one) => [one, Object.freeze([...source.headers.all(one)])])),
    ),
    method,
    target,
    ...(address === undefined ? {} : { address }),
    ...(verified ? { certificate } : {}),
  })
}

function partOf({ name, tenants }: CustomSchemeConfig, result: unknown): PrincipalPart {
  const fault = (problem: string) => new TrustError('ERR_CUSTOM_RESULT', { details: { scheme: name, problem } })
  const { success, data, error } = parsed(result) ?? { success: false }
  // Paths alone: a message may quote what the function took over from the credential.
  if (!success)
    throw fault(error?.issues.map(({ path }) => path.join('.') || 'the result itself').join(', ') ?? 'no plain data')
  const { subject, scopes, tenant, clientId, claims = {}, expiresAt, credential = {} } = data
  // Undeclared tenants would not be held against the tenant of the request.
  if (tenant !== undefined && !tenants) throw fault('tenant, and the policy does not say tenants: true')
  const json = JSON.stringify(claims)
  if (json.length > MAX_CLAIMS) throw fault('claims')
  return Object.freeze({
    scheme: name,
    kind: 'custom' as const,
    // The scheme is the issuer: the same subject under two schemes is two callers.
    issuer: name,
    subject,
    ...(clientId === undefined ? {} : { clientId }),
    ...(tenant === undefined ? {} : { tenant }),
    scopes: new Set(scopes),
    claims: JSON.parse(json, (_, value: unknown) => Object.freeze(value)) as Readonly<Record<string, unknown>>,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    credential: Object.freeze(credential) as PrincipalPart['credential'],
  })
}

/** `undefined` when reading it throws, and when it is no plain data: what is inherited was not returned. */
function parsed(result: unknown) {
  try {
    return findFault(result, MAX_RESULT) === undefined ? resultSchema.safeParse(result) : undefined
  } catch {
    return undefined
  }
}

function challengeAt(place: CustomPlace): Challenge {
  if (place.at === 'authorization') return { scheme: place.authScheme, params: [] }
  if (place.at === 'tls') return { scheme: 'MutualTLS', params: [] }
  return {
    scheme: 'ApiKey',
    params: [
      ['in', place.at],
      ['name', place.parameter],
    ],
  }
}

/** A challenge that cannot be made is left out: the denial stands without it. */
function paramsOf(challenge: () => Readonly<Record<string, string>>): [string, string][] {
  try {
    return Object.entries(challenge()).filter((param): param is [string, string] => typeof param[1] === 'string')
  } catch {
    return []
  }
}

/** The class of what was thrown, if it has one that says no more than that. Looking may throw in its turn. */
function kindOf(fault: unknown): string {
  try {
    const name = fault instanceof Error ? fault.constructor.name : typeof fault
    return /^[A-Za-z]{1,40}$/.test(name) ? name : 'Error'
  } catch {
    return 'Error'
  }
}
