import { describe, expect, it } from 'vitest'
import { headerView } from '../../../src/internal/headers.ts'
import { readAccessToken } from '../../../src/schemes/access-token.ts'

const read = (...values: string[]) =>
  readAccessToken(headerView(values.flatMap((value) => ['Authorization', value])), 100)
const malformed = { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED' }

describe('the Authorization header', () => {
  it.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('P63 %s names the scheme in any case', (scheme) => {
    expect(read(`${scheme} abc.def-_~+/==`)).toEqual({ kind: 'token', as: 'Bearer', token: 'abc.def-_~+/==' })
  })

  it.each(['DPoP', 'dpop', 'DPOP'])('P63 %s names the scheme in any case', (scheme) => {
    expect(read(`${scheme} abc.def-_~+/==`)).toEqual({ kind: 'token', as: 'DPoP', token: 'abc.def-_~+/==' })
  })

  it('P63 anything but one space and one token is malformed', () => {
    for (const line of [
      'Bearer',
      'Bearer ',
      'Bearer  a',
      'Bearer\ta',
      'Bearer a b',
      'Bearer a, Bearer b',
      'Bearer a,b',
      'Bearer a=b',
      'Bearer "a"',
      'Bearer a ',
      'Bearer é',
      'Bearer a\u0000',
      '',
      ' Bearer a',
      'Bearer,a',
      'DPoP',
      'DPoP ',
      'DPoP  a',
      'DPoP a, DPoP b',
    ]) {
      expect(read(line), JSON.stringify(line)).toMatchObject(malformed)
    }
  })

  it('P69 another auth-scheme is not ours to judge', () => {
    for (const line of ['Basic dXNlcjpwdw==', 'DPoPx abc', 'Digest a="b", c="d"', 'Bearerx abc', 'Negotiate']) {
      expect(read(line), line).toEqual({ kind: 'absent' })
    }
    expect(read()).toEqual({ kind: 'absent' })
  })

  it('P65 two header lines are malformed, whatever they say', () => {
    for (const lines of [
      ['Bearer a', 'Bearer a'],
      ['Bearer a', 'Basic b'],
      ['Basic b', 'Bearer a'],
      ['', 'Bearer a'],
    ]) {
      expect(read(...lines)).toMatchObject(malformed)
    }
    const mixedCase = headerView(['authorization', 'Bearer a', 'AUTHORIZATION', 'Bearer b'])
    expect(readAccessToken(mixedCase, 100)).toMatchObject(malformed)
  })

  it('P36 a token over the limit is refused by its length alone', () => {
    expect(read(`Bearer ${'a'.repeat(100)}`)).toMatchObject({ kind: 'token' })
    expect(read(`Bearer ${'a'.repeat(101)}`)).toEqual({ kind: 'invalid', code: 'ERR_TOKEN_TOO_LARGE' })
    expect(read(`DPoP ${'a'.repeat(100)}`)).toMatchObject({ kind: 'token' })
    for (const length of [101, 102, 103, 1000])
      expect(read(`DPoP ${'a'.repeat(length)}`)).toEqual({ kind: 'invalid', code: 'ERR_TOKEN_TOO_LARGE' })
    expect(read(`Bearer ${'.'.repeat(1_000_000)}`)).toEqual({ kind: 'invalid', code: 'ERR_TOKEN_TOO_LARGE' })
  })
})
