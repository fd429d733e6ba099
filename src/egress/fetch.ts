/** The one guarded fetch: check the URL, send with the guarded dispatcher, and the same again for each redirect. */
import { type Dispatcher, fetch as undiciFetch } from 'undici'
import { TrustError } from '../errors.ts'
import { checkUrl } from './check.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { createDispatcher, denied } from './dispatcher.ts'
import type { EgressRules } from './options.ts'
import { type PlainRequest, plainRequest, REDIRECTS, redirected, withoutUserinfo } from './request.ts'
import { codedFault, limitedResponse } from './response.ts'

export interface GuardedFetch {
  readonly fetch: typeof globalThis.fetch
  close(): Promise<void>
}

export function createGuardedFetch(rules: EgressRules): GuardedFetch {
  const dispatcher = createDispatcher(rules)
  return {
    fetch: async (input, init) => {
      const request = await plainRequest(input, init)
      const deadline = startDeadline(rules.timeoutMs, originOf(request.url), request.signal)
      try {
        return await follow(rules, dispatcher, request, deadline)
      } catch (fault) {
        deadline.done()
        throw fault
      }
    },
    close: async () => dispatcher.destroy(),
  }
}

/** Scheme, host and port; a URL may carry secrets everywhere else. */
function originOf(url: string): string {
  if (!URL.canParse(url)) return 'invalid URL'
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}`
}

async function follow(
  rules: EgressRules,
  dispatcher: Dispatcher,
  first: PlainRequest,
  deadline: Deadline,
): Promise<globalThis.Response> {
  let request = first
  for (let hops = 0; ; hops += 1) {
    // A redirect never brings a user name, whatever the first URL may have.
    const verdict = checkUrl(request.url, hops === 0 ? rules : { ...rules, userinfo: false })
    const origin = originOf(request.url)
    const failure = verdict.allowed ? undefined : denied(rules, verdict.reason, origin)
    if (failure !== undefined) throw failure
    // Reported or not: what is no http has no address to judge, and `data:` would be answered without any.
    if (!/^https?:\/\//.test(origin)) throw new TrustError('ERR_EGRESS_SCHEME', { details: { origin } })
    const { url, headers } = withoutUserinfo(new URL(request.url), request.headers)
    const response = await send(dispatcher, { ...request, headers }, url, deadline)

    const location = REDIRECTS.has(response.status) ? response.headers.get('location') : null
    if (location === null || request.redirect === 'manual') {
      return limitedResponse(rules, response, url, hops > 0, deadline)
    }
    await response.body?.cancel().catch(() => undefined)
    const mayFollow = request.redirect !== 'error' && hops < rules.redirects
    const next = mayFollow ? redirected({ ...request, headers }, url, response.status, location) : undefined
    if (next === undefined) {
      throw new TrustError('ERR_EGRESS_REDIRECT', { details: { origin: url.origin, status: response.status } })
    }
    request = next
  }
}

async function send(dispatcher: Dispatcher, request: PlainRequest, url: URL, deadline: Deadline) {
  const { method, headers, body, rest } = request
  try {
    return await undiciFetch(url, {
      ...rest,
      method,
      headers: [...headers],
      body,
      signal: deadline.signal,
      redirect: 'manual',
      // After `rest`: a dispatcher of the caller's would go round every check.
      dispatcher,
      // A stream as body has to be announced to fetch.
      ...(body === null ? {} : { duplex: 'half' }),
    })
  } catch (fault) {
    throw codedFault(fault, url, deadline)
  }
}
