export function assertKnownOptions(call: string, options: object, known: readonly string[]): void {
  for (const name of Object.keys(options))
    if (!known.includes(name)) throw new TypeError(`"${name}" is not an option of ${call}`)
}
