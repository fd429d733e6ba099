/** Rejects when `work` has not ended in time; what it does then is its own affair. */
export function within<T>(work: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('no answer in time')), ms)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
