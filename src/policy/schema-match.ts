/** What a rule of the policy is about: operations, skills, callers. */
import { z } from 'zod'
import { hasMembers, listOf, oneOrMore, scope, text, whole } from './schema-values.ts'

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

export const principalsSchema = z
  .strictObject({
    id: oneOrMore(text).optional(),
    issuer: oneOrMore(text).optional(),
    subject: oneOrMore(text).optional(),
    clientId: oneOrMore(text).optional(),
    tenant: oneOrMore(text).optional(),
    actor: oneOrMore(text)
      .optional()
      .meta({ description: 'Who acts for the caller now (`act`). Of another issuer: `ISSUER#SUBJECT`.' }),
    actors: z
      .strictObject({
        atLeast: whole(0, 8, 'actors').optional().meta({ description: '1: somebody acts for the caller.' }),
        atMost: whole(0, 8, 'actors').optional().meta({ description: '0: the caller calls in person.' }),
        among: oneOrMore(text).optional().meta({ description: 'Every actor of the chain is one of these.' }),
        through: oneOrMore(text).optional().meta({ description: 'Some actor of the chain is one of these.' }),
      })
      .refine(hasMembers, 'is empty: leave it out')
      .refine(
        ({ atLeast = 0, atMost = 8, through }) => atLeast <= atMost && (through === undefined || atMost > 0),
        'matches nobody: no chain is as long and as short',
      )
      .optional()
      .meta({ description: 'The chain of those who act for the caller, the one who calls included.' }),
    scheme: oneOrMore(text).optional(),
    scopes: listOf(scope).optional(),
  })
  .refine(hasMembers, 'is empty: leave it out to mean every caller')
  .meta({ description: 'Every member given must match; within a list one is enough, except `scopes`: all of them.' })

export const matchSchema = z
  .strictObject({
    operations: listOf(z.enum(['*', ...operationNames]))
      .optional()
      .meta({ description: 'Operations of A2A v1.0, or `*`. Absent: any.' }),
    skills: listOf(text).optional().meta({ description: 'Skill ids of the card, or `*`. Absent: any.' }),
    principals: principalsSchema.optional(),
  })
  .refine(hasMembers, "is empty, which would match every request: write operations: ['*'] to mean that")

export type AccessMatch = z.infer<typeof matchSchema>
