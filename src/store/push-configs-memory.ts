/** Push notification configs in memory: one process, bounded. */
import { TrustError } from '../errors.ts'
import type { Clock } from '../types.ts'
import type { PushConfigRecord, PushConfigStore } from './stores.ts'

export interface MemoryPushConfigStoreOptions {
  readonly clock?: Clock
  /** Configs at once. Default 10 000. */
  readonly maxConfigs?: number
  /** A config ends this long after it was last registered: a task that nobody finishes must not keep it. Default 30 days. */
  readonly keepSeconds?: number
}

interface Entry {
  readonly record: PushConfigRecord
  readonly endsMs: number
}

/** Throws `ERR_STORE_UNAVAILABLE` when full of configs that have not ended. */
export function createMemoryPushConfigStore({
  clock = Date.now,
  maxConfigs = 10_000,
  keepSeconds = 30 * 86_400,
}: MemoryPushConfigStoreOptions = {}): PushConfigStore & { list(taskId: string): readonly PushConfigRecord[] } {
  const byTask = new Map<string, Entry[]>()
  const owners = new Map<string, number>()
  const hosts = new Map<string, number>()
  let size = 0

  function count({ owner, url }: PushConfigRecord, by: 1 | -1): void {
    size += by
    for (const [counts, key] of [
      [owners, owner],
      [hosts, hostOf(url)],
    ] as const) {
      const next = (counts.get(key) ?? 0) + by
      if (next === 0) counts.delete(key)
      else counts.set(key, next)
    }
  }

  function keep(taskId: string, entries: readonly Entry[], stays: (entry: Entry) => boolean): void {
    const kept = entries.filter(stays)
    for (const entry of entries) if (!kept.includes(entry)) count(entry.record, -1)
    if (kept.length === 0) byTask.delete(taskId)
    else byTask.set(taskId, kept)
  }

  function sweep(): void {
    const nowMs = clock()
    for (const [taskId, entries] of byTask) keep(taskId, entries, ({ endsMs }) => endsMs > nowMs)
  }

  const entriesOf = (taskId: string): readonly Entry[] => {
    const entries = byTask.get(taskId) ?? []
    if (entries.some(({ endsMs }) => endsMs <= clock())) keep(taskId, entries, ({ endsMs }) => endsMs > clock())
    return byTask.get(taskId) ?? []
  }

  return {
    put(record, { perTask, perOwner, perHost }) {
      const { taskId, owner, id, url } = record
      const entries = entriesOf(taskId)
      const before = entries.find(({ record: known }) => known.owner === owner && known.id === id)?.record
      if (before === undefined && size >= maxConfigs) {
        sweep()
        if (size >= maxConfigs) throw new TrustError('ERR_STORE_UNAVAILABLE', { details: { maxConfigs } })
      }
      const grows = before === undefined
      if (grows && (entries.length >= perTask || (owners.get(owner) ?? 0) >= perOwner)) return 'full'
      const sameHost = before !== undefined && hostOf(before.url) === hostOf(url)
      if (!sameHost && (hosts.get(hostOf(url)) ?? 0) >= perHost) return 'full'
      const entry = { record: Object.freeze({ ...record }), endsMs: clock() + keepSeconds * 1000 }
      if (before !== undefined) count(before, -1)
      count(record, 1)
      byTask.set(
        taskId,
        grows ? [...entries, entry] : entries.map((known) => (known.record === before ? entry : known)),
      )
      return 'stored'
    },
    list: (taskId) => entriesOf(taskId).map(({ record }) => record),
    delete(taskId, owner, id) {
      keep(taskId, entriesOf(taskId), ({ record }) => record.owner !== owner || record.id !== id)
    },
  }
}

function hostOf(url: string): string {
  return new URL(url).host
}
