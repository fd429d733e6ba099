/**
 * The queue of a sender: one lane for each task and config, in which events keep their order and one is under way at a
 * time. Bounded in lanes' length, in total and in what runs at once.
 */

export interface LaneItem {
  /** Never dropped to make room for others of its lane. */
  readonly final: boolean
}

/** What became of an attempt: `done` with the item, `wait` so many milliseconds, or `clear` the lane. */
export type LaneStep = { readonly next: 'done' | 'clear' } | { readonly next: 'wait'; readonly delayMs: number }

export interface LanesOptions<T extends LaneItem> {
  /** One attempt at the first item of a lane. Must not reject. */
  readonly attempt: (item: T, key: string, signal: AbortSignal) => Promise<LaneStep>
  readonly dropped: (item: T, key: string) => void
  readonly concurrency: number
  readonly maxQueued: number
  readonly maxPerLane: number
}

export interface Lanes<T extends LaneItem> {
  push(key: string, item: T): void
  /** Ends the attempt under way in a lane, and its wait; the lane goes on with its first item at once. */
  interrupt(key: string): void
  /** Ends the wait of a lane, if it waits. */
  wake(key: string): void
  readonly queued: number
  /** Resolves when every lane is empty, or after `timeoutMs` with what was left in them dropped. */
  drain(timeoutMs: number): Promise<void>
}

interface Lane<T> {
  readonly items: T[]
  running: AbortController | undefined
  timer: NodeJS.Timeout | undefined
}

export function createLanes<T extends LaneItem>(options: LanesOptions<T>): Lanes<T> {
  const { attempt, dropped, concurrency, maxQueued, maxPerLane } = options
  const lanes = new Map<string, Lane<T>>()
  const ready: string[] = []
  const idle = new Set<() => void>()
  let queued = 0
  let running = 0
  let closed = false

  function drop(lane: Lane<T>, key: string, index: number): void {
    const [item] = lane.items.splice(index, 1)
    if (item === undefined) return
    queued -= 1
    dropped(item, key)
  }

  function clear(lane: Lane<T>, key: string): void {
    while (lane.items.length > 0) drop(lane, key, lane.items.length - 1)
  }

  function pump(): void {
    while (running < concurrency) {
      const key = ready.shift()
      if (key === undefined) return
      const lane = lanes.get(key)
      if (lane !== undefined) void run(lane, key)
    }
  }

  async function run(lane: Lane<T>, key: string): Promise<void> {
    const item = lane.items[0] as T
    running += 1
    lane.running = new AbortController()
    const step = await attempt(item, key, lane.running.signal)
    lane.running = undefined
    running -= 1
    if (step.next !== 'wait' && lane.items[0] === item) {
      lane.items.shift()
      queued -= 1
    }
    if (step.next === 'clear') clear(lane, key)
    if (lane.items.length === 0) {
      lanes.delete(key)
      if (lanes.size === 0) for (const resolve of idle) resolve()
    } else if (step.next === 'wait' && !closed) {
      lane.timer = setTimeout(() => wake(key), step.delayMs)
    } else ready.push(key)
    pump()
  }

  function wake(key: string): void {
    const lane = lanes.get(key)
    if (lane?.timer === undefined) return
    clearTimeout(lane.timer)
    lane.timer = undefined
    ready.push(key)
    pump()
  }

  return {
    push(key, item) {
      const lane = lanes.get(key) ?? { items: [], running: undefined, timer: undefined }
      // What is under way stays; of the rest the oldest that does not end the task makes room.
      const isFull = lane.items.length >= maxPerLane || queued >= maxQueued
      const oldest = lane.items.findIndex(({ final }, index) => !final && (index > 0 || lane.running === undefined))
      if (closed || (isFull && oldest === -1 && !(item.final && queued < 2 * maxQueued))) return dropped(item, key)
      if (isFull && oldest !== -1) drop(lane, key, oldest)
      lane.items.push(item)
      queued += 1
      const isNew = !lanes.has(key)
      lanes.set(key, lane)
      if (isNew) {
        ready.push(key)
        pump()
      }
      return undefined
    },
    interrupt(key) {
      lanes.get(key)?.running?.abort()
      wake(key)
    },
    wake,
    get queued() {
      return queued
    },
    async drain(timeoutMs) {
      if (lanes.size > 0) {
        let resolve: () => void = () => undefined
        const empty = new Promise<void>((done) => {
          resolve = done
        })
        idle.add(resolve)
        const timer = setTimeout(resolve, timeoutMs)
        await empty
        clearTimeout(timer)
      }
      closed = true
      for (const [key, lane] of lanes) {
        clearTimeout(lane.timer)
        lane.running?.abort()
        clear(lane, key)
        if (lane.running === undefined) lanes.delete(key)
      }
    },
  }
}
