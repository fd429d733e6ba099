/** What `createGuard` takes, checked before anything is opened. */
import { assertKnownOptions } from '../internal/options.ts'
import type { Stores } from '../store/stores.ts'
import type { Clock, DecisionEvent, Logger } from '../types.ts'
import type { LoadOptions } from './load.ts'

export interface GuardOptions extends LoadOptions {
  /** Path of the policy file, or the parsed policy. */
  readonly policy: string | object
  /** Where relative paths of a policy given as an object start. Default: the working directory. */
  readonly baseDir?: string
  /** Wall clock in milliseconds. Default: `Date.now`. */
  readonly clock?: Clock
  /** Replaces the guarded fetch. What it may reach is then the caller's responsibility. */
  readonly fetch?: typeof globalThis.fetch
  /** Where `env:NAME` references look. Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Called once for each decision. What it throws is logged and changes nothing. */
  readonly onDecision?: (event: DecisionEvent) => void
  /** What several processes share. Default: in memory, bounded, one process. A reload keeps them. */
  readonly stores?: Partial<Stores>
}

const OPTIONS = [
  'policy',
  'baseDir',
  'clock',
  'fetch',
  'env',
  'logger',
  'onDecision',
  'schemes',
  'stores',
  'extendedCard',
] satisfies (keyof GuardOptions)[]

const LEVELS = ['debug', 'info', 'warn', 'error'] satisfies (keyof Logger)[]

/** What a store must be able to do. */
const METHODS: { readonly [Name in keyof Stores]: readonly (keyof Stores[Name])[] } = {
  replay: ['claim'],
  revocation: ['add', 'revokes'],
  ownership: ['find', 'claim', 'forget'],
}

/** Throws `TypeError` quoting the option. `policy`, `baseDir` and `env` are checked where the policy is loaded, `schemes` where it has been. */
export function checkGuardOptions(options: GuardOptions): void {
  assertKnownOptions('createGuard', options, OPTIONS)
  for (const name of ['clock', 'fetch', 'onDecision'] as const)
    if (options[name] !== undefined && typeof options[name] !== 'function')
      throw new TypeError(`"${name}" must be a function`)
  if (options.logger !== undefined) assertMethods('logger', options.logger, LEVELS)
  const { extendedCard } = options
  if (extendedCard !== undefined) {
    assertKnownOptions('"extendedCard"', extendedCard, ['card', 'keys'])
    const { card, keys } = extendedCard
    if (card !== undefined && typeof card !== 'function') throw new TypeError('"extendedCard.card" must be a function')
    if (keys !== undefined && !Array.isArray(keys)) throw new TypeError('"extendedCard.keys" must be a list')
  }
  if (options.stores === undefined) return
  assertKnownOptions('"stores"', options.stores, Object.keys(METHODS) as (keyof Stores)[])
  for (const [name, store] of Object.entries(givenStores(options)))
    assertMethods(`stores.${name}`, store, METHODS[name as keyof Stores])
}

/** One that is there and `undefined` is not given. */
export function givenStores({ stores = {} }: GuardOptions): Partial<Stores> {
  return Object.fromEntries(Object.entries(stores).filter(([, store]) => (store as unknown) !== undefined))
}

function assertMethods(name: string, object: object, methods: readonly string[]): void {
  const isObject = typeof object === 'object' && (object as unknown) !== null
  if (!isObject || methods.some((method) => typeof (object as Record<string, unknown>)[method] !== 'function'))
    throw new TypeError(
      `"${name}" must be an object with the method${methods.length > 1 ? 's' : ''} ${methods.join(', ')}`,
    )
}
