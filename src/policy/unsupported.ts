/** Settings this version reads and cannot enforce. They refuse the start: a control that is written is relied upon. */
import type { Sections } from './compare-card.ts'
import type { LoadContext } from './files.ts'
import { pointerStep } from './positions.ts'
import { resolveSecret } from './references.ts'
import type { Report } from './report.ts'

/** Reports such settings, and what is wrong with the secrets they refer to, so that nothing is left for later. */
export async function refuseUnsupported(sections: Sections, context: LoadContext, report: Report): Promise<void> {
  const { webhooks, delegation, stores } = sections
  const refuse = (key: string): void => {
    report.error('ERR_POLICY_UNSUPPORTED', `/${key}`, `${key} is not enforced by this version: remove it`, 'key')
  }
  if (webhooks !== undefined) refuse('webhooks')
  if (delegation !== undefined) refuse('delegation')
  if (stores !== undefined) refuse('stores')

  for (const [origin, { current, previous }] of Object.entries(webhooks?.secrets ?? {})) {
    const at = `/webhooks/secrets${pointerStep(origin)}`
    await resolveSecret(current, `${at}/current`, context, report)
    if (previous !== undefined) await resolveSecret(previous, `${at}/previous`, context, report)
  }
  for (const [index, { client }] of (delegation ?? []).entries()) {
    const at = `/delegation${pointerStep(index)}/client/secret`
    if (client?.secret !== undefined) await resolveSecret(client.secret, at, context, report)
  }
  if (stores !== undefined) await resolveSecret(stores.url, '/stores/url', context, report)
}
