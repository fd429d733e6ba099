/** What the schemes see of a request: headers, query, and who is at the other end of the connection. */
import { headerView } from '../internal/headers.ts'
import type { RequestUrls } from '../protocol/request-urls.ts'
import type { CredentialSource } from '../schemes/scheme.ts'
import type { RequestHead } from '../types.ts'

export function credentialSource(head: RequestHead, requestUrls: RequestUrls): CredentialSource {
  const { method, rawHeaders, target, peer = {} } = head
  const start = target.indexOf('?')
  const query = start === -1 ? '' : target.slice(start + 1)
  return { headers: headerView(rawHeaders), query, method, target, urls: () => requestUrls(head), ...peer }
}
