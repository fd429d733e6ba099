/** Where webhooks may go, and what they are signed and sealed with. */
import { urlPatterns } from '../internal/url-pattern.ts'
import { signingKeys, type WebhookKey } from '../internal/webhook-secret.ts'
import type { WebhookSettings } from '../internal/webhook-settings.ts'
import { step } from '../protocol/card-reader.ts'
import type { Sections } from './compare-card.ts'
import type { LoadContext } from './files.ts'
import { resolveSecret } from './references.ts'
import type { Report } from './report.ts'

export async function compileWebhooks(
  { allow, secrets = {}, encryptionKeys }: NonNullable<Sections['webhooks']> = {},
  context: LoadContext,
  report: Report,
): Promise<WebhookSettings> {
  const patterns = allow === undefined ? undefined : urlPatterns(allow, 'webhooks.allow')
  const keys = new Map<string, readonly WebhookKey[]>()
  for (const [origin, { current, previous }] of Object.entries(secrets)) {
    const pointer = `/webhooks/secrets${step(origin)}`
    if (!URL.canParse(origin) || new URL(origin).origin !== origin)
      report.error('ERR_POLICY_VALUE', pointer, 'must be an origin, such as https://hooks.example.com', 'key')
    const both = [
      await webhookKey(current, `${pointer}/current`, context, report),
      previous === undefined ? undefined : await webhookKey(previous, `${pointer}/previous`, context, report),
    ]
    keys.set(
      origin,
      both.filter((key) => key !== undefined),
    )
  }
  const sealing: string[] = []
  for (const [index, reference] of (encryptionKeys ?? []).entries()) {
    const pointer = `/webhooks/encryptionKeys/${index}`
    const text = await resolveSecret(reference, pointer, context, report)
    const bytes = Buffer.from(text ?? '', 'base64')
    if (text !== undefined && (bytes.length !== 32 || bytes.toString('base64') !== text))
      report.error('ERR_POLICY_VALUE', pointer, `what ${reference} refers to must be base64 of 32 random bytes`)
    if (text !== undefined) sealing.push(text)
  }
  return {
    allows: (url) => patterns === undefined || patterns.some((pattern) => pattern(url)),
    keysFor: (origin) => keys.get(origin) ?? [],
    encryptionKeys: () => (encryptionKeys === undefined ? undefined : sealing),
  }
}

async function webhookKey(
  reference: string,
  pointer: string,
  context: LoadContext,
  report: Report,
): Promise<WebhookKey | undefined> {
  const secret = await resolveSecret(reference, pointer, context, report)
  if (secret === undefined) return undefined
  try {
    return signingKeys(secret, reference)[0]
  } catch (error) {
    report.error('ERR_POLICY_VALUE', pointer, (error as TypeError).message)
    return undefined
  }
}
