/** The approver's pages: what is answered to a GET, a POST and the callback of an authorization server. No framework. */
import type { ApprovalOutcome, Approvals, ApprovalView } from './approvals.ts'

/** Who is logged in, by the name that `actor` uses for them. */
export interface Approver {
  readonly id: string
}

export interface ApprovalAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** An answer is sent as it is: a redirect to a login page, or a refusal. `undefined` is a plain 401. */
export type LoginResult = Approver | ApprovalAnswer | undefined

export interface ApprovalPageRequest {
  readonly method: string
  /** The path, of which only the last segment counts, and the query. */
  readonly target: string
  /** The one value of a header; those of repeated lines joined with a comma. Lower-case names. */
  readonly header: (name: string) => string | undefined
  /** `undefined` for a body that cannot be read or has more than `MAX_FORM_BYTES`. */
  readonly body: () => Promise<string | undefined>
  readonly login: () => LoginResult | Promise<LoginResult>
}

export const MAX_FORM_BYTES = 4096

/**
 * A GET shows the request to its actor and changes nothing. A POST answers it: only from the page that the actor was
 * shown (a token in the form, and `Origin` and `Sec-Fetch-Site` where a browser sends them). To everybody else there is
 * nothing, whether or not there is something.
 */
export async function answerApproval(approvals: Approvals, request: ApprovalPageRequest): Promise<ApprovalAnswer> {
  const { method } = request
  if (method !== 'GET' && method !== 'HEAD' && method !== 'POST')
    return page(405, 'Not allowed', '', { allow: 'GET, HEAD, POST' })
  const login = await request.login()
  if (login === undefined) return page(401, 'Who are you?', 'Log in first.')
  if ('status' in login) return login
  // A login that knows nobody by name must not be the actor whose name is missing.
  if (typeof login.id !== 'string' || login.id === '') return page(401, 'Who are you?', 'Log in first.')
  const [path = '', ...queries] = request.target.split('?')
  const segment = path.slice(path.lastIndexOf('/') + 1)
  if (segment === 'callback') {
    if (method !== 'GET') return page(405, 'Not allowed', '', { allow: 'GET' })
    return answerOutcome(await approvals.callback(new URLSearchParams(queries.join('?')), login.id))
  }
  if (method === 'POST') return post(approvals, request, segment, login.id)
  const view = await approvals.view(segment, login.id)
  return view === undefined ? answerOutcome('gone') : viewPage(view)
}

async function post(
  approvals: Approvals,
  request: ApprovalPageRequest,
  token: string,
  approver: string,
): Promise<ApprovalAnswer> {
  const site = request.header('sec-fetch-site')
  const origin = request.header('origin')
  if (
    (site !== undefined && site !== 'same-origin') ||
    (origin !== undefined && origin !== new URL(approvals.url).origin)
  )
    return answerOutcome('refused')
  const type = request.header('content-type') ?? ''
  if (!/^application\/x-www-form-urlencoded *(?:;|$)/i.test(type)) return page(415, 'Not a form', '')
  const body = await request.body()
  if (body === undefined) return page(413, 'Too large', '', { connection: 'close' })
  const form = new URLSearchParams(body)
  const [decision, ...otherDecisions] = form.getAll('decision')
  const [formToken, ...otherTokens] = form.getAll('form')
  const isOne = otherDecisions.length === 0 && otherTokens.length === 0
  if (!isOne || formToken === undefined || (decision !== 'approve' && decision !== 'deny'))
    return page(400, 'Not an answer', 'Nothing was approved.')
  return answerOutcome(await approvals.answer({ token, approver, formToken, decision }))
}

function answerOutcome(outcome: ApprovalOutcome): ApprovalAnswer {
  if (typeof outcome === 'object') return page(303, 'Going on', '', { location: outcome.redirect })
  switch (outcome) {
    case 'approved':
      return page(200, 'Approved', 'The agent may do this once. You can close this page.')
    case 'denied':
      return page(200, 'Denied', 'The agent will not do it. You can close this page.')
    case 'refused':
      return page(403, 'Not accepted', 'The answer did not come from the page you were shown. Nothing was approved.')
    case 'gone':
      return page(404, 'Nothing to approve', 'It was answered, its time is over, or it is not yours to answer.')
  }
}

function viewPage(view: ApprovalView): ApprovalAnswer {
  const until = new Date(view.expiresAt * 1000).toISOString()
  const rows = [
    ['Operation', view.operation],
    ['With', view.parameters],
    ...(view.requester === undefined ? [] : [['Asked for by', view.requester]]),
    ['Task', view.taskId],
    ['Until', until],
    ...(view.leadsTo === undefined ? [] : [['Approving leads to', view.leadsTo]]),
  ]
  const table = rows
    .map(([name = '', value = '']) => `<dt>${name}</dt><dd><code>${shown(value)}</code></dd>`)
    .join('\n')
  const form = `<form method="post">
<input type="hidden" name="form" value="${shown(view.formToken)}">
<button name="decision" value="approve">Approve once</button>
<button name="decision" value="deny">Deny</button>
</form>`
  return html(200, 'An agent asks for your approval', `<p>${shown(view.summary)}</p>\n<dl>\n${table}\n</dl>\n${form}`)
}

/**
 * Nothing is loaded, framed, cached or told to other sites. Not `no-referrer`: it would make browsers send `Origin: null`
 * with the form. `form-action` covers redirects too, so the authorization server has to be in it.
 */
const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' https: http://127.0.0.1:* http://localhost:*",
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
}

function page(
  status: number,
  title: string,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): ApprovalAnswer {
  return html(status, title, `<p>${text}</p>`, headers)
}

function html(
  status: number,
  title: string,
  content: string,
  headers: Readonly<Record<string, string>> = {},
): ApprovalAnswer {
  const body = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>${title}</title>
<h1>${title}</h1>
${content}
</html>
`
  return { status, headers: { ...HEADERS, ...headers }, body }
}

/**
 * For text and attributes. Characters that are not seen, or turn the order of others around, are written out: what is
 * read has to be what is approved.
 */
function shown(text: string): string {
  return text
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${(character.codePointAt(0) as number).toString(16)}}`)
    .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
