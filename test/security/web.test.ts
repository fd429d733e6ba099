/** The adapter for the web's Request: what it hands on, and bodies of every kind. The contract is in test/contract. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { userBuilder } from '../../src/adapters/a2a-sdk.ts'
import { decisionFor, webGuard } from '../../src/adapters/web.ts'
import type { Guard } from '../../src/guard.ts'
import { API_KEY, makeRig, type Rig, rigCard } from '../support/rig.ts'

let rig: Rig
let got: Request[] = []
const handle = (request: Request): Response => {
  got.push(request)
  return Response.json({ ok: true })
}
beforeAll(async () => {
  rig = await makeRig({ policy: { maxBodyBytes: 2048 } })
})
afterAll(() => rig.close())
beforeEach(() => {
  got = []
})

const KEY = { 'x-api-key': API_KEY }
const rpc = (changes: object = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't' }, ...changes })
const post = (body: RequestInit['body'], headers: Record<string, string> = KEY, url = 'https://agent.example/a2a') =>
  new Request(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
    ...(body === undefined ? {} : { body, duplex: 'half' }),
  } as RequestInit)

/** A body that says when somebody reads it, and whether it was given up. */
function watched(chunks: readonly Uint8Array[]) {
  const seen = { pulled: 0, cancelled: false }
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const next = chunks[seen.pulled]
        seen.pulled += 1
        if (next === undefined) controller.close()
        else controller.enqueue(next)
      },
      cancel() {
        seen.cancelled = true
      },
    },
    { highWaterMark: 0 },
  )
  return { body, seen }
}
const bytes = (text: string) => new TextEncoder().encode(text)

