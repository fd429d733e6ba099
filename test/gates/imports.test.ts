import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { root, sourceFiles } from './source-tree.ts'

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
  schemes: ['internal', 'errors', 'types', 'policy:types', 'store:types'],
  ownership: ['store', 'internal', 'errors', 'types'],
  policy: ['protocol', 'ownership:types', 'store', 'internal', 'errors', 'types'],
  card: ['protocol', 'policy', 'egress', 'internal', 'errors', 'types'],
  guard: [
    'policy',
    'schemes',
    'ownership',
    'card',
    'protocol',
    'store',
    'audit',
    'egress',
    'internal',
    'errors',
    'types',
  ],
  delegation: ['guard', 'policy', 'schemes', 'card', 'protocol', 'store', 'egress', 'internal', 'errors', 'types'],
  webhook: ['store', 'egress', 'internal', 'errors', 'types'],
  adapters: ['guard', 'ownership', 'delegation', 'card', 'webhook', 'policy', 'internal', 'errors', 'types'],
  cli: ['adapters', 'guard', 'card', 'webhook', 'policy', 'protocol', 'egress', 'internal', 'errors', 'types'],
  testing: ['webhook', 'store', 'internal', 'errors', 'types'],
  index: ['guard', 'card', 'policy', 'errors', 'types'],
}

const OPTIONAL: Readonly<Record<string, RegExp>> = {
  express: /^src\/(adapters\/express|cli\/demo\/)/,
  fastify: /^src\/adapters\/fastify/,
  ioredis: /^src\/store\/redis/,
  bullmq: /^src\/webhook\/bullmq/,
  '@grpc/grpc-js': /^src\/adapters\/grpc/,
  '@a2a-js/sdk': /^src\/(adapters\/a2a-sdk|webhook\/a2a-sdk|cli\/demo\/)/,
  '@opentelemetry/api': /^$/,
  'prom-client': /^$/,
  'oidc-provider': /^src\/cli\/demo\//,
}

/** Modules that can open a connection. */
const NETWORK = /^node:(?:http|https|http2|net|tls|dgram|dns|dns\/promises|child_process)$|^undici$/
/**
 * The demo plays the client and the provider, which are not this package's to guard. What watches the clients of the
 * process needs their classes, and connects to nothing.
 */
const MAY_CONNECT = /^src\/(?:egress\/|cli\/demo\/|delegation\/outbound-(?:undici|http2)\.ts$)/
/** A class to compare with, a parser, and what only listens. */
const OPENS_NOTHING = /^\{ (?:TLSSocket|isIP|ClientRequest|createServer, type IncomingMessage) \}$/

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

  it('the adapter for web hosts needs nothing of Node that the guard does not need', () => {
    const neededBy = (entry: string) => {
      const needed = new Set<string>()
      const visit = (path: string) => {
        if (needed.has(path)) return
        needed.add(path)
        const { imports = [] } = files.find((file) => file.path === path) ?? {}
        for (const { from, typeOnly } of imports) if (!typeOnly) visit(from)
      }
      visit(entry)
      return new Set([...needed].filter((name) => !name.startsWith('src/')))
    }
    // Every such host has the context of a request.
    const guards = new Set([...neededBy('src/guard.ts'), 'node:async_hooks'])
    expect([...neededBy('src/adapters/web.ts')].filter((name) => !guards.has(name))).toEqual([])
  })

  it('P149 what can open a connection is imported by egress alone', () => {
    const wrong = files
      .filter(({ path }) => !MAY_CONNECT.test(path))
      .flatMap(({ path, imports }) =>
        imports
          .filter(({ from, typeOnly, names }) => !typeOnly && NETWORK.test(from) && !OPENS_NOTHING.test(names))
          .map(({ from }) => `${path} imports ${from}`),
      )
    expect(wrong).toEqual([])
  })

  it('P149 the global fetch is used by nobody: a fetch that is called was handed in', () => {
    const globals = /(?<!typeof )\bglobalThis\.fetch\b|\bnew (?:WebSocket|EventSource|XMLHttpRequest)\b/
    const called = /(?<![.\w])fetch\(|[(,=?:] *fetch *[,)\n]/
    const handedIn = /\bfetch: typeof globalThis\.fetch\b|\{[^{}]*\bfetch\b[^{}]*\} = /
    const wrong = files
      .filter(({ path }) => !MAY_CONNECT.test(path))
      .filter(({ text }) => {
        const code = text.replace(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, '')
        return globals.test(code) || (called.test(code) && !handedIn.test(code))
      })
    expect(wrong.map(({ path }) => path)).toEqual([])
  })

  it('a scheme is imported by the index alone, so that no scheme knows another', () => {
    const schemes = files
      .filter(({ path, text }) => /^src\/schemes\//.test(path) && /^export function create\w+Scheme\b/m.test(text))
      .map(({ path }) => path)
      .filter((path) => path !== 'src/schemes/index.ts')
    expect(schemes.length).toBeGreaterThan(1)
    const wrong = files
      .filter(({ path }) => path !== 'src/schemes/index.ts')
      .flatMap(({ path, imports }) =>
        imports.filter(({ from }) => schemes.includes(from)).map(({ from }) => `${path} imports ${from}`),
      )
    expect(wrong).toEqual([])
  })

  it('every dependency is used, stands in docs/dependencies.md, and nothing else is imported', () => {
    const read = (path: string) => readFileSync(join(root, path), 'utf8')
    const manifest = JSON.parse(read('package.json')) as Record<
      'dependencies' | 'peerDependencies',
      Record<string, string>
    >
    const own = Object.keys(manifest.dependencies)
    const peers = Object.keys(manifest.peerDependencies)
    const imported = new Set(
      files
        .filter(({ path }) => !path.startsWith('src/cli/demo/'))
        .flatMap(({ imports }) => imports.map(({ from }) => from))
        .filter((from) => !from.startsWith('src/') && !from.startsWith('node:'))
        .map((from) => /^(?:@[^/]+\/)?[^/]+/.exec(from)?.[0] as string),
    )
    expect([...imported].sort()).toEqual([...own, ...peers].sort())
    const page = read('docs/dependencies.md')
    expect([...own, ...peers].filter((name) => !page.includes(`\`${name}\``))).toEqual([])
    const listed = [...page.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name)
    expect(listed.toSorted()).toEqual(own.toSorted())
  })
})
