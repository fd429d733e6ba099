/** What deliveries are signed with, by receiver. */
import { assertKnownOptions } from '../internal/options.ts'
import { signingKeys, type WebhookKey } from '../internal/webhook-secret.ts'
import type { WebhookSettings } from '../internal/webhook-settings.ts'
import type { WebhookJwtOptions } from './jwt.ts'

export interface RotatingSecret {
  /** `whsec_` or `whsk_`, as `signWebhook` takes it. */
  readonly current: string
  /** Signs too, until every receiver knows the current one. */
  readonly previous?: string
}

export interface WebhookSigning {
  /** By origin of the receiver, as in `https://hooks.example.com`. */
  readonly secrets?: Readonly<Record<string, RotatingSecret>>
  /** Signs a JWT for every receiver. */
  readonly jwt?: WebhookJwtOptions
}

/** The keys for an origin, of `signing` and of the policy in force. Throws `TypeError` quoting the option. */
export function keysByOrigin(
  signing: WebhookSigning,
  policy: WebhookSettings | undefined,
): (origin: string) => readonly WebhookKey[] {
  assertKnownOptions('signing', signing, ['secrets', 'jwt'])
  const secrets = new Map(
    Object.entries(signing.secrets ?? {}).map(([origin, { current, previous }]) => {
      if (!URL.canParse(origin) || new URL(origin).origin !== origin)
        throw new TypeError('"signing.secrets" must be by origin, as in https://hooks.example.com')
      return [origin, signingKeys(previous === undefined ? current : [current, previous], 'signing.secrets')]
    }),
  )
  return (origin) => [...(secrets.get(origin) ?? []), ...(policy?.keysFor(origin) ?? [])]
}
