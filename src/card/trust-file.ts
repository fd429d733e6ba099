/** The trust file as it is written: schema, every mistake in its place, and the signers it makes. */
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { createEgress } from '../egress/index.ts'
import { TrustError } from '../errors.ts'
import { createJwksCache, type JwksCache } from '../internal/jwks-cache.ts'
import { assertKnownOptions } from '../internal/options.ts'
import { signatureAlgorithms } from '../internal/verification-key.ts'
import { isProduction, type LoadContext } from '../policy/files.ts'
import { checkKeys, loadKeySet } from '../policy/jwks-file.ts'
import type { Problem } from '../policy/problem.ts'
import { type Environment, readTextFile } from '../policy/references.ts'
import { inOrder, type Report, reportOn } from '../policy/report.ts'
import { objectSource, readSource, type SourceResult } from '../policy/source.ts'
import { validate, validMembers } from '../policy/validate.ts'
import { isObject, own } from '../protocol/json-object.ts'
import type { Clock } from '../types.ts'
import { type OriginScope, originProblem, originScope } from './origin-scope.ts'

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

const origin = z
  .string()
  .refine((value) => originProblem(value) === undefined, { error: (issue) => originProblem(String(issue.input)) ?? '' })
const origins = z.array(origin).min(1, 'is empty: the signer could sign for nobody').max(1000)
const time = z.union([
  z.int().min(0, 'is before 1970').max(99_999_999_999, 'looks like milliseconds: write seconds or an RFC 3339 time'),
  z.iso.datetime({ offset: true, error: 'must be unix seconds or an RFC 3339 time' }),
])
const signerSchema = z.strictObject({
  name: z
    .string()
    .regex(/^(?!jku:)\S(?:.*\S)?$/, 'must be a name, and not begin with "jku:"')
    .max(200),
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
export type TrustFile = z.infer<typeof trustSchema>

export interface Signer {
  readonly name: string
  readonly scope: OriginScope
  readonly keys: JwksCache
  readonly notBeforeMs: number
  readonly notAfterMs: number
  readonly revoked: ReadonlySet<string>
}

export interface CompiledTrust {
  readonly problems: readonly Problem[]
  readonly file: TrustFile | undefined
  readonly signers: readonly Signer[]
}

/** Reads the file and makes its signers. All mistakes of the file are in `problems`; only those of the options throw. */
export async function compileTrust(options: LoadTrustOptions): Promise<CompiledTrust> {
  assertKnownOptions('loadTrust', options, ['trust', 'baseDir', 'env', 'clock', 'fetch'])
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
  const signers = await compileSigners(read.source.value, options, context, report, (pointer) =>
    reportOn(read.source, problems, pointer),
  )
  return { problems: inOrder(problems, read.source.file), file, signers }
}

/** What the schema cannot say, of all that is valid by itself: a mistake in one place hides none in another. */
async function compileSigners(
  value: unknown,
  options: LoadTrustOptions,
  context: LoadContext,
  report: Report,
  reportAt: (pointer: string) => Report,
): Promise<Signer[]> {
  const { jku, mode = 'require', threshold = 1 } = validMembers(trustSchema.shape, value)
  const given = isObject(value) ? own(value, 'signers') : undefined
  const listed: readonly unknown[] = Array.isArray(given) ? given : []
  if (mode === 'off') report.warning('ERR_POLICY_WEAK', '/mode', 'off verifies nothing: any card passes')
  else if (listed.length === 0 && jku === undefined)
    report.error('ERR_TRUST_NOBODY', '', 'trusts nobody: add "signers", or say "mode: off"')
  if (threshold > Math.max(1, listed.length + (jku?.allow.length ?? 0))) {
    report.error('ERR_POLICY_VALUE', '/threshold', 'is more than there are signers: no card could ever be trusted')
  }
  const names = new Set<string>()
  const made: Signer[] = []
  for (const [index, entry] of listed.entries()) {
    const at = `/signers/${index}`
    const {
      name,
      origins: scopes,
      jwks,
      keys,
      notBefore,
      notAfter,
      revoked = [],
    } = validMembers(signerSchema.shape, entry)
    if (name !== undefined && names.has(name))
      report.error('ERR_POLICY_VALUE', `${at}/name`, 'is the name of another signer: give each its own')
    if (name !== undefined) names.add(name)
    const window = {
      notBeforeMs: msOf(notBefore, Number.NEGATIVE_INFINITY),
      notAfterMs: msOf(notAfter, Number.POSITIVE_INFINITY),
    }
    if (window.notBeforeMs > window.notAfterMs)
      report.error('ERR_POLICY_VALUE', `${at}/notAfter`, 'is before "notBefore": the signer could never sign')
    else if (window.notAfterMs < context.now)
      report.warning('ERR_POLICY_WEAK', `${at}/notAfter`, 'has passed: cards of this signer are refused')
    const sources = isObject(entry) ? ['jwks', 'keys'].filter((member) => own(entry, member) !== undefined) : []
    if (isObject(entry) && sources.length !== 1) {
      const message = 'needs either "jwks" (file:PATH or an https:// URL) or "keys" (a list of JWKs)'
      report.error('ERR_POLICY_MISSING', at, message)
      continue
    }
    const cache = await keyCache({ jwks, keys, revoked }, at, options, context, report, reportAt(at))
    if (cache !== undefined && name !== undefined && scopes !== undefined)
      made.push({ name, scope: originScope(scopes), keys: cache, revoked: new Set(revoked), ...window })
  }
  return made
}

async function keyCache(
  {
    jwks,
    keys,
    revoked,
  }: { jwks: string | undefined; keys: readonly object[] | undefined; revoked: readonly string[] },
  at: string,
  options: LoadTrustOptions,
  context: LoadContext,
  report: Report,
  inSigner: Report,
): Promise<JwksCache | undefined> {
  const { clock = Date.now } = options
  if (jwks?.startsWith('https://')) return createJwksCache({ source: { url: jwks }, fetch: fetchOf(options), clock })
  if (keys !== undefined && checkKeys(keys, inSigner, isProduction(context)).fatal) return undefined
  const set =
    keys !== undefined
      ? { keys }
      : jwks !== undefined
        ? await loadKeySet(jwks, `${at}/jwks`, signatureAlgorithms, context, report)
        : undefined
  if (set === undefined) return undefined
  const pointer = keys === undefined ? `${at}/jwks` : `${at}/keys`
  const kids = set.keys.map((key) => (key as { readonly kid?: unknown }).kid)
  if (kids.every((kid) => typeof kid !== 'string'))
    report.error('ERR_POLICY_KEY_FILE', pointer, 'holds no key with a "kid": a signature could name none of them')
  else if (kids.every((kid) => typeof kid !== 'string' || revoked.includes(kid)))
    report.warning('ERR_POLICY_WEAK', pointer, 'holds revoked keys only: cards of this signer are refused')
  try {
    return createJwksCache({ source: { jwks: set }, fetch: noFetch, clock })
  } catch (fault) {
    if (!(fault instanceof TrustError)) throw fault
    report.error('ERR_POLICY_KEY_FILE', pointer, 'holds no usable public key')
    return undefined
  }
}

const noFetch: typeof globalThis.fetch = () => Promise.reject(new TypeError('a key set in a file is not fetched'))

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

/** Made when it is first needed, so that a trust without URLs opens nothing. */
export function fetchOf(options: LoadTrustOptions): typeof globalThis.fetch {
  const { fetch } = options
  let guarded = fetch
  return (input, init) => {
    guarded ??= createEgress().fetch
    return guarded(input, init)
  }
}
