/** `a2a-trust/delegation`: on whose behalf the agent works, what of it stays here, and how authority flows on. */

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
export { bindCaller, type Caller, type CallerInput, currentCaller, withCaller } from './caller.ts'
export { type Credentials, type CredentialsOptions, createCredentials } from './card-credentials.ts'
export type { ChosenScheme } from './choose.ts'
export type { CredentialKind, InboundCredential, PresentedCredential } from './credentials.ts'
export { delegatedFetch } from './delegated-fetch.ts'
export { guardFetch, installOutboundGuard, type OutboundGuard, type OutboundGuardOptions } from './outbound.ts'
export type { OutboundLeak, OutboundMode } from './outbound-check.ts'
export type { DevicePrompt, OAuthClient, OAuthProvider, OAuthSettings, Provider, Secret } from './providers.ts'
