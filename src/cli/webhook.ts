/** `webhook sign|verify|send|listen`: an integration, tried by hand with the code that runs in production. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { createEgress } from '../egress/index.ts'
import {
  createWebhookVerifier,
  signWebhook,
  type WebhookHeaders,
  type WebhookResult,
  type WebhookVerifier,
  type WebhookVerifierOptions,
} from '../webhook/index.ts'
import { exit, fail, type Io, readBytes } from './io.ts'
import { clockAt } from './time.ts'

const MAX_BODY_BYTES = 16 * 1024 * 1024

/** `webhook sign --secret REF… [--id ID] [--at TIME] [--json] FILE|-`: the headers for these bytes. */
export async function webhookSignCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { ...SECRET, id: { type: 'string' }, at: { type: 'string' }, json: { type: 'boolean' } },
  })
  const [file] = positionals
  if (file === undefined || positionals.length > 1 || values.secret === undefined) {
    fail(io, 'webhook sign needs --secret env:NAME|file:PATH and one FILE (or -)')
    return exit.usage
  }
  const headers = await signed(values, await bytesOf(file, io))
  io.stdout.write(values.json === true ? `${JSON.stringify(headers)}\n` : headerLines(headers))
  return exit.ok
}

/** `webhook verify --secret REF… --header 'NAME: VALUE'… [--task ID] [--payload any] [--at TIME] [--json] FILE|-`. */
export async function webhookVerifyCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      ...EXPECTED,
      header: { type: 'string', multiple: true },
      at: { type: 'string' },
      json: { type: 'boolean' },
    },
  })
  const [file] = positionals
  if (file === undefined || positionals.length > 1 || values.secret === undefined || values.header === undefined) {
    fail(
      io,
      "webhook verify needs --secret env:NAME|file:PATH, --header 'NAME: VALUE' for each header, and one FILE (or -)",
    )
    return exit.usage
  }
  const headers = values.header.flatMap((line) => {
    const colon = line.indexOf(':')
    if (colon < 1) throw new TypeError('"--header" must be NAME: VALUE')
    return [line.slice(0, colon), line.slice(colon + 1).trim()]
  })
  const verifier = await verifierOf(values)
  const result = await verifier.verify({ headers, body: await bytesOf(file, io) })
  io.stdout.write(values.json === true ? `${JSON.stringify(verdictOf(result))}\n` : `${textOf(result)}\n`)
  return result.ok ? exit.ok : exit.denied
}

/** `webhook send URL --secret REF… [--token T] [--allow-http] [--allow-address CIDR]… [--port N]… [--json] FILE|-`. */
export async function webhookSendCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      ...SECRET,
      id: { type: 'string' },
      token: { type: 'string' },
      'allow-http': { type: 'boolean', default: false },
      'allow-address': { type: 'string', multiple: true, default: [] },
      port: { type: 'string', multiple: true, default: [] },
      json: { type: 'boolean' },
    },
  })
  const [url, file] = positionals
  if (url === undefined || file === undefined || positionals.length > 2 || values.secret === undefined) {
    fail(io, 'webhook send needs URL, --secret env:NAME|file:PATH and one FILE (or -)')
    return exit.usage
  }
  const { token, port } = values
  const egress = createEgress({
    requireHttps: !values['allow-http'],
    allowAddresses: values['allow-address'],
    ...(port.length === 0 ? {} : { ports: port.map(Number) }),
  })
  try {
    const body = await bytesOf(file, io)
    const headers: Record<string, string> = {
      'content-type': 'application/a2a+json',
      'a2a-version': '1.0',
      ...(await signed(values, body)),
      ...(token === undefined ? {} : { 'x-a2a-notification-token': token }),
    }
    const response = await egress.fetch(url, { method: 'POST', headers, body: new Uint8Array(body), redirect: 'error' })
    await response.body?.cancel().catch(() => undefined)
    const { status, ok } = response
    io.stdout.write(values.json === true ? `${JSON.stringify({ id: headers['webhook-id'], status })}\n` : `${status}\n`)
    return ok ? exit.ok : exit.denied
  } finally {
    await egress.close()
  }
}

