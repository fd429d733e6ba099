/** The policy's `webhooks`: what may be registered, what signs, and what a reload changes. */
import { afterEach, describe, expect, it } from 'vitest'
import { createEgress } from '../../src/egress/index.ts'
import { lintPolicy } from '../../src/policy/load.ts'
import {
  createPushNotifications,
  createWebhookSender,
  createWebhookVerifier,
  type DeliveryEvent,
  generateWebhookSecret,
} from '../../src/webhook/index.ts'
import { makeRig, type Rig } from '../support/rig.ts'

const alice = { user: { isAuthenticated: true, userName: 'alice' }, requestedVersion: '1.0' }
const config = (url: string) => ({
  tenant: '',
  id: 'c1',
  taskId: 't1',
  url,
  token: 's3cr3t',
  authentication: undefined,
})
const update = { statusUpdate: { taskId: 't1', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } } }

let rig: Rig | undefined
afterEach(async () => {
  await rig?.close()
  rig = undefined
})

describe('policy: webhooks', () => {
  it('A70 allows, signs with current and previous, and follows a reload', async () => {
    const [current, previous] = [generateWebhookSecret(), generateWebhookSecret()]
    const env: Record<string, string> = { HOOK: current, OLD: previous, KEY: Buffer.alloc(32, 1).toString('base64') }
    const webhooks = {
      allow: ['https://*.example.com'],
      secrets: { 'https://a.example.com': { current: 'env:HOOK', previous: 'env:OLD' } },
      encryptionKeys: ['env:KEY'],
    }
    rig = await makeRig({ policy: { webhooks }, guard: { env } })
    const sent: RequestInit[] = []
    const fetch = async (_url: unknown, init?: RequestInit) => {
      sent.push(init as RequestInit)
      return new Response(null, { status: 204 })
    }
    const egress = {
      ...createEgress({ resolver: async () => ['93.184.216.34'] }),
      fetch: fetch as typeof globalThis.fetch,
    }
    const store = createPushNotifications({ egress, policy: rig.guard.webhooks })
    const events: DeliveryEvent[] = []
    const sender = createWebhookSender({
      store,
      egress,
      policy: rig.guard.webhooks,
      onDelivery: (event) => events.push(event),
    })
    await expect(store.save('t1', alice, config('https://example.net/'))).rejects.toThrow(/may not be registered/)
    await store.save('t1', alice, config('https://a.example.com/hook'))
    await sender.send(update, alice)
    await expect.poll(() => events).toMatchObject([{ outcome: 'delivered' }])
    const [{ headers, body }] = sent as [{ headers: Record<string, string>; body: string }]
    for (const secrets of [current, previous])
      expect(await createWebhookVerifier({ secrets }).verify({ headers, body })).toMatchObject({ ok: true })

    env.HOOK = generateWebhookSecret()
    webhooks.allow = ['https://other.example.com']
    await rig.guard.reload()
    await sender.send(update, alice)
    await expect.poll(() => events[1]).toMatchObject({ outcome: 'failed', reason: 'ERR_PUSH_CONFIG' })
    expect(sent).toHaveLength(1)
    await store.save('t1', alice, { ...config('https://other.example.com/hook'), id: 'c2' })
    expect(rig.guard.webhooks.keysFor('https://a.example.com')).toHaveLength(2)
    await sender.close()
  })

  it('without it any public origin may be registered, and nothing is signed by the policy', async () => {
    rig = await makeRig()
    expect(rig.guard.webhooks.allows(new URL('https://anywhere.example.net/'))).toBe(true)
    expect(rig.guard.webhooks.keysFor('https://anywhere.example.net')).toEqual([])
    expect(rig.guard.webhooks.encryptionKeys()).toBeUndefined()
  })

  it('all mistakes are said at once, and no secret with them', async () => {
    const { problems } = await lintPolicy({
      policy: {
        version: 1,
        card: {},
        audience: 'https://agent.example',
        webhooks: {
          allow: ['example.com', 'https://*', 'https://a.example.com/path'],
          secrets: {
            'https://a.example.com/': { current: 'env:GOOD' },
            'https://b.example.com': { current: 'env:WRONG', previous: 'env:UNSET' },
            'https://c.example.com': { current: 'whsec_inline' },
          },
          encryptionKeys: ['env:WRONG'],
        },
      },
      env: { GOOD: generateWebhookSecret(), WRONG: 'not-base64-of-anything!' },
    })
    const at = problems.filter(({ pointer }) => pointer.startsWith('/webhooks')).map(({ pointer }) => pointer)
    expect(at.toSorted()).toEqual([
      '/webhooks/allow/0',
      '/webhooks/allow/1',
      '/webhooks/allow/2',
      '/webhooks/secrets/https:~1~1b.example.com/previous',
      '/webhooks/secrets/https:~1~1c.example.com/current',
    ])
    expect(JSON.stringify(problems)).not.toMatch(/not-base64|whsec_inline/)
  })

  it('what secrets refer to is judged at start', async () => {
    const { problems } = await lintPolicy({
      policy: {
        version: 1,
        card: {},
        audience: 'https://agent.example',
        webhooks: {
          secrets: {
            'https://a.example.com/': { current: 'env:GOOD' },
            'https://b.example.com': { current: 'env:WRONG', previous: 'env:UNSET' },
          },
          encryptionKeys: ['env:WRONG'],
        },
      },
      env: { GOOD: generateWebhookSecret(), WRONG: 'not-base64-of-anything!' },
    })
    const at = problems.filter(({ pointer }) => pointer.startsWith('/webhooks')).map(({ pointer }) => pointer)
    expect(at.toSorted()).toEqual([
      '/webhooks/encryptionKeys/0',
      '/webhooks/secrets/https:~1~1a.example.com~1',
      '/webhooks/secrets/https:~1~1b.example.com/current',
      '/webhooks/secrets/https:~1~1b.example.com/previous',
    ])
    expect(JSON.stringify(problems)).not.toMatch(/not-base64|whsec_inline/)
  })
})
