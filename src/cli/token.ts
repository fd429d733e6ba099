/** `token check`: is this bearer token good for the agent of this policy? The same guard as in production answers. */
import { parseArgs } from 'node:util'
import type { ErrorCode } from '../errors.ts'
import type { Guard } from '../guard.ts'
import { guardOf } from './guard.ts'
import { exit, fail, type Io, itemsOf, readAll } from './io.ts'

interface TokenVerdict {
  readonly verdict: 'valid' | 'invalid'
  readonly reason?: ErrorCode
  readonly detail?: string
  readonly scheme?: string
  readonly principal?: string
  readonly scopes?: readonly string[]
}

/**
 * `token check TOKEN|- --policy FILE [--scheme NAME] [--at TIME] [--json]`. Prints no token. Not checked: a binding to a key
 * or certificate, since there is neither proof nor connection.
 */
export async function tokenCheckCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      policy: { type: 'string' },
      scheme: { type: 'string' },
      at: { type: 'string' },
      json: { type: 'boolean' },
    },
  })
  const [token] = positionals
  if (token === undefined || positionals.length > 1 || values.policy === undefined) {
    fail(io, 'token check needs one TOKEN (or -) and --policy FILE')
    return exit.usage
  }
  const guard = await guardOf(values.policy, values.at, io)
  try {
    const { scheme } = values
    if (scheme !== undefined && !guard.health().schemes.some(({ name }) => name === scheme)) {
      fail(io, `the policy has no scheme "${scheme}"`)
      return exit.usage
    }
    let refused = 0
    let bound = 0
    const tokens = token === '-' ? itemsOf(await readAll(io)) : [token]
    for (const [index, item] of tokens.entries()) {
      const result = await check(guard, item, scheme)
      if (result.verdict === 'invalid') refused += 1
      if (result.reason === 'ERR_TOKEN_BOUND' || result.reason === 'ERR_TOKEN_CERTIFICATE') bound += 1
      io.stdout.write(
        token === '-' || values.json === true
          ? `${JSON.stringify({ line: index + 1, ...result })}\n`
          : `${text(result)}\n`,
      )
    }
    if (bound > 0)
      io.stderr.write('hint: a bound token needs its key or certificate in the request, and there is no request here\n')
    return refused === 0 ? exit.ok : exit.denied
  } finally {
    await guard.close()
  }
}

async function check(guard: Guard, token: string, scheme: string | undefined): Promise<TokenVerdict> {
  const explanation = await guard.explain({
    method: 'GET',
    target: '/tasks',
    rawHeaders: ['authorization', `Bearer ${token}`, 'a2a-version', '1.0'],
  })
  const asked = explanation.schemes.filter(({ scheme: name }) => scheme === undefined || name === scheme)
  const satisfied = asked.find(({ outcome }) => outcome === 'satisfied')
  if (satisfied !== undefined) {
    const { principal } = explanation
    return {
      verdict: 'valid',
      scheme: satisfied.scheme,
      ...(principal === undefined ? {} : { principal: principal.id, scopes: principal.scopes }),
    }
  }
  const refused =
    asked.find(({ code }) => code !== undefined && code !== 'ERR_TOKEN_ISSUER') ??
    asked.find(({ code }) => code !== undefined)
  return {
    verdict: 'invalid',
    reason: refused?.code ?? 'ERR_CREDENTIAL_MISSING',
    ...(refused?.detail === undefined ? {} : { detail: refused.detail }),
    ...(refused === undefined ? {} : { scheme: refused.scheme }),
  }
}

function text({ verdict, reason, detail, scheme, principal, scopes }: TokenVerdict): string {
  return verdict === 'valid'
    ? `valid for ${scheme}: ${principal}${scopes === undefined || scopes.length === 0 ? '' : ` with ${scopes.join(' ')}`}`
    : `invalid: ${reason}${detail === undefined ? '' : ` (${detail})`}`
}
