/** The approver's pages as a Fastify 5 plugin. */
import type { FastifyPluginAsync } from 'fastify'
import type { Approvals } from '../delegation/approvals.ts'
import { type ApprovalHandlerOptions, approvalHandler } from './approvals.ts'

export interface FastifyApprovalsOptions extends ApprovalHandlerOptions {
  readonly approvals: Approvals
}

/** Register it with the path of `url` as `prefix`. `login` gets Node's request. */
export const fastifyApprovals: FastifyPluginAsync<FastifyApprovalsOptions> = async (fastify, options) => {
  const { approvals, login, logger } = options
  const handle = approvalHandler(approvals, { login, ...(logger === undefined ? {} : { logger }) })
  fastify.removeAllContentTypeParsers()
  // Handing the stream on unread keeps the one place that reads it, with its limit, in the handler.
  fastify.addContentTypeParser('*', (_request, _payload, done) => done(null))
  fastify.route({
    method: ['GET', 'HEAD', 'POST'],
    url: '/:name',
    handler(request, reply) {
      reply.hijack()
      handle(request.raw, reply.raw)
    },
  })
}
