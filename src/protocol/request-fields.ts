/**
 * What an operation is about (task, context, configuration, tenant, declared skill), wherever its binding and version
 * put it. Every place that some server reads is read; places that disagree make the request malformed, so that the
 * answer never depends on which of them the handler prefers.
 */
import type { Binding, OperationName, ProtocolVersion } from '../types.ts'
import { isObject, type JsonObject, own } from './json-object.ts'

/** A2A extension by which a caller names a skill: a metadata member of this name whose value is the skill's id. */
export const SKILL_EXTENSION = 'urn:a2a-trust:skill:v1'

/** Where a caller may name a skill; the part of the policy's `skills` that matters here. */
export interface SkillSelection {
  readonly select?: { readonly metadata?: string; readonly extension?: boolean; readonly tenant?: boolean }
}

export interface RequestFields {
  readonly taskId?: string
  readonly contextId?: string
  readonly configId?: string
  readonly tenant?: string
  readonly declaredSkill?: string
}

/** Values seen so far; the first that contradicts, or is no text, spoils the whole. */
interface Collector {
  malformed: boolean
  readonly found: { taskId?: string; contextId?: string; configId?: string; tenant?: string; declaredSkill?: string }
  add(field: keyof RequestFields, value: unknown): void
}

function collector(): Collector {
  return {
    malformed: false,
    found: {},
    add(field, value) {
      // Absent, null and "" are one thing to protobuf.
      if (value === undefined || value === null || value === '') return
      if (typeof value !== 'string' || (this.found[field] ?? value) !== value) this.malformed = true
      else this.found[field] = value
    },
  }
}

/** An object member; absent and `null` are `undefined`, and anything else is malformed. */
function member(fields: Collector, owner: JsonObject | undefined, ...names: string[]): JsonObject | undefined {
  let found: JsonObject | undefined
  for (const name of names) {
    const value = owner === undefined ? undefined : own(owner, name)
    if (value === undefined || value === null) continue
    if (!isObject(value) || found !== undefined) fields.malformed = true
    else found = value
  }
  return found
}

/**
 * A field under its JSON name. ProtoJSON also accepts the field's original name (`task_id`), A2A §5.5 does not, and SDKs
 * differ; so the original name may repeat the value, never give it.
 */
function addMember(fields: Collector, field: keyof RequestFields, owner: JsonObject | undefined, name: string): void {
  if (owner === undefined) return
  const value = own(owner, name)
  fields.add(field, value)
  const original = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  if (original !== name && !repeats(own(owner, original), value)) fields.malformed = true
}

function repeats(value: unknown, said: unknown): boolean {
  return value === undefined || value === null || value === '' || value === said
}

export interface FieldSource {
  readonly name: OperationName
  readonly version: ProtocolVersion
  readonly binding: Binding
  /** JSON-RPC `params`, the HTTP body or the gRPC message. */
  readonly params: JsonObject | undefined
  /** What path and query say. */
  readonly target: RequestFields
}

/** `undefined`: malformed. */
export function readFields(source: FieldSource, selection: SkillSelection | undefined): RequestFields | undefined {
  const fields = collector()
  for (const [field, value] of Object.entries(source.target)) fields.add(field as keyof RequestFields, value)
  const { params } = source
  addMember(fields, 'tenant', params, 'tenant')
  const message = readOperands(fields, source)
  readDeclaredSkill(fields, selection, [message, params])
  return fields.malformed ? undefined : fields.found
}

/** Returns the message, for the operations that have one. */
function readOperands(fields: Collector, { name, version, binding, params }: FieldSource): JsonObject | undefined {
  const legacyNames = version === '0.3' && binding !== 'JSONRPC'
  switch (name) {
    case 'SendMessage':
    case 'SendStreamingMessage': {
      // a2a.proto of v0.3 calls the field `request` and its JSON name is `message`.
      const message = member(fields, params, ...(legacyNames ? ['message', 'request'] : ['message']))
      if (binding === 'HTTP+JSON' && params !== undefined && Object.hasOwn(params, 'request')) fields.malformed = true
      addMember(fields, 'taskId', message, 'taskId')
      addMember(fields, 'contextId', message, 'contextId')
      readInlineConfig(fields, params)
      return message
    }
    case 'GetTask':
    case 'CancelTask':
    case 'SubscribeToTask':
      addMember(fields, 'taskId', params, 'id')
      if (legacyNames) addName(fields, params, 'name', TASK_NAME)
      return undefined
    case 'ListTasks':
      addMember(fields, 'contextId', params, 'contextId')
      return undefined
    case 'CreateTaskPushNotificationConfig':
    case 'GetTaskPushNotificationConfig':
    case 'ListTaskPushNotificationConfigs':
    case 'DeleteTaskPushNotificationConfig':
      readConfigOperands(fields, { name, version, binding, params })
      return undefined
    case 'GetExtendedAgentCard':
      return undefined
  }
}

