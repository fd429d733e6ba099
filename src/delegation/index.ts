/** `a2a-trust/delegation`: on whose behalf the agent works, and how that authority flows on. */

export { createMemoryApprovalStore } from '../store/approvals-memory.ts'
export type { ApprovalRecord, ApprovalStore, ApprovalVerdict } from '../store/stores.ts'
export type { ApprovalGrant, ApprovedUse } from './approval-grant.ts'
export type {
  ApprovalEvent,
  ApprovalRequest,
  ApprovalsOptions,
  AuthorizationCodeAnswer,
  AuthorizationCodeRequest,
} from './approval-options.ts'
export type { ApprovalAnswer, Approver, LoginResult } from './approval-pages.ts'
export {
  type ApprovalOutcome,
  type Approvals,
  type ApprovalView,
  createApprovals,
  type PendingApproval,
} from './approvals.ts'
export { type Caller, currentCaller, withCaller } from './caller.ts'
export { type Credentials, type CredentialsOptions, createCredentials } from './card-credentials.ts'
export type { ChosenScheme } from './choose.ts'
export { delegatedFetch } from './delegated-fetch.ts'
export type { DevicePrompt, OAuthClient, OAuthProvider, OAuthSettings, Provider, Secret } from './providers.ts'
