/**
 * What is checked is what runs. Odd requests go through a real Express application with the SDK's handlers; whenever
 * the SDK would have run an operation, the guard's reading of the same request is that operation on the same task,
 * context, configuration and tenant, or no operation at all. One application reads v0.3 and one does not.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { parseCard } from '../../src/protocol/card.ts'
import { compileMounts, type Identified, identifyOperation } from '../../src/protocol/identify.ts'
import type { Binding, OperationName } from '../../src/types.ts'
import {
  type RawRequest,
  type Recording,
  type RecordingServer,
  recordingCard,
  recordingServer,
} from '../support/recording-sdk.ts'

const MOUNT = '/agents/a2a'
const card = parseCard({
  name: 'recorder',
  version: '1',
  supportedInterfaces: recordingCard.supportedInterfaces.map((entry) => ({
    ...entry,
    url: `http://localhost${MOUNT}`,
  })),
}).model
const mounts = compileMounts(card)

const servers: RecordingServer[] = []
const forBinding = { JSONRPC: servers.slice(), 'HTTP+JSON': servers.slice() }

beforeAll(async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  for (const binding of ['JSONRPC', 'HTTP+JSON'] as const) {
    for (const legacy of [true, false])
      forBinding[binding].push(await recordingServer(binding, { mount: MOUNT, legacy }))
  }
})
afterAll(async () => {
  for (const server of [...forBinding.JSONRPC, ...forBinding['HTTP+JSON']]) await server.close()
  vi.restoreAllMocks()
})

/** Operations that both sides agreed on, so that agreement on nothing at all cannot pass. */
function tally() {
  const seen = new Map<OperationName, number>()
  return { seen, add: (name: OperationName) => seen.set(name, (seen.get(name) ?? 0) + 1) }
}

function read(request: RawRequest, recording: Recording, binding: Binding | undefined): Identified | undefined {
  const { seen } = recording
  if (seen === undefined) return undefined
  return identifyOperation(
    {
      method: seen.method,
      target: seen.url,
      rawHeaders: seen.rawHeaders,
      ...(request.body === undefined ? {} : { body: Buffer.from(request.body) }),
      ...(binding === undefined ? {} : { binding }),
    },
    mounts,
  )
}

function agree(recording: Recording, identified: Identified | undefined, note: (name: OperationName) => void): void {
  expect(recording.runs.length).toBeLessThanOrEqual(1)
  const [run] = recording.runs
  if (run === undefined || identified === undefined || identified.kind === 'unknown') return
  const { name, taskId, contextId, configId, tenant } = identified.operation
  expect({ name, taskId, contextId }).toEqual({ name: run.name, taskId: run.taskId, contextId: run.contextId })
  // A list has no configuration, and a server may make up an id where none was sent.
  if (run.configId !== undefined) expect(configId).toBe(run.configId)
  // `/v1` without a version is the root of v0.3; an agent that announces v0.3 and does not speak it calls it a tenant.
  if (run.tenant !== undefined && run.tenant !== 'v1') expect(tenant).toBe(run.tenant)
  note(name)
}

const version = fc.constantFrom<readonly (readonly [string, string])[]>(
  [],
  [],
  [['A2A-Version', '1.0']],
  [['A2A-Version', '1.0']],
  [['a2a-version', '0.3']],
  [['A2A-Version', '']],
  [['A2A-Version', ' 1.0 ']],
  [['A2A-Version', '0.3.0']],
  [['A2A-Version', '1']],
  [
    ['A2A-Version', '1.0'],
    ['A2A-Version', '0.3'],
  ],
)

const contentType = fc.constantFrom<readonly (readonly [string, string])[]>(
  [['Content-Type', 'application/json']],
  [['Content-Type', 'application/json']],
  [['Content-Type', 'application/a2a+json']],
  [['Content-Type', 'application/json; charset=utf-8']],
  [['Content-Type', 'application/json; charset=utf-7']],
  [['Content-Type', 'application/json;CHARSET="UTF-16LE"']],
  [],
)

const id = fc.constantFrom('t1', 't2', 't1', 't1')
const oddValue = fc.oneof(
  { weight: 6, arbitrary: id },
  { weight: 1, arbitrary: fc.constantFrom('', null, 7, ['t2'], {}, true) },
)

