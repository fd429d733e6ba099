/** Times as RFC 3339 §5.6 writes them. `Date.parse` also takes texts that mean something else in every time zone. */

const RFC3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/

/** Unix milliseconds; `undefined` for anything that is no such time. */
export function parseRfc3339(text: unknown): number | undefined {
  const ms = typeof text === 'string' && RFC3339.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(ms) ? undefined : ms
}
