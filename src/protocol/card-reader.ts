/** Reading a card's JSON member by member: own members only, every surprise a problem with its place. */
import type { ErrorCode } from '../errors.ts'
import type { CardProblem } from './card-model.ts'
import { type JsonObject, own } from './json-object.ts'

/** One step of a JSON Pointer (RFC 6901 §3). */
export function step(name: string | number): string {
  return `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

export interface CardReader {
  readonly problems: readonly CardProblem[]
  error(code: ErrorCode, pointer: string, message: string): void
  warning(code: ErrorCode, pointer: string, message: string): void
  /** Absent and `null` (ProtoJSON's spelling of absent) are `undefined`; anything but a string is reported. */
  string(object: JsonObject, name: string, pointer: string): string | undefined
  /** As `string`, and reported when absent or empty. */
  requiredString(object: JsonObject, name: string, pointer: string, code?: ErrorCode): string | undefined
  /** Absent is `false`; anything but a boolean is reported. */
  boolean(object: JsonObject, name: string, pointer: string): boolean
  /** Absent is empty; anything but an array is reported. */
  array(object: JsonObject, name: string, pointer: string): readonly unknown[]
}

export function cardReader(): CardReader {
  const problems: CardProblem[] = []
  const add = (severity: CardProblem['severity']) => (code: ErrorCode, pointer: string, message: string) => {
    problems.push({ code, pointer, message, severity })
  }
  const error = add('error')

  function read<T>(
    object: JsonObject,
    name: string,
    pointer: string,
    kind: string,
    is: (value: unknown) => value is T,
  ) {
    const value = own(object, name)
    if (value === undefined || value === null) return undefined
    if (is(value)) return value
    error('ERR_CARD_MEMBER', pointer + step(name), `"${name}" must be ${kind}`)
    return undefined
  }
  const string = (object: JsonObject, name: string, pointer: string) =>
    read(object, name, pointer, 'a string', (value) => typeof value === 'string')

  return {
    problems,
    error,
    warning: add('warning'),
    string,
    requiredString(object, name, pointer, code = 'ERR_CARD_MEMBER') {
      const value = string(object, name, pointer)
      if (value !== undefined && value !== '') return value
      if (value === '' || own(object, name) === undefined || own(object, name) === null) {
        error(code, pointer + step(name), `"${name}" is missing or empty`)
      }
      return undefined
    },
    boolean: (object, name, pointer) =>
      read(object, name, pointer, 'true or false', (value) => typeof value === 'boolean') ?? false,
    array: (object, name, pointer) =>
      read(object, name, pointer, 'an array', (value): value is readonly unknown[] => Array.isArray(value)) ?? [],
  }
}
