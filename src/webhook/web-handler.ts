/** The receiver for servers that speak web-standard `Request` and `Response`. */
import { answerWebhook, type WebhookHandlerOptions, type WebhookWork } from './receive.ts'
import type { WebhookVerifier } from './verifier.ts'

/** As `webhookHandler`. `work` starts when the response is returned; where the platform has `waitUntil`, give that its promise. */
export async function receiveWebhook(
  verifier: WebhookVerifier,
  request: Request,
  work: WebhookWork,
  options: WebhookHandlerOptions = {},
): Promise<Response> {
  if (request.method !== 'POST') return new Response(null, { status: 405, headers: { allow: 'POST' } })
  let body: Buffer
  try {
    body = await readBounded(request, verifier.maxBodyBytes)
  } catch {
    // The sender broke off: there is nobody to tell more.
    return new Response(null, { status: 400 })
  }
  const answer = await answerWebhook(verifier, { headers: request.headers, body }, work, options)
  answer.work()
  return new Response(answer.body ?? null, { status: answer.status, headers: answer.headers })
}

async function readBounded(request: Request, maxBytes: number): Promise<Buffer> {
  // A body that somebody has read is one the verifier refuses, with advice.
  if (request.bodyUsed || request.body?.locked === true) return undefined as never
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of request.body ?? []) {
    chunks.push(chunk as Uint8Array)
    bytes += (chunk as Uint8Array).length
    if (bytes > maxBytes) break
  }
  return Buffer.concat(chunks).subarray(0, maxBytes + 1)
}
