/** The command line: one usage text, one table of commands, each loaded only when it is called. */
import { TrustError } from '../errors.ts'
import { PolicyError } from '../policy/policy-error.ts'
import { exit, fail, type Io } from './io.ts'

type Command = (args: readonly string[], io: Io) => Promise<number>

const USAGE = `a2a-trust: what an Agent Card declares, enforced

usage:
  a2a-trust init [--card FILE]
  a2a-trust card canonicalize FILE [--profile P]
  a2a-trust card sign FILE --key FILE [--kid ID] [--alg A] [--jku URL] [--compat] [--add] [-o FILE]
  a2a-trust card verify FILE|URL (--trust FILE | --jwks FILE|URL) [--origin O] [--strict] [--profile P]… [--at TIME] [--json]
  a2a-trust card lint FILE [--json]
  a2a-trust card inspect FILE|URL [--json]
  a2a-trust card diff OLD NEW [--json]
  a2a-trust token check TOKEN|- --policy FILE [--scheme NAME] [--at TIME] [--json]
  a2a-trust policy lint --policy FILE [--at TIME] [--json]
  a2a-trust policy explain --policy FILE REQUEST.json|- [--at TIME] [--json]
  a2a-trust url check URL…|- [--no-resolve] [--hosts FILE] [--allow-http] [--port N]… [--json]
  a2a-trust keys generate -o FILE [--alg ES256] [--kid ID] [--example] [--json]
  a2a-trust keys generate --api-key --owner OWNER [--id ID] [--scopes 'A B'] [--tenant T] [--not-before TIME] [--expires TIME] [-o FILE] [--json]
  a2a-trust keys hash [--id ID --owner OWNER] [--json]
  a2a-trust keys hash --password [--user NAME [--owner OWNER]] [--json]
  a2a-trust keys jwks FILE… [--json]
  a2a-trust keys certs --dir DIR [--identity URI] [--days N] [--json]
  a2a-trust keys generate --webhook [-o FILE]
  a2a-trust webhook sign --secret REF… [--id ID] [--at TIME] [--json] FILE|-
  a2a-trust webhook verify --secret REF… --header 'NAME: VALUE'… [--task ID] [--payload any] [--at TIME] [--json] FILE|-
  a2a-trust webhook send URL --secret REF… [--id ID] [--token T] [--allow-http] [--allow-address CIDR]… [--port N]… [--json] FILE|-
  a2a-trust webhook listen --secret REF… [--port N] [--task ID] [--payload any] [--count N] [--json]
  a2a-trust demo [--serve]

TIME is unix seconds or RFC 3339. REF is env:NAME or file:PATH. \`-\` reads stdin, one item a line; a line that starts with " is a JSON string.
stdout is data, stderr is talk. Exit codes: 0 ok or allowed, 1 fault, 2 usage, 3 denied or not trusted, 4 invalid input.

example: is this token good for this agent?
  $ a2a-trust token check "$TOKEN" --policy policy.yaml --json
  {"line":1,"verdict":"valid","principal":"oauth2:https%3A%2F%2Flogin.example.com:alice"}
`

const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  init: async () => (await import('./init.ts')).initCommand,
  'card canonicalize': async () => (await import('./card.ts')).cardCanonicalizeCommand,
  'card sign': async () => (await import('./card.ts')).cardSignCommand,
  'card verify': async () => (await import('./card.ts')).cardVerifyCommand,
  'card lint': async () => (await import('./card.ts')).cardLintCommand,
  'card inspect': async () => (await import('./card.ts')).cardInspectCommand,
  'card diff': async () => (await import('./card.ts')).cardDiffCommand,
  'token check': async () => (await import('./token.ts')).tokenCheckCommand,
  'policy lint': async () => (await import('./policy.ts')).policyLintCommand,
  'policy explain': async () => (await import('./policy.ts')).policyExplainCommand,
  'url check': async () => (await import('./url.ts')).urlCommand,
  'keys generate': async () => (await import('./keys.ts')).keysGenerateCommand,
  'keys jwks': async () => (await import('./keys.ts')).keysJwksCommand,
  'keys hash': async () => (await import('./api-keys.ts')).keysHashCommand,
  'keys certs': async () => (await import('./keys.ts')).keysCertsCommand,
  'webhook sign': async () => (await import('./webhook.ts')).webhookSignCommand,
  'webhook verify': async () => (await import('./webhook.ts')).webhookVerifyCommand,
  'webhook send': async () => (await import('./webhook.ts')).webhookSendCommand,
  'webhook listen': async () => (await import('./webhook.ts')).webhookListenCommand,
  demo: async () => (await import('./demo.ts')).demoCommand,
}

/** Runs one command line and returns its exit code. Never throws. */
export async function runCommandLine(argv: readonly string[], io: Io): Promise<number> {
  if (argv.length === 0 || argv.includes('--help') || argv.includes('-h')) {
    io.stdout.write(USAGE)
    return argv.length === 0 ? exit.usage : exit.ok
  }
  for (const words of [2, 1]) {
    const load = COMMANDS[argv.slice(0, words).join(' ')]
    if (load === undefined) continue
    try {
      return await (await load())(argv.slice(words), io)
    } catch (fault) {
      fail(io, describe(fault))
      return exitOf(fault)
    }
  }
  fail(io, `there is no command "${argv.slice(0, 2).join(' ')}"`, 'a2a-trust --help lists them')
  return exit.usage
}

/** What happened, with the facts of each coded cause on the way. */
function describe(fault: unknown): string {
  const lines: string[] = []
  for (let cause = fault, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth += 1) {
    const facts =
      cause instanceof TrustError
        ? Object.entries(cause.details).map(([name, value]) => `${name} ${String(value)}`)
        : []
    if (depth === 0) lines.push(cause.message)
    else if (cause instanceof TrustError) lines.push(`  because ${cause.code}: ${cause.message}`)
    if (facts.length > 0 && !(cause instanceof PolicyError)) lines.push(`  (${facts.join(', ')})`)
  }
  return lines.length === 0 ? String(fault) : lines.join('\n')
}

/** A mistake on the command line, a file that says something impossible, or a fault. */
function exitOf(fault: unknown): number {
  const code = (fault as { code?: unknown } | null)?.code
  if (typeof code === 'string' && INVALID_INPUT.test(code)) return exit.invalid
  if (fault instanceof TrustError) return exit.fault
  return (typeof code === 'string' && code.startsWith('ERR_PARSE_ARGS')) || fault instanceof TypeError
    ? exit.usage
    : exit.fault
}

/** Files that say something impossible, and files that cannot be read. */
const INVALID_INPUT = /^(?:ERR_(?:POLICY|CARD|JSON|TRUST|KEY)_\w+|ENOENT|EISDIR|ENOTDIR|EACCES)$/
