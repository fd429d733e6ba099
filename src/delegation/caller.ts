/** On whose behalf the running code works. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { OperationName, Principal } from '../types.ts'

export interface Caller {
  /** Absent for an anonymous caller. */
  readonly principal?: Principal
  readonly operation?: OperationName
  /** The skill that is running, where it is known. */
  readonly skill?: string
}

const callers = new AsyncLocalStorage<Caller>()

/** The caller of the request that the running code belongs to; `undefined` outside of any. */
export function currentCaller(): Caller | undefined {
  return callers.getStore()
}

/** Runs `fn` on behalf of `caller`, with everything it starts. */
export function withCaller<T>(caller: Caller, fn: () => T): T {
  return callers.run(caller, fn)
}

/** Runs `fn`, whose requests to `origin` may carry the caller's credential: the exchange of a token at its issuer. */
export function withPermittedOrigin<T>(_origin: string, fn: () => T): T {
  return fn()
}
