/** Opens the files that a policy names. What is wrong with them is reported, never thrown. */
import type { Problem } from './problem.ts'
import { type Environment, pathOf, type ReferenceContext, readTextFile } from './references.ts'
import { type Report, reportOn } from './report.ts'
import { readSource, type Source } from './source.ts'

/** What loading carries along. */
export interface LoadContext extends ReferenceContext {
  readonly env: Environment
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly problems: Problem[]
}

/** `NODE_ENV=production`, in which example keys are refused. */
export function isProduction(context: LoadContext): boolean {
  return context.env.NODE_ENV === 'production'
}

/**
 * Reads the file behind a path or `file:PATH` written at `pointer`. A file that cannot be opened is reported where it is
 * named; one that cannot be read as YAML or JSON is reported in itself.
 */
export async function openSource(
  reference: string,
  pointer: string,
  context: LoadContext,
  report: Report,
  maxBytes?: number,
): Promise<{ source: Source; report: Report } | undefined> {
  const name = reference.replace(/^file:/, '')
  const text = await readTextFile(pathOf(reference, context.baseDir), maxBytes)
  if (!text.ok) {
    report.error('ERR_POLICY_UNREADABLE', pointer, `the file ${name} ${text.why}`)
    return undefined
  }
  const result = readSource(
    text.text,
    name,
    maxBytes === undefined ? { maxLength: 1024 * 1024 } : { maxLength: maxBytes },
  )
  if (!result.ok) {
    context.problems.push(...result.problems)
    return undefined
  }
  return { source: result.source, report: reportOn(result.source, context.problems) }
}
