/** Freezes plain data all the way down, including maps and sets. */

/** Shared configuration must not change under a running guard, by accident or through a returned object. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  if (value instanceof Map || value instanceof Set) {
    // `Object.freeze` leaves the entries of a collection open.
    for (const method of ['set', 'add', 'delete', 'clear']) {
      if (method in value) Object.defineProperty(value, method, { value: refuseChange })
    }
    for (const [key, entry] of value.entries()) {
      deepFreeze(key)
      deepFreeze(entry)
    }
    return Object.freeze(value)
  }
  Object.freeze(value)
  for (const member of Object.values(value)) deepFreeze(member)
  return value
}

function refuseChange(): never {
  throw new TypeError('The policy is frozen')
}
