/** Name constraints of CA certificates (RFC 5280 §4.2.1.10). What cannot be compared is not permitted. */
import { type Certificate, emailsOf, type GeneralName, relativeNames, type Subtrees } from './certificate.ts'

const [EMAIL, DNS, DIRECTORY, URI, IP] = [1, 2, 4, 6, 7] as const

/** Whether every name of `certificate` is inside `subtrees`. */
export function namesWithin(certificate: Certificate, { permitted, excluded }: Subtrees): boolean {
  try {
    return namesOf(certificate).every(({ type, bytes }) => {
      const allowed = permitted.filter((base) => base.type === type)
      const refused = excluded.filter((base) => base.type === type)
      if (allowed.length === 0 && refused.length === 0) return true
      const within = matcher(type, bytes)
      if (within === undefined) return false
      return (
        !refused.some((base) => within(base.bytes)) &&
        (allowed.length === 0 || allowed.some((base) => within(base.bytes)))
      )
    })
  } catch {
    return false
  }
}

function namesOf({ names, subject }: Certificate): GeneralName[] {
  const emails = names.some(({ type }) => type === EMAIL) ? [] : emailsOf(subject)
  return [
    ...names,
    ...emails.map((bytes) => ({ type: EMAIL, bytes })),
    ...(relativeNames(subject).length === 0 ? [] : [{ type: DIRECTORY, bytes: subject }]),
  ]
}

/** Tells whether the name is within a base; `undefined` for a name that cannot be compared. */
function matcher(type: number, bytes: Uint8Array): ((base: Uint8Array) => boolean) | undefined {
  const name = text(bytes)
  switch (type) {
    case EMAIL: {
      const at = name.indexOf('@')
      // Of two, programs differ in which one ends the mailbox (P83).
      if (at < 1 || at !== name.lastIndexOf('@')) return undefined
      const host = name.slice(at + 1)
      return (base) => (text(base).includes('@') ? text(base) === name : hostWithin(host, text(base)))
    }
    case DNS:
      return (base) => {
        const domain = text(base)
        return domain === '' || name === domain || name.endsWith(domain.startsWith('.') ? domain : `.${domain}`)
      }
    case URI: {
      const host = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?([a-z0-9._-]+)(?::\d*)?(?:[/?#]|$)/.exec(name)?.[1]
      return host === undefined || /^[\d.]+$/.test(host) ? undefined : (base) => hostWithin(host, text(base))
    }
    case IP:
      return (base) =>
        base.length === bytes.length * 2 &&
        bytes.every((octet, index) => {
          const mask = base[bytes.length + index] as number
          return (octet & mask) === ((base[index] as number) & mask)
        })
    case DIRECTORY: {
      const own = relativeNames(bytes)
      return (base) => relativeNames(base).every((part, index) => own[index] === part)
    }
    default:
      return undefined
  }
}

/** Mail and URI hosts: a leading dot means sub-domains only, no dot the host only. */
function hostWithin(host: string, base: string): boolean {
  return base === '' || (base.startsWith('.') ? host.endsWith(base) && host.length > base.length : host === base)
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('latin1').toLowerCase()
}
