/**
 * Knows what was presented as a credential and looks for it in what comes out. A credential counts as found by the
 * sixteen characters it begins or ends with, so that half of one is found too; shorter ones are not looked for.
 */
import { inspect } from 'node:util'

const WINDOW = 16
/** Written into every secret that is planted where no request carries it: configuration, environment, answers, bodies. */
export const MARK = 'PLANTED'
/** What can stand in a credential; anything else ends it. */
const WORD = /[A-Za-z0-9._~+/=@:-]{16,}/g
const SECRET_NAME = /key|token|secret|passw|auth|sid|session|dpop/i

export interface LeakWatch {
  /** Raw header lines and query of a request: every credential in them is a secret from now on. */
  presented(rawHeaders: readonly string[], query: string): void
  secret(value: string): void
  /** What a caller, a log, an event or an error is told. `kind` is for the report. */
  said(kind: string, value: unknown): void
  /** Where secrets came out, without the secret. Emptied by the one test that causes some. */
  readonly leaks: string[]
}

export function createLeakWatch(): LeakWatch {
  const known = new Set<string>()
  const seen = new Set<string>()
  const leaks: string[] = []

  function secret(value: string): void {
    if (value.length < WINDOW) return
    known.add(value.slice(0, WINDOW)).add(value.slice(-WINDOW))
  }

  function credential(value: string): void {
    secret(value)
    // A token is as good as its payload and signature; its header is anybody's.
    for (const part of value.split('.').slice(1)) secret(part)
    const decoded = Buffer.from(value, 'base64').toString()
    if (decoded.includes(':')) secret(decoded.slice(decoded.indexOf(':') + 1))
  }

  function isLeak(text: string): boolean {
    if (text.includes(MARK)) return true
    if (known.size === 0) return false
    for (const [word] of text.matchAll(WORD)) {
      for (let i = 0; i + WINDOW <= word.length; i += 1) if (known.has(word.slice(i, i + WINDOW))) return true
    }
    return false
  }

  return {
    secret,
    presented(rawHeaders, query) {
      for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
        const name = (rawHeaders[i] as string).toLowerCase()
        const value = rawHeaders[i + 1] as string
        if (name === 'authorization' || name === 'proxy-authorization') credential(value.slice(value.indexOf(' ') + 1))
        else if (name === 'cookie')
          for (const pair of value.split(';')) secret(pair.slice(pair.indexOf('=') + 1).trim())
        else if (SECRET_NAME.test(name)) credential(value)
      }
      for (const [name, value] of new URLSearchParams(query)) if (SECRET_NAME.test(name)) credential(value)
    },
    said(kind, value) {
      const text =
        typeof value === 'string' ? value : inspect(value, { depth: 8, maxStringLength: null, breakLength: Infinity })
      if (seen.has(text)) return
      seen.add(text)
      if (isLeak(text)) leaks.push(`${kind}: ${text.slice(0, 40)}…`)
    },
    leaks,
  }
}
