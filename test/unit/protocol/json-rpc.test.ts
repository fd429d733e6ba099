import { describe, expect, it } from 'vitest'
import { headerView } from '../../../src/internal/headers.ts'
import { readJsonBody, readJsonRpc } from '../../../src/protocol/json-rpc.ts'

const none = headerView([])
const parse = (text: string) => {
  const body = readJsonBody(text, none)
  return body.ok ? readJsonRpc(body.value) : body
}
const ENVELOPE = '"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}'

describe('P142 ids', () => {
  it.each([
    ['0', 0],
    ['""', ''],
    ['-1', -1],
    ['"7"', '7'],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
  ])('%s is an id', (text, id) => {
    expect(parse(`{"jsonrpc":"2.0","id":${text},"method":"GetTask"}`)).toEqual({
      ok: true,
      id,
      method: 'GetTask',
      params: undefined,
    })
  })

  it.each([['1.5'], ['null'], ['{}'], ['[1]'], ['true'], ['1e400'], ['9007199254740992']])('%s is not', (text) => {
    expect(parse(`{"jsonrpc":"2.0","id":${text},"method":"GetTask"}`)).toMatchObject({
      ok: false,
      code: 'ERR_REQUEST_MALFORMED',
    })
  })

  it('a notification is refused', () => {
    expect(parse('{"jsonrpc":"2.0","method":"GetTask"}')).toEqual({
      ok: false,
      code: 'ERR_REQUEST_MALFORMED',
      id: null,
    })
    expect(parse('{"jsonrpc":"2.0","method":"GetTask","__proto__":{"id":1}}')).toMatchObject({ ok: false, id: null })
  })
})

describe('A26 one text, one meaning', () => {
  it.each<[string, string, string]>([
    ['a method twice', `{${ENVELOPE},"method":"ListTasks"}`, 'ERR_REQUEST_MALFORMED'],
    ['a method twice, once escaped', `{${ENVELOPE},"\\u006dethod":"ListTasks"}`, 'ERR_REQUEST_MALFORMED'],
    [
      'a task id twice',
      `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t","id":"u"}}`,
      'ERR_REQUEST_MALFORMED',
    ],
    ['a lone surrogate', `{${ENVELOPE},"x":"\\ud800"}`, 'ERR_REQUEST_MALFORMED'],
    ['deep nesting', `{${ENVELOPE},"x":${'['.repeat(200)}${']'.repeat(200)}}`, 'ERR_REQUEST_MALFORMED'],
    ['two values', `{${ENVELOPE}} {${ENVELOPE}}`, 'ERR_REQUEST_MALFORMED'],
    ['a comment', `{${ENVELOPE}}// x`, 'ERR_REQUEST_MALFORMED'],
    ['a byte order mark', `\ufeff{${ENVELOPE}}`, 'ERR_BODY_NOT_JSON'],
    ['single quotes', "{'jsonrpc':'2.0'}", 'ERR_BODY_NOT_JSON'],
    ['a trailing comma', `{${ENVELOPE},}`, 'ERR_BODY_NOT_JSON'],
    ['no text', '', 'ERR_BODY_NOT_JSON'],
    ['spaces', '  ', 'ERR_BODY_NOT_JSON'],
  ])('%s', (_, text, code) => {
    expect(parse(text)).toMatchObject({ ok: false, code })
  })

  it('bytes are UTF-8', () => {
    const bytes = Buffer.from(`{${ENVELOPE},"x":"é"}`)
    expect(readJsonBody(bytes, none)).toMatchObject({ ok: true })
    expect(readJsonBody(Buffer.from(bytes.toString('utf8'), 'latin1'), none)).toEqual({
      ok: false,
      code: 'ERR_BODY_NOT_JSON',
    })
    expect(readJsonBody(Buffer.from(bytes.toString('utf8'), 'utf16le'), none)).toMatchObject({ ok: false })
  })

  it.each([
    [['Content-Type', 'application/json; charset=utf-7']],
    [['content-type', 'application/json;x=y;CharSet = "UTF-16"']],
    [['content-type', 'application/json; charset=iso-8859-1']],
    [['content-type', 'application/json; charset=utf-8; charset=utf-7']],
    [['content-type', 'application/json', 'Content-Type', 'application/json']],
    [['content-encoding', 'br']],
    [['content-encoding', 'identity', 'content-encoding', 'gzip']],
  ])('%j would make other JSON of the bytes', (rawHeaders) => {
    const headers = headerView(rawHeaders)
    expect(readJsonBody(`{${ENVELOPE}}`, headers)).toEqual({ ok: false, code: 'ERR_REQUEST_MALFORMED' })
    // What the host has parsed already, it has decoded already.
    expect(readJsonBody({ a: 1 }, headers)).toEqual({ ok: true, value: { a: 1 } })
  })

  it.each([
    [['content-type', 'application/json; charset="UTF-8"']],
    [['content-type', 'application/a2a+json', 'content-encoding', 'identity']],
  ])('%j does not', (rawHeaders) => {
    expect(readJsonBody(`{${ENVELOPE}}`, headerView(rawHeaders))).toMatchObject({ ok: true })
  })
})

describe('the envelope', () => {
  it.each<[string, unknown]>([
    ['a batch', [{ jsonrpc: '2.0', id: 1, method: 'GetTask' }]],
    ['an empty batch', []],
    ['a text', 'x'],
    ['null', null],
    ['a number', 7],
  ])('%s is refused without an id', (_, body) => {
    expect(readJsonRpc(body)).toEqual({ ok: false, code: 'ERR_REQUEST_MALFORMED', id: null })
  })

  it.each<[string, object]>([
    ['no jsonrpc', { id: 1, method: 'GetTask' }],
    ['another jsonrpc', { jsonrpc: '1.0', id: 1, method: 'GetTask' }],
    ['jsonrpc as a number', { jsonrpc: 2.0, id: 1, method: 'GetTask' }],
    ['no method', { jsonrpc: '2.0', id: 1 }],
    ['a method that is no text', { jsonrpc: '2.0', id: 1, method: ['GetTask'] }],
    ['params as a list', { jsonrpc: '2.0', id: 1, method: 'GetTask', params: ['t'] }],
    ['params of null', { jsonrpc: '2.0', id: 1, method: 'GetTask', params: null }],
    ['another case of a member', { jsonrpc: '2.0', id: 1, method: 'GetTask', Method: 'ListTasks' }],
    ['another case of params', { jsonrpc: '2.0', id: 1, method: 'GetTask', PARAMS: {} }],
  ])('%s is refused with the id', (_, body) => {
    expect(readJsonRpc(body)).toEqual({ ok: false, code: 'ERR_REQUEST_MALFORMED', id: 1 })
  })

  it('members JSON-RPC does not know are ignored, and inherited ones are not there', () => {
    const body = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' }, trace: 'x' }
    expect(readJsonRpc(body)).toMatchObject({ ok: true, method: 'GetTask' })
    expect(readJsonRpc(Object.create(body))).toMatchObject({ ok: false })
  })
})
