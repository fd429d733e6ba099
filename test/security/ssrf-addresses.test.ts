import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { addressSet, isPublicAddress } from '../../src/egress/address.ts'

interface AddressCase {
  readonly address: string
  readonly expect: 'allow' | 'deny' | 'either' | 'invalid'
  readonly reason: string
}
const file = JSON.parse(readFileSync(new URL('../vectors/ssrf/addresses.json', import.meta.url), 'utf8')) as {
  cases: AddressCase[]
  invalid: AddressCase[]
}

describe('ssrf addresses', () => {
  it('has all of them', () => expect([file.cases.length, file.invalid.length]).toEqual([162, file.invalid.length]))

  // Where implementations may differ, the stricter answer is ours: AS112, AMT, ORCHID, mapped and 6to4 are refused whole.
  it.each(file.cases)('P153 P155 P156 $address is $expect: $reason', ({ address, expect: expected }) => {
    expect(isPublicAddress(address)).toBe(expected === 'allow')
  })

  it.each(file.invalid)('P152 %# is no strict literal: $reason', ({ address }) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  it('ISATAP is refused below every prefix, in every spelling', () => {
    for (const text of [
      '2a00:1450::5efe:a00:1',
      '2a00:1450:0:0:0:5efe:10.0.0.1',
      '2a00:1450::200:5efe:7f00:1',
      '2A00:1450::0200:5EFE:A00:1',
    ]) {
      expect(isPublicAddress(text), text).toBe(false)
    }
    expect(isPublicAddress('2a00:1450::5eff:a00:1')).toBe(true)
  })

  it('a zone is no part of an address on the Internet', () => {
    expect(isPublicAddress('2a00:1450::1')).toBe(true)
    expect(isPublicAddress('2a00:1450::1%eth0')).toBe(false)
  })

  it("P156 the host agent of Azure is inside, though its address is in nobody's registry", () => {
    expect(isPublicAddress('168.63.129.16')).toBe(false)
    expect(isPublicAddress('168.63.129.17')).toBe(true)
  })

  it('what is no text is no address', () => {
    for (const value of [undefined, null, 1, {}, ['8.8.8.8']]) expect(isPublicAddress(value as string)).toBe(false)
  })

  it('P92 ranges compare numbers, not text, and keep the families apart', () => {
    const set = addressSet(['192.0.2.0/24', '2001:db8::/32'])
    expect(set('192.0.2.77')).toBe(true)
    expect(set('2001:0db8:0:0::1')).toBe(true)
    expect(set('::ffff:192.0.2.77')).toBe(false)
    expect(set('192.0.3.1')).toBe(false)
    for (const bad of [
      '10.0.0.0/33',
      '10.0.0.0/8/8',
      '10/8',
      '10.0.0.0/',
      '::/129',
      '',
      '10.0.0.0/-1',
      '10.0.0.0/08',
    ]) {
      expect(() => addressSet([bad]), bad).toThrow(RangeError)
    }
  })
})
