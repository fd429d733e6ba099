/** Serves a card and its keys over Express. */
import type { RequestHandler } from 'express'
import { matchesEtag, type ServedCard, type ServedDocument } from '../card/serve.ts'
import { assertKnownOptions } from '../internal/options.ts'

export interface AgentCardHandlerOptions {
  /** `*`, or the one origin whose pages may read the card. Default: none. */
  readonly cors?: string
}

/**
 * Answers GET and HEAD with the card, 304 to a matching `If-None-Match`, a preflight where `cors` is set, and 405 to
 * everything else. Mount it at the card's own path, by `app.use` or as a route:
 * `app.use('/.well-known/agent-card.json', agentCardHandler(served))`.
 */
export function agentCardHandler(served: ServedCard, options: AgentCardHandlerOptions = {}): RequestHandler {
  return documentHandler(served.card, options)
}

/** The same for the key set, at `/.well-known/jwks.json`. */
export function jwksHandler(served: ServedCard, options: AgentCardHandlerOptions = {}): RequestHandler {
  return documentHandler(served.jwks, options)
}

function documentHandler(document: ServedDocument, options: AgentCardHandlerOptions): RequestHandler {
  assertKnownOptions('agentCardHandler', options, ['cors'])
  const { cors } = options
  if (cors !== undefined && cors !== '*' && !(URL.canParse(cors) && new URL(cors).origin === cors)) {
    throw new TypeError('"cors" must be * or an origin')
  }
  return (req, res, next) => {
    // Below the path of `app.use` there is nothing; a route matched the whole path.
    const route: unknown = req.route
    if (req.path !== '/' && route === undefined) return next()
    if (cors !== undefined) {
      res.setHeader('access-control-allow-origin', cors)
      res.setHeader('access-control-expose-headers', 'etag')
    }
    if (cors !== undefined && req.method === 'OPTIONS') {
      // Clients send A2A-Version, which asks for leave first.
      res.setHeader('access-control-allow-methods', 'GET, HEAD')
      res.setHeader('access-control-allow-headers', '*')
      res.setHeader('access-control-max-age', '86400')
      res.statusCode = 204
      res.end()
      return
    }
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      res.statusCode = 405
      res.setHeader('allow', cors === undefined ? 'GET, HEAD' : 'GET, HEAD, OPTIONS')
      res.end()
      return
    }
    for (const [name, value] of Object.entries(document.headers)) res.setHeader(name, value)
    if (matchesEtag(req.headers['if-none-match'], document)) {
      res.statusCode = 304
      res.removeHeader('content-type')
      res.end()
      return
    }
    res.setHeader('content-length', Buffer.byteLength(document.body))
    res.end(req.method === 'HEAD' ? undefined : document.body)
  }
}