describe('webGuard', () => {
  it('A51 hands on the bytes that were decided on, without credential and without claimed names', async () => {
    const protect = webGuard(rig.guard, { mount: '/a2a' })
    const names = { 'x-user-id': 'root', 'x-forwarded-user': 'root', cookie: 'sid=1', 'x-trace': 'kept' }
    const response = await protect(post(rpc(), { ...KEY, ...names }), handle)
    expect(response.status).toBe(200)
    const [request] = got as [Request]
    expect(Object.fromEntries(request.headers)).toEqual({
      'content-type': 'application/json',
      'a2a-version': '1.0',
      'x-trace': 'kept',
    })
    expect(await request.clone().text()).toBe(rpc())
    expect(await request.json()).toMatchObject({ method: 'GetTask' })
    expect(decisionFor(rig.guard, request)).toMatchObject({ allowed: true, principal: { subject: 'partner' } })
    expect((await userBuilder(rig.guard)(request)).userName).toContain('partner')
  })

  it('A29 a request that did not come out of this guard has no decision', async () => {
    const other = await makeRig()
    const protect = webGuard(rig.guard, { mount: '/a2a' })
    const request = post(rpc())
    await protect(request, handle)
    expect(decisionFor(rig.guard, request)).toBeUndefined()
    expect(decisionFor(other.guard, got[0] as Request)).toBeUndefined()
    await expect(userBuilder(rig.guard)(request)).rejects.toMatchObject({ code: 'ERR_GUARD_NOT_MOUNTED' })
    await other.close()
  })

  it('A38 without a credential the body is not read', async () => {
    const { body, seen } = watched([bytes(rpc())])
    const response = await webGuard(rig.guard, { mount: '/a2a' })(post(body, {}), handle)
    expect([response.status, seen.pulled]).toEqual([401, 0])
    expect(response.headers.get('www-authenticate')).toMatch(/^Bearer realm="a2a"/)
    expect(got).toEqual([])
  })

  it('a body over the limit is given up at the limit, announced or not', async () => {
    const { body, seen } = watched(Array.from({ length: 1000 }, () => new Uint8Array(1024)))
    const protect = webGuard(rig.guard, { mount: '/a2a' })
    expect((await protect(post(body), handle)).status).toBe(413)
    expect(seen).toEqual({ pulled: 3, cancelled: true })
    const announced = watched([bytes(rpc())])
    expect((await protect(post(announced.body, { ...KEY, 'content-length': '99999' }), handle)).status).toBe(413)
    expect(announced.seen.pulled).toBe(0)
    expect(got).toEqual([])
  })

  it.each([
    ['a duplicated member', () => post('{"jsonrpc":"2.0","id":1,"method":"GetTask","method":"CancelTask"}'), 400],
    ['bytes that are no UTF-8', () => post(new Uint8Array([0x22, 0xff, 0x22])), 400],
    ['a content coding', () => post(rpc(), { ...KEY, 'content-encoding': 'gzip' }), 400],
    ['no body', () => post(undefined), 400],
    ['an empty body', () => post(''), 400],
    ['a stream that breaks', () => post(new ReadableStream({ pull: (c) => c.error(new Error('gone')) })), 400],
    ['an unknown method', () => post(rpc({ method: 'DropTable' })), 403],
    ['another path', () => post(rpc(), KEY, 'https://agent.example/a2a/other'), 403],
    ['a path that only begins like the mount', () => post(rpc(), KEY, 'https://agent.example/a2ax'), 403],
    [
      'the key twice',
      () => {
        const request = post(rpc())
        request.headers.append('x-api-key', API_KEY)
        return request
      },
      400,
    ],
    [
      'two bearer tokens',
      () => {
        const request = post(rpc(), {})
        request.headers.append('authorization', 'Bearer a')
        request.headers.append('authorization', 'Bearer b')
        return request
      },
      400,
    ],
  ])('%s is refused and nothing runs', async (_, make, status) => {
    expect((await webGuard(rig.guard, { mount: '/a2a' })(make(), handle)).status).toBe(status)
    expect(got).toEqual([])
  })

  it('a body that somebody has read is refused, and one without meaning is not handed on', async () => {
    const protect = webGuard(rig.guard, { mount: '/a2a' })
    const used = post(rpc())
    await used.text()
    expect((await protect(used, handle)).status).toBe(400)
    const cancel = post('', KEY, 'https://agent.example/a2a/tasks/t:cancel')
    expect((await protect(cancel, handle)).status).toBe(200)
    expect(await got[0]?.text()).toBe('')
  })

  it('a credential in the query is removed from the URL', async () => {
    const card = rigCard({
      securitySchemes: { key: { apiKeySecurityScheme: { location: 'query', name: 'key' } } },
      securityRequirements: [{ schemes: { key: { list: [] } } }],
    })
    const inQuery = await makeRig({ card })
    const request = new Request(`https://agent.example/tasks/t?key=${API_KEY}&historyLength=1`, {
      headers: { 'a2a-version': '1.0', 'x-original-url': `/tasks/t?key=${API_KEY}` },
    })
    expect((await webGuard(inQuery.guard)(request, handle)).status).toBe(200)
    expect(got[0]?.url).toBe('https://agent.example/tasks/t?historyLength=1')
    expect(got[0]?.headers.get('x-original-url')).toBe('/tasks/t')
    await inQuery.close()
  })

  it('"keepCredential" leaves the credential and nothing else', async () => {
    const protect = webGuard(rig.guard, { mount: '/a2a', keepCredential: true })
    await protect(post(rpc(), { ...KEY, 'x-user-id': 'root' }), handle)
    expect(got[0]?.headers.get('x-api-key')).toBe(API_KEY)
    expect(got[0]?.headers.has('x-user-id')).toBe(false)
  })

  it('the address is what the host says it is: limits and events use it', async () => {
    const limited = await makeRig({ policy: { limits: { failedAuthentication: '1/min' } } })
    const protect = webGuard(limited.guard, { mount: '/a2a' })
    const bad = () => post(rpc(), { 'x-api-key': 'wrong-key-that-nobody-has-00001', 'x-forwarded-for': '192.0.2.9' })
    expect((await protect(bad(), handle, { address: '192.0.2.1' })).status).toBe(401)
    expect((await protect(bad(), handle, { address: '192.0.2.1' })).status).toBe(429)
    expect((await protect(bad(), handle, { address: '192.0.2.2' })).status).toBe(401)
    expect(limited.events.map(({ peerAddress }) => peerAddress)).toEqual(['192.0.2.1', '192.0.2.1', '192.0.2.2'])
    await limited.close()
  })

  it('a fault rejects and lets nothing through; what the handler rejects with is passed on', async () => {
    for (const name of ['authenticate', 'authorize'] as const) {
      const broken = {
        ...rig.guard,
        [name]: () => {
          throw new Error('a fault inside')
        },
      } as Guard
      await expect(webGuard(broken, { mount: '/a2a' })(post(rpc()), handle)).rejects.toThrow('a fault inside')
    }
    expect(got).toEqual([])
    const failing = async () => {
      throw new Error('of the handler')
    }
    await expect(webGuard(rig.guard, { mount: '/a2a' })(post(rpc()), failing)).rejects.toThrow('of the handler')
  })

  it('the signal of the request reaches the handler', async () => {
    const abort = new AbortController()
    const request = new Request(post(rpc()), { signal: abort.signal })
    await webGuard(rig.guard, { mount: '/a2a' })(request, handle)
    abort.abort()
    expect(got[0]?.signal.aborted).toBe(true)
  })

  it('options are checked', () => {
    expect(() => webGuard(rig.guard, { mount: 'a2a/' })).toThrow(/^"mount"/)
    expect(() => webGuard(rig.guard, { binding: 'GRPC' as never })).toThrow(/^"binding"/)
    expect(() => webGuard(rig.guard, { keepCredential: 'yes' as never })).toThrow(/^"keepCredential"/)
  })
})
