import { describe, expect, it } from 'vitest'
import { parseCard } from '../../../src/protocol/card.ts'
import { compileMounts, identifyHead, identifyOperation, type Mounts } from '../../../src/protocol/identify.ts'
import { SKILL_EXTENSION, type SkillSelection } from '../../../src/protocol/request-fields.ts'
import type { GuardRequest } from '../../../src/types.ts'

const NO_MOUNTS = compileMounts({ interfaces: [] })
const http = (method: string, target: string, more: Partial<GuardRequest> = {}, mounts: Mounts = NO_MOUNTS) =>
  identifyOperation({ method, target, rawHeaders: ['A2A-Version', '1.0'], ...more }, mounts)
const call = (method: string, params: unknown, selection?: SkillSelection) =>
  identifyOperation(
    { method: 'POST', target: '/', rawHeaders: [], body: { jsonrpc: '2.0', id: 1, method, params } },
    NO_MOUNTS,
    selection,
  )
const unknown = { kind: 'unknown', binding: 'HTTP+JSON', code: 'ERR_OPERATION_UNKNOWN' }
const malformed = { kind: 'unknown', code: 'ERR_REQUEST_MALFORMED' }

describe('A48 targets that routers read differently are no operations', () => {
  it.each([
    ['/%65xtendedAgentCard'],
    ['//extendedAgentCard'],
    ['/extendedAgentCard/'],
    ['/extendedagentcard'],
    ['/EXTENDEDAGENTCARD'],
    ['/extendedAgentCard;v=1'],
    ['/./extendedAgentCard'],
    ['/x/../extendedAgentCard'],
    ['/x/%2e%2e/extendedAgentCard'],
    ['/extendedAgentCard%2F'],
    ['/extendedAgentCard%00'],
    ['/\\extendedAgentCard'],
    ['http://agent.example/extendedAgentCard'],
    ['extendedAgentCard'],
    ['*'],
    ['/tasks/T%2F..%2Fother'],
    ['/tasks/T%252Fother'],
    ['/tasks/T%5Cother'],
    ['/tasks/..'],
    ['/tasks/%2e'],
    ['/tasks/T;x'],
    ['/tasks/T%3Bx'],
    ['/tasks/T%0d%0a'],
    ['/tasks/%ff'],
    ['/tasks/%c0%ae'],
    ['/tasks/%'],
    ['/tasks/T|U'],
    ['/tasks/tâsk'],
    ['/tasks/T:cancel'],
    ['/tasks/T%3Asubscribe'],
    ['/tasks/T/pushNotificationConfigs/'],
    ['/tasks//pushNotificationConfigs'],
    ['/tasks/T/pushnotificationconfigs'],
    ['/tasks/tasks'],
    ['/tasks/extendedAgentCard'],
    ['/tasks/EXTENDEDAGENTCARD'],
    ['/tasks/T:SUBSCRIBE'],
    ['/acme/TASKS/T'],
    [`/tasks/${'a'.repeat(9000)}`],
    ['/a/b/tasks/T'],
  ])('GET %s', (target) => {
    expect(http('GET', target)).toMatchObject(unknown)
  })

  it.each([
    ['/message%3Asend'],
    ['/message:Send'],
    ['/message:send/'],
    ['/message:sendx'],
    ['/tasks/:cancel'],
    ['/tasks/T%3Acancel'],
    ['/tasks/T:CANCEL'],
  ])('POST %s', (target) => {
    expect(http('POST', target, { body: {} })).toMatchObject(unknown)
  })

  it("a tenant may have any name, as in the SDK's own routes", () => {
    expect(http('POST', '/tasks/message:send', { body: {} })).toMatchObject({
      kind: 'operation',
      operation: { name: 'SendMessage', tenant: 'tasks' },
    })
  })

  it.each([['HEAD'], ['OPTIONS'], ['PUT'], ['get'], ['QUERY'], ['']])('the method %j', (method) => {
    expect(http(method, '/tasks/T')).toMatchObject(unknown)
    expect(http(method, '/')).toMatchObject({ kind: 'unknown', binding: 'JSONRPC' })
  })

  it('a task id is decoded once', () => {
    expect(http('GET', '/tasks/urn%3Auuid%3A1')).toMatchObject({ operation: { taskId: 'urn:uuid:1' } })
    expect(http('GET', '/tasks/t%C3%A2sk%201')).toMatchObject({ operation: { taskId: 'tâsk 1' } })
    expect(http('GET', '/tasks/__proto__')).toMatchObject({ operation: { name: 'GetTask', taskId: '__proto__' } })
  })
})

