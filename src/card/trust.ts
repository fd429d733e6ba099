/** The trust file: who may sign cards for which origins, since when, until when, and which keys no longer. */
import { createHash } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { createEgress } from '../egress/index.ts'
import { TrustError } from '../errors.ts'
import { createJwksCache, type JwksCache } from '../internal/jwks-cache.ts'
import { type LoadContext, openSource } from '../policy/files.ts'
import { PolicyError } from '../policy/policy-error.ts'
import type { Problem } from '../policy/problem.ts'
import { type Environment, readTextFile } from '../policy/references.ts'
import { type Report, reportOn } from '../policy/report.ts'
import { objectSource, readSource, type SourceResult } from '../policy/source.ts'
import { validate } from '../policy/validate.ts'
import type { Clock } from '../types.ts'
import { type OriginScope, originProblem, originScope } from './origin-scope.ts'
import type { KeyHint, SigningContext, Trust, TrustedKey } from './trusted-keys.ts'

export type TrustMode = 'off' | 'prefer' | 'require' | 'audit'

export interface LoadTrustOptions {
  /** Path of the trust file (YAML or JSON), or its content. */
  readonly trust: string | object
  readonly baseDir?: string
  /** For `NODE_ENV`. Default `process.env`, read when this is called. */
  readonly env?: Environment
  readonly clock?: Clock
  /** For key sets behind URLs. Default: a `createEgress()` fetch. */
  readonly fetch?: typeof globalThis.fetch
}

export interface LoadedTrust extends Trust {
  /**
   * `require`: only verified cards. `prefer`: unsigned cards pass, badly signed ones do not. `audit`: everything passes
   * and the result is told. `off`: nothing is verified.
   */
  readonly mode: TrustMode
  /** Equal for equal content: two different trusts never share what was verified under one of them. */
  readonly digest: string
}

const origin = z
  .string()
  .refine((value) => originProblem(value) === undefined, { error: (issue) => originProblem(String(issue.input)) ?? '' })
const origins = z.array(origin).min(1, 'is empty: the signer could sign for nobody').max(1000)
const time = z.union([
  z.int().min(0, 'is before 1970').max(99_999_999_999, 'looks like milliseconds: write seconds or an RFC 3339 time'),
  z.iso.datetime({ offset: true, error: 'must be unix seconds or an RFC 3339 time' }),
])
const signerSchema = z.strictObject({
  name: z.string().min(1).max(200),
  origins,
  jwks: z
    .string()
    .regex(/^(?:file:(?!\/\/).*\S|https:\/\/\S+)$/, 'must be file:PATH or an https:// URL of a JWK Set')
    .optional(),
  keys: z.array(z.record(z.string(), z.unknown())).min(1).max(64).optional(),
  notBefore: time.optional(),
  notAfter: time.optional(),
  revoked: z.array(z.string().min(1)).optional(),
})
const trustSchema = z.strictObject({
  version: z.literal(1, 'must be the number 1'),
  mode: z.enum(['off', 'prefer', 'require', 'audit']).optional(),
  threshold: z.int().min(1).max(16).optional(),
  signers: z.array(signerSchema).max(1000).optional(),
  jku: z.strictObject({ allow: origins }).optional(),
})
type TrustFile = z.infer<typeof trustSchema>

interface Signer {
  readonly name: string
  readonly scope: OriginScope
  readonly keys: JwksCache
  readonly notBeforeMs: number
  readonly notAfterMs: number
  readonly revoked: ReadonlySet<string>
}

/** Every mistake of a trust file, by place. */
export async function lintTrust(options: LoadTrustOptions): Promise<readonly Problem[]> {
  return (await compile(options)).problems
}

/**
 * Loads a trust file. Key sets in files are read now, those behind URLs when a signature first names one of their keys.
 *
 * Rejects with `PolicyError` (`ERR_POLICY_INVALID`), all mistakes at once; one that trusts nobody or everybody is a mistake.
 */
