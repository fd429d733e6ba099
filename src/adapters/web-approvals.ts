/** The approver's pages for servers that speak web-standard `Request` and `Response`. */
import { answerApproval, type LoginResult, MAX_FORM_BYTES } from '../delegation/approval-pages.ts'
import type { Approvals } from '../delegation/approvals.ts'
import { assertKnownOptions } from '../internal/options.ts'
import type { Logger } from '../types.ts'
import { readBody } from './web-body.ts'

export interface WebApprovalsOptions {
  /** As in `approvalHandler`. */
  readonly login: (request: Request) => LoginResult | Promise<LoginResult>
  readonly logger?: Logger
}

/** As `approvalHandler`, for one request. */
export function webApprovals(
  approvals: Approvals,
  options: WebApprovalsOptions,
): (request: Request) => Promise<Response> {
  assertKnownOptions('webApprovals', options, ['login', 'logger'])
  const { login, logger } = options
  if (typeof login !== 'function') throw new TypeError('"login" must be a function')
  return async (request) => {
    try {
      const { pathname, search } = new URL(request.url)
      const { status, headers, body } = await answerApproval(approvals, {
        method: request.method,
        target: pathname + search,
        header: (name) => request.headers.get(name) ?? undefined,
        async body() {
          const read = await readBody(request, MAX_FORM_BYTES)
          return read.ok ? new TextDecoder().decode(read.bytes) : undefined
        },
        login: () => login(request),
      })
      return new Response(request.method === 'HEAD' ? null : body, { status, headers })
    } catch (fault) {
      logger?.error({ error: fault instanceof Error ? fault.name : 'not an Error' }, 'an approval page failed')
      return new Response(null, { status: 503, headers: { 'retry-after': '5', 'cache-control': 'no-store' } })
    }
  }
}
