/** Origins a signer may sign for: `https://agent.example`, or `https://*.example.com` for every host below. */

const PATTERN =
  /^(https?):\/\/(\*\.)?([a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::(\d{1,5}))?$/

/** Below these anybody can have a name. Only the common ones: the public suffix list is long and moves. */
const COUNTRY_SUFFIX = /^(?:ac|co|com|edu|gob|gov|mil|ne|net|or|org)\.[a-z]{2}$/
const SHARED_HOSTING = new Set(
  (
    'amazonaws.com appspot.com azurewebsites.net cloudfront.net deno.dev firebaseapp.com fly.dev github.io gitlab.io ' +
    'herokuapp.com hf.space netlify.app ngrok.app ngrok.io ngrok-free.app onrender.com pages.dev railway.app run.app ' +
    'trycloudflare.com vercel.app web.app workers.dev'
  ).split(' '),
)

export type OriginScope = (url: string) => boolean

/** What is wrong with a pattern, and what to write instead; `undefined`: nothing. */
export function originProblem(pattern: string): string | undefined {
  if (pattern === '*' || /^https?:\/\/\*$/.test(pattern))
    return 'would trust everybody: list the origins the signer may sign for, such as https://agent.example'
  const [, , wildcard, host] = PATTERN.exec(pattern) ?? []
  if (host === undefined || !URL.canParse(withoutWildcard(pattern))) {
    return `must be an origin such as ${nearestOrigin(pattern) ?? 'https://agent.example'}, or https://*.example.com for its sub-domains`
  }
  if (wildcard !== undefined && (!host.includes('.') || COUNTRY_SUFFIX.test(host) || SHARED_HOSTING.has(host)))
    return `would trust everybody below ${host.includes('.') ? host : 'a top-level domain'}: name a domain of your own`
  return undefined
}

/** Whether a URL lies in one of the patterns. Scheme and port must be equal, and a wildcard needs a label boundary. */
export function originScope(patterns: readonly string[]): OriginScope {
  const exact = new Set<string>()
  const below: { readonly protocol: string; readonly port: string; readonly ending: string }[] = []
  for (const pattern of patterns) {
    if (originProblem(pattern) !== undefined) throw new TypeError(`"origins" must hold origins; ${pattern} is none`)
    const url = new URL(withoutWildcard(pattern))
    if (pattern.includes('*.')) below.push({ protocol: url.protocol, port: url.port, ending: `.${url.hostname}` })
    else exact.add(url.origin)
  }
  return (text) => {
    const url = originUrl(text)
    if (url === undefined) return false
    const { origin, protocol, port, hostname } = url
    return (
      exact.has(origin) ||
      below.some((one) => one.protocol === protocol && one.port === port && hostname.endsWith(one.ending))
    )
  }
}

/** gRPC interfaces are often written as a target, `host:port`, which as a URL would be a scheme. */
function originUrl(text: string): URL | undefined {
  const absolute = /^[a-z0-9.-]+:\d{1,5}$/i.test(text) ? `https://${text}` : text
  return URL.canParse(absolute) ? new URL(absolute) : undefined
}

function withoutWildcard(pattern: string): string {
  return pattern.replace('://*.', '://')
}

/** The origin that somebody means who writes a URL or a bare host. */
function nearestOrigin(text: string): string | undefined {
  const absolute = text.includes('://') ? text : `https://${text}`
  if (text.includes('*') || !URL.canParse(absolute)) return undefined
  const { origin } = new URL(absolute)
  return PATTERN.test(origin) ? origin : undefined
}
