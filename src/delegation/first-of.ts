/** The first answer that is one. */
export function firstOf<T, R>(items: Iterable<T>, judge: (item: T) => R | undefined): R | undefined {
  for (const item of items) {
    const found = judge(item)
    if (found !== undefined) return found
  }
  return undefined
}
