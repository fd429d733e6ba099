/**
 * The queue of a sender: one lane for each task and config, in which events keep their order and one is under way at a
 * time. Bounded in the length of lanes, in total and in what runs at once.
 */
import type { AttemptMessage } from './attempt.ts'

/** Plain data, so that a queue may keep it as JSON. */
export interface QueuedDelivery {
  readonly lane: string
  readonly message: AttemptMessage
  readonly configId: string
  /** Who registered the config; absent for a store of the SDK's. */
  readonly owner?: string
  /** Scheme, host and port of the receiver, for reports. */
  readonly origin: string
  readonly queuedMs: number
  /** Ends its task: never dropped to make room for others. */
  readonly final: boolean
  /** Attempts made so far. */
  attempts: number
}

/** What became of an attempt: `done` with the item, `wait` so many milliseconds, or `clear` the lane. */
export type QueueStep = { readonly next: 'done' | 'clear' } | { readonly next: 'wait'; readonly delayMs: number }

export interface DeliveryWork {
  /** One attempt at the first item of a lane. Never rejects. */
  attempt(item: QueuedDelivery, signal: AbortSignal): Promise<QueueStep>
  dropped(item: QueuedDelivery): void
}

export interface QueueLimits {
  readonly concurrency: number
  readonly maxQueued: number
  /** Of all bodies together, in characters. */
  readonly maxBytes: number
  readonly maxPerLane: number
}

export interface DeliveryQueue {
  /** Whether what is in it outlives the process. */
  readonly durable: boolean
  /** Called once, before anything is pushed. */
  start(work: DeliveryWork): void
  push(item: QueuedDelivery): void | Promise<void>
  /** Ends the attempt under way in a lane, and its wait; the lane goes on with its first item at once. */
  interrupt(lane: string): void
  /** Ends the wait of a lane, if it waits. */
  wake(lane: string): void
  /** `undefined` where it is not known without asking. */
  readonly queued: number | undefined
  /**
   * Ends. In memory: resolves when every lane is empty, or after `timeoutMs` with what was left dropped. Durable: when
   * what is under way has ended, or after `timeoutMs`; the rest waits for the next process.
   */
  drain(timeoutMs: number): Promise<void>
}
