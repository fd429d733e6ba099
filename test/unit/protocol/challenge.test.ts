import { describe, expect, it } from 'vitest'
import { type ChallengeInput, formatChallenges } from '../../../src/protocol/challenge.ts'

const bearer = (...params: [string, string][]): ChallengeInput => ({ scheme: 'Bearer', params })

describe('golden strings', () => {
  it.each<[string, ChallengeInput[], string]>([
    ['P95 P96 no credential', [bearer(['realm', 'a2a'])], 'Bearer realm="a2a"'],
    [
      'A39 P97 everything',
      [
        bearer(
          ['realm', 'a2a'],
          ['error', 'insufficient_scope'],
          ['error_description', 'The scope is missing.'],
          ['scope', 'a2a.send a2a:read'],
          ['resource_metadata', 'https://host/.well-known/oauth-protected-resource/a2a'],
        ),
      ],
      'Bearer realm="a2a", error="insufficient_scope", error_description="The scope is missing.", scope="a2a.send a2a:read", resource_metadata="https://host/.well-known/oauth-protected-resource/a2a"',
    ],
    ['P98 several schemes', [bearer(), { scheme: 'ApiKey', params: [['realm', 'k']] }], 'Bearer, ApiKey realm="k"'],
    [
      'the same twice',
      [bearer(['realm', 'a']), bearer(['realm', 'a']), bearer(['realm', 'b'])],
      'Bearer realm="a", Bearer realm="b"',
    ],
    ['quotes and backslashes', [bearer(['realm', 'say "a\\b", c=d'])], 'Bearer realm="say \\"a\\\\b\\", c=d"'],
    ['nothing', [], ''],
  ])('%s', (_, challenges, text) => {
    expect(formatChallenges(challenges)).toBe(text)
  })
})

describe('P94 what a header cannot carry is left out', () => {
  it.each<[string, string]>([
    ['realm', 'a\r\nX: y'],
    ['realm', 'a\0b'],
    ['realm', 'réalm'],
    ['realm', 'a\u2028b'],
    ['error', 'in"valid'],
    ['error', ''],
    ['error_description', 'claim "a"'],
    ['error_description', 'a\\b'],
    ['error_description', 'é'],
    ['error_description', 'a\r\nSet-Cookie: x=1'],
    ['resource_metadata', 'javascript:alert(1)'],
    ['resource_metadata', 'https://host/" x="'],
    ['resource_metadata', 'https://hôte/'],
    ['bad name', 'x'],
    ['name\r\n', 'x'],
    ['', 'x'],
  ])('%j = %j', (name, value) => {
    expect(formatChallenges([bearer(['nonce', 'n'], [name, value])])).toBe('Bearer nonce="n"')
  })

  it('scopes one by one', () => {
    expect(formatChallenges([bearer(['scope', 'read "quo"ted  wri\\te é delete'])])).toBe('Bearer scope="read delete"')
    expect(formatChallenges([bearer(['scope', '" \\'])])).toBe('Bearer')
  })

  it.each([['Bea rer'], ['Bearer\r\nX: y'], [''], ['Bärer'], ['Bearer,']])('the scheme %j', (scheme) => {
    expect(formatChallenges([{ scheme, params: [] }, bearer()])).toBe('Bearer')
  })

  it('a header that would be too long', () => {
    const long = (n: number) => bearer(['realm', 'x'.repeat(n)], ['nonce', String(n)])
    const text = formatChallenges([long(3000), long(7000), long(2900), long(2800), bearer()])
    expect(text.length).toBeLessThan(6200)
    expect(text).toMatch(/nonce="3000".*nonce="2900", Bearer$/)
  })
})
