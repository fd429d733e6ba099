/**
 * Every chain of redirects of the collection, over TLS as it stands and over plain http as well, where it is the next
 * URL itself that decides and not the step from https to http.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { createAuthority } from '../support/server-certificate.ts'

interface Chain {
  readonly id: string
  readonly chain: readonly string[]
  readonly status: number
  readonly expect: 'allow' | 'deny' | 'either'
}
const file = JSON.parse(readFileSync(new URL('../vectors/ssrf/urls.json', import.meta.url), 'utf8')) as {
  readonly policy: { readonly maxHops: number; readonly deniedSuffixes: readonly string[] }
  readonly redirects: readonly Chain[]
}
/** Stands for the public hosts of the chains. */
const FRIEND = '127.0.0.2'
const hosts = { 'example.com': [FRIEND], 'api.example.com': [FRIEND], 'priv.example.com': ['10.0.0.1'] }

const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-redirects-'))
const ca = join(folder, 'ca.pem')
const authority = createAuthority()
writeFileSync(ca, authority.certificate)
const certificate = authority.issue('example.com', 'api.example.com')
const servers: Server[] = []
afterAll(async () => {
  for (const server of servers) await new Promise((resolve) => server.close(resolve))
  rmSync(folder, { recursive: true })
})

interface Run {
  readonly one: Chain
  readonly port: number
  /** Hops as they are asked for, with the port of this run. */
  readonly chain: readonly string[]
  /** Request targets that arrived. */
  readonly seen: string[]
  intruders: number
}

function loops({ chain }: Run): boolean {
  return chain.length > 1 && chain[0] === chain.at(-1)
}

/** Written by hand, because a proper server does not let a line break into a header. */
function answer(socket: Socket, run: Run, request: string): void {
  run.seen.push(request.split(' ')[1] as string)
  // A chain that comes back to its start goes on for ever.
  const next = run.chain[loops(run) ? ((run.seen.length - 1) % (run.chain.length - 1)) + 1 : run.seen.length]
  const head = next === undefined ? '200 OK' : `${run.one.status} Found\r\nlocation: ${next}`
  socket.end(`HTTP/1.1 ${head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`)
}

async function start(one: Chain, secure: boolean): Promise<Run> {
  let run: Run
  const serve = (socket: Socket) =>
    socket.on('error', () => undefined).once('data', (bytes) => answer(socket, run, String(bytes)))
  const server: Server = secure ? createTlsServer(certificate, serve) : createServer(serve)
  await new Promise<void>((resolve) => server.listen(0, FRIEND, resolve))
  const { port } = server.address() as AddressInfo
  const inside = createServer((socket) => {
    run.intruders += 1
    socket.destroy()
  })
  const taken = await new Promise<boolean>((resolve) => {
    inside.once('error', () => resolve(true)).listen(port, '127.0.0.1', () => resolve(false))
  })
  servers.push(server)
  if (taken) return start(one, secure) // by somebody else on this machine: another port, then
  servers.push(inside)
  const chain = one.chain.map((hop) =>
    hop.replace(/^(https?):(\/\/[^/]*)/, (_, scheme, rest) => `${secure ? scheme : 'http'}:${rest}:${port}`),
  )
  run = { one, port, chain, seen: [], intruders: 0 }
  return run
}

/** In a process of its own, which trusts the authority from its start. */
async function outcomesOf(runs: readonly Run[]): Promise<{ status?: number; code?: string }[]> {
  const instructions = {
    options: {
      requireHttps: false,
      ports: [80, 443, ...runs.map(({ port }) => port)],
      deniedSuffixes: file.policy.deniedSuffixes,
      redirects: file.policy.maxHops,
      allowAddresses: [FRIEND],
      timeoutMs: 5000,
    },
    hosts,
    calls: runs.map(({ chain }) => [chain[0]]),
  }
  const script = join(import.meta.dirname, '../support/egress-client.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(instructions)], {
    env: { ...process.env, NODE_EXTRA_CA_CERTS: ca },
  })
  return JSON.parse(stdout)
}

describe('ssrf redirects', () => {
  it('has all of them', () => expect(file.redirects).toHaveLength(15))

  it.each([true, false])('P146 P157 every chain ends as the collection says (TLS: %s)', async (secure) => {
    // From http to http there is nothing to step down from.
    const chains = file.redirects.filter(({ id }) => secure || id !== 'redirect/downgrade')
    const runs: Run[] = []
    for (const one of chains) runs.push(await start(one, secure))
    const outcomes = await outcomesOf(runs)
    const failed = runs.flatMap((run, index) => {
      const { status, code = '' } = outcomes[index] ?? {}
      const refused = /^ERR_EGRESS_(?!FAILED|TIMEOUT)/.test(code)
      const served = status === 200 && run.seen.length === run.chain.length
      const right =
        run.one.expect === 'allow' ? served : run.one.expect === 'deny' ? refused : served || code.startsWith('ERR_')
      // Of a hop that is refused nothing is asked, and of none after the last that may be followed.
      const most = run.one.expect === 'deny' && !loops(run) ? run.chain.length - 1 : file.policy.maxHops + 1
      const bounded = run.seen.length <= Math.min(most, file.policy.maxHops + 1)
      return right && bounded && run.intruders === 0 ? [] : [{ id: run.one.id, status, code, seen: run.seen }]
    })
    expect(failed).toEqual([])
    expect(outcomes).toHaveLength(chains.length)
  })
})
