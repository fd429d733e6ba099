/** Options of the public calls: one that is not known is refused, since what was meant by it would stay off unseen. */
import { didYouMean } from './suggest.ts'

/** Throws `TypeError` quoting the option of `call`, and the one that may have been meant. */
export function assertKnownOptions<T extends object>(
  call: string,
  options: T,
  known: readonly (keyof T & string)[],
): void {
  const given: unknown = options
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new TypeError(`the options of ${call} must be an object`)
  const names: readonly string[] = known
  for (const name of Object.keys(options))
    if (!names.includes(name)) throw new TypeError(`"${name}" is not an option of ${call}${didYouMean(name, names)}`)
}
