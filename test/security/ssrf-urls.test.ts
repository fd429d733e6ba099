/**
 * Every URL of the collection through `check`, and every denied one through the real dispatcher as well, with listeners
 * on loopback that must see no connection.
 */
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createEgress, type EgressOptions, isPublicAddress } from '../../src/egress/index.ts'
import { TrustError } from '../../src/errors.ts'

interface UrlCase {
  readonly id: string
  readonly url?: string
  readonly urlTemplate?: {
    readonly prefix: string
    readonly repeat: string
    readonly times: number
    readonly suffix?: string
  }
  readonly expect: 'allow' | 'deny' | 'either'
  readonly reason: string
  readonly resolves?: string[]
  readonly resolvesSequence?: string[][]
}
interface File {
  readonly policy: {
    schemes: string[]
    ports: number[]
    userinfo: boolean
    requireHttps: boolean
    maxUrlLength: number
    singleLabelNames: boolean
    deniedSuffixes: string[]
  }
  readonly cases: UrlCase[]
}
const file = JSON.parse(readFileSync(new URL('../vectors/ssrf/urls.json', import.meta.url), 'utf8')) as File
const { schemes, ports, userinfo, requireHttps, maxUrlLength, singleLabelNames, deniedSuffixes } = file.policy
const policy: EgressOptions = {
  schemes,
  ports,
  userinfo,
  requireHttps,
  maxUrlLength,
  singleLabelNames,
  deniedSuffixes,
  timeoutMs: 2000,
}

function urlOf({ url, urlTemplate }: UrlCase): string {
  return url ?? `${urlTemplate?.prefix}${urlTemplate?.repeat.repeat(urlTemplate.times)}${urlTemplate?.suffix ?? ''}`
}

/** Each lookup takes the next list of a sequence; the last one stays. */
function resolverOf({ resolves, resolvesSequence }: UrlCase) {
  const answers = resolvesSequence ?? [resolves ?? []]
  let lookups = 0
  return async () => answers[Math.min(lookups++, answers.length - 1)] as string[]
}

/** Stands for a public host; on this machine, and none of the listeners that must stay silent. */
const FRIEND = '127.0.0.2'

let connections = 0
const sentinels: Server[] = []
/** Where a low port is not ours to have, there is one listener less: what must not be reached then refuses. */
async function listen(server: Server, port: number, host: string): Promise<void> {
  const listening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, host, () => resolve(true))
  })
  if (listening) sentinels.push(server)
}
beforeAll(async () => {
  for (const port of ports) {
    for (const host of ['127.0.0.1', '::1']) {
      const server = createServer((socket) => {
        connections += 1
        socket.destroy()
      })
      await listen(server, port, host)
    }
  }
  const friend = createHttpServer((_, response) => response.end('friend'))
  await listen(friend, 80, FRIEND)
  // Without listeners "no connection" would prove nothing.
  expect(sentinels.length).toBeGreaterThan(1)
})
afterAll(async () => {
  for (const server of sentinels) await new Promise((resolve) => server.close(resolve))
})

describe('ssrf URLs', () => {
  it('has all of them', () => expect(file.cases).toHaveLength(286))

  it.each(file.cases)('$id: $expect ($reason)', async (one) => {
    const egress = createEgress({ ...policy, resolver: resolverOf(one) })
    try {
      const verdict = await egress.check(urlOf(one))
      if (one.expect === 'allow') expect(verdict).toMatchObject({ verdict: 'allow', reason: 'allowed' })
      // A name that turns private later passes the first question; the connection is what must not happen.
      if (one.expect === 'deny' && one.resolvesSequence === undefined) expect(verdict.verdict).toBe('deny')
      if (one.expect !== 'deny') return
      // A public answer leads out of this machine, so here it is a listener of ours that may be reached.
      const local = one.resolvesSequence?.map((list) =>
        list.map((address) => (isPublicAddress(address) ? FRIEND : address)),
      )
      const resolver = local === undefined ? resolverOf(one) : resolverOf({ ...one, resolvesSequence: local })
      let code: string | undefined
      for (let round = 0; round < (local?.length ?? 1); round += 1) {
        // A pool of its own each time: a kept connection would stay with the address that was checked.
        const fresh = createEgress({ ...policy, resolver, allowAddresses: [FRIEND] })
        const fault: unknown = await fresh.fetch(urlOf(one)).catch((reason: unknown) => reason)
        code = fault instanceof TrustError ? fault.code : undefined
        await fresh.close()
      }
      expect(code).toMatch(/^ERR_EGRESS_(?!FAILED|TIMEOUT)/)
      expect(connections).toBe(0)
    } finally {
      await egress.close()
    }
  })
})
