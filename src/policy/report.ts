/** Collects problems, each placed in the file it belongs to. */
import type { ErrorCode } from '../errors.ts'
import type { Problem } from './problem.ts'
import type { Source } from './source.ts'

/** Reports problems about one file, or about a part of it that a pointer prefix names. */
export interface Report {
  error(code: ErrorCode, pointer: string, message: string, part?: 'key' | 'value'): void
  warning(code: ErrorCode, pointer: string, message: string, part?: 'key' | 'value'): void
}

/** `prefix` goes before every pointer, for a card that is written inside the policy. */
export function reportOn(source: Source, problems: Problem[], prefix = ''): Report {
  const add = (severity: Problem['severity']): Report['error'] => {
    return (code, relative, message, part = 'value') => {
      const pointer = prefix + relative
      problems.push({ code, file: source.file, ...source.locate(pointer, part), pointer, message, severity })
    }
  }
  return { error: add('error'), warning: add('warning') }
}

/** The policy file first, the others as they were read, each by place; the same problem is said once. */
export function inOrder(problems: readonly Problem[], policyFile: string): Problem[] {
  const files = [...new Set([policyFile, ...problems.map(({ file }) => file)])]
  const seen = new Set<string>()
  return problems
    .filter((problem) => {
      const identity = JSON.stringify([problem.file, problem.pointer, problem.code, problem.message])
      return !seen.has(identity) && seen.add(identity) !== undefined
    })
    .sort(
      (a, b) =>
        files.indexOf(a.file) - files.indexOf(b.file) ||
        (a.line ?? 0) - (b.line ?? 0) ||
        (a.column ?? 0) - (b.column ?? 0),
    )
}
