/** Name constraints beyond the certificates of the vectors. */
import { describe, expect, it } from 'vitest'
import type { Certificate } from '../../../src/internal/certificate.ts'
import { namesWithin } from '../../../src/internal/name-constraints.ts'

const mail = (text: string) => ({ type: 1, bytes: Buffer.from(text) })
/** Only what is read here. */
const named = (text: string) => ({ names: [mail(text)], subject: Buffer.from('3000', 'hex') }) as unknown as Certificate

describe('mail', () => {
  const corp = { permitted: [mail('corp.test')], excluded: [] }

  it('a mailbox of the permitted host is within', () => {
    expect(namesWithin(named('a@corp.test'), corp)).toBe(true)
    expect(namesWithin(named('a@evil.test'), corp)).toBe(false)
  })

  it.each(['a@evil.test@corp.test', '"a@corp.test"@corp.test', '@corp.test', 'corp.test', '@@corp.test'])(
    'P83 %s is within no host',
    (text) => {
      expect(namesWithin(named(text), corp)).toBe(false)
      expect(namesWithin(named(text), { permitted: [], excluded: [mail('other.test')] })).toBe(false)
    },
  )
})
