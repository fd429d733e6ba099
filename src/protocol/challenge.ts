/** `WWW-Authenticate` (RFC 9110 §11.6.1), from challenges as data. */

export interface ChallengeFields {
  /** Auth-scheme token, as in `Bearer`. */
  readonly scheme: string
  /** Parameters in order, unquoted values. */
  readonly params: readonly (readonly [name: string, value: string])[]
}

/**
 * One header value for all challenges, in order. Every value is a quoted-string; a character that a quoted-string or a
 * field value cannot carry (controls, anything beyond ASCII) becomes `?`, so that no value can end the header or add one.
 */
export function formatChallenges(challenges: readonly ChallengeFields[]): string {
  return challenges
    .map(({ scheme, params }) => {
      const listed = params.map(([name, value]) => `${name}="${quotable(value)}"`)
      return listed.length === 0 ? scheme : `${scheme} ${listed.join(', ')}`
    })
    .join(', ')
}

function quotable(value: string): string {
  return value.replace(/[^\x20-\x7e]/g, '?').replace(/["\\]/g, '\\$&')
}
