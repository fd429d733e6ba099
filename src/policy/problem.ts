/** A mistake found in a configuration file. All mistakes of a file are collected before anything is thrown. */
import type { ErrorCode } from '../errors.ts'

export interface Problem {
  readonly code: ErrorCode
  /** File as the user named it; `policy` for a policy given as an object. */
  readonly file: string
  /** 1-based. Absent for a value that was given as an object. */
  readonly line?: number
  readonly column?: number
  /** JSON Pointer of the value. */
  readonly pointer: string
  /** What is wrong, and what to write instead. Never the value of a secret. */
  readonly message: string
  /** `error` refuses the start; `warning` is logged. */
  readonly severity: 'error' | 'warning'
}

/** `policy.yaml:12:5  ERR_POLICY_…  message`. */
export function formatProblem(problem: Problem): string {
  const place =
    problem.line === undefined
      ? `${problem.file}${problem.pointer === '' ? '' : `#${problem.pointer}`}`
      : `${problem.file}:${problem.line}:${problem.column ?? 1}`
  return `${place}  ${problem.code} ${problem.message}`
}
