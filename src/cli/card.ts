/** `card canonicalize|sign|verify|lint|inspect|diff`. */
import { readFile } from 'node:fs/promises'
import { parseArgs, styleText } from 'node:util'
import type { JWK } from 'jose'
import {
  canonicalizeCard,
  driftOf,
  formatDrift,
  type JwkSet,
  lintCard,
  loadTrust,
  type Profile,
  parseStrictJson,
  pinOf,
  signCard,
  type VerifyResult,
  verifyCard,
} from '../card/index.ts'
import { createEgress } from '../egress/index.ts'
import { messageOf } from '../errors.ts'
import { parseCard } from '../protocol/card.ts'
import { createFiles } from './files.ts'
import { exit, fail, type Io, readBytes } from './io.ts'
import { clockAt } from './time.ts'

/** `card canonicalize FILE|- [--profile P]`: the exact text that the profile signs. */
export async function cardCanonicalizeCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { profile: { type: 'string', default: 'spec' } },
  })
  const [file, ...more] = positionals
  if (file === undefined || more.length > 0) return usage(io, 'card canonicalize needs one FILE')
  io.stdout.write(canonicalizeCard(await bytesOf(file, io), values.profile as Profile))
  return exit.ok
}

/** What the verifiers of the JavaScript and Python SDKs make of a card. */
const FORMS_OF_SDKS: readonly Profile[] = ['clean', 'py-legacy']

/** `card sign FILE --key FILE [--kid] [--alg] [--jku] [--compat] [--add] [-o FILE]`. Never writes over a file. */
export async function cardSignCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      key: { type: 'string' },
      kid: { type: 'string' },
      alg: { type: 'string' },
      jku: { type: 'string' },
      compat: { type: 'boolean', default: false },
      add: { type: 'boolean', default: false },
      output: { type: 'string', short: 'o' },
    },
  })
  const [file, ...more] = positionals
  if (file === undefined || more.length > 0 || values.key === undefined)
    return usage(io, 'card sign needs one FILE and --key FILE')
  const keyText = await readFile(values.key, 'utf8')
  const key = keyText.trimStart().startsWith('{') ? (parseStrictJson(keyText) as JWK) : keyText
  const { kid, alg, jku, compat, add, output } = values
  const { text } = await signCard(await bytesOf(file, io), {
    key,
    compat,
    signatures: add ? 'add' : 'replace',
    ...(kid === undefined ? {} : { kid }),
    ...(alg === undefined ? {} : { alg }),
    ...(jku === undefined ? {} : { jku }),
  })
  if (!compat && FORMS_OF_SDKS.some((form) => canonicalizeCard(text, form) !== canonicalizeCard(text, 'raw'))) {
    io.stderr.write(
      'hint: some SDKs sign this card in another form and would refuse it: --compat adds their signatures\n',
    )
  }
  if (output !== undefined) return createFiles(io, [{ path: output, text, access: 'public' }])
  io.stdout.write(`${text}\n`)
  return exit.ok
}

/** `card verify FILE|URL|- (--trust FILE | --jwks FILE|URL) [--origin O] [--strict] [--profile P…] [--at TIME] [--json]`. */
export async function cardVerifyCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      trust: { type: 'string' },
      jwks: { type: 'string' },
      origin: { type: 'string' },
      strict: { type: 'boolean', default: false },
      profile: { type: 'string', multiple: true },
      at: { type: 'string' },
      json: { type: 'boolean', default: false },
    },
  })
  const [place, ...more] = positionals
  if (place === undefined || more.length > 0 || (values.trust === undefined) === (values.jwks === undefined)) {
    return usage(io, 'card verify needs one FILE or URL, and either --trust FILE or --jwks FILE')
  }
  const clock = clockAt(values.at)
  const text = await bytesOf(place, io)
  const from = values.origin ?? (isUrl(place) ? new URL(place).origin : undefined)
  const by =
    values.trust === undefined
      ? { jwks: parseStrictJson(await bytesOf(values.jwks as string, io)) as JwkSet }
      : { trust: await loadTrust({ trust: values.trust, clock }), ...(from === undefined ? {} : { origin: from }) }
  const profiles = values.profile as Profile[] | undefined
  const result = await verifyCard(text, by, {
    strict: values.strict,
    at: clock() / 1000,
    ...(profiles === undefined ? {} : { profiles }),
  })
  if (values.json) {
    const { card: _, ...shown } = { card: undefined, ...result }
    io.stdout.write(`${JSON.stringify(shown)}\n`)
  } else io.stdout.write(verdictText(result, io))
  return result.ok
    ? exit.ok
    : result.reason.startsWith('ERR_JSON_') || result.reason === 'ERR_CARD_SHAPE'
      ? exit.invalid
      : exit.denied
}

