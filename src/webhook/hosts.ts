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
/** Who waits for a busy host is called; this is for a call that another process has taken. */
const BUSY_MS = 5000

export interface Hosts {
  /** 0 and the host is taken until `release`, or the milliseconds to wait, at most: `waiter` may be called sooner. */
  take(host: string, waiter: string, nowMs: number): number
  /** Returns who is to be called: those that have waited longest, as many as there is room for. */
  release(host: string, outcome: 'ok' | 'failed' | 'neither', nowMs: number): readonly string[]
  /** Whoever was called and has nothing to send leaves, and the call goes to the next. */
  leave(waiter: string): readonly string[]
  readonly open: number
}

export function createHosts({ concurrency, perSecond, failures, openMs }: HostLimits): Hosts {
  const hosts = new LRUCache<string, Host>({ max: MAX_HOSTS })
  const waitsFor = new Map<string, string>()
  const fresh = (nowMs: number): Host => ({
    active: 0,
    tokens: perSecond,
    refilledMs: nowMs,
    failures: 0,
    openUntilMs: 0,
    waiting: new Set(),
  })
  const roomOf = (host: Host) => (host.failures >= failures ? 1 : concurrency) - host.active

  function callNext(host: Host): readonly string[] {
    const called = [...host.waiting].slice(0, Math.max(0, roomOf(host)))
    for (const waiter of called) host.waiting.delete(waiter)
    return called
  }

  return {
    take(name, waiter, nowMs) {
      const host = hosts.get(name) ?? fresh(nowMs)
      hosts.set(name, host)
      // A clock set back must not keep anybody waiting for longer than one such time.
      const wait = Math.min(host.openUntilMs - nowMs, openMs)
      if (wait > 0) return wait
      if (roomOf(host) <= 0) {
        host.waiting.add(waiter)
        waitsFor.set(waiter, name)
        return BUSY_MS
      }
      const elapsed = Math.max(0, nowMs - host.refilledMs)
      host.tokens = Math.min(perSecond, host.tokens + (elapsed * perSecond) / 1000)
      host.refilledMs = nowMs
      if (host.tokens < 1) return Math.ceil(((1 - host.tokens) * 1000) / perSecond)
      host.tokens -= 1
      host.active += 1
      host.waiting.delete(waiter)
      waitsFor.delete(waiter)
      return 0
    },
    release(name, outcome, nowMs) {
      const host = hosts.get(name)
      if (host === undefined) return []
      host.active = Math.max(0, host.active - 1)
      if (outcome !== 'neither') {
        host.failures = outcome === 'ok' ? 0 : host.failures + 1
        host.openUntilMs = host.failures >= failures ? nowMs + openMs : 0
      }
      return callNext(host)
    },
    leave(waiter) {
      const host = hosts.get(waitsFor.get(waiter) ?? '')
      waitsFor.delete(waiter)
      if (host === undefined) return []
      host.waiting.delete(waiter)
      return callNext(host)
    },
    get open() {
      return [...hosts.values()].filter((host) => host.failures >= failures).length
    },
  }
}
