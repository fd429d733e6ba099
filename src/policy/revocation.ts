/**
 * Which credentials are no longer believed: what a revocation says, and the names by which a verified credential is
 * looked up. Every name is a kind and length-prefixed components, so that two different things never share one.
 */
import { z } from 'zod'
import { parseRfc3339 } from '../internal/rfc3339.ts'
import { didYouMean } from '../internal/suggest.ts'
import type { RevocationEntry } from '../store/stores.ts'
import type { PrincipalPart } from '../types.ts'
import { principalId, SCHEME_KINDS } from './principal.ts'
import type { Report } from './report.ts'
import { hasMembers, text } from './schema-values.ts'
import { quote } from './source.ts'

/** Last second of the year 9999: what is beyond it is milliseconds, which would revoke everything for ever. */
const LAST_SECOND = 253_402_300_799

const time = z
  .union([z.number().min(0).max(LAST_SECOND), z.string().refine((value) => parseRfc3339(value) !== undefined)], {
    error: 'must be unix seconds, or a time such as 2026-05-31T08:00:00Z',
  })
  .meta({ description: 'Unix seconds, or RFC 3339.' })

const named = z.strictObject({ issuer: text, id: text })

/** At most one of these says what is revoked; without any, `issuedBefore` speaks of every credential. */
const SUBJECTS = ['token', 'key', 'certificate', 'principal', 'issuer'] as const

export const revocationSchema = z
  .strictObject({
    token: named.optional().meta({ description: '`iss` and `jti` of one token.' }),
    key: named.optional().meta({
      description: 'One key: the name of the scheme and the id of an API key, or `iss` and `kid` of signed tokens.',
    }),
    certificate: z
      .string()
      .regex(
        /^(?:[0-9a-f]{2}:?){31}[0-9a-f]{2}$/i,
        'must be the SHA-256 of the certificate in hex, with or without colons',
      )
      .optional()
      .meta({ description: 'SHA-256 of a client certificate (DER), in hex.' }),
    principal: text
      .regex(
        new RegExp(`^(?:${SCHEME_KINDS.join('|')}):[^:]+:[^:]+(?::[^:]+)?$`),
        'must be the id of a principal as audit events have it, such as oauth2:https%3A%2F%2Flogin.example.com:alice',
      )
      .optional()
      .meta({ description: 'Every credential of one principal.' }),
    issuer: text.optional().meta({ description: 'Every credential of one issuer.' }),
    issuedBefore: time.optional().meta({
      description: 'Only what was issued before this time, or does not say when. Alone: of everybody.',
    }),
    expiresAt: time.optional().meta({ description: 'When this entry may be forgotten. Default: never.' }),
  })
  .refine(
    (entry) => hasMembers({ ...entry, expiresAt: undefined }),
    'says nothing: give token, key, certificate, principal, issuer or issuedBefore',
  )
  .refine(
    (entry) => SUBJECTS.filter((subject) => entry[subject] !== undefined).length <= 1,
    'must have at most one of token, key, certificate, principal and issuer',
  )

/** What is revoked, as `guard.revoke` and the policy's `revoked` take it. */
export type Revocation = z.infer<typeof revocationSchema>

/** A revocation as a store keeps it. The value has passed the schema. */
export function revocationEntry(revocation: Revocation): RevocationEntry {
  const { issuedBefore, expiresAt } = revocation
  return {
    name: nameOf(revocation),
    ...(issuedBefore === undefined ? {} : { issuedBefore: seconds(issuedBefore) }),
    ...(expiresAt === undefined ? {} : { expiresAt: seconds(expiresAt) }),
  }
}

function nameOf({ token, key, certificate, principal, issuer }: Revocation): string {
  if (token !== undefined) return name('token', token.issuer, token.id)
  if (key !== undefined) return name('key', key.issuer, key.id)
  if (certificate !== undefined) return name('certificate', certificate.replaceAll(':', '').toLowerCase())
  if (principal !== undefined) return name('principal', withoutKind(principal))
  return issuer === undefined ? EVERYTHING : name('issuer', issuer)
}

const EVERYTHING = 'everything'

function name(kind: string, ...components: readonly string[]): string {
  return kind + components.map((component) => `:${component.length}:${component}`).join('')
}

/** Whichever scheme read the token, it is one person's: the kind in front of a principal's id is not compared. */
function withoutKind(id: string): string {
  return id.slice(id.indexOf(':') + 1)
}

function seconds(value: number | string): number {
  return typeof value === 'number' ? value : (parseRfc3339(value) as number) / 1000
}

/** A name that no credential can have revokes nothing, and nobody would notice. */
export function warnOfIdleRevocations(
  list: readonly Revocation[],
  known: { readonly issuers: ReadonlySet<string>; readonly schemes: ReadonlySet<string> },
  report: Report,
): void {
  list.forEach(({ token, key, issuer }, index) => {
    const named = token?.issuer ?? key?.issuer ?? issuer
    // The issuer of a certificate is its authority, which the policy names by file.
    if (named === undefined || /^(?:spiffe:\/\/|sha256:)/.test(named)) return
    if (known.issuers.has(named) || (token === undefined && known.schemes.has(named))) return
    const place = token === undefined ? (key === undefined ? '/issuer' : '/key/issuer') : '/token/issuer'
    const hint = didYouMean(named, new Set([...known.issuers, ...known.schemes]))
    const message = `nothing here has the issuer ${quote(named)}, so this revokes nothing${hint}`
    report.warning('ERR_POLICY_WEAK', `/revoked/${index}${place}`, message)
  })
}

/** Schemes hand out one part for as long as they know the credential, so its names are made once. */
const known = new WeakMap<PrincipalPart, readonly string[]>()

/** Every name under which an entry would speak of this credential. */
export function revocationNames(part: PrincipalPart): readonly string[] {
  const made = known.get(part)
  if (made !== undefined) return made
  const { kind, issuer, credential } = part
  const { id, keyId } = credential
  const names = [EVERYTHING, name('issuer', issuer), name('principal', withoutKind(principalId(part)))]
  if (id !== undefined) names.push(name('token', issuer, id))
  if (keyId !== undefined) names.push(kind === 'mtls' ? name('certificate', keyId) : name('key', issuer, keyId))
  known.set(part, names)
  return names
}
