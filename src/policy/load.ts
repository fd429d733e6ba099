/** From a policy file to a `CompiledPolicy`: read, check, follow references, compare with the card, fill in defaults. */
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { assertKnownOptions } from '../internal/options.ts'
import type { SharingRules } from '../ownership/rules.ts'
import { step } from '../protocol/card-reader.ts'
import { isObject } from '../protocol/json-object.ts'
import type { Rate } from '../store/rate-limiter.ts'
import type { Clock, OperationName } from '../types.ts'
import { compareWithCard, type LoadedCard, type Sections, strictSkills, weakenedSkills } from './compare-card.ts'
import { checkIssuersTogether } from './compare-issuers.ts'
import { compileAccess, skillIds } from './compile-access.ts'
import { compileDelegation } from './compile-delegation.ts'
import { compileDpop } from './compile-dpop.ts'
import { compileClientCertificate } from './compile-proxies.ts'
import { compileScheme } from './compile-scheme.ts'
import { compileWebhooks } from './compile-webhooks.ts'
import type { CompiledPolicy, EgressConfig, LimitConfig, SchemeConfig, SkillSelection } from './compiled.ts'
import type { AccessRule } from './compiled-rules.ts'
import { enforcedModel } from './extended-card.ts'
import type { LoadContext } from './files.ts'
import { deepFreeze } from './freeze.ts'
import { loadCard, loadExtendedCard } from './load-card.ts'
import { PolicyError } from './policy-error.ts'
import type { Problem } from './problem.ts'
import { type Environment, readTextFile } from './references.ts'
import { inOrder, type Report, reportOn } from './report.ts'
import { revocationEntry, warnOfIdleRevocations } from './revocation.ts'
import { policySchema } from './schema.ts'
import { objectSource, quote, readSource, type Source, type SourceResult } from './source.ts'
import { issuersOf, isTokenScheme, tellApart } from './token-schemes.ts'
import { checkSecretsIn, refuseUnsupported } from './unsupported.ts'
import { validate, validMembers } from './validate.ts'

export interface LoadPolicyOptions {
  /** Path of the policy file (YAML, or JSON where it ends in `.json`), or the parsed policy itself. */
  readonly policy: string | object
  /** Directory that relative paths start from. Default: that of the policy file, or the working directory. */
  readonly baseDir?: string
  /** Variables for `env:` references and `NODE_ENV`. Default `process.env`, read when this is called. */
  readonly env?: Environment
  /** Wall clock in milliseconds. Default `Date.now`. */
  readonly clock?: Clock
}

/** What `lintPolicy` found. `policy` is there when no problem is an error. */
export interface LintResult {
  readonly problems: readonly Problem[]
  readonly policy?: CompiledPolicy
}

/**
 * Loads a policy and everything it names, and compares it with the card.
 *
 * Checks every key, type and range, every reference, key file and key set in a file, and that card and policy agree.
 * Does **not** reach the network: that an issuer answers and that its keys can be fetched is the guard's `warm`.
 *
 * @returns the compiled policy, frozen; warnings are in `warnings`.
 * @throws PolicyError (`ERR_POLICY_INVALID`) listing all mistakes; TypeError for options of the wrong type.
 */
export async function loadPolicy(options: LoadPolicyOptions): Promise<CompiledPolicy> {
  const { policy, problems } = await lintPolicy(options)
  if (policy === undefined) throw new PolicyError(problems)
  return policy
}

/** As `loadPolicy`, but returns what it finds instead of throwing. */
export async function lintPolicy(options: LoadPolicyOptions): Promise<LintResult> {
  checkOptions(options)
  const { policy: input, env = process.env, clock = Date.now } = options
  const problems: Problem[] = []
  const read = typeof input === 'string' ? await readPolicyFile(input, options.baseDir) : objectSource(input)
  problems.push(...(read.ok ? read.warnings : read.problems))
  const name = typeof input === 'string' ? input : 'policy'
  if (!read.ok) return { problems: inOrder(problems, name) }

  const baseDir =
    typeof input === 'string' ? dirname(resolve(options.baseDir ?? '.', input)) : resolve(options.baseDir ?? '.')
  const compiled = await compile(read.source, { baseDir, env, now: clock(), problems })
  const ordered = inOrder(problems, name)
  if (compiled === undefined || ordered.some(({ severity }) => severity === 'error')) return { problems: ordered }
  return { problems: ordered, policy: deepFreeze({ ...compiled, warnings: ordered }) }
}