/** A JSON object as text, some members twice, some under another spelling. */
function objectText(members: fc.Arbitrary<readonly (readonly [string, string])[]>): fc.Arbitrary<string> {
  return members.map((list) => `{${list.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`)
}
const scalarMembers = (names: readonly string[]) =>
  fc.array(
    fc.tuple(
      fc.constantFrom(...names),
      oddValue.map((value) => JSON.stringify(value)),
    ),
    { maxLength: 4 },
  )

const messageText = objectText(
  fc
    .array(
      fc.tuple(
        fc.constantFrom('taskId', 'task_id', 'contextId', 'context_id', 'metadata', '__proto__', 'TaskId'),
        fc.oneof(
          oddValue.map((value) => JSON.stringify(value)),
          fc.constantFrom('{"taskId":"t2"}'),
        ),
      ),
      { maxLength: 4 },
    )
    .map((list) => [
      ['messageId', '"m1"'] as const,
      ['role', '"user"'] as const,
      ['parts', '[]'] as const,
      ['content', '[]'] as const,
      ...list,
    ]),
)
const numericRole = messageText.map((text) => text.replace('"role":"user"', '"role":"ROLE_USER"'))

const paramsText: fc.Arbitrary<string> = fc.oneof(
  objectText(
    fc
      .tuple(
        fc.array(
          fc.tuple(fc.constantFrom('message', 'message', 'request', 'msg'), fc.oneof(messageText, numericRole)),
          { maxLength: 2 },
        ),
        scalarMembers(['tenant', 'metadata', 'taskId']),
      )
      .map((lists) => lists.flat()),
  ),
  objectText(
    fc
      .tuple(
        scalarMembers(['id', 'taskId', 'task_id', 'contextId', 'context_id', 'pushNotificationConfigId', 'tenant']),
        fc.array(
          fc.constantFrom<readonly [string, string]>(
            ['pushNotificationConfig', '{"id":"c1","url":"https://hooks.example"}'],
            ['push_notification_config', '{"id":"c2","url":"https://hooks.example"}'],
            ['name', '"tasks/t1/pushNotificationConfigs/c1"'],
            ['name', '"tasks/t2/pushNotificationConfigs/c1"'],
            ['url', '"https://hooks.example"'],
            ['__proto__', '{"id":"t2"}'],
          ),
          { maxLength: 3 },
        ),
      )
      .map((lists) => lists.flat()),
  ),
  fc.constantFrom('{}', 'null', '[]', '7'),
)

