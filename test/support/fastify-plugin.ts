import type { FastifyPluginAsync } from 'fastify'

/** Says of an async function that it is a plugin; instances of HTTP/2 leave it to be guessed. */
export const plugin = (register: FastifyPluginAsync): FastifyPluginAsync => register
