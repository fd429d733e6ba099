/** The configs of a task, from either kind of store: who is to be told now, and what a config says by the time of an attempt. */
import { TrustError } from '../errors.ts'
import type { PushConfigRecord } from '../store/stores.ts'
import type { AttemptConfig } from './attempt.ts'
import { pushConfigProblem } from './push-config.ts'
import type { PushCallContext, PushNotifications } from './push-config-store.ts'
import type { QueuedDelivery } from './queue.ts'
import type { PlainPushStore } from './sender-options.ts'

export interface Target {
  readonly configId: string
  readonly version: string
  readonly url: string
  readonly owner?: string
}

/** The config as it is now. */
export interface CurrentConfig extends AttemptConfig {
  /** Deletes it, as its receiver asked for. */
  end(): Promise<void>
}

export interface Targets {
  list(taskId: string, context: PushCallContext): Promise<readonly Target[]>
  /** `undefined` once it is deleted. */
  find(item: QueuedDelivery): Promise<CurrentConfig | undefined>
  /** Told of each delivery that is queued, for what `find` will need and no queue can keep. */
  queued?(item: QueuedDelivery, context: PushCallContext): void
}

export function isGuarded(store: PushNotifications | PlainPushStore): store is PushNotifications {
  return 'records' in store
}

export function laneOf({
  taskId,
  id,
  owner = '',
}: Pick<PushConfigRecord, 'taskId' | 'id'> & { readonly owner?: string }) {
  return JSON.stringify([taskId, id, owner])
}

export function guardedTargets(store: PushNotifications): Targets {
  return {
    async list(taskId) {
      return (await store.records(taskId)).map(({ id: configId, version, url, owner }) => ({
        configId,
        version,
        url,
        owner,
      }))
    },
    async find({ message: { taskId, version }, configId, owner }) {
      const now = (await store.records(taskId)).find((one) => one.id === configId && one.owner === owner)
      if (now !== undefined && !URL.canParse(now.url))
        throw new TrustError('ERR_PUSH_CONFIG', { details: { problem: 'url' } })
      // A body is written in the version of its registration; another version is another receiver.
      if (now === undefined || now.version !== version) return undefined
      const { token, credentials } = store.open(now)
      return { url: now.url, token, scheme: now.scheme, credentials, end: () => store.end(now) }
    },
  }
}

/** A store of the SDK's: it knows configs by the caller whose event this is, and is asked as the SDK asks it. */
export function plainTargets(store: PlainPushStore): Targets {
  const contexts = new WeakMap<QueuedDelivery, PushCallContext>()
  const load = async (taskId: string, context: PushCallContext) => {
    if (store.loadWithMetadata !== undefined) return store.loadWithMetadata(taskId, context)
    const wireVersion = context.requestedVersion || '0.3'
    return (await store.load(taskId, context)).map((config) => ({ config, wireVersion }))
  }
  return {
    async list(taskId, context) {
      const entries = await load(taskId, context)
      return entries.map(({ config: { id, url }, wireVersion }) => ({ configId: id, version: wireVersion, url }))
    },
    async find(item) {
      const { taskId } = item.message
      const context = contexts.get(item) as PushCallContext
      const now = (await load(taskId, context)).find((one) => one.config.id === item.configId)?.config
      if (now === undefined) return undefined
      const { url, token, authentication } = now
      const { scheme = '', credentials = '' } = authentication ?? {}
      // What this store let in unchecked is checked here, before any of it becomes a header.
      const problem = pushConfigProblem({ ...now, taskId })
      if (problem !== undefined) throw new TrustError('ERR_PUSH_CONFIG', { details: { problem } })
      return { url, token, scheme, credentials, end: () => store.delete(taskId, context, now.id) }
    },
    queued: (item, context) => void contexts.set(item, context),
  }
}
