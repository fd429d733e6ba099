/** Everything made from one version of the policy. Requests keep the one they started with. */
import type { ExtendedCardOptions } from '../card/extended.ts'
import { createEgress, type Egress } from '../egress/index.ts'
import type { CompiledPolicy } from '../policy/compiled.ts'
import { loadPolicy } from '../policy/load.ts'
import { compileMounts, type Mounts } from '../protocol/identify.ts'
import { compileRequestUrls, type RequestUrls } from '../protocol/request-urls.ts'
import type { RevocationCheck } from '../schemes/authenticate.ts'
import { createDpopNonces } from '../schemes/dpop-nonce.ts'
import { createScheme } from '../schemes/index.ts'
import type { Scheme, SchemeContext } from '../schemes/scheme.ts'
import { createMemoryRevocationStore } from '../store/revocation-memory.ts'
import type { Stores } from '../store/stores.ts'
import type { Clock, CustomScheme, Logger } from '../types.ts'
import { customSchemes } from './custom-schemes.ts'
import { type ExtendedCardGate, extendedCardGate } from './extended-card.ts'
import { createKeyUseReport, type KeyUseReport } from './key-use.ts'
import { createLimits, type Limits } from './limits.ts'
import { createProxies, type Proxies } from './proxies.ts'
import { type ResourceMetadata, resourceMetadataOf } from './resource-metadata.ts'
import { revocationCheck } from './revocation.ts'

export interface Loaded {
  readonly policy: CompiledPolicy
  readonly mounts: Mounts
  readonly requestUrls: RequestUrls
  /** Who the caller is behind the proxies that the policy trusts. */
  readonly proxies: Proxies
  /** In card order. */
  readonly schemes: readonly Scheme[]
  readonly byName: ReadonlyMap<string, Scheme>
  readonly metadata: ResourceMetadata | undefined
  readonly credentialLocations: readonly string[]
  readonly revoked: RevocationCheck
  readonly extendedCard: ExtendedCardGate
  readonly clock: Clock
  readonly limits: Limits
  readonly reportKeyUse: KeyUseReport
  /** For authorization servers: the fetch of the schemes. */
  readonly fetch: typeof globalThis.fetch
  /** For other agents, under the same rules: their answers may be long and take long. Absent: nothing flows on. */
  readonly agentFetch?: typeof globalThis.fetch
  /** Ends what was opened for this version. */
  close(): Promise<void>
}

export interface LoadOptions {
  readonly policy: string | object
  readonly baseDir?: string
  readonly fetch?: typeof globalThis.fetch
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly logger?: Logger
  /** What is checked by code: a function for each scheme whose policy says `custom: true`, and for no other. */
  readonly schemes?: { readonly custom?: Readonly<Record<string, CustomScheme>> }
  /** How the extended card is made and signed. Default: that of the policy, with the signatures it has. */
  readonly extendedCard?: ExtendedCardOptions
}

/** A stream of a task may go on for minutes; nothing goes on for ever. */
const AGENT_TIMEOUT_MS = 600_000
const AGENT_RESPONSE_BYTES = 64 * 1024 * 1024

/** Loads the policy, makes the schemes and fetches the keys they need; on any failure nothing stays open. */
export async function load(options: LoadOptions, stores: Stores, clock: Clock): Promise<Loaded> {
  const { env = process.env, fetch, logger, baseDir, policy: source } = options
  const loaded = await loadPolicy({ policy: source, env, clock, ...(baseDir === undefined ? {} : { baseDir }) })
  // That the policy names no extended card is no mistake where a function makes one.
  const isMade = options.extendedCard?.card !== undefined
  const warnings = loaded.warnings.filter(({ code }) => !(isMade && code === 'ERR_POLICY_EXTENDED_CARD'))
  const policy: CompiledPolicy = Object.freeze({ ...loaded, warnings })
  const custom = customSchemes(options.schemes, policy)
  const egress: Egress | undefined = fetch === undefined ? createEgress(policy.egress) : undefined
  const reach = fetch ?? (egress as Egress).fetch
  const agents =
    fetch === undefined && policy.delegation.length > 0
      ? createEgress({ ...policy.egress, timeoutMs: AGENT_TIMEOUT_MS, maxResponseBytes: AGENT_RESPONSE_BYTES })
      : undefined
  const context: SchemeContext = {
    clock,
    stores,
    custom,
    fetch: reach,
    ...(policy.dpop.nonce === 'required' ? { nonces: createDpopNonces(clock, policy.dpop.nonceKey) } : {}),
    ...(logger === undefined ? {} : { logger }),
  }
  const byName = new Map<string, Scheme>()
  const close = async () => {
    for (const scheme of byName.values()) scheme.close?.()
    await Promise.all([egress?.close(), agents?.close()])
  }
  try {
    for (const name of policy.card.schemes.keys()) {
      const config = policy.schemes.get(name)
      if (config !== undefined) byName.set(name, createScheme(config, context))
    }
    await Promise.all([...byName.values()].map((scheme) => scheme.warm?.()))
  } catch (fault) {
    await close()
    throw fault
  }
  const schemes = Object.freeze([...byName.values()])
  const credentialLocations = Object.freeze([...new Set(schemes.map(({ location }) => location))])
  const revoked = createMemoryRevocationStore({ clock, maxEntries: policy.revoked.length })
  for (const entry of policy.revoked) revoked.add(entry)
  return Object.freeze({
    policy,
    mounts: compileMounts(policy.card, policy.publicUrl),
    requestUrls: compileRequestUrls(policy.card, policy.publicUrl),
    proxies: createProxies(policy),
    schemes,
    byName,
    metadata: resourceMetadataOf(policy),
    credentialLocations,
    extendedCard: extendedCardGate(policy, options.extendedCard, credentialLocations),
    revoked: revocationCheck([revoked, stores.revocation], policy.schemes),
    clock,
    limits: createLimits(policy.limits, schemes),
    reportKeyUse: createKeyUseReport(),
    fetch: reach,
    ...(policy.delegation.length === 0 ? {} : { agentFetch: agents?.fetch ?? reach }),
    close,
  })
}
