/** Real Redis servers on loopback: random ports, a folder each, ended by process id. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'

export interface RedisServer {
  readonly port: number
  readonly folder: string
  /** SIGSTOP and SIGCONT. */
  pause(): void
  resume(): void
  kill(): Promise<void>
  /** The same port and folder; `empty`: without the data. */
  restart(how?: 'empty'): Promise<void>
  close(): Promise<void>
}

/** A port nobody listens on. A Cluster also uses the one 10 000 above. */
export async function freePort(): Promise<number> {
  const port = 20_000 + Math.floor(Math.random() * 30_000)
  const isFree = (candidate: number) =>
    new Promise<boolean>((resolve) => {
      const server = createServer()
      server.once('error', () => resolve(false))
      server.listen(candidate, '127.0.0.1', () => server.close(() => resolve(true)))
    })
  return (await isFree(port)) && (await isFree(port + 10_000)) ? port : freePort()
}

/** `args` as on the command line of redis-server. */
export async function startRedis(args: readonly string[] = [], port?: number): Promise<RedisServer> {
  const chosen = port ?? (await freePort())
  const folder = mkdtempSync(join(tmpdir(), 'a2a-trust-redis-'))
  let child: ChildProcess | undefined
  let gone: Promise<void> = Promise.resolve()

  async function start(): Promise<void> {
    const common = ['--port', String(chosen), '--bind', '127.0.0.1', '--dir', folder, '--daemonize', 'no']
    const mine = spawn('redis-server', [...common, '--save', '', '--appendonly', 'no', ...args], { stdio: 'pipe' })
    child = mine
    let output = ''
    mine.stdout.on('data', (data) => {
      output = (output + data).slice(-2000)
    })
    gone = new Promise((resolve) => mine.once('close', () => resolve()))
    await Promise.race([
      until(() => answers(chosen)),
      gone.then(() => {
        throw new Error(`redis-server ended: ${output}`)
      }),
    ])
  }
  const kill = async () => {
    // A stopped process does not hear anything else.
    child?.kill('SIGKILL')
    await gone
  }
  await start()
  return {
    port: chosen,
    folder,
    pause: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    kill,
    async restart(how) {
      await kill()
      if (how === 'empty') rmSync(join(folder, 'dump.rdb'), { force: true })
      await start()
    },
    async close() {
      await kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A client as docs/stores.md says. */
export function clientOf(port: number, options: object = {}): Redis {
  const client = new Redis({ port, host: '127.0.0.1', ...clientOptions, ...options })
  client.on('error', () => {})
  return client
}

export const clientOptions = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 1000,
  socketTimeout: 2000,
  retryStrategy: (times: number) => Math.min(50 * times, 500) * (0.5 + Math.random() / 2),
}

async function answers(port: number): Promise<boolean> {
  const client = new Redis({ port, host: '127.0.0.1', lazyConnect: true, retryStrategy: () => null })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.ping()) === 'PONG'
  } catch {
    return false
  } finally {
    client.disconnect()
  }
}

/** Asks again until it is so. */
export async function until(isSo: () => boolean | Promise<boolean>, timeoutMs = 20_000): Promise<void> {
  const start = Date.now()
  while (!(await isSo())) {
    if (Date.now() - start > timeoutMs) throw new Error(`not so after ${timeoutMs} ms: ${isSo}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Moves the time of servers: what has an end comes `ms` nearer to it. */
export async function elapse(servers: readonly Redis[], ms: number): Promise<void> {
  for (const server of servers) {
    for (const key of await server.keys('*')) {
      const left = await server.pttl(key)
      if (left > ms) await server.pexpire(key, left - ms)
      else if (left >= 0) await server.del(key)
    }
  }
}
