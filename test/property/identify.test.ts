/** Nothing a caller sends makes the reading of requests, cards or challenges throw, and noise is no operation. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseCard } from '../../src/protocol/card.ts'
import { formatChallenges } from '../../src/protocol/challenge.ts'
import { renderDenial } from '../../src/protocol/denial.ts'
import { compileMounts, identifyHead, identifyOperation } from '../../src/protocol/identify.ts'
import { byJsonRpcMethod } from '../../src/protocol/operations.ts'
import type { Binding, DenialReason, GuardRequest } from '../../src/types.ts'

const text = fc.string({ unit: 'binary', maxLength: 40 })
const json = fc.jsonValue({ maxDepth: 4 })
const binding = fc.constantFrom<Binding | undefined>(undefined, 'JSONRPC', 'HTTP+JSON', 'GRPC')
const mounts = compileMounts({
  interfaces: [
    { url: 'https://a.example/rest', binding: 'HTTP+JSON', version: '1.0' },
    { url: 'https://a.example/rpc', binding: 'JSONRPC', version: '1.0' },
  ],
})
const selection = { select: { metadata: 'skillId', extension: true, tenant: true } }

const request: fc.Arbitrary<GuardRequest> = fc
  .record({
    method: fc.oneof(fc.constantFrom('GET', 'POST', 'DELETE'), text),
    target: fc.oneof(
      text,
      fc.webPath(),
      fc.webUrl(),
      text.map((tail) => `/tasks/${tail}`),
      fc.constant('/'),
    ),
    rawHeaders: fc.array(fc.oneof(fc.constantFrom('a2a-version', '1.0', 'content-type'), text), { maxLength: 6 }),
    body: fc.oneof(
      json,
      text,
      fc.uint8Array(),
      json.map((value) => JSON.stringify(value)),
      fc.anything(),
    ),
    binding,
  })
  .map(({ binding: stated, ...rest }) => (stated === undefined ? rest : { ...rest, binding: stated }))

describe('identify', () => {
  it('A48 never throws, and what it says is plain', () => {
    fc.assert(
      fc.property(request, (sent) => {
        const head = identifyHead(sent, mounts)
        const whole = identifyOperation(sent, mounts, selection)
        if (head.kind === 'unknown') expect(whole).toMatchObject({ kind: 'unknown', code: head.code, requestId: null })
        if (sent.binding !== undefined && whole.kind === 'unknown') expect(whole.binding).toBe(sent.binding)
        if (whole.kind !== 'operation') return
        for (const member of ['taskId', 'contextId', 'configId', 'tenant', 'declaredSkill'] as const) {
          const value = whole.operation[member]
          if (value !== undefined) expect(typeof value === 'string' && value !== '').toBe(true)
        }
        // The body changes what an operation is about, never which one it is.
        if (head.kind === 'operation') expect(whole.operation).toMatchObject(head.operation)
      }),
      { numRuns: 3000 },
    )
  })

  it('P139 a method that is not in the table is no operation', () => {
    fc.assert(
      fc.property(text, json, (method, params) => {
        fc.pre(!byJsonRpcMethod.has(method))
        const body = { jsonrpc: '2.0', id: 1, method, params }
        expect(identifyOperation({ method: 'POST', target: '/', rawHeaders: [], body })).toMatchObject({
          kind: 'unknown',
        })
        expect(identifyOperation({ method: 'POST', target: method, rawHeaders: [], binding: 'GRPC' })).toMatchObject({
          kind: 'unknown',
        })
      }),
    )
  })

  it('a task id that was encoded by encodeURIComponent comes back whole, or not at all', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }), (taskId) => {
        const target = `/tasks/${encodeURIComponent(taskId)}`
        const identified = identifyOperation({ method: 'GET', target, rawHeaders: [] })
        if (identified.kind === 'operation') expect(identified.operation.taskId).toBe(taskId)
        else
          expect(taskId).toMatch(
            /[/\\%;?#\p{Cc}\u2028\u2029\ufeff]|^\.{1,2}$|:(?:cancel|subscribe)$|^(?:tasks|extendedAgentCard)$/iu,
          )
      }),
    )
  })
})

it('A34 A35 a card of any JSON is read without a throw; with security members it is open only if it says so', () => {
  const requirement = fc.oneof(json, fc.constantFrom({ schemes: {} }, {}, { schemes: { a: {} } }, { a: [] }))
  const card = fc.record(
    {
      supportedInterfaces: fc.oneof(json, fc.constant([])),
      protocolVersion: fc.oneof(fc.constantFrom('0.3.0', '1.0'), json),
      securitySchemes: fc.oneof(json, fc.constant({ a: { mtlsSecurityScheme: {} } })),
      securityRequirements: fc.oneof(json, fc.array(requirement)),
      security: fc.oneof(json, fc.array(requirement)),
      skills: fc.oneof(json, fc.array(fc.record({ id: fc.string(), securityRequirements: json, security: json }))),
      capabilities: json,
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(fc.oneof(json, card), (value) => {
      const { model, problems } = parseCard(value)
      for (const { pointer } of problems) expect(pointer === '' || pointer.startsWith('/')).toBe(true)
      const open = model.requirements.length === 0 || model.requirements.some(({ schemes }) => schemes.length === 0)
      const declared = Object.entries((value ?? {}) as object).find(
        ([name]) => name === 'securityRequirements' || name === 'security',
      )
      const empty = (list: unknown) =>
        Array.isArray(list) &&
        (list.length === 0 || list.some((entry) => /^\{(?:"schemes":(?:\{\}|null))?\}$/.test(JSON.stringify(entry))))
      if (declared !== undefined && open && !problems.some(({ severity }) => severity === 'error')) {
        expect(empty(declared[1])).toBe(true)
      }
    }),
    { numRuns: 3000 },
  )
})

it('P94 a challenge never leaves its line, and says only what RFC 9110 can read', () => {
  const challenge = fc.record({
    scheme: fc.oneof(fc.constant('Bearer'), text),
    params: fc.array(
      fc.tuple(
        fc.oneof(fc.constantFrom('realm', 'error', 'error_description', 'scope', 'resource_metadata'), text),
        text,
      ),
      { maxLength: 4 },
    ),
  })
  const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
  const parameter = `${token}="(?:[^"\\\\]|\\\\.)*"`
  const one = `${token}(?: ${parameter}(?:, ${parameter})*)?`
  const grammar = new RegExp(`^(?:${one}(?:, ${one})*)?$`)
  fc.assert(
    fc.property(fc.array(challenge, { maxLength: 5 }), (challenges) => {
      const header = formatChallenges(challenges)
      expect(header).toMatch(/^[\t\x20-\x7e]*$/)
      expect(header).toMatch(grammar)
      expect(() => new Headers({ 'www-authenticate': header })).not.toThrow()
    }),
    { numRuns: 2000 },
  )
})

it('A37 a denial is JSON on every binding, whatever id and task it echoes', () => {
  const reasons: DenialReason[] = [
    'UNAUTHENTICATED',
    'PERMISSION_DENIED',
    'INVALID_REQUEST',
    'TASK_NOT_FOUND',
    'RATE_LIMITED',
  ]
  fc.assert(
    fc.property(
      fc.constantFrom(...reasons),
      fc.constantFrom<Binding>('JSONRPC', 'HTTP+JSON', 'GRPC'),
      fc.constantFrom('1.0', '0.3'),
      fc.oneof(text, fc.integer(), fc.constant(null)),
      text,
      (reason, on, version, requestId, taskId) => {
        const denial = renderDenial({ reason, binding: on, version, requestId, taskId })
        const body = JSON.parse(denial.body)
        if (on === 'JSONRPC') expect(body).toMatchObject({ jsonrpc: '2.0', id: requestId })
        expect(Object.keys(denial.headers).every((name) => name === name.toLowerCase())).toBe(true)
      },
    ),
  )
})
