/**
 * Promise 3, over the whole suite: no credential that any test presents to a guard, and no secret with the mark, comes out
 * in a denial, a decision event, a log line, an error of this package or on the console. Runs in front of every test file.
 */
import { afterAll, expect, vi } from 'vitest'
import type { GuardOptions } from '../../src/guard.ts'
import { createLeakWatch } from './leak-watch.ts'

export const watch = createLeakWatch()

const LEVELS = ['debug', 'info', 'warn', 'error'] as const

function isWatchable(options: GuardOptions | null | undefined): options is GuardOptions {
  const { onDecision, logger } = options ?? {}
  const isLogger = logger === undefined || LEVELS.every((level) => typeof logger?.[level] === 'function')
  return options instanceof Object && isLogger && (onDecision === undefined || typeof onDecision === 'function')
}

vi.mock('../../src/guard/credential-source.ts', async (original) => {
  const actual = await original<typeof import('../../src/guard/credential-source.ts')>()
  const credentialSource: typeof actual.credentialSource = (request, ...rest) => {
    const start = request.target.indexOf('?')
    watch.presented(request.rawHeaders, start === -1 ? '' : request.target.slice(start + 1))
    return actual.credentialSource(request, ...rest)
  }
  return { ...actual, credentialSource }
})

vi.mock('../../src/protocol/denial.ts', async (original) => {
  const actual = await original<typeof import('../../src/protocol/denial.ts')>()
  const renderDenial: typeof actual.renderDenial = (input) => {
    const denial = actual.renderDenial(input)
    watch.said('denial', denial)
    return denial
  }
  return { ...actual, renderDenial }
})

vi.mock('../../src/guard.ts', async (original) => {
  const actual = await original<typeof import('../../src/guard.ts')>()
  const createGuard: typeof actual.createGuard = (options) => {
    // What is no option is for the guard to refuse.
    if (!isWatchable(options)) return actual.createGuard(options)
    const { onDecision, logger } = options
    return actual.createGuard({
      ...options,
      onDecision: (event) => {
        watch.said('event', { ...event, time: '', durationMs: 0 })
        return onDecision?.(event)
      },
      ...(logger === undefined
        ? {}
        : {
            logger: Object.fromEntries(
              LEVELS.map((level) => [
                level,
                (fields: object, message: string) => {
                  watch.said(`log ${level}`, { ...fields, durationMs: 0, message })
                  logger[level](fields, message)
                },
              ]),
            ) as unknown as typeof logger,
          }),
    })
  }
  return { ...actual, createGuard }
})

// Every error of this package marks itself, whichever copy of the class makes it. What it holds is looked at when whoever
// threw it has had time to complete it.
const BRAND = Symbol.for('a2a-trust.TrustError')
const { defineProperty } = Object
Object.defineProperty = (target, key, descriptor) => {
  if (key === BRAND) queueMicrotask(() => watch.said('error', target))
  return defineProperty(target, key, descriptor)
}

for (const level of ['log', 'info', 'warn', 'error', 'debug'] as const) {
  const write = console[level].bind(console)
  console[level] = (...said: unknown[]) => {
    for (const one of said) watch.said(`console.${level}`, one)
    write(...said)
  }
}

afterAll(() => expect(watch.leaks, 'secrets that came out').toEqual([]))
