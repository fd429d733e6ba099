/** Work that must not run twice at once, and must not pile up. */
export interface Turns {
  /** Settles as the run that began after this call. All who ask while one runs share the next. */
  run(): Promise<void>
  /** When all that was asked for has ended, well or badly. */
  ended(): Promise<void>
}

export function inTurns(work: () => Promise<void>): Turns {
  let last: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  return {
    run() {
      if (next === undefined) {
        next = last.then(() => {
          next = undefined
          return work()
        })
        last = next.catch(() => undefined)
      }
      return next
    },
    ended: () => last,
  }
}
