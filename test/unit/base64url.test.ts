import { describe, expect, it } from 'vitest'
import { decodeBase64url, encodeBase64url } from '../../src/internal/base64url.ts'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

describe('strict base64url', () => {
  it('P16 takes exactly the texts that encode to themselves, for every last character', () => {
    for (const head of ['', 'A', 'Zm', 'Zm9', 'Zm9v', 'Zm9vY', 'Zm9vYm']) {
      for (const last of ALPHABET) {
        const text = head + last
        const canonical = Buffer.from(text, 'base64url').toString('base64url') === text
        const bytes = decodeBase64url(text)
        expect(bytes !== undefined, text).toBe(canonical)
        if (bytes !== undefined) expect(encodeBase64url(bytes)).toBe(text)
      }
    }
  })

  it('P16 refuses padding, the other alphabet and whitespace', () => {
    for (const text of ['Zg==', 'Zm8=', 'ab+c', 'ab/c', 'Zm 9v', 'Zm9v\n', '\nZm9v', 'Zm9vé', 'Z', 'Zm9vY']) {
      expect(decodeBase64url(text), JSON.stringify(text)).toBeUndefined()
    }
    expect(decodeBase64url('')).toEqual(Buffer.alloc(0))
  })
})
