/** Origins a webhook may have: exact, or `*.` in place of one or more whole labels. */

export type UrlPattern = (url: URL) => boolean

/** Throws `TypeError` quoting the option. `https://*.example.com` is neither `example.com` nor `evilexample.com` (P60). */
export function urlPatterns(patterns: unknown, option: string): readonly UrlPattern[] {
  if (!Array.isArray(patterns)) throw new TypeError(`"${option}" must be a list of origins`)
  return Object.freeze(
    patterns.map((pattern: unknown) => {
      const [, scheme, star = '', rest] = isOriginPattern(pattern) ? (PATTERN.exec(pattern) ?? []) : []
      if (scheme === undefined || rest === undefined)
        throw new TypeError(`"${option}" must hold origins such as https://hooks.example.com or https://*.example.com`)
      const { protocol, hostname, port } = new URL(`${scheme}${rest}`)
      return (url: URL) => {
        // A trailing dot names the same host.
        const host = url.hostname.replace(/\.$/, '')
        const fits = star === '' ? host === hostname : host.endsWith(`.${hostname}`)
        return fits && url.protocol === protocol && url.port === port
      }
    }),
  )
}

const PATTERN = /^(https?:\/\/)(\*\.)?([^/?#@\s*]+)$/

export function isOriginPattern(pattern: unknown): pattern is string {
  if (typeof pattern !== 'string') return false
  const [, scheme = '', , rest = ''] = PATTERN.exec(pattern) ?? []
  return rest !== '' && URL.canParse(`${scheme}${rest}`)
}
