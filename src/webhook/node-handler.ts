/** The receiver for Node's `http`, and for Express, which hands on the same two objects. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerWebhook, type WebhookHandlerOptions, type WebhookWork } from './receive.ts'
import type { WebhookVerifier } from './verifier.ts'

export type { WebhookHandlerOptions }

/**
 * Reads the raw bytes whatever the content type, verifies, answers, then runs `work`. Mount it before any body parser;
 * behind one that left a `Buffer` in `req.body` (`express.raw`) it uses that, and behind one that parsed it answers 500 and
 * logs what to do. A body over the limit is not read.
 */
export function webhookHandler(verifier: WebhookVerifier, work: WebhookWork, options: WebhookHandlerOptions = {}) {
  if (typeof verifier?.verify !== 'function') throw new TypeError('"verifier" must come from createWebhookVerifier')
  if (typeof work !== 'function') throw new TypeError('"work" must be a function')
  return (req: IncomingMessage & { body?: unknown }, res: ServerResponse): void => {
    void receive(req, res).catch((error: unknown) => {
      options.logger?.error(
        { error: error instanceof Error ? error.name : 'not an Error' },
        'a webhook could not be received',
      )
      if (!res.headersSent) res.writeHead(500)
      res.end()
    })
  }

  async function receive(req: IncomingMessage & { body?: unknown }, res: ServerResponse): Promise<void> {
    if (req.method !== 'POST') {
      res.writeHead(405, { allow: 'POST' }).end()
      return
    }
    // A body that somebody has read and left nowhere is one the verifier refuses, with advice.
    const read = () => (req.readableDidRead ? undefined : readBounded(req, verifier.maxBodyBytes))
    const body = (req.body ?? (await read())) as Buffer
    const answer = await answerWebhook(verifier, { headers: req.rawHeaders, body }, work, options)
    // What was not read is not worth reading: the connection ends with the answer.
    const close = req.complete ? {} : { connection: 'close' }
    res.writeHead(answer.status, { ...answer.headers, ...close }).end(answer.body)
    answer.work()
  }
}

/** Resolves with one byte more than the limit where there is more, so that the verifier says what is wrong. */
async function readBounded(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk as Buffer)
    bytes += (chunk as Buffer).length
    if (bytes > maxBytes) break
  }
  return Buffer.concat(chunks).subarray(0, maxBytes + 1)
}
