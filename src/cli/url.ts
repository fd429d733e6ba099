/** `url check`: what the guarded fetch would say of a URL. */
import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { hostName } from '../egress/host.ts'
import { createEgress, type EgressOptions, type Resolver } from '../egress/index.ts'
import { exit, fail, type Io, itemsOf, readAll } from './io.ts'

/**
 * `url check URL…|- [--no-resolve] [--hosts FILE] [--allow-http] [--port N…] [--json]`. `--hosts` is a JSON map from name
 * to a list of addresses, in place of DNS; a name that is not in it has none.
 */
export async function urlCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    allowNegative: true,
    options: {
      resolve: { type: 'boolean', default: true },
      hosts: { type: 'string' },
      'allow-http': { type: 'boolean', default: false },
      port: { type: 'string', multiple: true },
      json: { type: 'boolean', default: false },
    },
  })
  if (positionals.length === 0) {
    fail(io, 'url check needs a URL, or - for stdin')
    return exit.usage
  }
  if (positionals.includes('-') && positionals.length > 1) {
    fail(io, 'url check takes URLs or -, not both', 'put them all on stdin, one a line')
    return exit.usage
  }
  const resolver = values.hosts === undefined ? undefined : hostsOf(await readFile(values.hosts, 'utf8'))
  if (typeof resolver === 'string') {
    fail(io, resolver, 'write {"name.example":["93.184.216.34"]}')
    return exit.invalid
  }
  const options: EgressOptions = {
    requireHttps: !values['allow-http'],
    ...(resolver === undefined ? {} : { resolver }),
    ...(values.port === undefined ? {} : { ports: values.port.map(Number) }),
  }
  const egress = createEgress(options)
  try {
    const fromStdin = positionals[0] === '-'
    const urls = fromStdin ? itemsOf(await readAll(io)) : positionals
    let denied = 0
    for (const [index, url] of urls.entries()) {
      const { verdict, reason, addresses } = await egress.check(url, { resolve: values.resolve })
      if (verdict === 'deny') denied += 1
      const line =
        fromStdin || values.json
          ? JSON.stringify({ line: index + 1, verdict, reason, ...(addresses === undefined ? {} : { addresses }) })
          : `${verdict} ${reason}${addresses === undefined ? '' : ` ${addresses.join(' ')}`}`
      io.stdout.write(`${line}\n`)
    }
    return denied === 0 ? exit.ok : exit.denied
  } finally {
    await egress.close()
  }
}

/** The resolver, or what is wrong with the file. */
function hostsOf(text: string): Resolver | string {
  let hosts: unknown
  try {
    hosts = JSON.parse(text)
  } catch {
    return 'the hosts file is not JSON'
  }
  if (typeof hosts !== 'object' || hosts === null || Array.isArray(hosts) || !Object.values(hosts).every(isTextList)) {
    return 'the hosts file is not a map from names to lists of addresses'
  }
  const known = new Map<string, readonly string[]>()
  for (const [name, addresses] of Object.entries(hosts as Record<string, string[]>)) {
    // What is no host name is never asked for.
    const host = hostName(name)
    if (host !== undefined) known.set(host, addresses)
  }
  return async (name) => known.get(name) ?? []
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === 'string')
}
