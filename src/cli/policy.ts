/** `policy lint` and `policy explain`. */
import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { messageOf } from '../errors.ts'
import { formatProblem, lintPolicy } from '../policy/index.ts'
import type { GuardRequest } from '../types.ts'
import { guardOf } from './guard.ts'
import { exit, fail, type Io, readAll } from './io.ts'
import { clockAt } from './time.ts'

/** `policy lint --policy FILE [--at TIME] [--json]`: every mistake and warning, without reaching the network. */
export async function policyLintCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { policy: { type: 'string' }, at: { type: 'string' }, json: { type: 'boolean' } },
  })
  if (values.policy === undefined) {
    fail(io, 'policy lint needs --policy FILE')
    return exit.usage
  }
  const { problems } = await lintPolicy({ policy: values.policy, clock: clockAt(values.at) })
  for (const problem of problems) {
    io.stdout.write(
      values.json === true ? `${JSON.stringify(problem)}\n` : `${problem.severity}: ${formatProblem(problem)}\n`,
    )
  }
  const errors = problems.filter(({ severity }) => severity === 'error').length
  io.stderr.write(`${errors} ${errors === 1 ? 'error' : 'errors'}, ${problems.length - errors} warnings\n`)
  return errors === 0 ? exit.ok : exit.invalid
}

/**
 * `policy explain --policy FILE REQUEST.json|- [--at TIME] [--json]`: what the guard would decide, and why. REQUEST is
 * `{ "method", "target", "headers": { … } or "rawHeaders": [ … ], "body"? , "binding"? }`.
 */
export async function policyExplainCommand(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { policy: { type: 'string' }, at: { type: 'string' }, json: { type: 'boolean' } },
  })
  const [file] = positionals
  if (values.policy === undefined || file === undefined || positionals.length > 1) {
    fail(io, 'policy explain needs --policy FILE and one REQUEST.json (or -)')
    return exit.usage
  }
  const request = requestOf(file === '-' ? await readAll(io) : await readFile(file, 'utf8'))
  if (typeof request === 'string') {
    fail(io, request, 'write {"method":"POST","target":"/","headers":{"A2A-Version":"1.0"},"body":{…}}')
    return exit.invalid
  }
  const guard = await guardOf(values.policy, values.at, io)
  try {
    const explanation = await guard.explain(request)
    if (values.json === true) io.stdout.write(`${JSON.stringify(explanation)}\n`)
    else {
      const { allowed, code, operation, principal, schemes, shortfalls, skills } = explanation
      io.stdout.write(`${allowed ? 'allowed' : `denied: ${code} ${code === undefined ? '' : messageOf(code)}`}\n`)
      io.stdout.write(
        `operation  ${operation === undefined ? 'none' : `${operation.name} (${operation.binding} ${operation.version})`}\n`,
      )
      io.stdout.write(`principal  ${principal?.id ?? 'anonymous'}\n`)
      for (const { scheme, outcome, code: why, detail } of schemes) {
        io.stdout.write(
          `scheme     ${scheme}: ${outcome}${why === undefined ? '' : ` ${why}`}${detail === undefined ? '' : ` (${detail})`}\n`,
        )
      }
      for (const { missing } of shortfalls) {
        const lacks = missing.map(({ scheme, lacking }) =>
          lacking === undefined ? scheme : `${scheme} with ${lacking.join(' ')}`,
        )
        io.stdout.write(`needs      ${lacks.join(' and ')}\n`)
      }
      if (allowed) io.stdout.write(`skills     ${skills.join(', ') || 'none'}\n`)
    }
    return explanation.allowed ? exit.ok : exit.denied
  } finally {
    await guard.close()
  }
}

/** The request, or what is wrong with it. */
function requestOf(text: string): GuardRequest | string {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return 'the request is not JSON'
  }
  if (typeof value !== 'object' || value === null) return 'the request is not an object'
  const { method, target, headers, rawHeaders, ...rest } = value as Record<string, unknown>
  if (typeof method !== 'string' || typeof target !== 'string') return 'the request needs "method" and "target"'
  const lines = rawHeaders ?? Object.entries((headers ?? {}) as Record<string, unknown>).flat()
  if (!Array.isArray(lines) || lines.some((line) => typeof line !== 'string'))
    return '"headers" must map names to texts'
  return { ...rest, method, target, rawHeaders: lines }
}
