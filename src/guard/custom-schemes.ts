/** The `schemes` option of `createGuard`: functions of the operator, held against the policy. */
import type { CompiledPolicy } from '../policy/compiled.ts'
import type { CustomScheme } from '../types.ts'

/**
 * A copy of the functions by scheme name. Throws `TypeError` for anything that is no function and for a function that
 * no scheme asks for: it is a check that somebody believes to be there. (A scheme without a function is not made.)
 */
export function customSchemes(schemes: unknown, policy: CompiledPolicy): ReadonlyMap<string, CustomScheme> {
  const given = new Map(
    Object.entries(membersOf(membersOf(schemes, '"schemes"', ['custom']).custom, '"schemes.custom"')),
  )
  for (const [name, custom] of given) {
    if (policy.schemes.get(name)?.type !== 'custom')
      throw new TypeError(`"schemes.custom" has "${name}", and the policy has no such scheme with custom: true`)
    if (typeof custom === 'function') continue
    const { authenticate, challenge } = membersOf(custom, `"schemes.custom" of "${name}"`, [
      'authenticate',
      'challenge',
    ])
    if (typeof authenticate !== 'function') throw new TypeError(`"schemes.custom" of "${name}" must be a function`)
    if (challenge !== undefined && typeof challenge !== 'function')
      throw new TypeError(`"schemes.custom" of "${name}": "challenge" must be a function`)
    given.set(name, Object.freeze({ authenticate, ...(challenge === undefined ? {} : { challenge }) }))
  }
  return given as ReadonlyMap<string, CustomScheme>
}

function membersOf(value: unknown, option: string, known?: readonly string[]): Record<string, unknown> {
  if (value === undefined) return {}
  if (typeof value !== 'object' || value === null) throw new TypeError(`${option} must be an object`)
  const stray = Object.keys(value).find((name) => known !== undefined && !known.includes(name))
  if (stray !== undefined) throw new TypeError(`${option} has no "${stray}"`)
  return { ...value }
}
