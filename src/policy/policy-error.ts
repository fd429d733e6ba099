import { TrustError } from '../errors.ts'
import { formatProblem, type Problem } from './problem.ts'

/** Thrown once for a policy with mistakes. `message` lists all of them, one a line, as `formatProblem` writes them. */
export class PolicyError extends TrustError {
  override readonly name = 'PolicyError'
  /** Every mistake, and the warnings found on the way; in the order of the files. */
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    const errors = problems.filter(({ severity }) => severity === 'error')
    super('ERR_POLICY_INVALID', {
      hint: `${errors.length} ${errors.length === 1 ? 'problem' : 'problems'}\n${errors.map(formatProblem).join('\n')}`,
      details: { problems: errors.length },
    })
    this.problems = Object.freeze([...problems])
  }
}
