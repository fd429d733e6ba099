/** An event of the agent, as the bytes that are sent for it. */
import { type SdkSerializers, sdkSerializers } from './a2a-sdk.ts'
import { webhookEvent } from './event.ts'

export interface Serialized {
  readonly body: string
  readonly contentType: string
  /** Nothing follows: the task has ended. */
  readonly final: boolean
}

/** One event in both of its forms; each version is written once, whatever the number of configs. */
export interface SerializedEvent {
  as(version: string): Serialized
}

const FINAL = /^(?:TASK_STATE_)?(?:completed|failed|canceled|cancelled|rejected)$/i

/** The task an event belongs to, read without serialising it; '' for a message that belongs to none. */
export function taskIdOf(event: unknown): string {
  const { payload, ...rest } = event as { payload?: { $case?: unknown; value?: unknown } }
  const [kind, value] = payload === undefined ? (Object.entries(rest)[0] ?? []) : [payload.$case, payload.value]
  const { id, taskId } = (value ?? {}) as { id?: unknown; taskId?: unknown }
  const found = kind === 'task' ? id : taskId
  return typeof found === 'string' ? found : ''
}

/** Takes the SDK's `StreamResponse`, or its JSON form. */
export async function serializeEvent(event: unknown, task: unknown): Promise<SerializedEvent> {
  if (Object.hasOwn(event as object, 'payload')) return bySdk(await sdkSerializers(), event, task)
  const json = serialized(JSON.stringify(event), 'application/a2a+json')
  return { as: () => json }
}

function bySdk(serializers: SdkSerializers, event: unknown, task: unknown): SerializedEvent {
  const written = new Map<string, Serialized>()
  return {
    as(version) {
      const known = Object.hasOwn(serializers, version) ? (version as keyof SdkSerializers) : '1.0'
      const before = written.get(known)
      if (before !== undefined) return before
      const { body, contentType } = serializers[known].serialize(event as never, task as never)
      const result = serialized(body, contentType)
      written.set(known, result)
      return result
    },
  }
}

function serialized(body: string, contentType: string): Serialized {
  return { body, contentType, final: isFinal(JSON.parse(body)) }
}

function isFinal(body: unknown): boolean {
  const event = webhookEvent(body)
  const { status, final } = (event?.value ?? {}) as { status?: { state?: unknown }; final?: unknown }
  return final === true || event?.kind === 'message' || (typeof status?.state === 'string' && FINAL.test(status.state))
}
