/** What a push notification says: one StreamResponse (A2A §4.3.3), or what a v0.3 agent sends. */

export type WebhookEventKind = 'task' | 'message' | 'statusUpdate' | 'artifactUpdate'

export interface WebhookEvent {
  readonly kind: WebhookEventKind
  /** `0.3` for a body that is the object itself, told by its `kind`. */
  readonly version: '1.0' | '0.3'
  /** Absent only for a message that belongs to no task. */
  readonly taskId?: string
  readonly contextId?: string
  /** The object as sent, in the shape of its version. Its members beyond the two ids are not checked. */
  readonly value: Readonly<Record<string, unknown>>
}

const KINDS: readonly WebhookEventKind[] = ['task', 'message', 'statusUpdate', 'artifactUpdate']
const KINDS_0_3: Readonly<Record<string, WebhookEventKind>> = {
  task: 'task',
  message: 'message',
  'status-update': 'statusUpdate',
  'artifact-update': 'artifactUpdate',
}

/** `undefined` for everything that is not exactly one event. */
export function webhookEvent(body: unknown): WebhookEvent | undefined {
  if (!isObject(body)) return undefined
  const old = typeof body.kind === 'string' && Object.hasOwn(KINDS_0_3, body.kind) ? KINDS_0_3[body.kind] : undefined
  if (old !== undefined) return eventOf('0.3', old, body)
  const members = Object.keys(body)
  const kind = KINDS.find((name) => name === members[0])
  return kind === undefined || members.length !== 1 ? undefined : eventOf('1.0', kind, body[kind])
}

function eventOf(version: '1.0' | '0.3', kind: WebhookEventKind, value: unknown): WebhookEvent | undefined {
  if (!isObject(value)) return undefined
  const taskId = value[kind === 'task' ? 'id' : 'taskId']
  const { contextId } = value
  if (!isId(taskId) && !(kind === 'message' && isUnset(taskId))) return undefined
  if (!isId(contextId) && !isUnset(contextId)) return undefined
  return Object.freeze({
    kind,
    version,
    ...(isId(taskId) ? { taskId } : {}),
    ...(isId(contextId) ? { contextId } : {}),
    value,
  })
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** In proto3 JSON an empty string is an absent one. */
function isUnset(value: unknown): boolean {
  return value === undefined || value === ''
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