describe('HTTP+JSON', () => {
  const segment = fc.oneof(
    {
      weight: 12,
      arbitrary: fc.constantFrom(
        'tasks',
        't1',
        't1:cancel',
        't1:subscribe',
        'pushNotificationConfigs',
        'c1',
        'v1',
        'acme',
      ),
    },
    { weight: 4, arbitrary: fc.constantFrom('message:send', 'message:stream', 'extendedAgentCard', 'card') },
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        ...['TASKS', 'Message:Send', 'EXTENDEDAGENTCARD', '%74asks', 'message%3Asend', '%65xtendedAgentCard'],
        ...[
          't1%3Acancel',
          't1%3asubscribe',
          't1:CANCEL',
          ':cancel',
          't1:subscribe:cancel',
          't%31',
          '%C3%A9',
          '%ff',
          '%',
          '%zz',
        ],
        ...[
          '.',
          '..',
          '%2e%2e',
          '%2E',
          'a%2Fb',
          'a%5Cb',
          'a\\b',
          '',
          ' '.trim(),
          't1;v=1',
          ';',
          't1%3Bx',
          't1%00',
          't1%0a',
        ],
        ...[
          't1%252F',
          'tenant',
          'agents',
          'a2a',
          'constructor',
          '__proto__',
          '*',
          '(',
          't1,t2',
          '@',
          "t'1",
          't1%23',
          't1%3F',
        ],
      ),
    },
  )
  /** Ways that begin like a real route, so that most of them lead somewhere. */
  const known = fc.constantFrom(
    ...[['message:send'], ['message:stream'], ['extendedAgentCard'], ['tasks'], ['tasks', 't1']],
    ...[
      ['tasks', 't1:cancel'],
      ['tasks', 't1:subscribe'],
      ['tasks', 't1', 'pushNotificationConfigs'],
    ],
    ...[['tasks', 't1', 'pushNotificationConfigs', 'c1']],
  )
  const segments = fc.oneof(
    fc.array(segment, { maxLength: 5 }),
    known,
    fc.tuple(fc.constantFrom('v1', 'acme', 'tasks', 'a%20b'), known).map(([first, rest]) => [first, ...rest]),
    fc
      .tuple(known, segment, fc.nat(4))
      .map(([list, other, at]) => list.map((each, index) => (index === at ? other : each))),
    fc.tuple(known, segment).map(([list, other]) => [...list, other]),
  )
  const separator = fc.oneof(
    { weight: 30, arbitrary: fc.constant('/') },
    { weight: 1, arbitrary: fc.constantFrom('//', '/./', '\\', '/;/') },
  )
  const tail = fc.oneof(
    { weight: 8, arbitrary: fc.constant('') },
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        ...[
          '/',
          '//',
          '?',
          '#x',
          ';p=1',
          '?tenant=acme',
          '?tenant=acme&tenant=other',
          '?tenant[]=acme',
          '?tenant[a]=b',
        ],
        ...[
          '?contextId=c1',
          '?contextId=c1&contextId=c2',
          '?context_id=c9',
          '?tenant=%61cme',
          '?tenant=',
          '?tenant',
          '?%74enant=acme',
        ],
        ...[
          '?a=b?tenant=x',
          '?tenant=a+b',
          '?tenant=%ff',
          '?contextId=c1#?contextId=c2',
          '?historyLength=1',
          '?;tenant=x',
        ],
      ),
    },
  )
  const mount = fc.oneof(
    { weight: 30, arbitrary: fc.constant(MOUNT) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        '/agents/A2A',
        `${MOUNT}${MOUNT}`,
        `http://h${MOUNT}`,
        `//${MOUNT}`,
        `${MOUNT}/..${MOUNT}`,
      ),
    },
  )
  const target = fc
    .tuple(mount, segments, separator, tail)
    .map(([first, list, joint, end]) => `${first}${list.map((each) => joint + each).join('')}${end}`)
    .filter((text) => /^[\x21-\x7e]+$/.test(text))
  const request: fc.Arbitrary<RawRequest> = fc
    .record({
      method: fc.constantFrom('GET', 'GET', 'POST', 'POST', 'DELETE', 'HEAD', 'PUT'),
      target,
      version,
      contentType,
      body: fc.oneof({ weight: 3, arbitrary: paramsText }, fc.constant(undefined)),
      getsBody: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
    })
    .map(({ body: drawn, version: stated, contentType: type, method, target: path, getsBody }) => {
      const body = method === 'POST' || getsBody ? drawn : undefined
      if (body === undefined || method === 'HEAD') return { method, target: path, headers: stated }
      return { method, target: path, headers: [...stated, ...type], body }
    })

  it('A48 P138 P139 what the SDK would run for an odd target is what was identified, or nothing was', async () => {
    const tallied = tally()
    await fc.assert(
      fc.asyncProperty(request, async (sent) => {
        for (const server of forBinding['HTTP+JSON']) {
          const recording = await server.send(sent)
          for (const binding of [undefined, 'HTTP+JSON'] as const) {
            const identified = read(sent, recording, binding)
            if (binding === undefined && identified?.kind === 'unknown' && identified.binding === 'JSONRPC') continue
            agree(recording, identified, tallied.add)
          }
        }
      }),
      { numRuns: 2500 },
    )
    expect(tallied.seen.size).toBeGreaterThan(6)
  }, 120_000)
})

