/** Bounded work: so much at a time, so many waiting, and no more. */

export interface WorkQueue {
  /** `undefined` when too many wait already: nothing was started and nothing will be. */
  run<T>(work: () => Promise<T>): Promise<T> | undefined
}

export function createWorkQueue({ atOnce, waiting }: { atOnce: number; waiting: number }): WorkQueue {
  let running = 0
  const queue: (() => void)[] = []
  const next = (): void => {
    running -= 1
    queue.shift()?.()
  }
  return {
    run(work) {
      if (running >= atOnce && queue.length >= waiting) return undefined
      return new Promise((resolve) => {
        const start = (): void => {
          running += 1
          resolve(work().finally(next))
        }
        if (running < atOnce) start()
        else queue.push(start)
      })
    },
  }
}
