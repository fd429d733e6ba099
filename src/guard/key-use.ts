/** Which API keys are in use: seldom enough to be stored, often enough to find the keys that nobody uses. */
import type { DecisionEvent, PrincipalPart } from '../types.ts'

/** One report of a key in this time. */
const INTERVAL_MS = 3_600_000

/** The keys among `parts` that were not reported within the last hour. It remembers as many keys as are configured. */
export type KeyUseReport = (parts: ReadonlyMap<string, PrincipalPart>, nowMs: number) => KeysUsed

type KeysUsed = NonNullable<DecisionEvent['keysUsed']>

export function createKeyUseReport(): KeyUseReport {
  const reportedMs = new Map<string, number>()
  return (parts, nowMs) => {
    const used: KeysUsed[number][] = []
    for (const { kind, scheme, credential } of parts.values()) {
      if (kind !== 'apiKey' || credential.keyId === undefined) continue
      const key = JSON.stringify([scheme, credential.keyId])
      const before = reportedMs.get(key)
      if (before !== undefined && nowMs - before < INTERVAL_MS && nowMs >= before) continue
      reportedMs.set(key, nowMs)
      used.push({ scheme, keyId: credential.keyId })
    }
    return used
  }
}
