/** The settings of a scheme with opaque access tokens. What it shares with JWTs means the same. */
import { z } from 'zod'
import { jwtSchemeSchema } from './schema-schemes.ts'
import {
  algorithm,
  endpointUrl,
  fileReference,
  identifier,
  listOf,
  oneOrMore,
  secretReference,
  text,
  webUrl,
  whole,
} from './schema-values.ts'

export const clientSchema = z.strictObject({
  id: identifier.meta({ description: 'The `client_id` of this agent at the issuer.' }),
  auth: z.enum(['basic', 'post', 'private_key_jwt', 'tls']).meta({
    description: 'How the client authenticates: `basic`, `post`, `private_key_jwt`, `tls` (refused by this version).',
  }),
  secret: secretReference.optional().meta({ description: 'For `basic` and `post`: `env:NAME` or `file:PATH`.' }),
  key: fileReference
    .optional()
    .meta({ description: 'For `private_key_jwt`: private key, PEM (PKCS #8) or JWK, as `file:PATH`.' }),
  kid: text.optional().meta({ description: "`kid` of the assertion. Default: the JWK's, or none." }),
  assertionAudience: oneOrMore(identifier)
    .optional()
    .meta({ description: '`aud` of the assertion, a text or a list. Default: the issuer, as one text.' }),
})

const { jwks, audience, scopeClaims, tenantClaim, requiredScopes } = jwtSchemeSchema.shape
const { clockToleranceSeconds, maxTokenBytes, maxTokenAgeSeconds, senderConstraint, clientCertificate } =
  jwtSchemeSchema.shape

export const opaqueSchemeSchema = z
  .strictObject({
    token: z.literal('opaque').meta({ description: 'The issuer is asked about each token (RFC 7662).' }),
    issuer: webUrl.meta({ description: 'The issuer of every token of the scheme; an opaque token names none.' }),
    introspection: z
      .strictObject({
        endpoint: endpointUrl
          .optional()
          .meta({ description: 'URL of the introspection endpoint. Default: discovery. Mandatory for plain bearer.' }),
        client: clientSchema.meta({ description: 'Who asks.' }),
        response: z.enum(['json', 'jwt']).optional().meta({
          description: 'Form of the answers: `json`, or `jwt` for signed ones only (RFC 9701). Default `json`.',
        }),
        cacheSeconds: whole(0, 300, 'seconds')
          .optional()
          .meta({ description: 'Longest time a good answer is kept, never beyond `exp`. 0: not at all. Default 30.' }),
        dangerouslyAcceptMissingAudience: z
          .boolean()
          .optional()
          .meta({ description: 'Take an answer without `aud` to be for this agent. Default false.' }),
      })
      .meta({
        description: 'How the issuer is asked.',
        examples: ['{ client: { id: my-agent, auth: basic, secret: env:CLIENT_SECRET } }'],
      }),
    algorithms: listOf(algorithm)
      .optional()
      .meta({ description: 'Signature algorithms of signed answers. Mandatory with `response: jwt`.' }),
    jwks: jwks.meta({ description: 'Keys of signed answers: `file:PATH` or URL of a JWK Set. Absent: discovery.' }),
    audience,
    scopeClaims,
    tenantClaim,
    requiredScopes,
    clockToleranceSeconds,
    maxTokenBytes,
    maxTokenAgeSeconds,
    senderConstraint,
    clientCertificate,
  })
  .meta({ description: 'An http bearer, oauth2 or openIdConnect scheme of the card, with opaque access tokens.' })

export type OpaqueSchemeSettings = z.infer<typeof opaqueSchemeSchema>
export type ClientSettings = z.infer<typeof clientSchema>
