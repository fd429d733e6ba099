/**
 * The eleven operations and every spelling of each, in one table: JSON-RPC methods (A2A v1.0 §9, v0.3 §7), HTTP routes
 * (v1.0 §11 and `a2a.proto`, v0.3 §3.5) and gRPC methods. A spelling that is not here is not an operation.
 *
 * v0.3 has no HTTP route that lists tasks in any SDK, so there is none here: `GET /v1/tasks` is unknown (P139).
 */
import type { OperationName, ProtocolVersion } from '../types.ts'

export interface HttpRoute {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Literal segments and the parameters `{taskId}` and `{configId}`. A v1.0 route may also follow `/{tenant}`. */
  readonly path: string
}

interface Spellings {
  readonly jsonRpc?: string
  readonly http: readonly HttpRoute[]
  /** Full method name as gRPC puts it in `:path`. */
  readonly grpc?: string
}

export interface OperationSpec {
  readonly name: OperationName
  readonly spellings: Readonly<Record<ProtocolVersion, Spellings>>
}

const GRPC = { '1.0': '/lf.a2a.v1.A2AService/', '0.3': '/a2a.v1.A2AService/' } as const

/** `route`: methods, then path; a v0.3 path stands below `/v1`. */
function spell(
  version: ProtocolVersion,
  jsonRpc: string | undefined,
  route: string,
  grpc: string | undefined,
): Spellings {
  const [methods = '', path = ''] = route.split(' ')
  return {
    ...(jsonRpc === undefined ? {} : { jsonRpc }),
    http:
      route === ''
        ? []
        : methods.split('|').map((method) => ({
            method: method as HttpRoute['method'],
            path: version === '0.3' ? `/v1${path}` : path,
          })),
    ...(grpc === undefined ? {} : { grpc: GRPC[version] + grpc }),
  }
}

/** `legacyGrpc`: the v0.3 method where it is not the name itself; `null` where v0.3 has none. */
function define(
  name: OperationName,
  route: string,
  legacyJsonRpc: string,
  legacyRoute: string = route,
  legacyGrpc: string | null = name,
): OperationSpec {
  return {
    name,
    spellings: {
      '1.0': spell('1.0', name, route, name),
      '0.3': spell('0.3', legacyJsonRpc, legacyRoute, legacyGrpc ?? undefined),
    },
  }
}

const CONFIGS = '/tasks/{taskId}/pushNotificationConfigs'
const CONFIG = `${CONFIGS}/{configId}`

export const operations: readonly OperationSpec[] = Object.freeze([
  define('SendMessage', 'POST /message:send', 'message/send'),
  define('SendStreamingMessage', 'POST /message:stream', 'message/stream'),
  define('GetTask', 'GET /tasks/{taskId}', 'tasks/get'),
  define('ListTasks', 'GET /tasks', 'tasks/list', '', null),
  define('CancelTask', 'POST /tasks/{taskId}:cancel', 'tasks/cancel'),
  // GET in a2a.proto, POST in the text of A2A §11.3: both are it.
  define('SubscribeToTask', 'GET|POST /tasks/{taskId}:subscribe', 'tasks/resubscribe', undefined, 'TaskSubscription'),
  define('CreateTaskPushNotificationConfig', `POST ${CONFIGS}`, 'tasks/pushNotificationConfig/set'),
  define('GetTaskPushNotificationConfig', `GET ${CONFIG}`, 'tasks/pushNotificationConfig/get'),
  define(
    'ListTaskPushNotificationConfigs',
    `GET ${CONFIGS}`,
    'tasks/pushNotificationConfig/list',
    undefined,
    'ListTaskPushNotificationConfig',
  ),
  define('DeleteTaskPushNotificationConfig', `DELETE ${CONFIG}`, 'tasks/pushNotificationConfig/delete'),
  define(
    'GetExtendedAgentCard',
    'GET /extendedAgentCard',
    'agent/getAuthenticatedExtendedCard',
    'GET /card',
    'GetAgentCard',
  ),
])

/** An operation as one spelling of one protocol version names it. */
export interface Spelled {
  readonly name: OperationName
  readonly version: ProtocolVersion
}

const VERSIONS: readonly ProtocolVersion[] = ['1.0', '0.3']

function index(pick: (spellings: Spellings) => string | undefined): ReadonlyMap<string, Spelled> {
  const found = new Map<string, Spelled>()
  for (const { name, spellings } of operations) {
    for (const version of VERSIONS) {
      const spelling = pick(spellings[version])
      if (spelling !== undefined) found.set(spelling, Object.freeze({ name, version }))
    }
  }
  return found
}

/** By JSON-RPC `method`, byte-exact. No method belongs to two versions. */
export const byJsonRpcMethod: ReadonlyMap<string, Spelled> = index(({ jsonRpc }) => jsonRpc)

/** By full gRPC method name, byte-exact. The package name tells the version. */
export const byGrpcMethod: ReadonlyMap<string, Spelled> = index(({ grpc }) => grpc)
