/** The approver's pages for Node's `http`, for Express, and for whoever hands on the same two objects. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type ApprovalAnswer, answerApproval, type LoginResult, MAX_FORM_BYTES } from '../delegation/approval-pages.ts'
import type { Approvals } from '../delegation/approvals.ts'
import type { Guard } from '../guard.ts'
import { assertKnownOptions } from '../internal/options.ts'
import type { Logger, RequestHead } from '../types.ts'
import { approverOf } from './approver.ts'
import { peerOf, readBody } from './node-request.ts'

export interface ApprovalHandlerOptions {
  /**
   * Who is logged in: `{ id }` as `actor` names them, an answer to send instead (a redirect to the login page), or
   * `undefined` for a 401. Asked before anything is looked up. What it throws is a 503.
   */
  readonly login: (request: IncomingMessage) => LoginResult | Promise<LoginResult>
  readonly logger?: Logger
}

/**
 * Serves the pages: mount it at the path of `url`, in front of body parsers, and not behind `expressGuard`, which knows
 * A2A operations only.
 *
 * ```ts
 * app.use('/approvals', approvalHandler(approvals, { login: (request) => sessionOf(request) }))
 * ```
 *
 * Throws `TypeError` naming an option that cannot be meant. Not checked: how good the login is.
 */
export function approvalHandler(
  approvals: Approvals,
  options: ApprovalHandlerOptions,
): (request: IncomingMessage, response: ServerResponse) => void {
  assertKnownOptions('approvalHandler', options, ['login', 'logger'])
  if (typeof options.login !== 'function') throw new TypeError('"login" must be a function')
  return (request, response) => {
    answer(request)
      .catch((fault: unknown): ApprovalAnswer => {
        options.logger?.error(
          { error: fault instanceof Error ? fault.name : 'not an Error' },
          'an approval page failed',
        )
        return { status: 503, headers: { 'retry-after': '5', 'cache-control': 'no-store' }, body: '' }
      })
      .then(({ status, headers, body }) => {
        const close = request.complete ? {} : { connection: 'close' }
        response.writeHead(status, { ...headers, ...close }).end(request.method === 'HEAD' ? undefined : body)
      })
      .catch(() => response.destroy())
  }

  function answer(request: IncomingMessage): Promise<ApprovalAnswer> {
    return answerApproval(approvals, {
      method: request.method ?? '',
      target: request.url ?? '',
      header: (name) => joined(request.headers[name]),
      async body() {
        if (request.readableEnded)
          options.logger?.error(
            {},
            'approvalHandler is behind a body parser: mount it in front, it reads its form itself',
          )
        const read = await readBody(request, MAX_FORM_BYTES)
        return read.ok ? (read.bytes?.toString('utf8') ?? '') : undefined
      },
      login: () => options.login(request),
    })
  }
}

/**
 * A login for those who have a credential of the agent's card (a certificate, Basic, a token of a portal in front), and
 * the scope, which is for approving alone: a client that holds a token of the user's for its requests must not have it, or
 * it could approve what it asked for. Nobody approves on behalf of somebody else: a principal with an actor (`act`) is refused.
 */
export function guardLogin(
  guard: Guard,
  options: { readonly scope: string },
): (request: IncomingMessage) => Promise<LoginResult> {
  assertKnownOptions('guardLogin', options, ['scope'])
  const { scope } = options
  if (typeof scope !== 'string' || !/^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope))
    throw new TypeError('"scope" must be a scope that only approvers have')
  return (request) => {
    const head: RequestHead = {
      // The form of a request that every card has: only its headers are looked at.
      method: 'POST',
      target: '/',
      binding: 'JSONRPC',
      rawHeaders: request.rawHeaders,
      peer: peerOf(request),
    }
    return approverOf(guard, scope, head)
  }
}

function joined(value: string | string[] | undefined): string | undefined {
  return typeof value === 'object' ? value.join(', ') : value
}
