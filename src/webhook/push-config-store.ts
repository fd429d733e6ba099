/**
 * The one gate through which webhooks are registered, whatever operation and binding they come by: the SDK hands every
 * config to its store, and this is that store. What goes in secret is never read out again, except to send.
 */
import { randomUUID } from 'node:crypto'
import type { Egress } from '../egress/index.ts'
import { TrustError } from '../errors.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { urlPatterns } from '../internal/url-pattern.ts'
import type { WebhookSettings } from '../internal/webhook-settings.ts'
import { createMemoryPushConfigStore } from '../store/push-configs-memory.ts'
import type { PushConfigLimits, PushConfigRecord, PushConfigStore } from '../store/stores.ts'
import type { Clock } from '../types.ts'
import { asSdkError } from './a2a-sdk.ts'
import { TOKEN_HEADER } from './attempt.ts'
import { createChallenger } from './challenge.ts'
import { createWebhookJwtSigner, type WebhookJwtClaims } from './jwt.ts'
import { type PushConfig, pushConfigProblem, REDACTED } from './push-config.ts'
import { createSealing } from './sealing.ts'
import { keysByOrigin, type WebhookSigning } from './signing.ts'

/** What is read of the SDK's `ServerCallContext`. */
export interface PushCallContext {
  readonly user?: { readonly isAuthenticated: boolean; readonly userName: string } | undefined
  readonly tenant?: string | undefined
  readonly requestedVersion?: string | undefined
}

export interface PushNotificationsOptions {
  /** Where a webhook may lie: `createEgress(...)`. Asked at registration, and again by the sender at each connection. */
  readonly egress: Pick<Egress, 'check'> & Partial<Pick<Egress, 'fetch'>>
  /** `guard.webhooks`: what the policy allows, and the keys it seals with. */
  readonly policy?: WebhookSettings
  /**
   * Whether a webhook has to answer a signed challenge before it is kept. Default false. Needs `egress.fetch`; what was
   * kept before is not asked again until it is registered anew.
   */
  readonly challenge?: boolean
  /** Signs challenges: the `signing` of the sender. The policy's secrets and one in the config sign as well. */
  readonly signing?: WebhookSigning
  /** Origins that may be registered, as `https://hooks.example.com` or `https://*.example.com`. Default: any. */
  readonly allow?: readonly string[]
  /** Default: in memory, one process. */
  readonly records?: PushConfigStore
  /** Base64 of 32 bytes each; the first encrypts, each decrypts. Default: a random one, for `records` in memory only. */
  readonly encryptionKeys?: readonly string[]
  /** Default 10 for each task, 1000 for each owner, 1000 for each host. */
  readonly limits?: Partial<PushConfigLimits>
  readonly clock?: Clock
}

/** A config with what is needed to send by it. */
export interface DeliveryConfig {
  readonly record: PushConfigRecord
  readonly token: string
  readonly credentials: string
}

/** The SDK's `PushNotificationStore`, and the sender's view of it. */
export interface PushNotifications {
  save(taskId: string, context: PushCallContext, config: PushConfig): Promise<void>
  /** The caller's own configs, secrets redacted. */
  load(taskId: string, context: PushCallContext): Promise<PushConfig[]>
  delete(taskId: string, context: PushCallContext, configId?: string): Promise<void>
  /** All configs of a task, whoever asks: authorisation happened when each was registered. Secrets stay sealed. */
  records(taskId: string): readonly PushConfigRecord[] | Promise<readonly PushConfigRecord[]>
  /** Opens one. Throws `ERR_PUSH_CONFIG_SEALED`. */
  open(record: PushConfigRecord): DeliveryConfig
  /** Ends one, as its receiver asked for. */
  end(record: PushConfigRecord): Promise<void>
  /** Calls `listener` when a config of a task is replaced or deleted in this process. Returns what stops that. */
  onChange(listener: (record: Pick<PushConfigRecord, 'taskId' | 'owner' | 'id'>) => void): () => void
}

const DEFAULT_LIMITS: PushConfigLimits = { perTask: 10, perOwner: 1000, perHost: 1000 }

/**
 * Give it to the SDK's `DefaultRequestHandler` as its push notification store, and to `createWebhookSender`.
 *
 * `save` refuses, as invalid params where the SDK is there, else with `ERR_PUSH_CONFIG` or `ERR_PUSH_CONFIG_LIMIT`: anonymous
 * callers, a URL outside `allow` or not allowed by `egress`, control characters and empty secrets, too many configs. It
 * redacts the config it was given, so that no binding answers with the secret; `[redacted]` written back to the same
 * origin keeps what was stored. Not checked: that the task exists and is the caller's, which the request handler does.
 */
