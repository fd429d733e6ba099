/** Requests and answers for tests of schemes. */
import { headerView } from '../../src/internal/headers.ts'
import type { CredentialSource, SchemeContext } from '../../src/schemes/scheme.ts'
import { createMemoryReplayStore } from '../../src/store/replay-memory.ts'
import { createMemoryRevocationStore } from '../../src/store/revocation-memory.ts'

/** URL of the requests these tests make. */
export const REQUEST_URL = 'https://agent.test/a2a'

export function credentials(rawHeaders: readonly string[], query = ''): CredentialSource {
  const target = query === '' ? '/' : `/?${query}`
  return { headers: headerView(rawHeaders), query, method: 'POST', target, urls: () => [REQUEST_URL] }
}

export function bearer(token: string): CredentialSource {
  return credentials(['Authorization', `Bearer ${token}`])
}

export function jsonResponse(value: unknown, status = 200): Response {
  return new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json' } })
}

export interface TestContext extends SchemeContext {
  /** Milliseconds; set it to move time. */
  now: number
  /** URLs asked for, in order. */
  readonly requests: string[]
}

/** A context whose clock stands still and whose network is `answer`; by default there is none. */
export function testContext(
  now: number,
  answer: (url: string) => Response | Promise<Response> = () => {
    throw new Error('no network in this test')
  },
): TestContext {
  const context: TestContext = {
    now,
    requests: [],
    custom: new Map(),
    stores: {
      replay: createMemoryReplayStore({ clock: () => context.now }),
      revocation: createMemoryRevocationStore({ clock: () => context.now }),
    },
    clock: () => context.now,
    fetch: async (input) => {
      context.requests.push(String(input))
      return answer(String(input))
    },
  }
  return context
}
