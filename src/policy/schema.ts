/**
 * The policy file, as one zod schema: types, checks, JSON Schema and documentation come from here. Nothing is
 * transformed or defaulted in this file (`compile.ts` does that), so what it accepts is exactly what the user wrote.
 */
import { z } from 'zod'
import { revocationSchema } from './revocation.ts'
import { delegationRuleSchema } from './schema-delegation.ts'
import { matchSchema, operationNames } from './schema-match.ts'
import { opaqueSchemeSchema } from './schema-opaque.ts'
import {
  apiKeySchemeSchema,
  basicSchemeSchema,
  customSchemeSchema,
  jwtSchemeSchema,
  mtlsSchemeSchema,
} from './schema-schemes.ts'
import {
  addressRange,
  hasMembers,
  host,
  identifier,
  identityHeader,
  listOf,
  oneOrMore,
  originPattern,
  path,
  rate,
  secretReference,
  text,
  trustedProxies,
  webUrl,
  whole,
} from './schema-values.ts'

const accessRuleSchema = z
  .strictObject({ allow: matchSchema.optional(), deny: matchSchema.optional() })
  .refine(
    (rule) => (rule.allow === undefined) !== (rule.deny === undefined),
    'must have either allow or deny, and not both',
  )

const port = z
  .int('must be a port number from 1 to 65535')
  .min(1, 'must be a port number from 1 to 65535')
  .max(65535, 'must be a port number from 1 to 65535')

const egressSchema = z.strictObject({
  requireHttps: z.boolean().optional().meta({ description: 'Refuse plain http. Default true.' }),
  ports: listOf(port).optional().meta({ description: 'Ports that may be reached. Default `[443]`.' }),
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
    version: z.literal(1, 'must be the number 1').meta({ description: 'Version of this format.', examples: ['1'] }),
    card: cardSchema.meta({
      description: 'Path of the Agent Card (JSON), or the card itself.',
      examples: ['./agent-card.json'],
    }),
    extendedCard: cardSchema.optional().meta({ description: 'Path of the extended card (JSON), or the card itself.' }),
    extendedCardAdditions: cardSchema.optional().meta({
      description:
        'Path of what the extended card has beside the public one (JSON), or the object itself: skills and schemes are added, other members replaced.',
    }),
    audience: oneOrMore(identifier).meta({
      description: 'What the `aud` of a token must contain one of.',
      examples: ['https://agent.example.com'],
    }),
    publicUrl: webUrl
      .optional()
      .meta({ description: 'URL callers know this agent by; every interface of the card lies under it.' }),
    anonymous: z
      .boolean()
      .optional()
      .meta({ description: 'Whether callers without a credential are let in where the card says so. Default false.' }),
    schemes: z
      .record(
        text,
        z.union([
          jwtSchemeSchema,
          opaqueSchemeSchema,
          apiKeySchemeSchema,
          mtlsSchemeSchema,
          basicSchemeSchema,
          customSchemeSchema,
        ]),
      )
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
          .refine(
            (select) => select.metadata !== undefined || select.extension === true || select.tenant === true,
            'names no place: give metadata, extension: true or tenant: true',
          )
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
    ownership: z
      .strictObject({
        contexts: z.enum(['client', 'agent']).optional().meta({
          description:
            'Whether a client may begin a context under an id of its own (default), or only use ids the agent gave out.',
        }),
        share: z
          .strictObject({
            tenant: z.boolean().optional().meta({ description: 'With callers of the same issuer and tenant.' }),
            team: text.optional().meta({
              description: 'With callers of the same issuer whose credential has the same text in this claim.',
            }),
            delegates: z.boolean().optional().meta({
              description: 'With the owner, whoever acts for them (the `act` claim of RFC 8693).',
            }),
          })
          .refine(hasMembers, 'is empty: leave it out to share with nobody')
          .optional()
          .meta({ description: 'Who may use a task beside its owner. Default: nobody.' }),
      })
      .refine(hasMembers, 'is empty: leave it out')
      .optional()
      .meta({ description: 'Whose tasks and contexts are.' }),
    limits: z
      .strictObject({
        perPrincipal: rate
          .optional()
          .meta({ description: 'Requests of one principal; of anonymous callers, of one address.' }),
        perOperation: z
          .strictObject(
            Object.fromEntries(operationNames.map((name) => [name, rate.optional()])) as Record<
              (typeof operationNames)[number],
              z.ZodOptional<typeof rate>
            >,
          )
          .refine(hasMembers, 'is empty: leave it out')
          .optional()
          .meta({ description: 'Requests for one operation, by principal or by address of anonymous callers.' }),
        failedAuthentication: rate.optional().meta({ description: 'Refused credentials of one address.' }),
        failedCredential: rate.optional().meta({
          description: 'Wrong attempts at one API key id or user name from one address; from all, ten times as many.',
        }),
      })
      .refine(hasMembers, 'is empty: leave it out')
      .optional()
      .meta({ description: 'Counts per `sec`, `min` or `hour`, such as `600/min`.' }),
    revoked: listOf(revocationSchema)
      .optional()
      .meta({ description: 'Credentials that are no longer believed, whatever else holds.' }),
    dpop: z
      .strictObject({
        nonce: z.enum(['required', 'off']).optional().meta({
          description: 'Whether DPoP proofs must hold a nonce of this agent. Default `off`.',
        }),
        nonceSecret: secretReference.optional().meta({
          description:
            'What nonces are made from, the same in all processes: `env:NAME` or `file:PATH`. Default: random.',
        }),
      })
      .refine(hasMembers, 'is empty: leave it out')
      .optional()
      .meta({ description: 'DPoP proofs (RFC 9449) of all schemes whose `senderConstraint` is `optional` or `dpop`.' }),
    clientAddress: z
      .strictObject({
        header: z
          .enum(['x-forwarded-for', 'forwarded'])
          .meta({ description: 'Header in which each proxy names its peer.', examples: ['x-forwarded-for'] }),
        trustedProxies: trustedProxies.meta({
          description: 'Addresses of the proxies: hops are believed as far as these reach.',
          examples: ['[10.0.0.0/8]'],
        }),
      })
      .optional()
      .meta({ description: "Where proxies put the caller's address. Default: the address of the connection counts." }),
    identityHeaders: listOf(identityHeader)
      .optional()
      .meta({
        description: 'Further headers in which something in front names callers. No handler sees them.',
        examples: ['[x-acme-user, x-acme-identity-*]'],
      }),
    webhooks: z
      .strictObject({
        allow: listOf(originPattern).optional().meta({
          description: 'Origins that may be registered, exact or `https://*.example.com`. Default: any public one.',
        }),
        secrets: z
          .record(text, z.strictObject({ current: secretReference, previous: secretReference.optional() }))
          .optional()
          .meta({ description: 'By origin: what deliveries are signed with; `previous` signs too, for a rotation.' }),
        encryptionKeys: listOf(secretReference)
          .optional()
          .meta({ description: 'Base64 of 32 bytes each: the first seals stored secrets, each opens them.' }),
      })
      .refine(hasMembers, 'is empty: leave it out')
      .optional()
      .meta({ description: 'Webhooks that may be registered, and how they are signed.' }),
    delegation: listOf(delegationRuleSchema)
      .optional()
      .meta({ description: 'How authority flows on to other agents. The first rule that fits; none: nothing flows.' }),
    egress: egressSchema.optional().meta({ description: 'What this process may reach.' }),
    stores: z
      .strictObject({ url: secretReference })
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