export function createPushNotifications(options: PushNotificationsOptions): PushNotifications {
  assertKnownOptions('createPushNotifications', options, OPTIONS)
  const { egress, clock = Date.now } = options
  if (typeof (egress as Partial<Egress> | undefined)?.check !== 'function')
    throw new TypeError('"egress" must come from createEgress')
  const encryptionKeys = options.encryptionKeys ?? options.policy?.encryptionKeys()
  if (options.records !== undefined && encryptionKeys === undefined)
    throw new TypeError('"encryptionKeys" must be given with "records": what one process seals others must open')
  const sealing = createSealing(encryptionKeys, 'encryptionKeys')
  const store = options.records ?? createMemoryPushConfigStore({ clock })
  const limits = limitsOf(options.limits)
  const patterns = options.allow === undefined ? undefined : urlPatterns(options.allow, 'allow')
  const allows = (url: URL) => patterns?.some((pattern) => pattern(url)) ?? true
  const isControlled = challenger(options, clock)
  const listeners = new Set<Parameters<PushNotifications['onChange']>[0]>()
  const changed: Parameters<PushNotifications['onChange']>[0] = (record) => {
    for (const listener of listeners) listener(record)
  }

  function open(record: PushConfigRecord): DeliveryConfig {
    if (record.sealed === '') return { record, token: '', credentials: '' }
    const [token, credentials] = JSON.parse(sealing.open(record.sealed, boundTo(record))) as [string, string]
    return { record, token, credentials }
  }

  /** What no key opens any more can be listed, replaced and deleted like the rest. */
  function openOrHidden(record: PushConfigRecord): DeliveryConfig {
    try {
      return open(record)
    } catch {
      return { record, token: REDACTED, credentials: REDACTED }
    }
  }

  async function register(taskId: string, context: PushCallContext, config: PushConfig): Promise<void> {
    const owner = ownerOf(context)
    if (owner === undefined) throw refusal('only an authenticated caller may register a webhook')
    const problem = config.taskId === taskId ? pushConfigProblem(config) : 'taskId must be that of the task'
    if (problem !== undefined) throw refusal(problem)
    await checkUrl(config.url, egress, (url) => allows(url) && (options.policy?.allows(url) ?? true))

    const id = config.id === '' ? randomUUID() : config.id
    const known = await store.list(taskId)
    const before = known.find((one) => one.owner === owner && one.id === id)
    if (before === undefined && known.length >= limits.perTask) throw full(limits)
    const secrets = secretsOf(config, before === undefined || !isRedacted(config) ? undefined : open(before))
    const { scheme = '' } = config.authentication ?? {}
    const { tenant = '' } = context
    const version = context.requestedVersion || '0.3'
    const bare = { taskId, id, owner, url: config.url, version, tenant, scheme, sealed: '', revision: randomUUID() }
    const record = secrets.every((secret) => secret === '')
      ? bare
      : { ...bare, sealed: sealing.seal(JSON.stringify(secrets), boundTo(bare)) }
    const [token, credentials] = secrets
    if (!(await isControlled({ ...bare, token, credentials }))) throw refusal('url did not answer the challenge')
    if ((await store.put(record, limits)) === 'full') throw full(limits)
    if (before !== undefined) changed(record)

    // The SDK answers with the object it handed in: the id is read from it, and the secret must not be.
    config.id = id
    redact(config)
  }

  return Object.freeze({
    async save(taskId: string, context: PushCallContext, config: PushConfig) {
      try {
        await register(taskId, context, config)
      } catch (error) {
        throw await asSdkError(error)
      }
    },
    async load(taskId: string, context: PushCallContext) {
      const owner = ownerOf(context)
      const records = await store.list(taskId)
      return records
        .filter((record) => owner !== undefined && record.owner === owner)
        .map((record) => shown(openOrHidden(record)))
    },
    async delete(taskId: string, context: PushCallContext, configId?: string) {
      const owner = ownerOf(context)
      if (owner === undefined) return
      // The v0.3 convention of the SDK: a config without an id of its own has that of its task.
      const id = configId ?? taskId
      await store.delete(taskId, owner, id)
      changed({ taskId, owner, id })
    },
    records: (taskId: string) => store.list(taskId),
    open,
    async end(record: PushConfigRecord) {
      const now = (await store.list(record.taskId)).find(({ owner, id }) => owner === record.owner && id === record.id)
      // Replaced meanwhile, in another process: it is the earlier receiver that is gone.
      if (now?.revision !== record.revision) return
      await store.delete(record.taskId, record.owner, record.id)
      changed(record)
    },
    onChange(listener: Parameters<PushNotifications['onChange']>[0]) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  })
}

