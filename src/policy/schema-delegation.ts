/** The settings of a delegation rule: whose authority flows where, as what. */
import { z } from 'zod'
import { matchSchema } from './schema-match.ts'
import { clientSchema } from './schema-opaque.ts'
import { endpointUrl, identifier, listOf, scope, webUrl, whole } from './schema-values.ts'

export const delegationRuleSchema = z.strictObject({
  to: webUrl.meta({
    description: 'Origin of the other agent, or the beginning of its URLs.',
    examples: ['https://billing.example.com'],
  }),
  for: matchSchema
    .optional()
    .meta({ description: 'Which requests of which callers. Absent: all of everybody who is not anonymous.' }),
  obtain: z.enum(['exchange', 'client_credentials', 'none']).meta({
    description:
      "`exchange`: a token for the caller, made from the caller's (RFC 8693). `client_credentials`: the agent's own. `none`: nothing is sent.",
    examples: ['exchange'],
  }),
  issuer: webUrl
    .optional()
    .meta({ description: 'Who issues the token. Default: the only issuer that the schemes have.' }),
  tokenEndpoint: endpointUrl.optional().meta({ description: 'URL of the token endpoint. Default: discovery.' }),
  client: z
    .strictObject({ ...clientSchema.shape, auth: clientSchema.shape.auth.optional() })
    .optional()
    .meta({
      description: 'This agent at the issuer. `auth` defaults to `basic` with a secret, `private_key_jwt` with a key.',
      examples: ['{ id: my-agent, secret: env:CLIENT_SECRET }'],
    }),
  scopes: listOf(scope)
    .optional()
    .meta({
      description:
        'What is asked for at most. Those that the card declares are asked for only where the caller has them.',
      examples: ['[invoice:pay]'],
    }),
  audience: identifier.optional().meta({ description: 'Logical name of the other agent at the issuer.' }),
  resource: webUrl.optional().meta({ description: 'Its URL at the issuer. Default without `audience`: `to`.' }),
  actor: z.enum(['token', 'client']).optional().meta({
    description:
      'How an exchange tells that this agent acts: with an `actor_token` of its own (default), or as the client alone.',
  }),
  maxActors: whole(1, 8, 'actors')
    .optional()
    .meta({ description: 'Longest chain of agents that an exchange may make, this one included. Default 4.' }),
})

export type DelegationRuleSettings = z.infer<typeof delegationRuleSchema>