/** A configuration sent along with a message belongs to that message's task, whatever it says itself. */
function readInlineConfig(fields: Collector, params: JsonObject | undefined): void {
  const configuration = member(fields, params, 'configuration')
  const config = member(fields, configuration, 'taskPushNotificationConfig', 'task_push_notification_config')
  addMember(fields, 'tenant', config, 'tenant')
  if (config === undefined) return
  for (const name of ['taskId', 'task_id']) {
    if (!repeats(own(config, name), fields.found.taskId)) fields.malformed = true
  }
}

function readConfigOperands(
  fields: Collector,
  source: Pick<FieldSource, 'name' | 'version' | 'binding' | 'params'>,
): void {
  const { name, version, binding, params } = source
  if (version === '1.0') {
    addMember(fields, 'taskId', params, 'taskId')
    if (name !== 'ListTaskPushNotificationConfigs') addMember(fields, 'configId', params, 'id')
    return
  }
  if (binding === 'JSONRPC' && name !== 'CreateTaskPushNotificationConfig') {
    addMember(fields, 'taskId', params, 'id')
    addMember(fields, 'configId', params, 'pushNotificationConfigId')
    return
  }
  const config = member(fields, params, 'pushNotificationConfig', 'push_notification_config')
  addMember(fields, 'configId', config, 'id')
  if (binding === 'JSONRPC') {
    addMember(fields, 'taskId', params, 'taskId')
    return
  }
  // Resource names, in the messages of a2a.proto of v0.3 and in the HTTP bodies that SDKs make of them.
  addName(fields, params, 'parent', PARENT_NAME)
  addName(fields, params, 'name', CONFIG_NAME)
  addMember(fields, 'configId', params, 'configId')
  const nested = member(fields, params, 'config')
  addName(fields, nested, 'name', CONFIG_NAME)
  addMember(fields, 'configId', member(fields, nested, 'pushNotificationConfig', 'push_notification_config'), 'id')
}

/** `tasks/{task}` and below. */
const TASK_NAME = /^tasks\/([^/]+)$/
const PARENT_NAME = /^tasks\/([^/]+)(?:\/pushNotificationConfigs)?$/
const CONFIG_NAME = /^tasks\/([^/]+)\/pushNotificationConfigs\/([^/]+)$/

function addName(fields: Collector, owner: JsonObject | undefined, name: string, pattern: RegExp): void {
  const value = owner === undefined ? undefined : own(owner, name)
  if (value === undefined || value === null || value === '') return
  const found = typeof value === 'string' ? pattern.exec(value) : null
  if (found === null) {
    fields.malformed = true
    return
  }
  fields.add('taskId', found[1])
  fields.add('configId', found[2])
}

/** Wherever the policy looks, in message metadata and request metadata; all that name a skill must name the same. */
function readDeclaredSkill(
  fields: Collector,
  selection: SkillSelection | undefined,
  owners: readonly (JsonObject | undefined)[],
): void {
  const select = selection?.select
  if (select === undefined) return
  const keys = [
    ...(select.metadata === undefined ? [] : [select.metadata]),
    ...(select.extension ? [SKILL_EXTENSION] : []),
  ]
  for (const owner of owners) {
    const metadata = keys.length === 0 ? undefined : member(fields, owner, 'metadata')
    for (const key of keys) {
      if (metadata === undefined || !Object.hasOwn(metadata, key)) continue
      const skill = own(metadata, key)
      if (typeof skill !== 'string' || skill === '') fields.malformed = true
      else fields.add('declaredSkill', skill)
    }
  }
  if (select.tenant) fields.add('declaredSkill', fields.found.tenant)
}
