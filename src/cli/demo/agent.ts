/** The agent the demo protects: nothing but `@a2a-js/sdk`, exactly as one would write it without a guard. */
import { AgentCard, type Message, Role, type Task, TaskState } from '@a2a-js/sdk'
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  type RequestContext,
} from '@a2a-js/sdk/server'

/** Card of the demo agent at `baseUrl`, with tokens of `issuer`. */
export function demoCard(baseUrl: string, issuer: string) {
  return {
    name: 'Demo agent',
    description: 'Echoes text, and pays invoices for those who may.',
    version: '1.0.0',
    supportedInterfaces: [
      { url: `${baseUrl}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: `${baseUrl}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
      { url: `${baseUrl}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
    ],
    capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [
      { id: 'echo', name: 'Echo', description: 'Says what you said.', tags: ['demo'] },
      {
        id: 'pay-invoice',
        name: 'Pay an invoice',
        description: 'Moves money.',
        tags: ['demo'],
        securityRequirements: [{ schemes: { login: { list: ['a2a:pay'] } } }],
      },
    ],
    securitySchemes: {
      login: { openIdConnectSecurityScheme: { openIdConnectUrl: `${issuer}/.well-known/openid-configuration` } },
      'partner-key': { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
    },
    securityRequirements: [
      { schemes: { login: { list: ['a2a:read'] } } },
      { schemes: { 'partner-key': { list: [] } } },
    ],
  }
}

/** Counts what reaches the agent, so that the demo can prove that a refused request did not. */
export class DemoExecutor implements AgentExecutor {
  runs = 0
  readonly #waiting = new Map<string, () => void>()

  async execute({ userMessage, taskId, contextId }: RequestContext, bus: ExecutionEventBus): Promise<void> {
    this.runs += 1
    const text = textOf(userMessage)
    bus.publish(AgentEvent.task(taskOf(taskId, contextId, TaskState.TASK_STATE_WORKING)))
    // A task that is asked to wait stays in progress until it is cancelled.
    if (text.startsWith('wait')) {
      await new Promise<void>((resolve) => this.#waiting.set(taskId, resolve))
      this.#finish(taskId, contextId, TaskState.TASK_STATE_CANCELED, bus)
      return
    }
    bus.publish(
      AgentEvent.artifactUpdate({
        taskId,
        contextId,
        artifact: {
          artifactId: 'answer',
          name: 'answer',
          description: '',
          parts: [
            { content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: 'text/plain' },
          ],
          metadata: undefined,
          extensions: [],
        },
        append: false,
        lastChunk: true,
        metadata: undefined,
      }),
    )
    this.#finish(taskId, contextId, TaskState.TASK_STATE_COMPLETED, bus)
  }

  async cancelTask(taskId: string): Promise<void> {
    this.#waiting.get(taskId)?.()
    this.#waiting.delete(taskId)
  }

  #finish(taskId: string, contextId: string, state: TaskState, bus: ExecutionEventBus): void {
    const status = { state, message: undefined, timestamp: new Date().toISOString() }
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }))
    bus.finished()
  }
}

function taskOf(id: string, contextId: string, state: TaskState): Task {
  const status = { state, message: undefined, timestamp: new Date().toISOString() }
  return { id, contextId, status, artifacts: [], history: [], metadata: undefined }
}

function textOf({ parts }: Message): string {
  return parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('')
}

/** A user message with `text`, naming `skill` where there is one. */
export function userMessage(text: string, skill?: string): Message {
  return {
    messageId: crypto.randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: 'text/plain' }],
    metadata: skill === undefined ? undefined : { skillId: skill },
    extensions: [],
    referenceTaskIds: [],
  }
}

export function demoRequestHandler(card: object, executor: AgentExecutor): DefaultRequestHandler {
  return new DefaultRequestHandler(AgentCard.fromJSON(card), new InMemoryTaskStore(), executor)
}