export async function loadTrust(options: LoadTrustOptions): Promise<LoadedTrust> {
  const { problems, file, signers } = await compile(options)
  if (file === undefined || problems.some(({ severity }) => severity === 'error')) throw new PolicyError(problems)
  const { mode = 'require', threshold = 1, jku } = file
  const jkuKeys = jkuTrust(jku?.allow ?? [], options)
  const byName = new Map(signers.map((signer) => [signer.name, signer.scope]))
  return Object.freeze({
    mode,
    threshold,
    digest: createHash('sha256').update(JSON.stringify(file)).digest('hex'),
    keysFor: (hint: KeyHint, context: SigningContext) => keysFor(signers, jkuKeys, hint, context),
    refusalOf(
      { signer }: TrustedKey,
      { origin: from, urls }: { readonly origin?: string; readonly urls: readonly string[] },
    ) {
      const scope = byName.get(signer) ?? jkuKeys.scopeOf(signer)
      return scope !== undefined && [...(from === undefined ? [] : [from]), ...urls].every(scope)
        ? undefined
        : 'ERR_CARD_ORIGIN'
    },
  })
}

async function keysFor(
  signers: readonly Signer[],
  jku: JkuTrust,
  hint: KeyHint,
  { nowMs }: SigningContext,
): Promise<readonly TrustedKey[]> {
  const found: TrustedKey[] = []
  let failure: TrustError | undefined
  for (const { name, keys, revoked, notBeforeMs, notAfterMs } of signers) {
    const lookup = await keys.find(hint.kid, hint.alg)
    if (lookup.kind === 'unavailable')
      failure ??= new TrustError('ERR_CARD_KEY_UNAVAILABLE', { details: { signer: name } })
    if (lookup.kind !== 'found') continue
    if (revoked.has(hint.kid))
      failure = new TrustError('ERR_CARD_KEY_REVOKED', { details: { signer: name, kid: hint.kid } })
    else if (nowMs < notBeforeMs || nowMs > notAfterMs)
      failure = new TrustError('ERR_CARD_KEY_EXPIRED', { details: { signer: name } })
    else found.push({ key: lookup.key, signer: name })
  }
  if (found.length === 0 && hint.jku !== undefined) found.push(...(await jku.keysFor(hint.jku, hint)))
  if (found.length === 0 && failure !== undefined) throw failure
  return found
}

interface JkuTrust {
  keysFor(url: string, hint: KeyHint): Promise<readonly TrustedKey[]>
  scopeOf(signer: string): OriginScope | undefined
}

const MAX_JKU_SETS = 100

/** A key set named by the card itself: only at listed origins, and it speaks for its own origin alone. */
function jkuTrust(allowed: readonly string[], options: LoadTrustOptions): JkuTrust {
  const isAllowed: OriginScope = allowed.length === 0 ? () => false : originScope(allowed)
  const sets = new Map<string, JwksCache>()
  return {
    async keysFor(url, hint) {
      if (!isAllowed(url) || !url.startsWith('https://')) return []
      let keys = sets.get(url)
      if (keys === undefined) {
        if (sets.size >= MAX_JKU_SETS) return []
        keys = createJwksCache({ source: { url }, fetch: fetchOf(options), clock: options.clock ?? Date.now })
        sets.set(url, keys)
      }
      const lookup = await keys.find(hint.kid, hint.alg)
      return lookup.kind === 'found' ? [{ key: lookup.key, signer: `jku:${new URL(url).origin}` }] : []
    },
    scopeOf: (signer) => (signer.startsWith('jku:') ? originScope([signer.slice('jku:'.length)]) : undefined),
  }
}

interface Compiled {
  readonly problems: readonly Problem[]
  readonly file: TrustFile | undefined
  readonly signers: readonly Signer[]
}

async function compile(options: LoadTrustOptions): Promise<Compiled> {
  const { trust, baseDir = '.', env = process.env, clock = Date.now } = options
  const problems: Problem[] = []
  const read =
    typeof trust === 'string' ? await readTrustFile(resolve(baseDir, trust), trust) : objectSource(trust, 'trust')
  if (!read.ok) return { problems: read.problems, file: undefined, signers: [] }
  const report = reportOn(read.source, problems)
  const context: LoadContext = {
    baseDir: typeof trust === 'string' ? dirname(resolve(baseDir, trust)) : resolve(baseDir),
    env,
    now: clock(),
    problems,
  }
  const file = validate(trustSchema, read.source.value, report)
  if (file === undefined) return { problems, file, signers: [] }
  const signers = await compileSigners(file, options, context, report)
  return { problems, file, signers }
}

