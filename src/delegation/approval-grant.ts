/** What an approval is worth: one operation, with the parameters that were approved, once. */
import { TrustError } from '../errors.ts'
import { canonicalParameters } from './approval-parameters.ts'

export interface ApprovedUse {
  /** A copy of what was approved, equal to what was asked for. Work with this one. */
  readonly parameters: unknown
  /** What `obtain` returned. */
  readonly credential?: unknown
}

export interface ApprovalGrant {
  readonly taskId: string
  readonly operation: string
  /** Unix seconds. */
  readonly expiresAt: number
  /**
   * To be called right before the operation is done; the first call that fits takes the approval. Throws
   * `ERR_APPROVAL_MISMATCH` for another operation or other parameters, `ERR_APPROVAL_USED`, `ERR_APPROVAL_EXPIRED`, and
   * `ERR_APPROVAL_CANCELLED` when the task has ended. Synchronous, so that nothing comes between.
   */
  use(operation: string, parameters: unknown): ApprovedUse
}

export interface GrantTerms {
  readonly taskId: string
  readonly operation: string
  /** Canonical JSON. */
  readonly parameters: string
  readonly expiresAt: number
  /** Absent: none was obtained. */
  readonly credential?: { readonly value: unknown }
  readonly isOver: () => boolean
  readonly isCancelled: () => boolean
}

export function createGrant(terms: GrantTerms): ApprovalGrant {
  const { taskId, operation, expiresAt, credential } = terms
  let used = false
  return Object.freeze({
    taskId,
    operation,
    expiresAt,
    use(named: string, parameters: unknown) {
      if (terms.isCancelled()) throw new TrustError('ERR_APPROVAL_CANCELLED', { details: { operation } })
      if (used) throw new TrustError('ERR_APPROVAL_USED', { details: { operation } })
      if (terms.isOver()) throw new TrustError('ERR_APPROVAL_EXPIRED', { details: { operation } })
      if (named !== operation || canonicalParameters(parameters) !== terms.parameters)
        throw new TrustError('ERR_APPROVAL_MISMATCH', { details: { operation } })
      used = true
      return Object.freeze({
        parameters: JSON.parse(terms.parameters) as unknown,
        ...(credential === undefined ? {} : { credential: credential.value }),
      })
    },
  })
}
