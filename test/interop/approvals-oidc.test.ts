/** An approval that is an authorization code of a real authorization server, traded by a real client. */
import { allowInsecureRequests, authorizationCodeGrant, discovery } from 'openid-client'
import { afterEach, expect, it } from 'vitest'
import { webApprovals } from '../../src/adapters/web.ts'
import { createApprovals } from '../../src/delegation/index.ts'
import {
  CLIENT_ID,
  CLIENT_SECRET,
  REDIRECT_URI,
  startOidcProvider,
  type TestOidcProvider,
} from '../support/oidc-provider.ts'

const RESOURCE = 'https://calendar.example'
let provider: TestOidcProvider
afterEach(() => provider.close())

/** A browser that follows the provider until it is sent back. */
async function logIn(start: string): Promise<string> {
  const cookies = new Map<string, string>()
  for (let url = start; ; ) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      cookies.set(name, value)
    }
    url = new URL(response.headers.get('location') as string, url).href
    if (url.startsWith(REDIRECT_URI)) return url
  }
}

it('A92 state, PKCE and iss of a real provider; the code is worth nothing to another, nor twice', async () => {
  provider = await startOidcProvider({ resources: { [RESOURCE]: 'opaque' } })
  const config = await discovery(
    new URL(provider.issuer),
    CLIENT_ID,
    { id_token_signed_response_alg: 'ES256', client_secret: CLIENT_SECRET },
    undefined,
    { execute: [allowInsecureRequests] },
  )
  const { authorization_endpoint: endpoint, authorization_response_iss_parameter_supported: named } =
    config.serverMetadata()
  expect(named).toBe(true)
  const approvals = createApprovals({ url: REDIRECT_URI.slice(0, -'/callback'.length) })
  let codeSeen = ''
  const { url, granted } = await approvals.request({
    taskId: 't-1',
    operation: 'calendar.read',
    parameters: {},
    summary: 'Read your calendar',
    actor: 'bob',
    authorizationCode: {
      issuer: provider.issuer,
      authorizationEndpoint: endpoint as string,
      clientId: CLIENT_ID,
      scope: 'openid agent:read',
      resource: RESOURCE,
      obtain: async ({ callbackUrl, code, codeVerifier: pkceCodeVerifier, expectedState }) => {
        codeSeen = code
        return authorizationCodeGrant(config, callbackUrl, { pkceCodeVerifier, expectedState })
      },
    },
  })
  const handle = webApprovals(approvals, { login: (request) => ({ id: request.headers.get('x-user') ?? '' }) })
  const bob = { 'x-user': 'bob', 'content-type': 'application/x-www-form-urlencoded' }
  const page = await (await handle(new Request(url, { headers: bob }))).text()
  const form = /name="form" value="([^"]*)"/.exec(page)?.[1] ?? ''
  expect(page).toContain(provider.issuer)
  const pressed = await handle(
    new Request(url, { method: 'POST', headers: bob, body: new URLSearchParams({ form, decision: 'approve' }) }),
  )
  const back = await logIn(pressed.headers.get('location') as string)
  expect((await handle(new Request(back, { headers: { 'x-user': 'mallory' } }))).status).toBe(404)
  expect((await handle(new Request(back, { headers: bob }))).status).toBe(200)
  const { credential } = (await granted).use('calendar.read', {})
  expect(credential).toMatchObject({ access_token: expect.any(String) as string, token_type: 'bearer' })
  expect((await handle(new Request(back, { headers: bob }))).status).toBe(404)
  await expect(
    provider.token({ grant_type: 'authorization_code', code: codeSeen, redirect_uri: REDIRECT_URI }),
  ).rejects.toThrow(/invalid_grant/)
})
