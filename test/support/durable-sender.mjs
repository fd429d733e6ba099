// A process with a durable sender, to be killed: `node durable-sender.mjs REDIS_PORT HOOK_URL SECRET COUNT`.
import { Redis } from 'ioredis'
import { createEgress } from '../../dist/egress/index.js'
import { createBullQueue } from '../../dist/webhook/bullmq.js'
import { createPushNotifications, createWebhookSender } from '../../dist/webhook/index.js'

const [, , redisPort, url, secret, count] = process.argv
const client = new Redis(Number(redisPort), '127.0.0.1', { maxRetriesPerRequest: null })
const tasks = ['t1', 't2', 't3']
const record = (taskId) => ({
  taskId,
  id: 'c1',
  owner: '["","alice"]',
  url,
  version: '1.0',
  tenant: '',
  scheme: '',
  sealed: '',
  revision: '1',
})
// What is registered is the same for every process of this test.
const records = { put: () => 'stored', list: (taskId) => [record(taskId)], delete: () => undefined }
const egress = createEgress({ requireHttps: false, ports: [Number(new URL(url).port)], allowAddresses: ['127.0.0.1'] })
const store = createPushNotifications({ egress, records, encryptionKeys: [Buffer.alloc(32, 1).toString('base64')] })
const sender = createWebhookSender({
  store,
  egress,
  durable: createBullQueue({ client, takeOverAfterMs: 1000 }),
  signing: { secrets: { [new URL(url).origin]: { current: secret } } },
  retry: { baseMs: 20, maxMs: 50 },
  host: { failures: 1000 },
})
for (let n = 0; n < Number(count); n += 1) {
  for (const taskId of tasks) {
    const state = n === Number(count) - 1 ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_WORKING'
    await sender.send({ statusUpdate: { taskId, contextId: 'c', status: { state }, metadata: { n } } }, {})
  }
}
process.stdout.write('queued\n')
process.once('SIGTERM', async () => {
  await sender.close(2000)
  process.stdout.write('closed\n')
  client.disconnect()
})
