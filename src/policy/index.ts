/** `a2a-trust/policy`: load and check policy files. */
export type { CompiledPolicy } from './compiled.ts'
export { policyJsonSchema } from './json-schema.ts'
export { type LintResult, type LoadPolicyOptions, lintPolicy, loadPolicy } from './load.ts'
export { PolicyError } from './policy-error.ts'
export { formatProblem, type Problem } from './problem.ts'
export type { PolicyFile } from './schema.ts'