describe('JSON-RPC', () => {
  const method = fc.constantFrom(
    ...['SendMessage', 'SendStreamingMessage', 'GetTask', 'ListTasks', 'CancelTask', 'SubscribeToTask'],
    ...['CreateTaskPushNotificationConfig', 'GetTaskPushNotificationConfig', 'ListTaskPushNotificationConfigs'],
    ...['DeleteTaskPushNotificationConfig', 'GetExtendedAgentCard', 'message/send', 'message/stream', 'tasks/get'],
    ...[
      'tasks/cancel',
      'tasks/resubscribe',
      'tasks/list',
      'tasks/pushNotificationConfig/set',
      'tasks/pushNotificationConfig/get',
    ],
    ...[
      'tasks/pushNotificationConfig/list',
      'tasks/pushNotificationConfig/delete',
      'agent/getAuthenticatedExtendedCard',
    ],
    ...['sendmessage', 'getTask', '', 'constructor', '__proto__', 'SendMessage ', 'Send\u200bMessage'],
  )
  const member = fc.oneof(
    { weight: 8, arbitrary: method.map((name) => ['method', JSON.stringify(name)] as const) },
    { weight: 8, arbitrary: paramsText.map((text) => ['params', text] as const) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<readonly [string, string]>(
        ...([
          ['id', '1.5'],
          ['id', 'null'],
          ['id', '{}'],
          ['jsonrpc', '"1.0"'],
          ['Method', '"GetTask"'],
        ] as const),
        ...([
          ['extra', '1'],
          ['PARAMS', '{"id":"t2"}'],
          ['__proto__', '{"method":"GetTask"}'],
          ['\u006dethod', '"GetTask"'],
        ] as const),
      ),
    },
  )
  const envelope = objectText(
    fc
      .tuple(
        method,
        paramsText,
        fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.array(member, { maxLength: 2 })),
        fc.constantFrom('7', '0', '""', '"a"'),
      )
      .map(([name, params, more, key]) => [
        ['jsonrpc', '"2.0"'] as const,
        ['id', key] as const,
        ['method', JSON.stringify(name)] as const,
        ['params', params] as const,
        ...more,
      ]),
  )
  const body: fc.Arbitrary<string | Uint8Array> = fc.oneof(
    { weight: 12, arbitrary: envelope },
    { weight: 1, arbitrary: envelope.map((text) => `[${text}]`) },
    { weight: 1, arbitrary: envelope.map((text) => `\ufeff${text}`) },
    { weight: 1, arbitrary: envelope.map((text) => JSON.stringify(text)) },
    { weight: 1, arbitrary: envelope.map((text) => `${text} ${text}`) },
    { weight: 1, arbitrary: envelope.map((text) => Buffer.from(text, 'utf16le')) },
    // In UTF-7 `+ACI-` is a quotation mark: the same bytes hold another method.
    { weight: 1, arbitrary: envelope.map((text) => `{"a":"+ACI-,+ACI-b+ACI-:+ACI-",${text.slice(1)}`) },
  )
  const request: fc.Arbitrary<RawRequest> = fc
    .record({ tail: fc.constantFrom('', '/', '?x=1', '/?tenant=t2', '//', '/.'), version, contentType, body })
    .map(({ tail, version: stated, contentType: type, body: content }) => ({
      method: 'POST',
      target: `${MOUNT}${tail}`,
      headers: [...stated, ...type],
      body: content,
    }))

  it('A26 P142 what the SDK would run for an odd body is what was identified, or nothing was', async () => {
    const tallied = tally()
    await fc.assert(
      fc.asyncProperty(request, async (sent) => {
        for (const server of forBinding.JSONRPC) {
          const recording = await server.send(sent)
          for (const binding of [undefined, 'JSONRPC'] as const)
            agree(recording, read(sent, recording, binding), tallied.add)
        }
      }),
      { numRuns: 2500 },
    )
    expect(tallied.seen.size).toBeGreaterThan(6)
  }, 120_000)

  it('A26 bytes that another charset makes another operation of are no operation', async () => {
    const sent: RawRequest = {
      method: 'POST',
      target: MOUNT,
      headers: [
        ['A2A-Version', '1.0'],
        ['Content-Type', 'application/json; charset=utf-7'],
      ],
      body: '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"},"x":"+ACI-,+ACI-method+ACI-:+ACI-CancelTask"}',
    }
    for (const server of forBinding.JSONRPC) {
      const recording = await server.send(sent)
      // The parser that the SDK uses takes the charset at its word: this is what a guard must not read as GetTask.
      expect(recording.runs).toMatchObject([{ name: 'CancelTask' }])
      expect(read(sent, recording, undefined)).toMatchObject({ kind: 'unknown', code: 'ERR_REQUEST_MALFORMED' })
    }
  })
})
