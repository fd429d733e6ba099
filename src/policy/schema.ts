/**
 * The policy file, as one zod schema: types, checks, JSON Schema and documentation come from here. Nothing is
 * transformed or defaulted in this file (`compile.ts` does that), so what it accepts is exactly what the user wrote.
 */
import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { signatureAlgorithms } from '../internal/verification-key.ts'

/** The eleven operations of A2A v1.0 (§3.1), as access rules spell them. */
export const operationNames = [
  'SendMessage',
  'SendStreamingMessage',
  'GetTask',
  'ListTasks',
  'CancelTask',
  'SubscribeToTask',
  'CreateTaskPushNotificationConfig',
  'GetTaskPushNotificationConfig',
  'ListTaskPushNotificationConfigs',
  'DeleteTaskPushNotificationConfig',
  'GetExtendedAgentCard',
] as const

/** A message for a value of the right type that is wrong; a missing or mistyped one gets the general message. */
function says(text: string) {
  return { error: (issue: { code?: string }) => (issue.code === 'invalid_type' ? undefined : text) }
}

const text = z
  .string()
  .max(2048, says('is longer than 2048 characters'))
  .regex(/\S/, says('is empty or blank'))
  .regex(/^\S(.*\S)?$/s, says('begins or ends with a space'))
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  .regex(/^[^\u0000-\u001f\u007f]*$/, says('contains a control character'))

