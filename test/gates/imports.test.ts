import { describe, expect, it } from 'vitest'
import { sourceFiles } from './source-tree.ts'

const files = sourceFiles()

/** The room of a source path: its folder, or the file itself at the top. `guard.ts` and `guard/` are one room. */
function room(path: string): string {
  const [, first = '', second] = path.split('/')
  return second === undefined ? first.replace(/\.ts$/, '') : first
}

/** What each room may import. DESIGN §3: adapters and cli, then guard, then policy and schemes, then protocol, then internal. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  errors: [],
  types: ['errors'],
  internal: ['errors', 'types'],
  protocol: ['internal', 'errors', 'types', 'policy:types'],
  store: ['internal', 'errors', 'types'],
  audit: ['internal', 'errors', 'types'],
  egress: ['internal', 'errors', 'types'],
  schemes: ['internal', 'errors', 'types', 'policy:types'],
  policy: ['protocol', 'store', 'internal', 'errors', 'types'],
  card: ['protocol', 'policy', 'egress', 'internal', 'errors', 'types'],
  guard: ['policy', 'schemes', 'protocol', 'store', 'audit', 'egress', 'internal', 'errors', 'types'],
  adapters: ['guard', 'card', 'internal', 'errors', 'types'],
  cli: ['adapters', 'guard', 'card', 'policy', 'protocol', 'egress', 'internal', 'errors', 'types'],
  index: ['guard', 'policy', 'errors', 'types'],
}

const OPTIONAL: Readonly<Record<string, RegExp>> = {
  express: /^src\/(adapters\/express|cli\/demo\/)/,
  fastify: /^src\/adapters\/fastify/,
  ioredis: /^src\/store\/redis/,
  bullmq: /^$/,
  '@grpc/grpc-js': /^src\/adapters\/grpc/,
  '@a2a-js/sdk': /^src\/(adapters\/a2a-sdk|cli\/demo\/)/,
  '@opentelemetry/api': /^$/,
  'prom-client': /^$/,
  'oidc-provider': /^src\/cli\/demo\//,
}

describe('import direction', () => {
  it('DESIGN 3: every import goes down', () => {
    const wrong = files.flatMap(({ path, imports }) =>
      imports
        .filter(({ from }) => from.startsWith('src/'))
        .filter(({ from, typeOnly }) => {
          const [here, there] = [room(path), room(from)]
          const allowed = ALLOWED[here]
          if (allowed === undefined) return true
          return here !== there && !allowed.includes(there) && !(typeOnly && allowed.includes(`${there}:types`))
        })
        .map(({ from }) => `${path} imports ${from}`),
    )
    expect(wrong).toEqual([])
  })

  it('no cycles, types included', () => {
    const edges = new Map(
      files.map(({ path, imports }) => [
        path,
        imports.map(({ from }) => from).filter((from) => from.startsWith('src/')),
      ]),
    )
    const done = new Set<string>()
    const cycles: string[] = []
    const visit = (path: string, trail: readonly string[]) => {
      if (trail.includes(path)) {
        cycles.push([...trail.slice(trail.indexOf(path)), path].join(' -> '))
        return
      }
      if (done.has(path)) return
      for (const next of edges.get(path) ?? []) visit(next, [...trail, path])
      done.add(path)
    }
    for (const { path } of files) visit(path, [])
    expect(cycles).toEqual([])
  })

  it('optional peers are imported only by the file that adapts them', () => {
    const wrong = files.flatMap(({ path, imports }) =>
      imports.flatMap(({ from }) => {
        const name = Object.keys(OPTIONAL).find((peer) => from === peer || from.startsWith(`${peer}/`))
        return name === undefined || (OPTIONAL[name] as RegExp).test(path) ? [] : [`${path} imports ${from}`]
      }),
    )
    expect(wrong).toEqual([])
  })

  it('everything that sends a request goes through egress', () => {
    const sends = /(?<![.\w])fetch\(|globalThis\.fetch\(|\bhttps?\.(?:request|get)\(|\bnet\.connect\(|\btls\.connect\(/
    const raw = ['node:http', 'node:https', 'node:http2', 'node:net', 'node:tls', 'undici']
    const exempt = /^src\/(egress|adapters|cli\/demo)\//
    const wrong = files
      .filter(({ path }) => !exempt.test(path))
      .filter(({ text, imports }) => {
        // A fetch that was handed in is the guarded one: whoever made the context made it.
        if (/\bfetch: typeof (?:globalThis\.)?fetch\b/.test(text))
          return imports.some(({ from, typeOnly }) => raw.includes(from) && !typeOnly)
        const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
        return sends.test(code) || imports.some(({ from, typeOnly }) => raw.includes(from) && !typeOnly)
      })
      .map(({ path }) => path)
    // `net.isIP` opens nothing.
    expect(wrong.filter((path) => !/isIP/.test(files.find((file) => file.path === path)?.text ?? ''))).toEqual([])
  })
})
