export { type ErrorCode, TrustError } from './errors.ts'
