/** The queue in memory: one lane for each task and config. What is in it ends with the process. */
import type { DeliveryQueue, DeliveryWork, QueuedDelivery, QueueLimits } from './queue.ts'

interface Lane {
  readonly items: QueuedDelivery[]
  running: AbortController | undefined
  timer: NodeJS.Timeout | undefined
  /** Called while its attempt was ending: the wait that it asks for is over. */
  called: boolean
}

export function createMemoryQueue({ concurrency, maxQueued, maxBytes, maxPerLane }: QueueLimits): DeliveryQueue {
  const lanes = new Map<string, Lane>()
  let work: DeliveryWork | undefined
  const ready: string[] = []
  const idle = new Set<() => void>()
  let queued = 0
  let bytes = 0
  let running = 0
  let closed = false

  function take(lane: Lane, index: number): QueuedDelivery | undefined {
    const [item] = lane.items.splice(index, 1)
    if (item === undefined) return undefined
    queued -= 1
    bytes -= sizeOf(item)
    return item
  }

  function drop(lane: Lane, index: number): void {
    const item = take(lane, index)
    if (item !== undefined) work?.dropped(item)
  }

  function clear(lane: Lane): void {
    while (lane.items.length > 0) drop(lane, lane.items.length - 1)
  }

  function pump(): void {
    while (running < concurrency) {
      const key = ready.shift()
      if (key === undefined) return
      const lane = lanes.get(key)
      if (lane !== undefined) void run(lane, key)
    }
  }

  async function run(lane: Lane, key: string): Promise<void> {
    const item = lane.items[0] as QueuedDelivery
    running += 1
    lane.running = new AbortController()
    lane.called = false
    const step = await (work as DeliveryWork).attempt(item, lane.running.signal)
    lane.running = undefined
    running -= 1
    if (step.next !== 'wait' && lane.items[0] === item) take(lane, 0)
    if (step.next === 'clear') clear(lane)
    if (lane.items.length === 0) {
      lanes.delete(key)
      if (lanes.size === 0) for (const resolve of idle) resolve()
    } else if (step.next === 'wait' && !closed) {
      lane.timer = setTimeout(() => wake(key), lane.called ? 0 : step.delayMs)
    } else ready.push(key)
    pump()
  }

  function wake(key: string): void {
    const lane = lanes.get(key)
    if (lane?.running !== undefined) lane.called = true
    if (lane?.timer === undefined) return
    clearTimeout(lane.timer)
    lane.timer = undefined
    ready.push(key)
    pump()
  }

  return {
    durable: false,
    start(given) {
      work = given
    },
    push(item) {
      const key = item.lane
      const lane = lanes.get(key) ?? { items: [], running: undefined, timer: undefined, called: false }
      // What is under way stays; of the rest the oldest that does not end the task makes room.
      const isFull = () => lane.items.length >= maxPerLane || queued >= maxQueued || bytes + sizeOf(item) > maxBytes
      if (sizeOf(item) > maxBytes) return work?.dropped(item)
      for (;;) {
        const oldest = lane.items.findIndex(({ final }, index) => !final && (index > 0 || lane.running === undefined))
        if (oldest === -1 || !isFull()) break
        drop(lane, oldest)
      }
      // The end of a task may take as much room again.
      const isTooMuch = queued >= 2 * maxQueued || bytes + sizeOf(item) > 2 * maxBytes
      if (closed || (isFull() && (!item.final || isTooMuch))) return work?.dropped(item)
      lane.items.push(item)
      queued += 1
      bytes += sizeOf(item)
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
        clear(lane)
        if (lane.running === undefined) lanes.delete(key)
      }
    },
  }
}

/** UTF-16 units of the body: what it takes in memory is one or two bytes each. */
function sizeOf({ message }: QueuedDelivery): number {
  return message.body.length
}