/** Text with a meaning outside this file, which an unfilled template or an unset variable must not reach. */
const identifier = text.regex(
  /^(?!env:|file:)(?!.*(?:\$\{|\{\{|[<>{}]|CHANGE_?ME|REPLACE_?ME|(?:^|[^A-Za-z])YOUR[_-]))/,
  says('looks like an unfilled template or a reference; write the value itself here'),
)

const webUrl = identifier
  .regex(/^https?:\/\//, says('must be a URL that begins with https://'))
  .refine((value) => isCleanUrl(value), {
    ...says('must be an absolute URL without user name, password, query, fragment or upper-case host'),
    abort: true,
  })
  .refine((value) => !/_/.test(hostOf(value)), says('looks like an unfilled template: a host name has no underscore'))
  .meta({ format: 'uri' })

const path = text.regex(/^(?![a-z][a-z0-9+.-]+:)/i, says('must be a path to a file, without a scheme such as file:'))

const fileReference = text
  .regex(/^file:.*\S/, says('must be a reference to a file: write file:PATH'))
  .regex(/^(?!file:\/\/)/, says('write file:PATH, not a file:// URL'))

/** `env:NAME` or `file:PATH`: the only way a secret enters the policy. */
const secret = z
  .string()
  .regex(
    /^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:(?!\/\/).*\S)$/,
    says('must be a reference, not the secret itself: write env:NAME or file:PATH'),
  )

const keySet = text.regex(
  /^(?:file:(?!\/\/).*\S|https?:\/\/\S+)$/,
  says('must be file:PATH or an https:// URL of a JWK Set'),
)

/** One text or a list of them, never an empty list. */
function oneOrMore<T extends z.ZodType>(item: T) {
  return z.union([item, listOf(item)])
}

function listOf<T extends z.ZodType>(item: T) {
  return z
    .array(item)
    .min(1, says('is an empty list: leave the key out or give it an entry'))
    .refine((items) => new Set(items.map((entry) => JSON.stringify(entry))).size === items.length, {
      ...says('has the same entry twice'),
    })
}

const scope = text.regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, says('is not a scope: no spaces or quotes (RFC 6749 §3.3)'))
const claim = text

const algorithm = z.enum(signatureAlgorithms as [string, ...string[]], {
  error: (issue) =>
    typeof issue.input !== 'string'
      ? undefined
      : /^HS\d+$/i.test(issue.input)
        ? 'is symmetric, so whoever can check a token could also make one; use ES256, EdDSA, PS256 or RS256'
        : /^none$/i.test(issue.input)
          ? 'accepts unsigned tokens; use ES256, EdDSA, PS256 or RS256'
          : undefined,
})

const host = text.regex(
  /^(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$|^\[[0-9a-f:.]+\]$/,
  says('must be a host name in lower case (punycode for other scripts), or *.example.com for its sub-domains'),
)

const addressRange = text.refine(
  (value) => ipaddr.isValidCIDR(value) || (ipaddr.isValid(value) && !/^[0-9.]*$/.test(value)) || isDottedQuad(value),
  says('must be an IP address or a range such as 10.0.0.0/8'),
)

const rate = text.regex(
  /^[1-9][0-9]{0,6}\/(?:sec|min|hour)$/,
  says('must be a count per sec, min or hour, such as 600/min'),
)

function seconds(minimum: number, maximum: number) {
  return whole(minimum, maximum, 'seconds')
}

function whole(minimum: number, maximum: number, unit: string) {
  const range = says(`must be a whole number of ${unit} from ${minimum} to ${maximum}`)
  return z.int(range).min(minimum, range).max(maximum, range)
}

const issuerEntry = z.strictObject({
  issuer: webUrl.meta({ description: 'Compared byte by byte with the `iss` claim.' }),
  jwks: keySet.optional().meta({ description: 'Keys of this issuer: `file:PATH` or URL. Absent: discovery.' }),
})

export const jwtSchemeSchema = z
  .strictObject({
    issuer: webUrl.optional().meta({
      description: 'The issuer, compared byte by byte with the `iss` claim. Either this or `issuers`.',
    }),
    issuers: listOf(z.union([webUrl, issuerEntry]))
      .optional()
      .meta({ description: 'Several issuers; a token is judged by the one that its `iss` names.' }),
    jwks: keySet.optional().meta({
      description: 'Keys of `issuer`: `file:PATH` or URL of a JWK Set. Absent: discovery. Mandatory for plain bearer.',
    }),
    algorithms: listOf(algorithm).meta({ description: 'Signature algorithms accepted. Asymmetric only.' }),
    audience: oneOrMore(identifier)
      .optional()
      .meta({ description: 'What `aud` must contain one of. Default: the audience of the policy.' }),
    token: z.enum(['jwt', 'opaque']).optional().meta({ description: 'Format of the token. Default `jwt`.' }),
    typ: z
      .enum(['at+jwt', 'any'])
      .optional()
      .meta({ description: 'Required `typ` header. Default `at+jwt` for oauth2 and openIdConnect, `any` for bearer.' }),
    scopeClaims: listOf(claim).optional().meta({ description: 'Claims read for scopes. Default `[scope, scp]`.' }),
    tenantClaim: claim.optional().meta({ description: 'Claim that holds the tenant. Default: none.' }),
    requiredScopes: listOf(scope)
      .optional()
      .meta({ description: 'Scopes every token must have, beyond those the card lists. Default: none.' }),
    clockToleranceSeconds: seconds(0, 300)
      .optional()
      .meta({ description: 'Clock difference allowed for `exp`, `nbf` and `iat`, in seconds. Default 30.' }),
    maxTokenBytes: whole(256, 65536, 'bytes')
      .optional()
      .meta({ description: 'Longest token read, in bytes. Default 16384.' }),
    maxTokenAgeSeconds: seconds(1, 31_536_000)
      .optional()
      .meta({ description: 'Oldest `iat` accepted, in seconds. Default: `exp` alone decides.' }),
    senderConstraint: z.enum(['off', 'optional', 'dpop', 'mtls']).optional().meta({
      description:
        'Whether tokens must be bound to the sender. A bound token is never accepted as plain. Default `off`.',
    }),
  })
  .meta({ description: 'An http bearer, oauth2 or openIdConnect scheme of the card, with JWT access tokens.' })

export const apiKeySchemeSchema = z
  .strictObject({
    keys: fileReference.meta({ description: 'The key file: `file:PATH`. It holds SHA-256 digests, never keys.' }),
  })
  .meta({ description: 'An apiKey scheme of the card.' })

export const mtlsSchemeSchema = z
  .strictObject({
    ca: fileReference.meta({ description: 'PEM file with the certificate authorities.' }),
    identities: listOf(text).meta({ description: 'Subject alternative names accepted; `*` for one path segment.' }),
    clientCertificate: z
      .strictObject({
        header: text,
        format: z.enum(['rfc9440']),
        trustedProxies: listOf(addressRange),
      })
      .optional()
      .meta({ description: 'Where a TLS-terminating proxy puts the certificate.' }),
  })
  .meta({ description: 'An mtls scheme of the card. Not enforced by this version: refused at start.' })

const principalsSchema = z
  .strictObject({
    id: oneOrMore(text).optional(),
    issuer: oneOrMore(text).optional(),
    subject: oneOrMore(text).optional(),
    clientId: oneOrMore(text).optional(),
    tenant: oneOrMore(text).optional(),
    actor: oneOrMore(text).optional(),
    scheme: oneOrMore(text).optional(),
    scopes: listOf(scope).optional(),
  })
  .refine(hasMembers, says('is empty: leave it out to mean every caller'))
  .meta({ description: 'Every member given must match; within a list one is enough, except `scopes`: all of them.' })

const matchSchema = z
  .strictObject({
    operations: listOf(z.enum(['*', ...operationNames]))
      .optional()
      .meta({ description: 'Operations of A2A v1.0, or `*`. Absent: any.' }),
    skills: listOf(text).optional().meta({ description: 'Skill ids of the card, or `*`. Absent: any.' }),
    principals: principalsSchema.optional(),
  })
  .refine(hasMembers, says("is empty, which would match every request: write operations: ['*'] to mean that"))

const accessRuleSchema = z
  .strictObject({ allow: matchSchema.optional(), deny: matchSchema.optional() })
  .refine((rule) => (rule.allow === undefined) !== (rule.deny === undefined), {
    ...says('must have either allow or deny, and not both'),
  })

const egressSchema = z.strictObject({
  requireHttps: z.boolean().optional().meta({ description: 'Refuse plain http. Default true.' }),
  ports: listOf(whole(1, 65535, 'port'))
    .optional()
    .meta({ description: 'Ports that may be reached. Default `[443]`.' }),
  allowHosts: listOf(host).optional().meta({ description: 'Only these hosts. Default: any public host.' }),
  denyHosts: listOf(host).optional().meta({ description: 'Never these hosts.' }),
  allowAddresses: listOf(addressRange)
    .optional()
    .meta({ description: 'Addresses that may be reached although they are not public.' }),
  timeoutMs: whole(100, 120_000, 'milliseconds').optional().meta({ description: 'Longest request, in milliseconds.' }),
  maxResponseBytes: whole(1024, 67_108_864, 'bytes')
    .optional()
    .meta({ description: 'Largest response read, in bytes.' }),
})

const cardSchema = z.union([path, z.record(z.string(), z.unknown())])

export const policySchema = z
  .strictObject({
    version: z.literal(1, says('must be 1')).meta({ description: 'Version of this format.' }),
    card: cardSchema.meta({ description: 'Path of the Agent Card (JSON), or the card itself.' }),
    extendedCard: cardSchema.optional().meta({ description: 'Path of the extended card (JSON), or the card itself.' }),
    audience: oneOrMore(identifier).meta({ description: 'What the `aud` of a token must contain one of.' }),
    publicUrl: webUrl
      .optional()
      .meta({ description: 'URL callers know this agent by; every interface of the card lies under it.' }),
    anonymous: z
      .boolean()
      .optional()
      .meta({ description: 'Whether callers without a credential are let in where the card says so. Default false.' }),
    schemes: z
      .record(text, z.union([jwtSchemeSchema, apiKeySchemeSchema, mtlsSchemeSchema]))
      .optional()
      .meta({ description: "Settings for each of the card's `securitySchemes`, by the same name." }),
    skills: z
      .strictObject({
        select: z
          .strictObject({
            metadata: text.optional().meta({ description: 'Key of the message or request metadata.' }),
            extension: z.boolean().optional().meta({ description: 'The extension urn:a2a-trust:skill:v1.' }),
            tenant: z.boolean().optional().meta({ description: 'The tenant names the skill.' }),
          })
          .refine((select) => select.metadata !== undefined || select.extension === true || select.tenant === true, {
            ...says('names no place: give metadata, extension: true or tenant: true'),
          })
          .optional()
          .meta({ description: 'Where a caller may name a skill. Default `{ metadata: skillId }`.' }),
        undeclared: z.enum(['deny', 'agent']).optional().meta({
          description:
            'A message that names no skill: `deny` (default when a skill is stricter than the agent) or `agent`.',
        }),
        combine: z.enum(['add', 'override']).optional().meta({
          description: "Whether a skill's requirements add to the agent's (default) or replace them.",
        }),
      })
      .optional(),
    access: listOf(accessRuleSchema)
      .optional()
      .meta({ description: 'Rules after authentication. Absent: meeting the card is enough. Deny wins.' }),
    limits: z
      .strictObject({
        perPrincipal: rate.optional().meta({ description: 'Requests of one principal.' }),
        failedAuthentication: rate.optional().meta({ description: 'Refused credentials of one address.' }),
      })
      .refine(hasMembers, says('is empty: leave it out'))
      .optional()
      .meta({ description: 'Counts per `sec`, `min` or `hour`, such as `600/min`.' }),
    webhooks: z
      .strictObject({
        allow: listOf(text).optional(),
        secrets: z.record(text, z.strictObject({ current: secret, previous: secret.optional() })).optional(),
      })
      .optional()
      .meta({ description: 'Webhooks that may be called. Not enforced by this version: refused at start.' }),
    delegation: listOf(
      z.strictObject({
        to: webUrl,
        for: z.strictObject({ skills: listOf(text).optional(), principals: principalsSchema.optional() }).optional(),
        obtain: z.enum(['exchange', 'client_credentials', 'none']),
        tokenEndpoint: webUrl.optional(),
        client: z.strictObject({ id: text, secret: secret.optional() }).optional(),
        scopes: listOf(scope).optional(),
        audience: identifier.optional(),
        resource: webUrl.optional(),
      }),
    )
      .optional()
      .meta({ description: 'How authority flows on. Not enforced by this version: refused at start.' }),
    egress: egressSchema.optional().meta({ description: 'What this process may reach.' }),
    stores: z
      .strictObject({ url: secret })
      .optional()
      .meta({ description: 'A shared store. Not enforced by this version: refused at start.' }),
    mode: z.enum(['enforce', 'report']).optional().meta({
      description: '`report` decides and records, and lets through (never the extended card). Default `enforce`.',
    }),
    maxBodyBytes: whole(1024, 104_857_600, 'bytes')
      .optional()
      .meta({ description: 'Largest request body read, in bytes. Default 4194304.' }),
  })
  .meta({
    title: 'a2a-trust policy',
    description: 'What a public Agent Card must not say: keys, issuers, who may do what.',
  })

/** The policy file as written. */
export type PolicyFile = z.infer<typeof policySchema>
export type JwtSchemeSettings = z.infer<typeof jwtSchemeSchema>
export type ApiKeySchemeSettings = z.infer<typeof apiKeySchemeSchema>
export type MtlsSchemeSettings = z.infer<typeof mtlsSchemeSchema>
export type SchemeSettings = JwtSchemeSettings | ApiKeySchemeSettings | MtlsSchemeSettings
export type AccessMatch = z.infer<typeof matchSchema>

function hasMembers(value: object): boolean {
  return Object.values(value).some((member) => member !== undefined)
}

function isCleanUrl(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined
  return (
    url !== undefined &&
    url.username === '' &&
    url.password === '' &&
    !/[?#\\\s]/.test(value) &&
    // Byte-exact comparison needs one spelling: what the URL parser would rewrite is refused.
    (url.href === value || url.href === `${value}/`)
  )
}

function hostOf(value: string): string {
  return URL.canParse(value) ? new URL(value).hostname : ''
}

function isDottedQuad(value: string): boolean {
  return /^(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})$/.test(value) && ipaddr.isValid(value)
}
