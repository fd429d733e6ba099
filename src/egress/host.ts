/** Host names in the one form that every comparison uses. */
import { domainToASCII } from 'node:url'
import { familyOf } from './address.ts'

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/

/** Lower case, IDNA in its ASCII form, no final dot (A70). `undefined` for what is no name, addresses included. */
export function hostName(text: string): string | undefined {
  // Some of these end a host early, some are decoded: a configured name has neither.
  if (/[\s/\\?#@:%[\]]/.test(text)) return undefined
  const name = domainToASCII(text).replace(/\.$/, '')
  return familyOf(name) === 0 && isHostName(name) ? name : undefined
}

/** For a host as the URL parser gives it, without final dot. */
export function isHostName(name: string): boolean {
  return name.length <= 253 && name.split('.').every((label) => LABEL.test(label))
}
