/** What a policy says of webhooks, as registration and sender ask for it. */
import type { WebhookKey } from './webhook-secret.ts'

export interface WebhookSettings {
  /** Whether a webhook may be registered there, as far as `webhooks.allow` goes. */
  allows(url: URL): boolean
  /** What deliveries to an origin are signed with: the current secret, and the previous one while there is one. */
  keysFor(origin: string): readonly WebhookKey[]
  /** Base64 of 32 bytes each; `undefined` where the policy has none. In a function, which nothing prints. */
  encryptionKeys(): readonly string[] | undefined
}
