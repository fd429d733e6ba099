/** `init`: a starter policy that fits the card. What the card cannot say is marked, and refused by lint until it is filled in. */
import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { parseStrictJson } from '../internal/json.ts'
import { parseCard } from '../protocol/card.ts'
import type { CardModel, CardScheme } from '../protocol/card-model.ts'
import { exit, fail, type Io } from './io.ts'

/** `init [--card FILE]`: writes to stdout, so that nothing is overwritten: `a2a-trust init > policy.yaml`. */
export async function initCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { card: { type: 'string', default: './agent-card.json' } } })
  const { model, problems } = parseCard(parseStrictJson(await readFile(values.card, 'utf8')))
  const mistakes = problems.filter(({ severity }) => severity === 'error')
  if (mistakes.length > 0) {
    fail(
      io,
      `the card has ${mistakes.length} ${mistakes.length === 1 ? 'mistake' : 'mistakes'}`,
      `a2a-trust card lint ${values.card} shows them`,
    )
    return exit.invalid
  }
  io.stdout.write(starterPolicy(values.card, model))
  return exit.ok
}

function starterPolicy(cardFile: string, { interfaces, schemes, requirements, skills }: CardModel): string {
  const origin = interfaces
    .map(({ url }) => (URL.canParse(url) ? new URL(url).origin : undefined))
    .find((one) => one !== undefined)
  const lines = [
    'version: 1',
    `card: ${text(cardFile)}`,
    `audience: ${text(origin ?? 'https://CHANGE_ME')}          # what a token's aud must contain`,
    `publicUrl: ${text(origin ?? 'https://CHANGE_ME')}         # the URL callers know this agent by`,
  ]
  if (schemes.size > 0) lines.push('schemes:')
  for (const [name, scheme] of schemes) lines.push(...settingsFor(name, scheme))
  if (requirements.length === 0) lines.push('# the card requires no credential: anybody may call', '# anonymous: true')
  const strict = [...skills.values()].filter((skill) => skill.requirements !== undefined).map(({ id }) => id)
  if (strict.length > 0) {
    lines.push(
      'skills:',
      `  select: { metadata: skillId }   # ${strict.join(', ')} ask for more than the agent`,
      '  undeclared: deny',
    )
  }
  return `${lines.join('\n')}\n`
}

function settingsFor(name: string, scheme: CardScheme): string[] {
  const head = `  ${text(name)}:`
  switch (scheme.kind) {
    case 'apiKey':
      return [
        head,
        `    keys: file:./api-keys.yaml      # a2a-trust keys generate --api-key --owner OWNER -o partner.key >> api-keys.yaml`,
      ]
    case 'http':
      return [head, ...settingsForHttp(scheme.scheme)]
    case 'oauth2':
      return [
        head,
        `    issuer: ${text(issuerOf(scheme.metadataUrl ?? scheme.tokenUrls[0]))}    # must be what iss says, byte by byte`,
        '    algorithms: [ES256, RS256]',
      ]
    case 'openIdConnect':
      return [
        head,
        `    issuer: ${text(scheme.url.replace(/\/\.well-known\/openid-configuration$/, ''))}`,
        '    algorithms: [ES256, RS256]',
      ]
    case 'mtls':
      return [head, '    ca: file:./ca.pem', "    identities: ['spiffe://CHANGE_ME/agents/*']"]
    case 'unknown':
      return [`  # ${name}: a kind this version does not know (${scheme.member}): no caller can satisfy it`]
  }
}

function settingsForHttp(authScheme: string): string[] {
  switch (authScheme.toLowerCase()) {
    case 'bearer':
    case 'dpop':
      return ['    issuer: https://CHANGE_ME', '    algorithms: [ES256]', '    jwks: file:./jwks.json']
    case 'basic':
      return [
        '    users: file:./users.yaml        # a2a-trust keys hash --password --user NAME < password >> users.yaml',
      ]
    default:
      return ['    custom: true                    # checked by a function in code: schemes.custom of createGuard']
  }
}

function issuerOf(url: string | undefined): string {
  return url !== undefined && URL.canParse(url) ? new URL(url).origin : 'https://CHANGE_ME'
}

/** Plain where YAML reads it as the same text, quoted where not. */
function text(value: string): string {
  return /^[A-Za-z.][\w./:-]*$/.test(value) &&
    !value.endsWith(':') &&
    !/^(?:true|false|null|yes|no|on|off)$/i.test(value)
    ? value
    : JSON.stringify(value)
}
