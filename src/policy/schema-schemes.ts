/** The settings of each kind of scheme, as zod schemas. What the card declares decides which one applies. */
import { z } from 'zod'
import {
  algorithm,
  fileReference,
  identifier,
  keySetReference,
  listOf,
  oneOrMore,
  proxyHeader,
  scope,
  text,
  trustedProxies,
  webUrl,
  whole,
} from './schema-values.ts'

export const clientCertificateSchema = z
  .strictObject({
    header: proxyHeader.meta({ description: 'Header that the proxy sets.', examples: ['client-cert'] }),
    format: z.enum(['rfc9440', 'xfcc', 'pem']).meta({
      description: '`rfc9440` (Client-Cert), `xfcc` (Envoy, with Cert) or `pem` (URL-encoded PEM, as nginx).',
      examples: ['rfc9440'],
    }),
    trustedProxies: trustedProxies.meta({
      description: 'Addresses of the proxies: there the header alone counts, from anybody else it is ignored.',
      examples: ['[10.0.0.0/8]'],
    }),
  })
  .meta({
    description: "Where a proxy that ends TLS puts the caller's certificate. All schemes that give it give the same.",
  })

const issuerEntry = z.strictObject({
  issuer: webUrl.meta({ description: 'Compared byte by byte with the `iss` claim.' }),
  jwks: keySetReference.optional().meta({ description: 'Keys of this issuer: `file:PATH` or URL. Absent: discovery.' }),
})

export const jwtSchemeSchema = z
  .strictObject({
    issuer: webUrl.optional().meta({
      description: 'The issuer, compared byte by byte with the `iss` claim. Either this or `issuers`.',
    }),
    issuers: listOf(z.union([webUrl, issuerEntry]))
      .optional()
      .meta({ description: 'Several issuers; a token is judged by the one that its `iss` names.' }),
    jwks: keySetReference.optional().meta({
      description: 'Keys of `issuer`: `file:PATH` or URL of a JWK Set. Absent: discovery. Mandatory for plain bearer.',
    }),
    algorithms: listOf(algorithm).meta({
      description: 'Signature algorithms accepted. Asymmetric only.',
      examples: ['[ES256]'],
    }),
    audience: oneOrMore(identifier)
      .optional()
      .meta({ description: 'What `aud` must contain one of. Default: the audience of the policy.' }),
    token: z
      .literal('jwt', 'must be jwt or opaque')
      .optional()
      .meta({ description: 'Format of the token: `jwt`, or `opaque` with the settings for that. Default `jwt`.' }),
    typ: z
      .enum(['at+jwt', 'any'])
      .optional()
      .meta({ description: 'Required `typ` header. Default `at+jwt` for oauth2 and openIdConnect, `any` for bearer.' }),
    scopeClaims: listOf(text).optional().meta({ description: 'Claims read for scopes. Default `[scope, scp]`.' }),
    tenantClaim: text.optional().meta({ description: 'Claim that holds the tenant. Default: none.' }),
    requiredScopes: listOf(scope)
      .optional()
      .meta({ description: 'Scopes every token must have, beyond those the card lists. Default: none.' }),
    clockToleranceSeconds: whole(0, 300, 'seconds')
      .optional()
      .meta({ description: 'Clock difference allowed for `exp`, `nbf` and `iat`, in seconds. Default 30.' }),
    maxTokenBytes: whole(256, 65536, 'bytes')
      .optional()
      .meta({ description: 'Longest token read, in bytes. Default 16384.' }),
    maxTokenAgeSeconds: whole(1, 31_536_000, 'seconds')
      .optional()
      .meta({ description: 'Oldest `iat` accepted, in seconds. Default: `exp` alone decides.' }),
    senderConstraint: z.enum(['off', 'optional', 'dpop', 'mtls']).optional().meta({
      description:
        'Whether tokens may (`optional`) or must (`dpop`, `mtls`) be bound to the sender. `off`, the default, refuses bound tokens: none is ever accepted as plain.',
    }),
    clientCertificate: clientCertificateSchema.optional(),
  })
  .meta({ description: 'An http bearer, oauth2 or openIdConnect scheme of the card, with JWT access tokens.' })

export const apiKeySchemeSchema = z
  .strictObject({
    keys: fileReference.meta({
      description: 'The key file: `file:PATH`. It holds SHA-256 digests, never keys.',
      examples: ['file:./api-keys.yaml'],
    }),
  })
  .meta({ description: 'An apiKey scheme of the card.' })

export const basicSchemeSchema = z
  .strictObject({
    users: fileReference.meta({
      description: 'The users file: `file:PATH`. It holds scrypt hashes, never passwords.',
      examples: ['file:./users.yaml'],
    }),
  })
  .meta({ description: 'An http scheme of the card with Basic.' })

const headerName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'must be the name of a header in lower case')
  .refine((name) => !CREDENTIAL_HEADERS.has(name), 'holds the credentials of other schemes')

const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie'])

export const customSchemeSchema = z
  .strictObject({
    custom: z.literal(true, 'must be true').meta({
      description: 'A function in code checks this scheme: `schemes.custom` of `createGuard`, by the same name.',
    }),
    headers: listOf(headerName).optional().meta({ description: 'Further headers the function sees. Default: none.' }),
    timeoutMs: whole(50, 30_000, 'milliseconds')
      .optional()
      .meta({ description: 'How long the function may take, in milliseconds. Default 5000.' }),
    tenants: z.boolean().optional().meta({
      description: 'Whether the function says which tenant the caller is of. Default false.',
    }),
  })
  .meta({ description: 'Any scheme of the card whose credential a function in code checks.' })

export const mtlsSchemeSchema = z
  .strictObject({
    ca: fileReference.meta({ description: 'PEM file with the certificate authorities of callers: `file:PATH`.' }),
    identities: listOf(text).meta({
      description:
        'SPIFFE IDs, https URIs and DNS names accepted, `*` being one whole segment, and keys (`sha256/BASE64`).',
    }),
    crl: fileReference.optional().meta({
      description: 'Certificate revocation lists, PEM or DER: `file:PATH`. Default: revocation is not looked up.',
    }),
    clientCertificate: clientCertificateSchema.optional(),
  })
  .meta({ description: 'An mtls scheme of the card, with client certificates of the TLS connection or of a proxy.' })

export type JwtSchemeSettings = z.infer<typeof jwtSchemeSchema>
export type ApiKeySchemeSettings = z.infer<typeof apiKeySchemeSchema>
export type MtlsSchemeSettings = z.infer<typeof mtlsSchemeSchema>
export type BasicSchemeSettings = z.infer<typeof basicSchemeSchema>
export type CustomSchemeSettings = z.infer<typeof customSchemeSchema>
