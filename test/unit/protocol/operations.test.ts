/** The table is complete: every spelling in it is one the SDK runs as that operation, and the SDK has no other. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { identifyOperation } from '../../../src/protocol/identify.ts'
import { byGrpcMethod, byJsonRpcMethod, operations } from '../../../src/protocol/operations.ts'
import type { Binding, OperationName, ProtocolVersion } from '../../../src/types.ts'
import { type RecordingServer, recordingServer } from '../../support/recording-sdk.ts'

const message = { messageId: 'm1', role: 'user', parts: [], taskId: 't1', contextId: 'x1' }
const config = { url: 'https://hooks.example', id: 'c1' }

function paramsOf(name: OperationName, version: ProtocolVersion): Record<string, unknown> {
  const task = { id: 't1' }
  const pair = version === '1.0' ? { taskId: 't1', id: 'c1' } : { id: 't1', pushNotificationConfigId: 'c1' }
  switch (name) {
    case 'SendMessage':
    case 'SendStreamingMessage':
      return { message: version === '1.0' ? { ...message, role: 'ROLE_USER' } : message }
    case 'GetTask':
    case 'CancelTask':
    case 'SubscribeToTask':
      return task
    case 'ListTasks':
      return { contextId: 'x1' }
    case 'CreateTaskPushNotificationConfig':
      return version === '1.0' ? { ...config, ...pair } : { taskId: 't1', pushNotificationConfig: config }
    case 'ListTaskPushNotificationConfigs':
      return version === '1.0' ? { taskId: 't1' } : task
    case 'GetTaskPushNotificationConfig':
    case 'DeleteTaskPushNotificationConfig':
      return pair
    case 'GetExtendedAgentCard':
      return {}
  }
}

function httpBodyOf(name: OperationName, version: ProtocolVersion): unknown {
  if (name.startsWith('Send')) {
    const { parts, ...rest } = message
    return { message: { ...rest, role: 'ROLE_USER', ...(version === '1.0' ? { parts } : { content: parts }) } }
  }
  if (name !== 'CreateTaskPushNotificationConfig') return undefined
  return version === '1.0' ? config : { name: 'tasks/t1/pushNotificationConfigs/c1', pushNotificationConfig: config }
}

interface Sample {
  readonly name: OperationName
  readonly version: ProtocolVersion
  readonly binding: Binding
  readonly method: string
  readonly target: string
  readonly body: unknown
}

const samples: Sample[] = operations.flatMap(({ name, spellings }) =>
  (['1.0', '0.3'] as const).flatMap((version) => {
    const { jsonRpc, http } = spellings[version]
    const overHttp = http.flatMap(({ method, path }) => {
      const target =
        path.replace('{taskId}', 't1').replace('{configId}', 'c1') + (name === 'ListTasks' ? '?contextId=x1' : '')
      const body = httpBodyOf(name, version)
      const plain: Sample = { name, version, binding: 'HTTP+JSON', method, target, body }
      return version === '1.0' ? [plain, { ...plain, target: `/acme${target}` }] : [plain]
    })
    const call = { jsonrpc: '2.0', id: 0, method: jsonRpc, params: paramsOf(name, version) }
    // No SDK has tasks/list in v0.3.
    if (jsonRpc === undefined || jsonRpc === 'tasks/list') return overHttp
    return [...overHttp, { name, version, binding: 'JSONRPC', method: 'POST', target: '/', body: call } as const]
  }),
)

describe('against the SDK', () => {
  const servers: Partial<Record<Binding, RecordingServer>> = {}
  beforeAll(async () => {
    vi.spyOn(console, 'error').mockImplementation(() => {})
    vi.spyOn(console, 'warn').mockImplementation(() => {})
    for (const binding of ['JSONRPC', 'HTTP+JSON'] as const) {
      servers[binding] = await recordingServer(binding, { mount: '/', legacy: true })
    }
  })
  afterAll(async () => {
    for (const server of Object.values(servers)) await server.close()
    vi.restoreAllMocks()
  })

  it.each(samples)('A50 $binding $version $method $target is $name', async (sample) => {
    const { name, version, binding, method, target } = sample
    const body = sample.body === undefined ? undefined : JSON.stringify(sample.body)
    const headers = [
      ['A2A-Version', version],
      ['Content-Type', 'application/json'],
    ] as const
    const { runs } = await servers[binding]!.send({ method, target, headers, ...(body === undefined ? {} : { body }) })
    expect(runs).toMatchObject([{ name }])
    for (const rawHeaders of [headers.flat(), []]) {
      const identified = identifyOperation({ method, target, rawHeaders, body })
      expect(identified).toMatchObject({ kind: 'operation', operation: { ...runs[0], name, version, binding } })
    }
    const other = ['A2A-Version', version === '1.0' ? '0.3' : '1.0']
    const contradicted = identifyOperation({ method, target, rawHeaders: other, body })
    // `/v1/…` with v1.0 stated is the tenant "v1", which is what the SDK makes of it.
    if (target.startsWith('/v1/') && contradicted.kind === 'operation') {
      expect(contradicted.operation).toMatchObject({ name, version: '1.0', tenant: 'v1' })
    } else expect(contradicted).toMatchObject({ kind: 'unknown', code: 'ERR_OPERATION_UNKNOWN' })
  })

  it('all eleven operations are in every binding and version that has them', () => {
    const count = (binding: Binding, version: ProtocolVersion) =>
      new Set(samples.filter((each) => each.binding === binding && each.version === version).map(({ name }) => name))
        .size
    expect(count('JSONRPC', '1.0')).toBe(11)
    expect(count('HTTP+JSON', '1.0')).toBe(11)
    expect(count('JSONRPC', '0.3')).toBe(10)
    expect(count('HTTP+JSON', '0.3')).toBe(10)
  })
})

describe('gRPC', () => {
  it.each([
    ['1.0', 'server/grpc', 11],
    ['0.3', 'compat/v0_3/server/grpc', 10],
  ] as const)('A50 the methods of the SDK service of %s are those of the table', (version, module, count) => {
    // Read, not loaded: the module needs a protobuf runtime that nothing else here does.
    const source = readFileSync(createRequire(import.meta.url).resolve(`@a2a-js/sdk/${module}`), 'utf8')
    const paths = [...source.matchAll(/\bpath: "(\/[\w.]+A2AService\/\w+)"/g)].map(([, path]) => path)
    const known = [...byGrpcMethod].filter(([, spelled]) => spelled.version === version).map(([path]) => path)
    expect(known.sort()).toEqual(paths.sort())
    expect(known.length).toBe(count)
  })

  it('the message says the target, in both versions', () => {
    const identify = (target: string, body: unknown) =>
      identifyOperation({ method: 'POST', target, rawHeaders: [], body, binding: 'GRPC' })
    expect(identify('/lf.a2a.v1.A2AService/GetTask', { id: 't1', tenant: 'acme' })).toMatchObject({
      operation: { name: 'GetTask', version: '1.0', binding: 'GRPC', taskId: 't1', tenant: 'acme' },
    })
    expect(identify('/a2a.v1.A2AService/TaskSubscription', { name: 'tasks/t1' })).toMatchObject({
      operation: { name: 'SubscribeToTask', version: '0.3', taskId: 't1' },
    })
    expect(identify('/a2a.v1.A2AService/SendMessage', { request: { taskId: 't1', contextId: '' } })).toMatchObject({
      operation: { name: 'SendMessage', taskId: 't1' },
    })
    expect(
      identify('/a2a.v1.A2AService/DeleteTaskPushNotificationConfig', { name: 'tasks/t1/pushNotificationConfigs/c1' }),
    ).toMatchObject({ operation: { taskId: 't1', configId: 'c1' } })
    expect(
      identify('/a2a.v1.A2AService/CreateTaskPushNotificationConfig', {
        parent: 'tasks/t1',
        configId: 'c1',
        config: { name: 'tasks/t2/pushNotificationConfigs/c1' },
      }),
    ).toMatchObject({ kind: 'unknown', code: 'ERR_REQUEST_MALFORMED' })
    for (const target of ['/lf.a2a.v1.a2aservice/GetTask', 'lf.a2a.v1.A2AService/GetTask', '/tasks/t1', '/']) {
      expect(identify(target, {})).toMatchObject({ kind: 'unknown', binding: 'GRPC', code: 'ERR_OPERATION_UNKNOWN' })
    }
  })
})

it('P139 no method name, in any case or language, is found on Object.prototype', () => {
  for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
    expect(byJsonRpcMethod.get(name)).toBeUndefined()
    expect(byGrpcMethod.get(name)).toBeUndefined()
  }
})
