/** An authorization server and another agent that are nothing but a fetch: for what a real one cannot be made to say. */
export interface Recorded {
  readonly url: string
  readonly method: string
  readonly headers: Headers
  readonly body: string
  readonly redirect: string | undefined
}

export interface FakeNetwork {
  readonly fetch: typeof globalThis.fetch
  /** Every request, in order. */
  readonly requests: Recorded[]
  /** Forms that the token endpoint got. */
  forms(grant?: string): URLSearchParams[]
  /** What other agents got. */
  calls(): Recorded[]
  /** Over a good answer of the token endpoint; a `Response` is the answer. */
  answer: (form: URLSearchParams, count: number) => Record<string, unknown> | Response
  agent: (request: Recorded, count: number) => Response | Promise<Response>
}

export const TOKEN_ENDPOINT = 'https://issuer.example/token'
export const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

export function fakeNetwork(): FakeNetwork {
  const requests: Recorded[] = []
  let count = 0
  const network: FakeNetwork = {
    requests,
    answer: () => ({}),
    agent: () => Response.json({ ok: true }),
    forms: (grant) =>
      requests
        .filter(({ url }) => url === TOKEN_ENDPOINT)
        .map(({ body }) => new URLSearchParams(body))
        .filter((form) => grant === undefined || form.get('grant_type') === grant),
    calls: () => requests.filter(({ url }) => url !== TOKEN_ENDPOINT),
    async fetch(input, init = {}) {
      const body = init.body === undefined || init.body === null ? '' : await new Response(init.body).text()
      const recorded: Recorded = {
        url: String(input),
        method: init.method ?? 'GET',
        headers: new Headers(init.headers),
        body,
        redirect: init.redirect,
      }
      requests.push(recorded)
      count += 1
      if (recorded.url !== TOKEN_ENDPOINT) return network.agent(recorded, network.calls().length)
      const form = new URLSearchParams(body)
      const given = network.answer(form, count)
      if (given instanceof Response) return given
      const exchanged = form.get('grant_type') === EXCHANGE
      const members: Record<string, unknown> = {
        access_token: `${exchanged ? 'exchanged' : 'own'}-${count}`,
        token_type: 'Bearer',
        expires_in: 300,
        ...(exchanged ? { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' } : {}),
        ...given,
      }
      return Response.json(members)
    },
  }
  return network
}
