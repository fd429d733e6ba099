/** The watch in front of every test file sees what it is there to see: each way out, made to leak on purpose. */
import { afterEach, describe, expect, it } from 'vitest'
import { TrustError } from '../../src/errors.ts'
import { renderDenial } from '../../src/protocol/denial.ts'
import { createLeakWatch, MARK } from '../support/leak-watch.ts'
import { API_KEY, makeRig } from '../support/rig.ts'
import { watch } from '../support/watch-for-leaks.ts'

describe('the watch of this very file', () => {
  afterEach(() => void watch.leaks.splice(0))
  const kinds = () => watch.leaks.map((leak) => leak.slice(0, leak.indexOf(':')))

  it('sees events, denials, log lines, errors and the console', async () => {
    const nothing = () => undefined
    const rig = await makeRig({
      guard: {
        logger: { debug: nothing, info: nothing, warn: nothing, error: nothing },
        onDecision: () => {
          throw new Error(`no: ${API_KEY}`)
        },
      },
    })
    // The key as the id of a task, which events rightly have.
    await rig.guard.check({ method: 'GET', target: `/tasks/${API_KEY}`, rawHeaders: ['x-api-key', API_KEY] })
    await rig.close()
    expect(kinds()).toEqual(expect.arrayContaining(['event', 'log error', 'log info']))
    renderDenial({ reason: 'UNAUTHENTICATED', binding: 'JSONRPC', version: '1.0', message: `not ${API_KEY}` })
    new TrustError('ERR_FETCH_FAILED', { details: { url: `https://x.example/?key=${API_KEY.slice(0, 20)}` } })
    await Promise.resolve()
    const { debug } = console
    console.debug('a planted secret for the watch alone:', `${MARK}-x`)
    expect(debug).toBe(console.debug)
    expect(kinds()).toEqual(expect.arrayContaining(['denial', 'error', 'console.debug']))
  })

  it('and is quiet otherwise', async () => {
    const rig = await makeRig()
    const token = await rig.token()
    for (const credential of [
      ['x-api-key', API_KEY],
      ['authorization', `Bearer ${token}`],
      ['authorization', `Bearer ${token}x`],
    ])
      await rig.guard.check({ method: 'GET', target: '/tasks/t', rawHeaders: credential })
    await rig.close()
    expect(watch.leaks).toEqual([])
  })
})

describe('a watch', () => {
  const token = `${'h'.repeat(20)}.${'payload-'.repeat(4)}.${'signature-'.repeat(4)}`
  const basic = Buffer.from('alice:correct horse battery staple').toString('base64')
  it.each<[string, readonly string[], string, string]>([
    ['a token', ['Authorization', `Bearer ${token}`], '', `token ${token}`],
    ['half a token', ['Authorization', `Bearer ${token}`], '', token.slice(0, 30)],
    ['its payload', ['Authorization', `Bearer ${token}`], '', 'payload-payload-payload-payload-'],
    ['its signature', ['Authorization', `Bearer ${token}`], '', `sig=${'signature-'.repeat(4)}`],
    ['a Basic header', ['authorization', `Basic ${basic}`], '', basic],
    ['a cookie', ['Cookie', 'a=1; sid=0123456789abcdef0123'], '', '{"c":"0123456789abcdef0123"}'],
    ['an API key', ['X-Api-Key', '0123456789abcdef0123'], '', 'key=0123456789abcdef0123;'],
    ['a query parameter', [], 'x=1&api_key=0123456789%61bcdef0123', '/?api_key=0123456789abcdef0123'],
  ])('finds %s', (_, headers, query, said) => {
    const made = createLeakWatch()
    made.said('before', said)
    made.presented(headers, query)
    expect(made.leaks).toEqual([])
    made.said('after', { nested: [said, 1] })
    expect(made.leaks).toHaveLength(1)
    expect(made.leaks[0]).toMatch(/^after: /)
  })

  it('finds a password inside Basic', () => {
    const made = createLeakWatch()
    made.presented(['authorization', `Basic ${Buffer.from('alice:0123456789abcdef').toString('base64')}`], '')
    made.said('x', 'wrong password 0123456789abcdef for alice')
    expect(made.leaks).toHaveLength(1)
  })
})
