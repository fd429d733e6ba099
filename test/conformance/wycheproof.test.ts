/**
 * Project Wycheproof's JWS and JWK vectors against the parts a token goes through. Payloads there are no claims, so the
 * signature is checked the way the scheme does it: strict compact form, header, key of the set, signature.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { decodeBase64url } from '../../src/internal/base64url.ts'
import { parseStrictJson } from '../../src/internal/json.ts'
import { createJwksCache } from '../../src/internal/jwks-cache.ts'
import { signatureAlgorithms, verifySignature, verifySignatureAsync } from '../../src/internal/verification-key.ts'

interface Vector {
  readonly tcId: number
  readonly comment: string
  readonly jws: unknown
  readonly result: 'valid' | 'invalid'
}
interface Group {
  readonly comment: string
  readonly public?: { readonly keys?: readonly unknown[] }
  readonly private: { readonly keys?: readonly unknown[]; readonly kty?: string }
  readonly tests: readonly Vector[]
}

function load(name: string): readonly Group[] {
  const text = readFileSync(new URL(`../vectors/wycheproof/${name}`, import.meta.url), 'utf8')
  return (JSON.parse(text) as { testGroups: Group[] }).testGroups
}

/** Labelled valid there and refused here, each for a reason. Nothing is refused that is not on this list. */
const STRICTER: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  'json_web_signature_test.json': {
    1: 'symmetric',
    346: 'key says PS256, token PS384',
    347: 'alg of the key is ES521, which does not exist',
    348: 'symmetric',
    350: 'key says PS256, token PS384',
    351: 'alg of the key is ES521, which does not exist',
    352: 'symmetric',
    357: 'symmetric',
    358: 'symmetric',
    359: 'symmetric',
    372: 'a ? inside the base64url of the header',
    373: 'a ? inside the base64url of the payload',
    376: 'symmetric',
    377: 'symmetric',
  },
  'json_web_key_test.json': { 2: 'symmetric', 13: 'symmetric', 14: 'symmetric', 15: 'symmetric' },
}

async function verifies(jws: unknown, keys: readonly unknown[]): Promise<boolean> {
  const parts = typeof jws === 'string' ? jws.split('.') : []
  const [header, payload, signature] = parts.map(decodeBase64url)
  if (parts.length !== 3 || parts[0] === '' || header === undefined || payload === undefined || signature === undefined)
    return false
  const { alg, kid } = parseStrictJson(header) as Record<string, unknown>
  if (typeof alg !== 'string' || !signatureAlgorithms.includes(alg)) return false
  const found = await createJwksCache({ source: { url: 'x:' }, fetch: serving(keys), clock: () => 0 }).find(
    typeof kid === 'string' ? kid : undefined,
    alg,
  )
  if (found.kind !== 'found') return false
  const data = Buffer.from(`${parts[0]}.${parts[1]}`, 'latin1')
  const now = verifySignature(found.key, alg, data, signature)
  expect(await verifySignatureAsync(found.key, alg, data, signature)).toBe(now)
  return now
}

function serving(keys: readonly unknown[]): typeof globalThis.fetch {
  return () => Promise.resolve(Response.json({ keys }))
}

for (const file of ['json_web_signature_test.json', 'json_web_key_test.json']) {
  describe(`Wycheproof ${file}`, () => {
    const stricter = STRICTER[file] as Readonly<Record<number, string>>
    for (const group of load(file)) {
      const published = group.public ?? group.private
      const keys = published.keys ?? [published]
      for (const { tcId, comment, jws, result } of group.tests) {
        const expected = result === 'valid' && stricter[tcId] === undefined
        it(`${tcId} ${group.comment} ${comment}: ${stricter[tcId] ?? result}`, async () => {
          expect(await verifies(jws, keys)).toBe(expected)
        })
      }
    }
  })
}
