/** What the guard remembers between requests, and what several processes have to share. */

/** Remembers what may be used once. */
export interface ReplayStore {
  /**
   * Whether `key` is new, atomically: of any number of concurrent calls with one key exactly one is answered `true`,
   * until `ttlSeconds` have passed. Throws, or rejects, when it cannot tell (down, or full): never `true` by default.
   */
  claim(key: string, ttlSeconds: number): boolean | Promise<boolean>
}

export interface Stores {
  readonly replay: ReplayStore
}
