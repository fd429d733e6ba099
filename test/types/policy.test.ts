import { describe, expectTypeOf, it } from 'vitest'
import {
  type CompiledPolicy,
  type LintResult,
  lintPolicy,
  loadPolicy,
  type PolicyError,
  type PolicyFile,
  type Problem,
} from '../../src/policy/index.ts'

describe('types of ./policy', () => {
  it('loading gives a compiled policy that cannot be changed, linting what it found', () => {
    expectTypeOf(loadPolicy).returns.resolves.toEqualTypeOf<CompiledPolicy>()
    expectTypeOf(lintPolicy).returns.resolves.toEqualTypeOf<LintResult>()
    expectTypeOf<PolicyError['problems']>().toEqualTypeOf<readonly Problem[]>()
    expectTypeOf<CompiledPolicy['audience']>().toEqualTypeOf<readonly string[]>()
    // @ts-expect-error a compiled policy is read-only
    ;(policy: CompiledPolicy) => (policy.mode = 'report')
  })

  it('a policy in code is checked as it is written', () => {
    const policy: PolicyFile = {
      version: 1,
      card: './agent-card.json',
      audience: ['https://agent.example.com'],
      schemes: { login: { issuer: 'https://login.example.com', algorithms: ['ES256'] } },
      access: [{ allow: { operations: ['SendMessage'], principals: { scopes: ['use'] } } }],
    }
    expectTypeOf(policy.version).toEqualTypeOf<1>()
    // @ts-expect-error the audience is mandatory
    const withoutAudience: PolicyFile = { version: 1, card: './agent-card.json' }
    // @ts-expect-error no such operation
    const misspelt: PolicyFile = { ...policy, access: [{ allow: { operations: ['SendMessages'] } }] }
    // @ts-expect-error no such mode
    const mode: PolicyFile = { ...policy, mode: 'off' }
    expectTypeOf([withoutAudience, misspelt, mode]).toEqualTypeOf<PolicyFile[]>()
  })
})
