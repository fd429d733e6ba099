import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { root } from './source-tree.ts'

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, { types: string; default: string } | string>
}
const entries = Object.entries(exports).flatMap(([name, target]) =>
  typeof target === 'string' ? [] : [{ name, file: target.default }],
)

/** Every public entry point there is to be (docs: README). What exists is exported, and nothing else is. */
const ENTRY_FILES: Readonly<Record<string, string>> = {
  '.': 'src/index.ts',
  './card': 'src/card/index.ts',
  './webhook': 'src/webhook/index.ts',
  './webhook/bullmq': 'src/webhook/bullmq.ts',
  './egress': 'src/egress/index.ts',
  './delegation': 'src/delegation/index.ts',
  './policy': 'src/policy/index.ts',
  './errors': 'src/errors.ts',
  './store/redis': 'src/store/redis/index.ts',
  './express': 'src/adapters/express.ts',
  './fastify': 'src/adapters/fastify.ts',
  './grpc': 'src/adapters/grpc.ts',
  './web': 'src/adapters/web.ts',
  './a2a-sdk': 'src/adapters/a2a-sdk.ts',
  './testing': 'src/testing/index.ts',
}

/** Loads an entry of the built package in a process of its own and returns what the script prints. */
function load(file: string, script: string, hook = ''): string {
  const register = hook === '' ? [] : ['--import', `data:text/javascript,${encodeURIComponent(hook)}`]
  const source = `const entry = await import(${JSON.stringify(join(root, file))}); ${script}`
  return execFileSync(process.execPath, [...register, '--input-type=module', '-e', source], {
    cwd: root,
    encoding: 'utf8',
  })
}

const PEERS = [
  'express',
  'fastify',
  'ioredis',
  'bullmq',
  '@grpc/grpc-js',
  '@a2a-js/sdk',
  '@opentelemetry/api',
  'prom-client',
  'oidc-provider',
]
const withoutPeers = (present?: string) => `
import { register } from 'node:module'
register('data:text/javascript,' + encodeURIComponent(\`
  const peers = ${JSON.stringify(PEERS.filter((peer) => peer !== present))}
  export async function resolve(specifier, context, next) {
    if (peers.some((peer) => specifier === peer || specifier.startsWith(peer + '/'))) throw new Error('absent: ' + specifier)
    return next(specifier, context)
  }
\`))`

describe('entry points (built)', () => {
  it('are the entry files that exist, types first, and each in the list of exports', () => {
    const built = (file: string) => file.replace(/^src\//, './dist/').replace(/\.ts$/, '')
    const expected = Object.entries(ENTRY_FILES)
      .filter(([, file]) => existsSync(join(root, file)))
      .map(([name, file]) => [name, { types: `${built(file)}.d.ts`, default: `${built(file)}.js` }])
    expect(JSON.stringify(exports)).toBe(
      JSON.stringify({ ...Object.fromEntries(expected), './package.json': './package.json' }),
    )
    const listed = JSON.parse(readFileSync(join(root, 'test/gates/exports.json'), 'utf8')) as Record<string, string[]>
    expect(Object.keys(listed).sort()).toEqual(entries.map(({ name }) => name).sort())
  })

  it('each has the file and the types it names', () => {
    for (const target of Object.values(exports)) {
      for (const path of typeof target === 'string' ? [target] : Object.values(target))
        expect(existsSync(join(root, path)), path).toBe(true)
    }
  })

  it.each(entries)('$name exports what docs say it does', ({ name, file }) => {
    const names = JSON.parse(load(file, 'console.log(JSON.stringify(Object.keys(entry).sort()))')) as string[]
    const listed = JSON.parse(readFileSync(join(root, 'test/gates/exports.json'), 'utf8')) as Record<string, string[]>
    expect(names).toEqual(listed[name])
  })

  // An adapter needs what it adapts, and no other peer.
  const OWN_PEER: Readonly<Record<string, string>> = { './a2a-sdk': '@a2a-js/sdk', './grpc': '@grpc/grpc-js' }

  it.each(entries)('$name loads with every optional peer absent', ({ name, file }) => {
    expect(load(file, 'console.log("loaded")', withoutPeers(OWN_PEER[name]))).toBe('loaded\n')
  })

  it.each(entries)('$name opens nothing, starts nothing and reads no environment on import', ({ file }) => {
    const hook = `
      const read = []
      process.env = new Proxy(process.env, { get(target, name) {
        if (typeof name === 'string' && /\\/dist\\/[^\\n]*$/.test(new Error().stack.split('\\n')[2] ?? '')) read.push(name)
        return target[name]
      } })
      globalThis.readVariables = read`
    const script =
      'console.log(JSON.stringify({ read: globalThis.readVariables, active: process.getActiveResourcesInfo().filter((kind) => !/Pipe|TTY|File|FSReq|CloseReq/.test(kind)) }))'
    expect(JSON.parse(load(file, script, hook))).toEqual({ read: [], active: [] })
  })
})
