/**
 * The caller's client behind one door: every command has a deadline, none waits in a queue for a server that is away, and a
 * server that has stopped answering is asked by one probe at a time and not by every request.
 */
import type { Cluster, Redis } from 'ioredis'
import { type ErrorDetails, TrustError } from '../../errors.ts'
import type { Script } from './script.ts'

export type RedisClient = Redis | Cluster

export interface ConnectionOptions {
  readonly client: RedisClient
  readonly commandTimeoutMs: number
  /** How many replicas must hold a write before it counts. */
  readonly replicas: number
}

export interface Connection {
  readonly isCluster: boolean
  /**
   * Runs a script on keys of one group, in one round trip, and once more where the server does not know it. Rejects with
   * `ERR_STORE_UNAVAILABLE` for whatever is no answer, in time.
   */
  run(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
  /** As `run`, and the answer counts only if it was written to as many replicas as the options say. */
  write(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
  /** Another number means: another server may answer than before, or the same one after a restart. */
  generation(): number
  /** Calls `listener` when there is a connection again. */
  onConnected(listener: () => void): void
  /** Why there is no answer to be had now; `undefined`: nothing known against it. */
  trouble(): string | undefined
  close(): void
}

/** Commands without an answer at once. Past it a request is refused, as it would be for a server that is away. */
const MAX_IN_FLIGHT = 10_000
/** Commands in one batch of `write`. */
const MAX_BATCH = 500

interface Waiting {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
  readonly resolve: (answer: unknown) => void
  readonly reject: (fault: unknown) => void
}

type Answer = [fault: Error | null, answer: unknown]

/** What is known of the server of one group of keys. */
interface Lane {
  silent: boolean
  batching: boolean
  readonly queue: Waiting[]
}

export function createConnection({ client, commandTimeoutMs, replicas }: ConnectionOptions): Connection {
  const isCluster = client.isCluster
  const lanes = new Map<string, Lane>()
  const listeners: (() => void)[] = []
  let generation = 0
  let inFlight = 0
  let closed = false
  let wasReady = client.status === 'ready'
  let lastFault: string | undefined

  const changed = () => {
    generation += 1
  }
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  const connected = () => {
    wasReady = true
    lastFault = undefined
    begin()
    for (const listener of listeners) listener()
  }
  // What goes wrong with the client is seen in the commands; without a listener it would end the process.
  const ignored = () => {}
  const changes = isCluster ? ['+node', '-node', 'close'] : ['close']
  for (const event of changes) client.on(event, changed)
  client.on('ready', connected)
  client.on('error', ignored)
  if (client.status === 'wait') client.connect().catch(ignored)

  const laneOf = (key: string): Lane => {
    const group = key.slice(0, key.indexOf('}') + 1)
    const known = lanes.get(group)
    if (known !== undefined) return known
    const lane: Lane = { silent: false, batching: false, queue: [] }
    lanes.set(group, lane)
    return lane
  }

  /** Asks until there is an answer, of whatever kind, one question each time the deadline passes. */
  async function probe(lane: Lane, key: string): Promise<void> {
    while (!closed) {
      const answered = await within(client.exists(key)).then(
        () => true,
        (fault: unknown) => fault !== LATE,
      )
      if (answered) break
    }
    lane.silent = false
  }

  /** Rejects with LATE once the time is up; what comes later is nobody's. */
  function within<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(LATE), commandTimeoutMs)
      answer.then(resolve, reject).finally(() => clearTimeout(timer))
    })
  }

  function unavailable(reason: string, details: ErrorDetails = {}): TrustError {
    lastFault = reason
    return new TrustError('ERR_STORE_UNAVAILABLE', { details: { store: 'redis', reason, ...details } })
  }

  /** What is known to get no answer is not asked. */
  async function ask<T>(key: string, send: () => Promise<T>): Promise<T> {
    if (closed) throw unavailable('closed')
    if (client.status !== 'ready') {
      // The first connection may take its time; one that was lost is not waited for.
      if (wasReady || client.status === 'end') throw unavailable('not connected')
      await within(begun).catch(() => {
        throw unavailable('not connected')
      })
    }
    const lane = laneOf(key)
    if (lane.silent) throw unavailable('no answer in time')
    if (inFlight >= MAX_IN_FLIGHT) throw unavailable('too many commands wait for an answer')
    inFlight += 1
    try {
      const answer = await within(send())
      lastFault = undefined
      return answer
    } catch (fault) {
      if (fault !== LATE) throw unavailable(wordsOf(fault))
      if (!lane.silent) {
        lane.silent = true
        void probe(lane, key)
      }
      throw unavailable('no answer in time')
    } finally {
      inFlight -= 1
    }
  }

  const evaluate = async ({ sha1, lua }: Script, keys: readonly string[], args: readonly (string | number)[]) => {
    try {
      return await client.evalsha(sha1, keys.length, ...keys, ...args)
    } catch (fault) {
      if (!isUnknownScript(fault)) throw fault
      return client.eval(lua, keys.length, ...keys, ...args)
    }
  }

  const run: Connection['run'] = (script, keys, args) => ask(keys[0] as string, () => evaluate(script, keys, args))

  /**
   * WAIT holds the connection until the replicas have what was written before it, so all that is asked for meanwhile goes
   * into the next batch: one WAIT for many.
   */
  async function flush(lane: Lane): Promise<void> {
    lane.batching = true
    while (lane.queue.length > 0) {
      const batch = lane.queue.splice(0, MAX_BATCH)
      const [first] = batch as [Waiting]
      try {
        const answers = await ask(first.keys[0] as string, () => replicated(batch))
        answers.forEach(([fault, answer], index) => {
          const { resolve, reject } = batch[index] as Waiting
          if (fault === null) resolve(answer)
          else reject(unavailable(wordsOf(fault)))
        })
      } catch (fault) {
        for (const { reject } of batch) reject(fault)
      }
    }
    lane.batching = false
  }

  async function replicated(batch: readonly Waiting[]): Promise<Answer[]> {
    const answers = await send(batch)
    const unheard = answers.flatMap(([fault], index) => (isUnknownScript(fault) || isMoved(fault) ? [index] : []))
    if (unheard.length === 0) return answers
    const left = unheard.map((index) => batch[index] as Waiting)
    const [{ keys }] = left as [Waiting]
    // A single command follows a redirection, which a pipeline of writes does not.
    await client.exists(keys[0] as string)
    const load = client.pipeline().exists(keys[0] as string)
    for (const lua of new Set(left.map(({ script }) => script.lua))) load.call('script', 'load', lua)
    await load.exec()
    const again = await send(left)
    unheard.forEach((index, position) => {
      answers[index] = again[position] as Answer
    })
    return answers
  }

  async function send(batch: readonly Waiting[]): Promise<Answer[]> {
    const pipeline = client.pipeline()
    for (const { script, keys, args } of batch) pipeline.evalsha(script.sha1, keys.length, ...keys, ...args)
    pipeline.call('wait', replicas, Math.ceil(commandTimeoutMs / 2))
    const answers: Answer[] = (await pipeline.exec()) ?? []
    const [fault, acknowledged] = answers.pop() ?? NO_ANSWER
    if (answers.length < batch.length) throw NO_ANSWER[0]
    // Without a write that was taken there is nothing to wait for.
    if (answers.every(([failed]) => failed !== null)) return answers
    if (fault !== null || Number(acknowledged) < replicas)
      throw new Error(`fewer than ${replicas} replicas have the write`)
    return answers
  }

  return {
    isCluster,
    run,
    write(script, keys, args) {
      if (replicas === 0) return run(script, keys, args)
      return new Promise((resolve, reject) => {
        const lane = laneOf(keys[0] as string)
        if (inFlight + lane.queue.length >= MAX_IN_FLIGHT)
          return reject(unavailable('too many commands wait for an answer'))
        lane.queue.push({ script, keys, args, resolve, reject })
        if (!lane.batching) void flush(lane)
      })
    },
    generation: () => generation,
    onConnected(listener) {
      listeners.push(listener)
    },
    trouble() {
      if (closed) return 'closed'
      if (client.status !== 'ready') return 'not connected'
      for (const { silent } of lanes.values()) if (silent) return 'no answer in time'
      return lastFault
    },
    close() {
      closed = true
      for (const event of changes) client.off(event, changed)
      client.off('ready', connected)
    },
  }
}

const LATE = new Error('no answer in time')
const NO_ANSWER: Answer = [new Error('no answer'), undefined]

/** The first words: an error of the client also holds the command with its arguments, which nobody has to read. */
function wordsOf(fault: unknown): string {
  return fault instanceof Error ? fault.message.replace(/\s+/g, ' ').slice(0, 80) : 'fault'
}

function isUnknownScript(fault: unknown): boolean {
  return fault instanceof Error && fault.message.startsWith('NOSCRIPT')
}

function isMoved(fault: unknown): boolean {
  return fault instanceof Error && /^(?:MOVED|ASK|TRYAGAIN) /.test(fault.message)
}
