/** For tests: of stores of your own, and of what stands behind a guard. Needs no test runner. */
export { type ContractCase, type StoresUnderTest, storeContract } from './store-contract.ts'