function checkOptions(options: LoadPolicyOptions): void {
  assertKnownOptions('loadPolicy', options, ['policy', 'baseDir', 'env', 'clock'])
  const { policy, baseDir, env, clock } = options
  if (typeof policy !== 'string' && !isObject(policy)) {
    throw new TypeError('"policy" must be a path or the policy as an object')
  }
  if (typeof policy === 'string' && (policy.trim() === '' || /[\n\0]/.test(policy))) {
    throw new TypeError('"policy" must be a path; give a policy that is not in a file as an object')
  }
  if (baseDir !== undefined && (typeof baseDir !== 'string' || baseDir === '')) {
    throw new TypeError('"baseDir" must be a directory')
  }
  if (env !== undefined && !isObject(env)) throw new TypeError('"env" must be an object')
  if (clock !== undefined && typeof clock !== 'function') throw new TypeError('"clock" must be a function')
}

async function readPolicyFile(path: string, baseDir = '.'): Promise<SourceResult> {
  const text = await readTextFile(resolve(baseDir, path))
  if (text.ok) return readSource(text.text, path)
  const message = `the policy file ${text.why}`
  return {
    ok: false,
    problems: [{ code: 'ERR_POLICY_UNREADABLE', file: path, pointer: '', message, severity: 'error' }],
  }
}

/** The file without the settings of each scheme, which are judged by the kind that the card declares. */
const outline = z.strictObject({ ...policySchema.shape, schemes: z.record(z.string(), z.unknown()).optional() })

async function compile(source: Source, context: LoadContext): Promise<Omit<CompiledPolicy, 'warnings'> | undefined> {
  const report = reportOn(source, context.problems)
  const file = source.value
  const valid = validate(outline, file, report)
  if (!isObject(file)) return undefined
  const sections = (valid ?? validMembers(outline.shape, file)) as Sections
  const settings = new Map(Object.entries(sections.schemes ?? {}))

  const card = await loadCard('card', sections, source, context, report)
  const extended = await loadExtendedCard(card, sections, source, context, report)
  await refuseUnsupported(file, context, report)
  if (sections.webhooks === undefined) await checkSecretsIn(file.webhooks, '/webhooks', context, report)
  const webhooks = await compileWebhooks(sections.webhooks, context, report)
  if (card === undefined) {
    for (const [name, value] of settings) checkSettings(name, value, source, context)
    return undefined
  }
  const configured = configuredNames(file.schemes)
  compareWithCard({ card, ...(extended === undefined ? {} : { extended }), sections, configured, policy: report })

  const schemes = new Map<string, SchemeConfig>()
  for (const [name, value] of settings) {
    const owner = card.model.schemes.has(name) || extended === undefined ? card : extended
    const own = reportOn(source, context.problems, `/schemes${step(name)}`)
    const scheme = await compileScheme({ name, settings: value, card: owner, sections, context, report: own })
    if (scheme !== undefined) schemes.set(name, scheme)
  }
  tellApart(schemes, report)
  for (const each of extended === undefined ? [card] : [card, extended]) checkIssuersTogether(each, schemes)
  const model = enforcedModel(card.model, extended?.model)
  const known = {
    skills: skillIds(card, extended),
    schemes: new Set(model.schemes.keys()),
    issuers: new Set([...schemes.values()].filter(isTokenScheme).flatMap(issuersOf)),
  }
  const access = sections.access === undefined ? undefined : compileAccess(sections.access, known, report)
  const skills = compileSkills(sections, [card, ...(extended === undefined ? [] : [extended])], access, report)
  warnOfIdleRevocations(sections.revoked ?? [], known, report)
  const delegation = await compileDelegation({
    delegation: file.delegation,
    sections,
    schemes,
    known,
    card,
    context,
    report,
  })
  const dpop = await compileDpop(sections.dpop, schemes, context, report)
  warnOfWeakness(sections, report)

  const clientCertificate = compileClientCertificate(settings, schemes, report)

  const { audience, clientAddress } = sections
  if (audience === undefined) return undefined
  return {
    card: model,
    cardJson: card.json,
    ...(extended === undefined ? {} : { extendedCardJson: extended.json }),
    audience: typeof audience === 'string' ? [audience] : audience,
    ...(sections.publicUrl === undefined ? {} : { publicUrl: sections.publicUrl.replace(/\/$/, '') }),
    anonymous: sections.anonymous ?? false,
    schemes,
    speaksOfTenants: [...schemes.values()].some(speaksOfTenants),
    skills,
    access,
    ownership: {
      contexts: sections.ownership?.contexts ?? 'client',
      share: { tenant: false, delegates: false, ...sections.ownership?.share } as SharingRules,
    },
    limits: compileLimits(sections.limits),
    delegation,
    identityHeaders: (sections.identityHeaders ?? []).map((name) => name.toLowerCase().replaceAll('_', '-')),
    revoked: (sections.revoked ?? []).map(revocationEntry),
    dpop,
    webhooks,
    egress: (sections.egress ?? {}) as EgressConfig,
    ...(clientCertificate === undefined ? {} : { clientCertificate }),
    ...(clientAddress === undefined ? {} : { clientAddress }),
    mode: sections.mode ?? 'enforce',
    maxBodyBytes: sections.maxBodyBytes ?? 4 * 1024 * 1024,
  }
}

