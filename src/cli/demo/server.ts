/** The protected agent on loopback: the SDK's own handlers behind the guard, and the policy as files one can read. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express'
import express from 'express'
import { userBuilder } from '../../adapters/a2a-sdk.ts'
import { expressGuard, resourceMetadataHandler } from '../../adapters/express.ts'
import { createGuard } from '../../guard.ts'
import { sha256Hex } from '../../internal/sha256.ts'
import type { DecisionEvent } from '../../types.ts'
import { DemoExecutor, demoCard, demoRequestHandler } from './agent.ts'
import { closeServer, type DemoProvider } from './provider.ts'

export interface DemoServer {
  readonly baseUrl: string
  readonly policyFile: string
  readonly executor: DemoExecutor
  readonly events: readonly DecisionEvent[]
  close(): Promise<void>
}

export async function startServer(provider: DemoProvider, partnerKey: string): Promise<DemoServer> {
  const app = express()
  const server = app.listen(0, '127.0.0.1')
  await new Promise<void>((resolve, reject) => server.once('listening', resolve).once('error', reject))
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const card = demoCard(baseUrl, provider.issuer)
  const directory = await mkdtemp(join(tmpdir(), 'a2a-trust-demo-'))
  const policyFile = join(directory, 'policy.yaml')
  await writeFile(join(directory, 'agent-card.json'), JSON.stringify(card, null, 2))
  await writeFile(join(directory, 'api-keys.yaml'), apiKeysYaml(partnerKey))
  await writeFile(policyFile, policyYaml(baseUrl, provider.issuer))

  const events: DecisionEvent[] = []
  const guard = await createGuard({ policy: policyFile, onDecision: (event) => events.push(event) })
  const executor = new DemoExecutor()
  const requestHandler = demoRequestHandler(card, executor)
  const legacyCompat = { enabled: true }
  const sdk = { requestHandler, userBuilder: userBuilder(guard) }
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }))
  app.use(resourceMetadataHandler(guard))
  app.use('/a2a', expressGuard(guard), jsonRpcHandler({ ...sdk, legacyCompat }))
  app.use('/rest', expressGuard(guard), restHandler(sdk))
  return {
    baseUrl,
    policyFile,
    executor,
    events,
    async close() {
      await closeServer(server)
      await guard.close()
      await rm(directory, { recursive: true })
    },
  }
}

function policyYaml(baseUrl: string, issuer: string): string {
  return `version: 1
card: ./agent-card.json
audience: ${baseUrl}
publicUrl: ${baseUrl}
schemes:
  login:
    issuer: ${issuer}
    algorithms: [RS256]
  partner-key:
    keys: file:./api-keys.yaml
skills:
  select: { metadata: skillId }
egress:                     # the demo's provider is on loopback, which is otherwise out of reach
  requireHttps: false
  ports: [${new URL(issuer).port}]
  allowAddresses: [127.0.0.0/8]
`
}

function apiKeysYaml(key: string): string {
  return `- id: partner-2026
  sha256: ${sha256Hex(key)}
  owner: partner
`
}
