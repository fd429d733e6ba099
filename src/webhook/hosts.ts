/** How much one receiver is asked to bear: attempts at once, a rate, and none for a while after many failures. */
import { LRUCache } from 'lru-cache'

export interface HostLimits {
  /** Attempts under way at once. */
  readonly concurrency: number
  /** Attempts in a second, and that many at once after a pause. */
  readonly perSecond: number
  /** Failures in a row that open the circuit. */
  readonly failures: number
  /** How long it stays open; then one attempt tells whether it closes. */
  readonly openMs: number
}

interface Host {
  active: number
  tokens: number
  refilledMs: number
  failures: number
  openUntilMs: number
  readonly waiting: Set<string>
}

const MAX_HOSTS = 10_000
/** Who waits for a busy host is called; this is for a call that never comes. */
const BUSY_MS = 60_000

export interface Hosts {
  /** 0 and the host is taken until `release`, or the milliseconds to wait, at most: `waiter` may be called sooner. */
  take(host: string, waiter: string, nowMs: number): number
  /** Returns who has waited longest. */
  release(host: string, outcome: 'ok' | 'failed' | 'neither', nowMs: number): string | undefined
  readonly open: number
}

export function createHosts({ concurrency, perSecond, failures, openMs }: HostLimits): Hosts {
  const hosts = new LRUCache<string, Host>({ max: MAX_HOSTS })
  const fresh = (nowMs: number): Host => ({
    active: 0,
    tokens: perSecond,
    refilledMs: nowMs,
    failures: 0,
    openUntilMs: 0,
    waiting: new Set(),
  })

  return {
    take(name, waiter, nowMs) {
      const host = hosts.get(name) ?? fresh(nowMs)
      hosts.set(name, host)
      // A clock set back must not keep anybody waiting for longer than one such time.
      const wait = Math.min(host.openUntilMs - nowMs, openMs)
      if (wait > 0) return wait
      if (host.active >= (host.failures >= failures ? 1 : concurrency)) {
        host.waiting.add(waiter)
        return BUSY_MS
      }
      const elapsed = Math.max(0, nowMs - host.refilledMs)
      host.tokens = Math.min(perSecond, host.tokens + (elapsed * perSecond) / 1000)
      host.refilledMs = nowMs
      if (host.tokens < 1) return Math.ceil(((1 - host.tokens) * 1000) / perSecond)
      host.tokens -= 1
      host.active += 1
      return 0
    },
    release(name, outcome, nowMs) {
      const host = hosts.get(name)
      if (host === undefined) return undefined
      host.active = Math.max(0, host.active - 1)
      if (outcome !== 'neither') {
        host.failures = outcome === 'ok' ? 0 : host.failures + 1
        host.openUntilMs = host.failures >= failures ? nowMs + openMs : 0
      }
      const [next] = host.waiting
      if (next !== undefined) host.waiting.delete(next)
      return next
    },
    get open() {
      return [...hosts.values()].filter((host) => host.failures >= failures).length
    },
  }
}