function configuredNames(schemes: unknown): ReadonlySet<string> | undefined {
  if (schemes === undefined) return new Set()
  return isObject(schemes) ? new Set(Object.keys(schemes)) : undefined
}

/** Without a card the kind of a scheme is unknown; whatever fits no kind is still wrong. */
function checkSettings(name: string, value: unknown, source: Source, context: LoadContext): void {
  const report = reportOn(source, context.problems, `/schemes${step(name)}`)
  validate(policySchema.shape.schemes.unwrap().valueType, value, report)
}

function speaksOfTenants(scheme: SchemeConfig): boolean {
  return (
    (isTokenScheme(scheme) && scheme.tenantClaim !== undefined) ||
    (scheme.type === 'apiKey' && scheme.keys.some((key) => key.tenant !== undefined)) ||
    (scheme.type === 'basic' && scheme.users.some((user) => user.tenant !== undefined)) ||
    (scheme.type === 'custom' && scheme.tenants)
  )
}

function compileSkills(
  sections: Sections,
  cards: readonly LoadedCard[],
  access: readonly AccessRule[] | undefined,
  report: Report,
): SkillSelection {
  const { select = { metadata: 'skillId' }, combine = 'add', undeclared } = sections.skills ?? {}
  const strict = new Set(cards.flatMap(strictSkills))
  for (const rule of access ?? []) for (const skill of rule.skills ?? []) strict.add(skill)
  if (undeclared === 'agent' && strict.size > 0) {
    const message = `only authorizeSkill in your code protects the skills that ask for more than the agent (${listed(strict)})`
    report.warning('ERR_POLICY_WEAK', '/skills/undeclared', message)
  }
  if (combine === 'override') {
    for (const skill of new Set(cards.flatMap(weakenedSkills))) {
      const message = `the skill ${quote(skill)} can be reached with less than the agent asks for`
      report.warning('ERR_POLICY_WEAK', '/skills/combine', message)
    }
  }
  return {
    select: select as NonNullable<SkillSelection['select']>,
    undeclared: undeclared ?? (strict.size > 0 ? 'deny' : 'agent'),
    combine,
  }
}

function warnOfWeakness({ mode, egress }: Sections, report: Report): void {
  if (mode === 'report') {
    report.warning('ERR_POLICY_WEAK', '/mode', 'mode: report lets through what it would deny')
  }
  if (egress?.requireHttps === false) {
    report.warning(
      'ERR_POLICY_WEAK',
      '/egress/requireHttps',
      'requests over plain http can be read and changed on the way',
    )
  }
}

function compileLimits({ perOperation, ...rates }: NonNullable<Sections['limits']> = {}): LimitConfig {
  const compiled = (named: object) =>
    Object.entries(named).flatMap(([name, rate]: [string, string | undefined]) =>
      rate === undefined ? [] : [[name, rateOf(rate)] as const],
    )
  return {
    ...Object.fromEntries(compiled(rates)),
    ...(perOperation === undefined ? {} : { perOperation: new Map(compiled(perOperation) as [OperationName, Rate][]) }),
  }
}

function rateOf(text: string): Rate {
  const [count, unit] = text.split('/')
  return { count: Number(count), windowSeconds: unit === 'sec' ? 1 : unit === 'min' ? 60 : 3600 }
}

function listed(names: ReadonlySet<string>): string {
  const shown = [...names].slice(0, 5).map(quote).join(', ')
  return names.size > 5 ? `${shown} and others` : shown
}
