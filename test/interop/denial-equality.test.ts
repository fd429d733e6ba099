/**
 * "Not yours" and "not there" are one answer: what the guard writes for a task, and for an extended card, is what the
 * SDK's own handlers write, byte for byte, over real HTTP, on both bindings and in both versions.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard } from '@a2a-js/sdk'
import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express'
import express from 'express'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { renderDenial } from '../../src/protocol/denial.ts'
import type { Binding, DenialReason, OperationName, ProtocolVersion } from '../../src/types.ts'

const servers: Server[] = []

async function serve(extendedAgentCard: boolean): Promise<string> {
  const card = AgentCard.fromJSON({
    name: 'a',
    description: 'a',
    version: '1',
    supportedInterfaces: ['JSONRPC', 'HTTP+JSON'].flatMap((protocolBinding) =>
      ['1.0', '0.3'].map((protocolVersion) => ({ url: 'http://localhost/', protocolBinding, protocolVersion })),
    ),
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard },
  })
  const executor = { execute: async () => {}, cancelTask: async () => {} }
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor)
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat: { enabled: true } }
  const app = express()
  app.use('/rpc', jsonRpcHandler(options))
  app.use('/rest', restHandler(options))
  const server = app.listen(0, '127.0.0.1')
  servers.push(server)
  await new Promise((resolve) => server.once('listening', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

let withCard: string
let withoutCard: string
beforeAll(async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  withCard = await serve(true)
  withoutCard = await serve(false)
})
afterAll(async () => {
  for (const server of servers) await new Promise((resolve) => server.close(resolve))
  vi.restoreAllMocks()
})

async function answerOf(url: string, method: string, version: ProtocolVersion, body?: unknown) {
  const response = await fetch(url, {
    method,
    headers: { 'a2a-version': version, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, type: response.headers.get('content-type'), body: await response.text() }
}

function writtenAs(reason: DenialReason, binding: Binding, version: ProtocolVersion, more: object) {
  const { status, headers, body } = renderDenial({ reason, binding, version, ...more })
  return { status, type: headers['content-type'], body }
}

const TASK = 'no "such" tâsk'
const message = { messageId: 'm', taskId: TASK, parts: [{ text: 'x' }], role: 'ROLE_USER' }
const legacyMessage = { ...message, role: 'user', parts: [{ kind: 'text', text: 'x' }] }
const hook = { url: 'https://hooks.example', id: 'c' }

const jsonRpc: [OperationName, ProtocolVersion, string, object][] = [
  ['SendMessage', '1.0', 'SendMessage', { message }],
  ['SendStreamingMessage', '1.0', 'SendStreamingMessage', { message }],
  ['GetTask', '1.0', 'GetTask', { id: TASK }],
  ['CancelTask', '1.0', 'CancelTask', { id: TASK }],
  ['SubscribeToTask', '1.0', 'SubscribeToTask', { id: TASK }],
  ['CreateTaskPushNotificationConfig', '1.0', 'CreateTaskPushNotificationConfig', { taskId: TASK, ...hook }],
  ['GetTaskPushNotificationConfig', '1.0', 'GetTaskPushNotificationConfig', { taskId: TASK, id: 'c' }],
  ['ListTaskPushNotificationConfigs', '1.0', 'ListTaskPushNotificationConfigs', { taskId: TASK }],
  ['DeleteTaskPushNotificationConfig', '1.0', 'DeleteTaskPushNotificationConfig', { taskId: TASK, id: 'c' }],
  ['SendMessage', '0.3', 'message/send', { message: legacyMessage }],
  ['SendStreamingMessage', '0.3', 'message/stream', { message: legacyMessage }],
  ['GetTask', '0.3', 'tasks/get', { id: TASK }],
  ['CancelTask', '0.3', 'tasks/cancel', { id: TASK }],
  ['SubscribeToTask', '0.3', 'tasks/resubscribe', { id: TASK }],
  [
    'CreateTaskPushNotificationConfig',
    '0.3',
    'tasks/pushNotificationConfig/set',
    { taskId: TASK, pushNotificationConfig: hook },
  ],
  ['GetTaskPushNotificationConfig', '0.3', 'tasks/pushNotificationConfig/get', { id: TASK }],
  ['ListTaskPushNotificationConfigs', '0.3', 'tasks/pushNotificationConfig/list', { id: TASK }],
  [
    'DeleteTaskPushNotificationConfig',
    '0.3',
    'tasks/pushNotificationConfig/delete',
    { id: TASK, pushNotificationConfigId: 'c' },
  ],
]

const id = encodeURIComponent(TASK)
const legacyRestMessage = { messageId: 'm', taskId: TASK, content: [{ text: 'x' }], role: 'ROLE_USER' }
const rest: [OperationName, ProtocolVersion, string, string, object?][] = [
  ['SendMessage', '1.0', 'POST', '/message:send', { message }],
  ['SendStreamingMessage', '1.0', 'POST', '/message:stream', { message }],
  ['GetTask', '1.0', 'GET', `/tasks/${id}`],
  ['CancelTask', '1.0', 'POST', `/tasks/${id}:cancel`],
  ['SubscribeToTask', '1.0', 'GET', `/tasks/${id}:subscribe`],
  ['SubscribeToTask', '1.0', 'POST', `/tasks/${id}:subscribe`],
  ['CreateTaskPushNotificationConfig', '1.0', 'POST', `/tasks/${id}/pushNotificationConfigs`, hook],
  ['GetTaskPushNotificationConfig', '1.0', 'GET', `/tasks/${id}/pushNotificationConfigs/c`],
  ['ListTaskPushNotificationConfigs', '1.0', 'GET', `/tasks/${id}/pushNotificationConfigs`],
  ['DeleteTaskPushNotificationConfig', '1.0', 'DELETE', `/tasks/${id}/pushNotificationConfigs/c`],
  ['SendMessage', '0.3', 'POST', '/v1/message:send', { message: legacyRestMessage }],
  ['SendStreamingMessage', '0.3', 'POST', '/v1/message:stream', { message: legacyRestMessage }],
  ['GetTask', '0.3', 'GET', `/v1/tasks/${id}`],
  ['CancelTask', '0.3', 'POST', `/v1/tasks/${id}:cancel`],
  ['SubscribeToTask', '0.3', 'POST', `/v1/tasks/${id}:subscribe`],
  ['SubscribeToTask', '0.3', 'GET', `/v1/tasks/${id}:subscribe`],
  ['GetTaskPushNotificationConfig', '0.3', 'GET', `/v1/tasks/${id}/pushNotificationConfigs/c`],
  ['ListTaskPushNotificationConfigs', '0.3', 'GET', `/v1/tasks/${id}/pushNotificationConfigs`],
  ['DeleteTaskPushNotificationConfig', '0.3', 'DELETE', `/v1/tasks/${id}/pushNotificationConfigs/c`],
  [
    'CreateTaskPushNotificationConfig',
    '0.3',
    'POST',
    `/v1/tasks/${id}/pushNotificationConfigs`,
    { name: `tasks/${TASK}/pushNotificationConfigs/c`, pushNotificationConfig: hook },
  ],
]

describe('A40 P133 a task that is not the caller’s is answered as a task that is not there', () => {
  describe.each(jsonRpc)('%s on JSON-RPC %s', (operation, version, method, params) => {
    it.each([[7], [0], [''], ['a "quoted" id']])('P142 with the id %j', async (requestId) => {
      const theirs = await answerOf(`${withCard}/rpc`, 'POST', version, {
        jsonrpc: '2.0',
        id: requestId,
        method,
        params,
      })
      const asked = { requestId, operation, taskId: TASK }
      expect(writtenAs('TASK_NOT_FOUND', 'JSONRPC', version, asked)).toEqual(theirs)
    })
  })

  it.each(rest)('%s on HTTP+JSON %s with %s %s', async (operation, version, method, path, body) => {
    const theirs = await answerOf(`${withCard}/rest${path}`, method, version, body)
    expect(writtenAs('TASK_NOT_FOUND', 'HTTP+JSON', version, { operation, taskId: TASK })).toEqual(theirs)
  })
})

describe('an extended card that is not there is answered as the SDK answers', () => {
  const cases = (['1.0', '0.3'] as const).flatMap((version) =>
    (['UNSUPPORTED_OPERATION', 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'] as const).map((reason) => ({ version, reason })),
  )
  it.each(cases)('A38 $reason in $version', async ({ version, reason }) => {
    const origin = reason === 'UNSUPPORTED_OPERATION' ? withoutCard : withCard
    const method = version === '1.0' ? 'GetExtendedAgentCard' : 'agent/getAuthenticatedExtendedCard'
    const call = { jsonrpc: '2.0', id: 0, method, params: {} }
    expect(writtenAs(reason, 'JSONRPC', version, { requestId: 0, operation: 'GetExtendedAgentCard' })).toEqual(
      await answerOf(`${origin}/rpc`, 'POST', version, call),
    )
    const path = version === '1.0' ? '/extendedAgentCard' : '/v1/card'
    expect(writtenAs(reason, 'HTTP+JSON', version, {})).toEqual(await answerOf(`${origin}/rest${path}`, 'GET', version))
  })
})