const OPTIONS = [
  'egress',
  'policy',
  'challenge',
  'signing',
  'allow',
  'records',
  'encryptionKeys',
  'limits',
  'clock',
] as const

type Challenged = Parameters<ReturnType<typeof createChallenger>>[0]

function challenger(
  { egress, policy, challenge = false, signing = {} }: PushNotificationsOptions,
  clock: Clock,
): (config: Challenged) => Promise<boolean> {
  const keysFor = keysByOrigin(signing, policy)
  if (challenge !== true && challenge !== false) throw new TypeError('"challenge" must be true or false')
  if (!challenge) return async () => true
  const fetch = egress.fetch
  if (typeof fetch !== 'function') throw new TypeError('"challenge" needs an "egress" with fetch')
  const signer = signing.jwt === undefined ? undefined : createWebhookJwtSigner(signing.jwt)
  // Without its key nothing is signed, and nothing can be registered.
  signer?.catch(() => undefined)
  const signJwt = signer === undefined ? undefined : async (claims: WebhookJwtClaims) => (await signer)(claims)
  const ask = createChallenger({ egress: { fetch }, keysFor, signJwt, tokenHeader: TOKEN_HEADER }, clock)
  return async (config) => {
    const outcome = await ask(config)
    if (outcome === 'busy') throw refusal('url is of a host that is asked too often: try again later')
    return outcome === 'proven'
  }
}

function full(limits: PushConfigLimits): TrustError {
  return new TrustError('ERR_PUSH_CONFIG_LIMIT', { details: { ...limits } })
}

function refusal(problem: string): TrustError {
  return new TrustError('ERR_PUSH_CONFIG', { details: { problem }, hint: problem })
}

/** The scope of the SDK's own stores: tenant and user. Anonymous callers own nothing. */
function ownerOf({ user, tenant = '' }: PushCallContext): string | undefined {
  return user?.isAuthenticated === true ? JSON.stringify([tenant, user.userName]) : undefined
}

function boundTo({ taskId, id, owner, url, scheme, revision }: PushConfigRecord): readonly string[] {
  return [taskId, id, owner, url, scheme, revision]
}

async function checkUrl(url: string, egress: Pick<Egress, 'check'>, allows: (url: URL) => boolean): Promise<void> {
  const parsed = new URL(url)
  // A fragment is never sent: what stands there was meant for something else.
  if (parsed.hash !== '') throw refusal('url must have no fragment')
  if (!allows(parsed)) throw refusal('url may not be registered here')
  const { verdict, reason } = await egress.check(url)
  if (verdict === 'allow') return
  const cause = new TrustError(reason === 'allowed' ? 'ERR_EGRESS_URL' : reason)
  throw new TrustError('ERR_PUSH_CONFIG', { details: { reason }, hint: 'url may not be reached', cause })
}

/** `[redacted]` keeps what is stored, as long as it goes where it went. */
function secretsOf(config: PushConfig, before: DeliveryConfig | undefined): readonly [string, string] {
  const keeps = before !== undefined && new URL(before.record.url).origin === new URL(config.url).origin
  const pick = (given: string, stored: string | undefined): string => {
    if (given !== REDACTED) return given
    if (!keeps || stored === undefined || stored === '')
      throw refusal(
        `${REDACTED} stands for a secret that is stored for this origin, and there is none: give the secret`,
      )
    return stored
  }
  const sameScheme = before?.record.scheme === config.authentication?.scheme
  return [
    pick(config.token, before?.token),
    pick(config.authentication?.credentials ?? '', sameScheme ? before?.credentials : undefined),
  ]
}

function isRedacted({ token, authentication }: PushConfig): boolean {
  return token === REDACTED || authentication?.credentials === REDACTED
}

function redact(config: PushConfig): void {
  if (config.token !== '') config.token = REDACTED
  const { authentication } = config
  if (authentication?.credentials !== undefined && authentication.credentials !== '')
    config.authentication = { ...authentication, credentials: REDACTED }
}

function shown({ record, token, credentials }: DeliveryConfig): PushConfig {
  const { tenant, id, taskId, url, scheme } = record
  const config: PushConfig = {
    tenant,
    id,
    taskId,
    url,
    token,
    authentication: scheme === '' ? undefined : { scheme, credentials },
  }
  redact(config)
  return config
}

function limitsOf(given: Partial<PushConfigLimits> | undefined): PushConfigLimits {
  const limits = { ...DEFAULT_LIMITS, ...given }
  assertKnownOptions('limits', limits, ['perTask', 'perOwner', 'perHost'])
  for (const [name, value] of Object.entries(limits))
    if (!Number.isSafeInteger(value) || value < 1) throw new TypeError(`"limits.${name}" must be a whole number from 1`)
  return Object.freeze(limits)
}
