/** `a2a-trust/delegation`: on whose behalf the agent works, and how that authority flows on. */
export { type Caller, currentCaller, withCaller } from './caller.ts'
export { delegatedFetch } from './delegated-fetch.ts'
