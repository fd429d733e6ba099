/** `a2a-trust demo`: provider, agent and client on loopback; every outcome is checked, not only shown. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Io } from '../io.ts'
import { startProvider } from './provider.ts'
import { attempts } from './requests.ts'
import { type DemoServer, startServer } from './server.ts'

/** Exit code: 0 when every outcome was as expected, 1 otherwise. */
export async function runDemo(options: { readonly serve: boolean }, io: Io): Promise<number> {
  const provider = await startProvider()
  const partnerKey = randomBytes(24).toString('base64url')
  const server = await startServer(provider, partnerKey)
  try {
    const wrong = await runAttempts(server, attempts(server.baseUrl, provider, partnerKey), io)
    if (options.serve && wrong === 0) {
      io.stdout.write(curlLines(server, partnerKey, await provider.token('reader', server.baseUrl, 'a2a:read')))
      await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
    }
    return wrong === 0 ? 0 : 1
  } finally {
    await server.close()
    await provider.close()
  }
}

async function runAttempts(server: DemoServer, list: ReturnType<typeof attempts>, io: Io): Promise<number> {
  const rows = [['', 'request', 'status', 'reason', 'agent ran']]
  let wrong = 0
  for (const { what, status, code, runs, send } of list) {
    const runsBefore = server.executor.runs
    const eventsBefore = server.events.length
    const got = await send()
    const ran = server.executor.runs > runsBefore
    const event = server.events
      .slice(eventsBefore)
      .findLast((candidate) => candidate.operation !== 'GetExtendedAgentCard')
    const ok = got === status && event?.code === code && ran === runs
    if (!ok) wrong += 1
    rows.push([
      ok ? 'ok' : 'WRONG',
      what,
      ok || got === status ? `${got}` : `${got}, not ${status}`,
      event?.code ?? (event === undefined ? 'public' : 'allowed'),
      ran ? 'yes' : 'no',
    ])
  }
  io.stdout.write(table(rows))
  io.stdout.write(`\n${list.length - wrong} of ${list.length} outcomes as expected\n`)
  return wrong
}

function table(rows: readonly string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)))
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}

function curlLines({ baseUrl, policyFile }: DemoServer, key: string, token: string): string {
  const message = `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}],"metadata":{"skillId":"echo"}}}`
  const call = (credential: string) =>
    `curl -i ${baseUrl}/rest/message:send -H 'A2A-Version: 1.0' -H 'content-type: application/json' ${credential} -d '${message}'`
  return `
The policy in force: ${policyFile}
Try it (ctrl-c ends):

curl -s ${baseUrl}/.well-known/agent-card.json
${call('')}
${call(`-H 'X-API-Key: ${key}'`)}
${call(`-H 'Authorization: Bearer ${token}'`)}
`
}
