// One process that fetches what it is told through the built package: certificate authorities are read at its start.
import { createEgress } from '../../dist/egress/index.js'

const { options, hosts, calls } = JSON.parse(process.argv[2])
const egress = createEgress({ ...options, resolver: async (name) => hosts[name] ?? [] })
const outcomes = []
for (const [url, init] of calls) {
  try {
    const response = await egress.fetch(url, init)
    outcomes.push({ status: response.status, body: await response.text() })
  } catch (fault) {
    outcomes.push({ code: fault.code, reason: fault.details?.reason })
  }
}
await egress.close()
process.stdout.write(JSON.stringify(outcomes))