/** `webhook listen --secret REF… [--port N] [--task ID] [--payload any] [--count N] [--json]`: on loopback, until ended. */
export async function webhookListenCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      ...EXPECTED,
      port: { type: 'string', default: '0' },
      count: { type: 'string' },
      json: { type: 'boolean' },
    },
  })
  const [port, count] = [
    Number(values.port),
    values.count === undefined ? Number.POSITIVE_INFINITY : Number(values.count),
  ]
  if (positionals.length > 0 || values.secret === undefined || !Number.isInteger(port) || !(count >= 1)) {
    fail(io, 'webhook listen needs --secret env:NAME|file:PATH; --port and --count are numbers')
    return exit.usage
  }
  const verifier = await verifierOf(values)
  let arrived = 0
  const done = new AbortController()
  const server = createServer((req, res) => {
    void (async () => {
      const result = await verifier.verify({ headers: req.rawHeaders, body: await bodyOf(req, verifier.maxBodyBytes) })
      res.writeHead(result.ok ? 204 : result.status, { connection: 'close' }).end(result.ok ? undefined : result.answer)
      const verdict = { at: new Date().toISOString(), ...verdictOf(result) }
      io.stdout.write(values.json === true ? `${JSON.stringify(verdict)}\n` : `${verdict.at} ${textOf(result)}\n`)
      arrived += 1
      if (arrived >= count) done.abort()
    })().catch(() => res.destroy())
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  io.stderr.write(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`)
  const ended = new Promise<void>((resolve) => {
    done.signal.addEventListener('abort', () => resolve())
    process.once('SIGINT', resolve)
    process.once('SIGTERM', resolve)
  })
  await ended
  server.close()
  return exit.ok
}

const SECRET = { secret: { type: 'string', multiple: true } } as const
const EXPECTED = { ...SECRET, task: { type: 'string' }, payload: { type: 'string' } } as const

interface ExpectedValues {
  readonly secret?: string[] | undefined
  readonly task?: string | undefined
  readonly payload?: string | undefined
  readonly at?: string | undefined
}

async function verifierOf({ secret = [], task, payload, at }: ExpectedValues): Promise<WebhookVerifier> {
  return createWebhookVerifier({
    secrets: await Promise.all(secret.map(secretOf)),
    clock: clockAt(at),
    maxBodyBytes: MAX_BODY_BYTES,
    ...(task === undefined ? {} : { expectTask: task }),
    ...(payload === undefined ? {} : { payload: payload as NonNullable<WebhookVerifierOptions['payload']> }),
  })
}

async function signed(
  { secret = [], id, at }: { readonly secret?: string[]; readonly id?: string; readonly at?: string },
  body: Buffer,
): Promise<WebhookHeaders> {
  const timestampSeconds = Math.floor(clockAt(at)() / 1000)
  const secrets = await Promise.all(secret.map(secretOf))
  return signWebhook({ secret: secrets, id: id ?? `msg_${randomUUID()}`, timestampSeconds, body })
}

/** Never the secret itself: arguments can be read by every process of the machine. */
async function secretOf(reference: string): Promise<string> {
  const [, kind, where = ''] = /^(env|file):(.+)$/.exec(reference) ?? []
  if (kind === undefined) throw new TypeError('"--secret" must be env:NAME or file:PATH, never the secret itself')
  const text = kind === 'env' ? process.env[where] : await readFile(where, 'utf8')
  if (text === undefined) throw new TypeError(`the environment variable ${where} is not set`)
  return text.replace(/\r?\n$/, '')
}

async function bytesOf(file: string, io: Io): Promise<Buffer> {
  return file === '-' ? readBytes(io, MAX_BODY_BYTES) : readFile(file)
}

async function bodyOf(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk as Buffer)
    bytes += (chunk as Buffer).length
    if (bytes > maxBytes) break
  }
  return Buffer.concat(chunks)
}

function verdictOf(result: WebhookResult) {
  if (!result.ok) return { verdict: 'invalid', reason: result.reason, detail: result.detail }
  const { id, timestampSeconds, event } = result
  const { kind, version, taskId, contextId } = event ?? {}
  return {
    verdict: 'valid',
    id,
    timestampSeconds,
    ...(event === undefined ? {} : { kind, version, taskId, contextId }),
  }
}

function textOf(result: WebhookResult): string {
  if (!result.ok) return `invalid ${result.reason}: ${result.detail}`
  const { id, event } = result
  return `valid ${id}${event === undefined ? '' : ` ${event.kind} of task ${event.taskId ?? 'none'} (A2A ${event.version})`}`
}

function headerLines(headers: WebhookHeaders): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\n`)
    .join('')
}
