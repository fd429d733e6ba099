/** What the schemes see of a request: headers, query, and who is at the other end, behind the proxies that are trusted. */
import { headerView } from '../internal/headers.ts'
import type { CredentialSource } from '../schemes/scheme.ts'
import type { RequestHead } from '../types.ts'
import type { Loaded } from './load.ts'
import type { Caller } from './proxies.ts'

export type RequestSource = CredentialSource & Caller

export function credentialSource(
  head: RequestHead,
  { proxies, requestUrls }: Pick<Loaded, 'proxies' | 'requestUrls'>,
): RequestSource {
  const { method, rawHeaders, target, peer = {} } = head
  const start = target.indexOf('?')
  const query = start === -1 ? '' : target.slice(start + 1)
  const headers = headerView(rawHeaders)
  return { headers, query, method, target, urls: () => requestUrls(head), ...proxies(headers, peer) }
}
