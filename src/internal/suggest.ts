/** "Did you mean": the nearest known word, where one is near enough to be what was meant. */

/** The word of `known` closest to `word`, or `undefined` when none is close. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const target = normal(word)
  let best: string | undefined
  // A third of a word may be wrong; in a short word one letter.
  let bestDistance = Math.min(3, Math.max(1, Math.floor(target.length / 3))) + 1
  for (const candidate of known) {
    const distance = editDistance(target, normal(candidate), bestDistance)
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best ?? (target.length < 3 ? undefined : [...known].find((candidate) => normal(candidate).startsWith(target)))
}

/** `; did you mean "x"?`, or nothing. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const found = nearest(word, [...known])
  return found === undefined ? '' : `; did you mean "${found}"?`
}

function normal(word: string): string {
  return word
    .slice(0, 64)
    .toLowerCase()
    .replaceAll(/[_\s-]/g, '')
}

/** Edits (insert, delete, replace, swap of neighbours) between two words; stops counting at `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, beforeLast[j - 2]! + 1)
      row.push(cost)
    }
    beforeLast = last
    last = row
  }
  return last[b.length]!
}
