// One of several processes that try to use the same values at the same time. Prints how often each was accepted.
import { Cluster, Redis } from 'ioredis'
import { createRedisStores } from '../../dist/store/redis/index.js'

const { target, prefix, values, attempts, from, options } = JSON.parse(process.argv[2])
const client = target.nodes ? new Cluster(target.nodes, options) : new Redis({ ...options, ...target })
client.on('error', () => {})
const stores = createRedisStores({ client, prefix, commandTimeoutMs: 10_000 })
await stores.replay.claim(`ready ${process.pid}`, 600)
// All begin when all are there.
console.log('ready')
await new Promise((resolve) => process.stdin.once('data', resolve))
process.stdin.pause()
const accepted = []
let refused = 0
let failed = 0
let next = 0
const worker = async () => {
  while (next < attempts) {
    const value = (from + next) % values
    next += 1
    try {
      if (await stores.replay.claim(`value ${value}`, 600)) accepted.push(value)
      else refused += 1
    } catch (fault) {
      failed += 1
      if (failed === 1) console.error(fault.details, fault.message)
    }
  }
}
await Promise.all(Array.from({ length: 200 }, worker))
await stores.close()
client.disconnect()
console.log(JSON.stringify({ accepted, refused, failed }))
