/** The webhook receiver as a Fastify 5 route. */
import type { FastifyPluginAsync } from 'fastify'
import { type WebhookHandlerOptions, type WebhookVerifier, type WebhookWork, webhookHandler } from '../webhook/index.ts'

export interface FastifyWebhookOptions extends WebhookHandlerOptions {
  readonly verifier: WebhookVerifier
  /** Runs once for each id, after the sender was answered. */
  readonly work: WebhookWork
  /** Path of the route. Default `/`. */
  readonly path?: string
}

/**
 * Plugin with one `POST` route that takes the raw bytes whatever the content type; parsers of the surrounding context play
 * no part in it. What it answers is the verifier's to say.
 */
export const fastifyWebhook: FastifyPluginAsync<FastifyWebhookOptions> = async (fastify, options) => {
  const { verifier, work, path = '/', logger } = options
  const handle = webhookHandler(verifier, work, logger === undefined ? {} : { logger })
  fastify.removeAllContentTypeParsers()
  // Handing the stream on unread keeps the one place that reads it, with its limit, in the handler.
  fastify.addContentTypeParser('*', (_request, _payload, done) => done(null))
  fastify.post(path, (request, reply) => {
    reply.hijack()
    handle(request.raw, reply.raw)
  })
}
