/** Every operation as every binding and version spells it: the rows of the contract. */
import type { Binding, OperationName, ProtocolVersion } from '../../src/types.ts'

export interface ContractRequest {
  readonly operation: OperationName
  readonly binding: Binding
  readonly version: ProtocolVersion
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: unknown
}

const message = { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hello' }], metadata: { skillId: 'echo' } }
const legacyMessage = {
  kind: 'message',
  messageId: 'm-1',
  role: 'user',
  parts: [{ kind: 'text', text: 'hello' }],
  metadata: { skillId: 'echo' },
}
const config = { taskId: 't-1', id: 'c-1', url: 'https://client.example/hook' }

/** name, JSON-RPC params 1.0, JSON-RPC method and params 0.3, HTTP 1.0, HTTP 0.3 (`null`: v0.3 has none), HTTP body. */
type Row = readonly [OperationName, object, string, object, string, string | null, unknown?]

const rows: readonly Row[] = [
  [
    'SendMessage',
    { message },
    'message/send',
    { message: legacyMessage },
    'POST /message:send',
    'POST /v1/message:send',
    { message },
  ],
  [
    'SendStreamingMessage',
    { message },
    'message/stream',
    { message: legacyMessage },
    'POST /message:stream',
    'POST /v1/message:stream',
    { message },
  ],
  ['GetTask', { id: 't-1' }, 'tasks/get', { id: 't-1' }, 'GET /tasks/t-1', 'GET /v1/tasks/t-1'],
  ['ListTasks', {}, 'tasks/list', {}, 'GET /tasks', null],
  [
    'CancelTask',
    { id: 't-1' },
    'tasks/cancel',
    { id: 't-1' },
    'POST /tasks/t-1:cancel',
    'POST /v1/tasks/t-1:cancel',
    {},
  ],
  [
    'SubscribeToTask',
    { id: 't-1' },
    'tasks/resubscribe',
    { id: 't-1' },
    'GET /tasks/t-1:subscribe',
    'GET /v1/tasks/t-1:subscribe',
  ],
  [
    'CreateTaskPushNotificationConfig',
    config,
    'tasks/pushNotificationConfig/set',
    { taskId: 't-1', pushNotificationConfig: { id: 'c-1', url: config.url } },
    'POST /tasks/t-1/pushNotificationConfigs',
    'POST /v1/tasks/t-1/pushNotificationConfigs',
    { id: 'c-1', url: config.url },
  ],
  [
    'GetTaskPushNotificationConfig',
    { taskId: 't-1', id: 'c-1' },
    'tasks/pushNotificationConfig/get',
    { id: 't-1', pushNotificationConfigId: 'c-1' },
    'GET /tasks/t-1/pushNotificationConfigs/c-1',
    'GET /v1/tasks/t-1/pushNotificationConfigs/c-1',
  ],
  [
    'ListTaskPushNotificationConfigs',
    { taskId: 't-1' },
    'tasks/pushNotificationConfig/list',
    { id: 't-1' },
    'GET /tasks/t-1/pushNotificationConfigs',
    'GET /v1/tasks/t-1/pushNotificationConfigs',
  ],
  [
    'DeleteTaskPushNotificationConfig',
    { taskId: 't-1', id: 'c-1' },
    'tasks/pushNotificationConfig/delete',
    { id: 't-1', pushNotificationConfigId: 'c-1' },
    'DELETE /tasks/t-1/pushNotificationConfigs/c-1',
    'DELETE /v1/tasks/t-1/pushNotificationConfigs/c-1',
  ],
  ['GetExtendedAgentCard', {}, 'agent/getAuthenticatedExtendedCard', {}, 'GET /extendedAgentCard', 'GET /v1/card'],
]

function jsonRpc(operation: OperationName, version: ProtocolVersion, method: string, params: object): ContractRequest {
  return {
    operation,
    binding: 'JSONRPC',
    version,
    method: 'POST',
    path: '/',
    headers: { 'content-type': 'application/json', ...(version === '1.0' ? { 'a2a-version': '1.0' } : {}) },
    body: { jsonrpc: '2.0', id: 7, method, params },
  }
}

function http(operation: OperationName, version: ProtocolVersion, route: string, body: unknown): ContractRequest {
  const [method = '', path = ''] = route.split(' ')
  return {
    operation,
    binding: 'HTTP+JSON',
    version,
    method,
    path,
    headers: {
      ...(version === '1.0' ? { 'a2a-version': '1.0' } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body }),
  }
}

const legacyName = 'tasks/t-1'
const legacyConfigName = `${legacyName}/pushNotificationConfigs/c-1`

const legacyBody = {
  message: { messageId: 'm-1', role: 'ROLE_USER', content: [{ text: 'hello' }], metadata: { skillId: 'echo' } },
}
/** HTTP+JSON 0.3, where its body is not that of 1.0. */
const LEGACY_BODIES: Partial<Readonly<Record<OperationName, object>>> = {
  SendMessage: legacyBody,
  SendStreamingMessage: legacyBody,
  CreateTaskPushNotificationConfig: {
    name: legacyConfigName,
    pushNotificationConfig: { id: 'c-1', url: config.url },
  },
}

/** gRPC 1.0: ProtoJSON, as on JSON-RPC. gRPC 0.3: method (`null`: none) and message as the SDK's decoder writes it. */
const grpcRows: Readonly<Record<OperationName, readonly [string | null, object?]>> = {
  SendMessage: ['SendMessage', { request: legacyProtoMessage() }],
  SendStreamingMessage: ['SendStreamingMessage', { request: legacyProtoMessage() }],
  GetTask: ['GetTask', { name: legacyName, historyLength: 0 }],
  ListTasks: [null],
  CancelTask: ['CancelTask', { name: legacyName }],
  SubscribeToTask: ['TaskSubscription', { name: legacyName }],
  CreateTaskPushNotificationConfig: [
    'CreateTaskPushNotificationConfig',
    {
      parent: legacyName,
      configId: 'c-1',
      config: { name: legacyConfigName, pushNotificationConfig: { id: 'c-1', url: config.url, token: '' } },
    },
  ],
  GetTaskPushNotificationConfig: ['GetTaskPushNotificationConfig', { name: legacyConfigName }],
  ListTaskPushNotificationConfigs: [
    'ListTaskPushNotificationConfig',
    { parent: legacyName, pageSize: 0, pageToken: '' },
  ],
  DeleteTaskPushNotificationConfig: ['DeleteTaskPushNotificationConfig', { name: legacyConfigName }],
  GetExtendedAgentCard: ['GetAgentCard', {}],
}

function legacyProtoMessage(): object {
  return {
    messageId: 'm-1',
    contextId: '',
    taskId: '',
    role: 1,
    content: [{ part: { $case: 'text', value: 'hello' } }],
    metadata: { skillId: 'echo' },
    extensions: [],
  }
}

function grpc(operation: OperationName, version: ProtocolVersion, path: string, body: unknown): ContractRequest {
  return { operation, binding: 'GRPC', version, method: 'POST', path, headers: { 'a2a-version': version }, body }
}

export const contractRequests: readonly ContractRequest[] = rows.flatMap(
  ([operation, params, legacyMethod, legacyParams, route, legacyRoute, body]) => [
    jsonRpc(operation, '1.0', operation, params),
    jsonRpc(operation, '0.3', legacyMethod, legacyParams),
    http(operation, '1.0', route, body),
    ...(legacyRoute === null ? [] : [http(operation, '0.3', legacyRoute, LEGACY_BODIES[operation] ?? body)]),
    grpc(operation, '1.0', `/lf.a2a.v1.A2AService/${operation}`, params),
    ...grpcLegacy(operation),
  ],
)

function grpcLegacy(operation: OperationName): ContractRequest[] {
  const [method, message] = grpcRows[operation]
  return method === null ? [] : [grpc(operation, '0.3', `/a2a.v1.A2AService/${method}`, message)]
}
