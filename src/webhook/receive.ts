/** What every receiver does once it has the bytes: answer, and run the work once. */
import type { Logger } from '../types.ts'
import type { WebhookRequest } from './request.ts'
import type { WebhookResult, WebhookVerifier } from './verifier.ts'

export type WebhookReceipt = Extract<WebhookResult, { ok: true }>

/**
 * Runs once for each id, after the sender was answered, so that slow work is never taken for a failed delivery. What it
 * throws is logged: the sender does not try again. Work that must not be lost belongs in a queue, and this puts it there.
 */
export type WebhookWork = (receipt: WebhookReceipt) => void | Promise<void>

export interface WebhookHandlerOptions {
  readonly logger?: Logger
}

export interface WebhookAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** To be called when the answer is on its way. */
  readonly work: () => void
}

export async function answerWebhook(
  verifier: WebhookVerifier,
  request: WebhookRequest,
  work: WebhookWork,
  { logger }: WebhookHandlerOptions,
): Promise<WebhookAnswer> {
  const result = await verifier.verify(request)
  if (!result.ok) {
    const { reason, status, detail, retryAfterSeconds, answer } = result
    const idle = { status, work: () => undefined }
    if (answer !== undefined) return { ...idle, headers: { 'content-type': 'application/json' }, body: answer }
    logger?.warn({ code: reason, status, detail }, 'a webhook was not accepted')
    return { ...idle, headers: retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) } }
  }
  return {
    status: 204,
    headers: {},
    work() {
      new Promise<void>((resolve) => resolve(work(result))).catch((error: unknown) => {
        logger?.error(
          { id: result.id, error: error instanceof Error ? error.name : 'not an Error' },
          'a webhook was accepted and its work failed',
        )
      })
    },
  }
}