function verdictText(result: VerifyResult, io: Io): string {
  const paint = (color: 'green' | 'red' | 'yellow', text: string) =>
    io.stdout.isTTY === true ? styleText(color, text) : text
  const lines = result.ok
    ? [
        `${paint('green', 'trusted')}: signed by ${result.signer}`,
        `profile   ${result.profile} (${result.coverage} coverage)`,
        ...result.warnings.map(
          (pointer) => `${paint('yellow', 'warning')}   ${pointer} is served and not signed: it is not in the result`,
        ),
        ...result.uncovered
          .filter((pointer) => !result.warnings.includes(pointer))
          .map((pointer) => `uncovered ${pointer}`),
      ]
    : [`${paint('red', 'not trusted')}: ${result.reason} ${messageOf(result.reason)}`]
  for (const { index, ok, reason, kid, alg } of result.signatures) {
    lines.push(
      `signature ${index}: ${ok ? 'good' : `${reason}`}${kid === undefined ? '' : ` kid ${kid}`}${alg === undefined ? '' : ` ${alg}`}`,
    )
  }
  return `${lines.join('\n')}\n`
}

/** `card lint FILE|- [--json]`: mistakes and advice. */
export async function cardLintCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { json: { type: 'boolean', default: false } },
  })
  const [file, ...more] = positionals
  if (file === undefined || more.length > 0) return usage(io, 'card lint needs one FILE')
  const problems = lintCard(await bytesOf(file, io))
  for (const problem of problems) {
    const { severity, code, pointer, message } = problem
    io.stdout.write(
      values.json ? `${JSON.stringify(problem)}\n` : `${severity}: ${file}#${pointer}  ${code} ${message}\n`,
    )
  }
  return problems.some(({ severity }) => severity === 'error') ? exit.invalid : exit.ok
}

/** `card inspect FILE|URL|- [--json]`: what the card asks for, as the guard reads it. */
export async function cardInspectCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { json: { type: 'boolean', default: false } },
  })
  const [file, ...more] = positionals
  if (file === undefined || more.length > 0) return usage(io, 'card inspect needs one FILE or URL')
  const card = parseStrictJson(await bytesOf(file, io), { unsafeIntegers: 'round' }) as Record<string, unknown>
  const pin = pinOf(card)
  if (values.json) io.stdout.write(`${JSON.stringify(pin)}\n`)
  else {
    const { model } = parseCard(card)
    const signatures = Array.isArray(card.signatures) ? card.signatures.length : 0
    io.stdout.write(
      `${model.name} ${model.version} (A2A ${model.protocol}, ${signatures} ${signatures === 1 ? 'signature' : 'signatures'})\n`,
    )
    for (const host of pin.hosts) io.stdout.write(`interface   ${host}\n`)
    for (const [name, scheme] of Object.entries(pin.schemes)) io.stdout.write(`scheme      ${name} ${scheme}\n`)
    for (const requirement of pin.requirements) io.stdout.write(`requires    ${requirement}\n`)
    for (const [id, requirements] of Object.entries(pin.skills))
      io.stdout.write(`skill       ${id}${requirements.length === 0 ? '' : ` requires ${requirements.join(' or ')}`}\n`)
  }
  return exit.ok
}

/** `card diff OLD NEW [--json]`: structural differences; exit 3 when one of them weakens the card. */
export async function cardDiffCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { json: { type: 'boolean', default: false } },
  })
  const [before, after, ...more] = positionals
  if (before === undefined || after === undefined || more.length > 0)
    return usage(io, 'card diff needs OLD and NEW, and nothing else')
  const pin = async (file: string) =>
    pinOf(parseStrictJson(await bytesOf(file, io), { unsafeIntegers: 'round' }) as Record<string, unknown>)
  const drift = driftOf(await pin(before), await pin(after))
  io.stdout.write(values.json ? `${JSON.stringify(drift)}\n` : formatDrift(drift))
  return drift.some(({ weaker }) => weaker) ? exit.denied : exit.ok
}

function usage(io: Io, message: string): number {
  fail(io, message)
  return exit.usage
}

function isUrl(place: string): boolean {
  return /^https?:\/\//.test(place)
}

/** A file, `-` for stdin, or a URL through the guarded fetch. Never as text: decoding would hide what is no UTF-8. */
async function bytesOf(place: string, io: Io): Promise<Uint8Array> {
  if (place === '-') return readBytes(io)
  if (!isUrl(place)) return readFile(place)
  const egress = createEgress({ maxResponseBytes: 2 * 1024 * 1024 })
  try {
    const response = await egress.fetch(place)
    if (!response.ok) throw new Error(`${new URL(place).origin} answered ${response.status}`)
    return new Uint8Array(await response.arrayBuffer())
  } finally {
    await egress.close()
  }
}