async function compileSigners(
  file: TrustFile,
  options: LoadTrustOptions,
  context: LoadContext,
  report: Report,
): Promise<Signer[]> {
  const { signers: listed = [], jku, mode = 'require', threshold = 1 } = file
  if (mode !== 'off' && listed.length === 0 && jku === undefined) {
    report.error('ERR_TRUST_NOBODY', '', 'trusts nobody: add "signers", or say "mode: off"')
  }
  if (threshold > Math.max(1, listed.length)) {
    report.error('ERR_POLICY_VALUE', '/threshold', 'is more than there are signers: no card could ever be trusted')
  }
  const names = new Set<string>()
  const made: Signer[] = []
  for (const [index, signer] of listed.entries()) {
    const at = `/signers/${index}`
    const { name, jwks, keys, notBefore, notAfter, revoked = [] } = signer
    if (names.has(name))
      report.error('ERR_POLICY_VALUE', `${at}/name`, 'is the name of another signer: give each its own')
    names.add(name)
    const window = {
      notBeforeMs: msOf(notBefore, Number.NEGATIVE_INFINITY),
      notAfterMs: msOf(notAfter, Number.POSITIVE_INFINITY),
    }
    if (window.notBeforeMs > window.notAfterMs)
      report.error('ERR_POLICY_VALUE', `${at}/notAfter`, 'is before "notBefore": the signer could never sign')
    if ((jwks === undefined) === (keys === undefined)) {
      report.error(
        'ERR_POLICY_MISSING',
        at,
        'needs either "jwks" (file:PATH or an https:// URL) or "keys" (a list of JWKs)',
      )
      continue
    }
    const cache = await keyCache(jwks, keys, at, options, context, report)
    if (cache !== undefined)
      made.push({ name, scope: originScope(signer.origins), keys: cache, revoked: new Set(revoked), ...window })
  }
  return made
}

async function keyCache(
  jwks: string | undefined,
  keys: readonly object[] | undefined,
  at: string,
  options: LoadTrustOptions,
  context: LoadContext,
  report: Report,
): Promise<JwksCache | undefined> {
  const { clock = Date.now } = options
  if (jwks?.startsWith('https://')) return createJwksCache({ source: { url: jwks }, fetch: fetchOf(options), clock })
  const opened =
    jwks === undefined ? { source: { value: { keys } } } : await openSource(jwks, `${at}/jwks`, context, report)
  if (opened === undefined) return undefined
  try {
    return createJwksCache({ source: { jwks: opened.source.value }, fetch: noFetch, clock })
  } catch (fault) {
    const pointer = jwks === undefined ? `${at}/keys` : `${at}/jwks`
    if (!(fault instanceof TrustError)) throw fault
    report.error('ERR_POLICY_KEY_FILE', pointer, 'holds no usable public key with a kid')
    return undefined
  }
}

const noFetch: typeof globalThis.fetch = () => Promise.reject(new TypeError('a key set in a file is not fetched'))

/** Made when it is first needed, so that a trust without URLs opens nothing. */
function fetchOf(options: LoadTrustOptions): typeof globalThis.fetch {
  const { fetch } = options
  let guarded = fetch
  return (input, init) => {
    guarded ??= createEgress().fetch
    return guarded(input, init)
  }
}

function msOf(value: number | string | undefined, absent: number): number {
  return value === undefined ? absent : typeof value === 'number' ? value * 1000 : Date.parse(value)
}

async function readTrustFile(path: string, name: string): Promise<SourceResult> {
  const text = await readTextFile(path)
  if (text.ok) return readSource(text.text, name)
  const message = `the trust file ${text.why}`
  return {
    ok: false,
    problems: [{ code: 'ERR_POLICY_UNREADABLE', file: name, pointer: '', message, severity: 'error' }],
  }
}
