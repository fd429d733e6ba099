/** Remembers what waits for an approval: in memory, one process, bounded. */
import { TrustError } from '../errors.ts'
import type { Clock } from '../types.ts'
import type { ApprovalRecord, ApprovalStore, ApprovalVerdict } from './stores.ts'

export interface MemoryApprovalStoreOptions {
  readonly clock?: Clock
  /** Approvals waited for at once. Default 10 000. */
  readonly maxRecords?: number
}

export interface MemoryApprovalStore extends ApprovalStore {
  put(key: string, record: ApprovalRecord): void
  find(key: string): ApprovalRecord | undefined
  take(key: string): ApprovalRecord | undefined
  announce(key: string, verdict: ApprovalVerdict): void
  listen(key: string, heard: (verdict: ApprovalVerdict) => void): () => void
}

/**
 * Holds at most `maxRecords`. When that many are still waited for, `put` throws `ERR_STORE_UNAVAILABLE`. It forgets
 * everything when the process ends: no page of before opens then, and nothing that was waited for is approved.
 */
export function createMemoryApprovalStore({
  clock = Date.now,
  maxRecords = 10_000,
}: MemoryApprovalStoreOptions = {}): MemoryApprovalStore {
  const records = new Map<string, ApprovalRecord>()
  const listeners = new Map<string, (verdict: ApprovalVerdict) => void>()
  const isOver = ({ expiresAt }: ApprovalRecord): boolean => expiresAt * 1000 <= clock()

  function find(key: string): ApprovalRecord | undefined {
    const record = records.get(key)
    if (record === undefined || !isOver(record)) return record
    records.delete(key)
    return undefined
  }

  return {
    put(key, record) {
      if (records.size >= maxRecords) for (const [other, old] of records) if (isOver(old)) records.delete(other)
      if (records.size >= maxRecords) throw new TrustError('ERR_STORE_UNAVAILABLE', { details: { maxRecords } })
      records.set(key, record)
    },
    find,
    take(key) {
      const record = find(key)
      records.delete(key)
      return record
    },
    announce(key, verdict) {
      listeners.get(key)?.(verdict)
    },
    listen(key, heard) {
      listeners.set(key, heard)
      return () => listeners.delete(key)
    },
  }
}
