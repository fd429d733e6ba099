/** Who acts for a principal (RFC 8693 §4.1), as rules and events name them. */
import type { Actor, PrincipalPart } from '../types.ts'

/**
 * The one who calls first, then those who acted before. Names of the token's issuer are as they are; one of another issuer
 * is another party, however it is called: `ISSUER#SUBJECT`.
 */
export function actorNames({ actor, issuer }: Pick<PrincipalPart, 'actor' | 'issuer'>): string[] {
  const names: string[] = []
  for (let next: Actor | undefined = actor; next !== undefined; next = next.actor) {
    const isForeign = next.issuer !== undefined && next.issuer !== issuer
    names.push(isForeign ? `${next.issuer}#${next.subject}` : next.subject)
  }
  return names
}