describe('A48 the path relative to the mount and the full path', () => {
  const card = parseCard({
    supportedInterfaces: [
      { url: 'https://agent.example/agents/a/rest/', protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
      { url: 'https://agent.example/agents/a/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
    ],
  }).model
  const mounts = compileMounts(card, 'https://agent.example/agents/a')

  it.each([['/tasks/T'], ['/rest/tasks/T'], ['/agents/a/rest/tasks/T']])('GET %s', (target) => {
    const { operation } = http('GET', target, {}, mounts) as { operation: object }
    expect(operation).toEqual({ name: 'GetTask', version: '1.0', binding: 'HTTP+JSON', taskId: 'T' })
  })

  it('a tenant below the mount', () => {
    expect(http('GET', '/rest/acme/tasks/T', {}, mounts)).toMatchObject({ operation: { taskId: 'T', tenant: 'acme' } })
    expect(http('GET', '/acme/tasks/T', {}, mounts)).toMatchObject({ operation: { taskId: 'T', tenant: 'acme' } })
  })

  it.each([['/AGENTS/a/rest/tasks/T'], ['/agents/a/rest//tasks/T'], ['/agents/b/rest/tasks/T'], ['/agents/a/tasks/T']])(
    'GET %s is not below a mount',
    (target) => {
      expect(http('GET', target, {}, mounts)).toMatchObject(unknown)
    },
  )

  it.each([[''], ['/'], ['/rpc'], ['/rpc/'], ['/agents/a/rpc'], ['/agents/a/rpc?x=1']])(
    'POST %j is JSON-RPC',
    (target) => {
      expect(identifyHead({ method: 'POST', target, rawHeaders: [] }, mounts)).toEqual({
        kind: 'body',
        binding: 'JSONRPC',
      })
    },
  )

  it('a stated binding decides', () => {
    const head = { method: 'POST', rawHeaders: [] }
    expect(identifyHead({ ...head, target: '/tasks/T:cancel', binding: 'JSONRPC' }, mounts)).toEqual({
      kind: 'body',
      binding: 'JSONRPC',
    })
    expect(identifyHead({ ...head, target: '/rpc', binding: 'HTTP+JSON' }, mounts)).toMatchObject({
      kind: 'unknown',
      binding: 'HTTP+JSON',
    })
    expect(identifyHead({ ...head, target: '/', binding: 'HTTP+JSON' }, mounts)).toMatchObject({
      kind: 'unknown',
      binding: 'HTTP+JSON',
    })
  })
})

describe('P138 versions', () => {
  it.each([
    [['A2A-Version', '2.0']],
    [['a2a-version', '1']],
    [['a2a-version', '0.3.0']],
    [['a2a-version', '1.0, 1.0']],
    [['a2a-version', '1.0', 'A2A-VERSION', '1.0']],
  ])('%j is refused on every binding', (rawHeaders) => {
    const code = 'ERR_VERSION_UNSUPPORTED'
    expect(http('GET', '/tasks/T', { rawHeaders })).toMatchObject({ kind: 'unknown', code })
    expect(http('POST', '/', { rawHeaders, body: { jsonrpc: '2.0', id: 1, method: 'GetTask' } })).toMatchObject({
      code,
    })
    expect(http('POST', '/lf.a2a.v1.A2AService/GetTask', { rawHeaders, binding: 'GRPC' })).toMatchObject({
      binding: 'GRPC',
      code,
    })
  })

  it.each([[[]], [['a2a-version', '']], [['a2a-version', '  ']]])(
    '%j states none, and the spelling decides',
    (rawHeaders) => {
      expect(http('GET', '/v1/tasks/T', { rawHeaders })).toMatchObject({ operation: { version: '0.3', taskId: 'T' } })
      expect(http('GET', '/tasks/T', { rawHeaders })).toMatchObject({ operation: { version: '1.0', taskId: 'T' } })
    },
  )

  it('P139 v0.3 over HTTP lists no tasks, with and without the header', () => {
    for (const rawHeaders of [[], ['a2a-version', '0.3']]) {
      expect(http('GET', '/v1/tasks', { rawHeaders })).toMatchObject(unknown)
      expect(http('GET', '/v1/tasks?tenant=x', { rawHeaders })).toMatchObject(unknown)
    }
    expect(http('GET', '/v1/card', { rawHeaders: [] })).toMatchObject({ operation: { name: 'GetExtendedAgentCard' } })
    expect(http('GET', '/v1/card')).toMatchObject(unknown)
  })

  it('a method of the other version than stated is unknown', () => {
    const body = { jsonrpc: '2.0', id: 0, method: 'message/send', params: {} }
    expect(http('POST', '/', { body })).toMatchObject({ code: 'ERR_OPERATION_UNKNOWN', requestId: 0, version: '1.0' })
    expect(http('POST', '/', { rawHeaders: ['a2a-version', '0.3'], body })).toMatchObject({
      operation: { version: '0.3' },
    })
  })
})

describe('A46 the tenant', () => {
  it.each<[string, string, unknown]>([
    ['POST', '/acme/message:send', { tenant: 'other', message: {} }],
    ['POST', '/acme/message:send?tenant=other', { message: {} }],
    ['POST', '/message:send?tenant=acme', { tenant: 'other', message: {} }],
    ['POST', '/acme/message:send', { tenant: 7, message: {} }],
    ['POST', '/acme/message:send', { message: {}, configuration: { taskPushNotificationConfig: { tenant: 'other' } } }],
    ['GET', '/acme/tasks?tenant=other', undefined],
    ['GET', '/tasks?tenant=acme&tenant=acme', undefined],
    ['GET', '/tasks?tenant[]=acme', undefined],
    ['GET', '/tasks?tenant.x=acme', undefined],
    ['GET', '/tasks?tenant=%ff', undefined],
    ['GET', '/tasks?%74enant=a&tenant=b', undefined],
    ['GET', '/tasks?tenant=a#?tenant=b', undefined],
    ['GET', `/tasks?${'x&'.repeat(300)}`, undefined],
  ])('%s %s with %j can be read in two ways', (method, target, body) => {
    expect(http(method, target, { body })).toMatchObject(malformed)
  })

  it.each<[string, string, unknown]>([
    ['POST', '/acme/message:send?tenant=acme', { tenant: 'acme', message: {} }],
    ['POST', '/message:send', { tenant: 'acme', message: {} }],
    ['GET', '/tasks?tenant=%61cme', undefined],
    ['GET', '/acme/tasks?tenant=', undefined],
  ])('%s %s with %j is acme', (method, target, body) => {
    expect(http(method, target, { body })).toMatchObject({ operation: { tenant: 'acme' } })
  })

  it('JSON-RPC says it in params', () => {
    expect(call('GetTask', { id: 't', tenant: '../A' })).toMatchObject({ operation: { tenant: '../A' } })
    expect(call('GetTask', { id: 't', tenant: ['A'] })).toMatchObject(malformed)
  })
})

describe('what the operation is about', () => {
  it.each<[string, object]>([
    ['SendMessage', { message: { taskId: 't', task_id: 'u' } }],
    ['SendMessage', { message: { task_id: 'u' } }],
    ['message/send', { message: { task_id: 'u' } }],
    ['SendMessage', { message: { taskId: 7 } }],
    ['SendMessage', { message: { taskId: { toString: 't' } } }],
    ['SendMessage', { message: ['t'] }],
    ['SendMessage', { message: { contextId: 'c', context_id: 'd' } }],
    ['SendMessage', { message: { taskId: 't' }, configuration: { taskPushNotificationConfig: { taskId: 'u' } } }],
    ['SendMessage', { message: {}, configuration: { task_push_notification_config: { task_id: 'u' } } }],
    ['GetTask', { id: ['t'] }],
    ['ListTasks', { context_id: 'c' }],
    ['CreateTaskPushNotificationConfig', { task_id: 't' }],
    ['tasks/pushNotificationConfig/set', { taskId: 't', pushNotificationConfig: 'x' }],
    ['tasks/pushNotificationConfig/get', { id: 't', pushNotificationConfigId: 1 }],
  ])('A40 %s with %j can be read in two ways', (method, params) => {
    expect(call(method, params)).toMatchObject({ ...malformed, binding: 'JSONRPC', requestId: 1 })
  })

  it.each<[string, object | undefined, object]>([
    ['SendMessage', { message: { taskId: 't', task_id: 't', contextId: 'c' } }, { taskId: 't', contextId: 'c' }],
    ['SendMessage', { message: { taskId: '', contextId: null } }, {}],
    ['SendMessage', undefined, {}],
    ['GetExtendedAgentCard', undefined, {}],
    [
      'tasks/pushNotificationConfig/set',
      { taskId: 't', pushNotificationConfig: { id: 'c' } },
      { taskId: 't', configId: 'c' },
    ],
    ['tasks/pushNotificationConfig/delete', { id: 't', pushNotificationConfigId: 'c' }, { taskId: 't', configId: 'c' }],
    ['DeleteTaskPushNotificationConfig', { taskId: 't', id: 'c' }, { taskId: 't', configId: 'c' }],
  ])('%s with %j', (method, params, fields) => {
    const { operation } = call(method, params) as unknown as { operation: Record<string, unknown> }
    const { name: _n, version: _v, binding: _b, requestId: _r, ...rest } = operation
    expect(rest).toEqual(fields)
  })

  it('A40 HTTP bodies cannot say another task than the path', () => {
    const path = '/tasks/t/pushNotificationConfigs'
    expect(http('POST', path, { body: { taskId: 'u', url: 'https://h.example' } })).toMatchObject(malformed)
    expect(http('POST', path, { body: { task_id: 'u' } })).toMatchObject(malformed)
    expect(http('POST', path, { body: '{"taskId":"t","id":"c"}' })).toMatchObject({
      operation: { taskId: 't', configId: 'c' },
    })
    // The SDK takes the task of a v0.3 configuration from the body.
    const legacy = { rawHeaders: [], body: { name: 'tasks/u/pushNotificationConfigs/c', pushNotificationConfig: {} } }
    expect(http('POST', `/v1${path}`, legacy)).toMatchObject(malformed)
    expect(http('POST', '/tasks/t:cancel', { body: { id: 'u' } })).toMatchObject(malformed)
  })

  it('bodies that are no object, and bodies where none belongs', () => {
    expect(http('POST', '/message:send', { body: '[]' })).toMatchObject(malformed)
    expect(http('POST', '/message:send', { body: 'x' })).toMatchObject({ code: 'ERR_BODY_NOT_JSON' })
    expect(http('GET', '/tasks', { body: '{"contextId":"c"}' })).toMatchObject(malformed)
    expect(http('POST', '/tasks/t:cancel', { body: 'null' })).toMatchObject({ operation: { name: 'CancelTask' } })
    expect(http('POST', '/tasks/t:cancel', { body: Buffer.alloc(0) })).toMatchObject({
      operation: { name: 'CancelTask' },
    })
    expect(http('POST', '/')).toMatchObject({ binding: 'JSONRPC', code: 'ERR_BODY_NOT_JSON', requestId: null })
  })
})

describe('A53 the skill the caller names', () => {
  const select = { select: { metadata: 'skillId' } }
  it.each<[string, object, string | undefined]>([
    ['in the message', { message: { metadata: { skillId: 'pay' } } }, 'pay'],
    ['in the request', { message: {}, metadata: { skillId: 'pay' } }, 'pay'],
    ['in both', { message: { metadata: { skillId: 'pay' } }, metadata: { skillId: 'pay' } }, 'pay'],
    ['nowhere', { message: { metadata: { skillid: 'pay' } } }, undefined],
    ['no metadata', { message: { metadata: null } }, undefined],
    ['on the prototype', { message: { metadata: Object.create({ skillId: 'pay' }) } }, undefined],
  ])('%s', (_, params, skill) => {
    for (const method of ['SendMessage', 'message/send', 'SendStreamingMessage']) {
      const identified = call(method, params, select) as { operation: { declaredSkill?: string } }
      expect(identified.operation.declaredSkill).toBe(skill)
    }
  })

  it.each<[string, object]>([
    ['two skills', { message: { metadata: { skillId: 'public' } }, metadata: { skillId: 'pay' } }],
    ['an empty one', { message: { metadata: { skillId: '' } } }],
    ['null', { message: { metadata: { skillId: null } } }],
    ['a list', { message: { metadata: { skillId: ['pay'] } } }],
    ['a number', { message: {}, metadata: { skillId: 1 } }],
    ['metadata that is a list', { message: { metadata: ['pay'] } }],
  ])('%s is malformed', (_, params) => {
    expect(call('SendMessage', params, select)).toMatchObject(malformed)
    expect(call('SendMessage', params)).toMatchObject({ kind: 'operation' })
  })

  it('by extension, by tenant, and by several that must agree', () => {
    const metadata = { [SKILL_EXTENSION]: 'pay' }
    expect(SKILL_EXTENSION).toBe('urn:a2a-trust:skill:v1')
    expect(call('SendMessage', { message: { metadata } }, { select: { extension: true } })).toMatchObject({
      operation: { declaredSkill: 'pay' },
    })
    expect(call('SendMessage', { message: {}, tenant: 'pay' }, { select: { tenant: true } })).toMatchObject({
      operation: { declaredSkill: 'pay' },
    })
    const all = { select: { metadata: 'skillId', extension: true, tenant: true } }
    expect(call('SendMessage', { message: { metadata }, metadata: { skillId: 'search' } }, all)).toMatchObject(
      malformed,
    )
    expect(call('SendMessage', { message: { metadata }, tenant: 'search' }, all)).toMatchObject(malformed)
  })

  it('on HTTP and gRPC bodies of both versions', () => {
    const body = { message: { metadata: { skillId: 'pay' } } }
    const skill = { operation: { declaredSkill: 'pay' } }
    const request = { method: 'POST', rawHeaders: [], body }
    expect(identifyOperation({ ...request, target: '/message:send' }, NO_MOUNTS, select)).toMatchObject(skill)
    expect(identifyOperation({ ...request, target: '/v1/message:stream' }, NO_MOUNTS, select)).toMatchObject(skill)
    const grpc = { ...request, binding: 'GRPC' } as const
    expect(
      identifyOperation({ ...grpc, target: '/lf.a2a.v1.A2AService/SendMessage' }, NO_MOUNTS, select),
    ).toMatchObject(skill)
    const legacy = { ...grpc, body: { request: body.message }, target: '/a2a.v1.A2AService/SendMessage' }
    expect(identifyOperation(legacy, NO_MOUNTS, select)).toMatchObject(skill)
  })
})
