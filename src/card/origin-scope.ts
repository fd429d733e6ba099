/** Origins a signer may sign for: `https://agent.example`, or `https://*.example.com` for every host below. */

const PATTERN =
  /^(https?):\/\/(\*\.)?([a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::(\d{1,5}))?$/

export type OriginScope = (url: string) => boolean

/** What is wrong with a pattern; `undefined`: nothing. A wildcard over a top-level domain would be everybody. */
export function originProblem(pattern: string): string | undefined {
  const match = PATTERN.exec(pattern)
  if (match === null)
    return 'must be an origin such as https://agent.example, or https://*.example.com for its sub-domains'
  if (match[2] !== undefined && !(match[3] as string).includes('.'))
    return 'would trust everybody below a top-level domain: name a domain of your own'
  return undefined
}

/** Whether a URL lies in one of the patterns. Scheme and port must be equal, and a wildcard needs a label boundary. */
export function originScope(patterns: readonly string[]): OriginScope {
  const exact = new Set<string>()
  const below: { readonly protocol: string; readonly port: string; readonly ending: string }[] = []
  for (const pattern of patterns) {
    if (originProblem(pattern) !== undefined) throw new TypeError(`"origins" must hold origins; ${pattern} is none`)
    const url = new URL(pattern.replace('*.', ''))
    if (pattern.includes('*.')) below.push({ protocol: url.protocol, port: url.port, ending: `.${url.hostname}` })
    else exact.add(url.origin)
  }
  return (text) => {
    if (!URL.canParse(text)) return false
    const { origin, protocol, port, hostname } = new URL(text)
    return (
      exact.has(origin) ||
      below.some((one) => one.protocol === protocol && one.port === port && hostname.endsWith(one.ending))
    )
  }
}
