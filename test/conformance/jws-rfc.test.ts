/**
 * The examples of RFC 7515, 7517, 7520, 7638, 7797 and 8037 against what cards and tokens are checked with: asymmetric
 * signatures hold and break with any changed byte, symmetric and unsecured ones are never verified, `b64` never read.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { calculateJwkThumbprint, type JWK } from 'jose'
import { describe, expect, it } from 'vitest'
import { readSignature } from '../../src/card/signature-header.ts'
import { decodeBase64url } from '../../src/internal/base64url.ts'
import { loadVerificationKey, verifySignature } from '../../src/internal/verification-key.ts'

const folder = new URL('../vectors/jws-rfc/', import.meta.url)
function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as T
}

/** The public half, as a verifier has it. */
function publicOf(jwk: JWK): JWK {
  return Object.fromEntries(
    Object.entries(jwk).filter(([name]) => !['d', 'p', 'q', 'dp', 'dq', 'qi'].includes(name)),
  ) as JWK
}

interface Signed {
  readonly protected: string
  readonly payload: string
  readonly signature: string
}

function holds(key: JWK, { protected: header, payload, signature }: Signed, alg?: string): boolean {
  const loaded = loadVerificationKey(publicOf(key))
  const bytes = decodeBase64url(signature)
  const named = alg ?? (JSON.parse(Buffer.from(header, 'base64url').toString()) as { alg: string }).alg
  return (
    loaded.ok && bytes !== undefined && verifySignature(loaded.key, named, Buffer.from(`${header}.${payload}`), bytes)
  )
}

function compact(text: string): Signed {
  const [header = '', payload = '', signature = ''] = text.split('.')
  return { protected: header, payload, signature }
}

function broken(signed: Signed): Signed[] {
  const flip = (text: string) => (text.startsWith('A') ? `B${text.slice(1)}` : `A${text.slice(1)}`)
  return [
    { ...signed, payload: flip(signed.payload) },
    { ...signed, signature: flip(signed.signature) },
  ]
}

const ASYMMETRIC = /^(?:RS|PS|ES|Ed)/

describe('RFC 7515', () => {
  const file = read<{
    cases: { id: string; alg: string; key: JWK | null; compact: string }[]
    jsonSerialization: {
      id: string
      jws: {
        payload: string
        protected?: string
        signature?: string
        signatures?: { protected: string; signature: string }[]
      }
      keys: JWK[]
    }[]
  }>('rfc7515.json')

  it.each(file.cases)('$id ($alg)', ({ alg, key, compact: text }) => {
    const signed = compact(text)
    expect(key !== null && holds(key, signed, alg)).toBe(ASYMMETRIC.test(alg))
    if (key !== null) for (const one of broken(signed)) expect(holds(key, one, alg)).toBe(false)
    const entry = readSignature(signed)
    // No kid, or an algorithm or extension that is never taken: none of these is a card signature.
    expect(entry.ok).toBe(false)
  })

  it.each(file.jsonSerialization)('$id', ({ jws, keys }) => {
    const entries = jws.signatures ?? [{ protected: jws.protected as string, signature: jws.signature as string }]
    for (const [index, entry] of entries.entries()) {
      expect(holds(keys[index] as JWK, { ...entry, payload: jws.payload })).toBe(true)
      for (const one of broken({ ...entry, payload: jws.payload })) expect(holds(keys[index] as JWK, one)).toBe(false)
    }
  })
})

describe('RFC 7638 thumbprints, which are the default kid', () => {
  it.each(read<{ cases: { id: string; jwk: JWK; sha256: string }[] }>('rfc7638.json').cases)(
    '$id',
    async ({ jwk, sha256 }) => {
      expect(await calculateJwkThumbprint(jwk)).toBe(sha256)
    },
  )
})

describe('RFC 7797: b64 is refused whatever it says', () => {
  const { cases } = read<{ cases: { id: string; jws?: string; json?: Signed; expect: string }[] }>('rfc7797.json')
  it.each(cases)('P14 $id', ({ jws, json }) => {
    const { protected: header, signature } = json ?? compact((jws as string).replace('$.02', '$'))
    const entry = readSignature({ protected: header, signature })
    expect(entry.ok).toBe(false)
    if (!entry.ok && /"b64"|"crit"/.test(Buffer.from(header, 'base64url').toString()))
      expect(entry.reason).toBe('ERR_CARD_SIGNATURE_CRITICAL')
  })
})

describe('cookbook (RFC 7520, RFC 8037)', () => {
  interface Example {
    readonly title: string
    readonly input: { readonly key: JWK | JWK[]; readonly alg?: string }
    readonly output: {
      readonly compact?: string
      readonly json?: {
        payload?: string
        signatures?: { protected?: string; header?: { alg?: string }; signature: string }[]
      }
    }
  }
  const files = ['jws', 'curve25519'].flatMap((part) =>
    readdirSync(new URL(`cookbook/${part}/`, folder)).map((name) => `cookbook/${part}/${name}`),
  )

  it.each(files)('%s', (name) => {
    const { input, output } = read<Example>(name)
    const keys = [input.key].flat()
    if (output.compact !== undefined && !output.compact.includes('..')) {
      const signed = compact(output.compact)
      const { alg } = JSON.parse(Buffer.from(signed.protected, 'base64url').toString()) as { alg: string }
      const right = keys.some((key) => holds(key, signed, alg))
      expect(right).toBe(ASYMMETRIC.test(alg))
      for (const one of broken(signed)) expect(keys.some((key) => holds(key, one, alg))).toBe(false)
    }
    for (const [index, { protected: header = '', header: unprotected, signature }] of (
      output.json?.signatures ?? []
    ).entries()) {
      const shown = header === '' ? {} : (JSON.parse(Buffer.from(header, 'base64url').toString()) as { alg?: string })
      const alg = shown.alg ?? unprotected?.alg ?? ''
      const key = keys[index] ?? (keys[0] as JWK)
      if (output.json?.payload !== undefined && ASYMMETRIC.test(alg)) {
        expect(holds(key, { protected: header, payload: output.json.payload, signature }, alg)).toBe(true)
      } else expect(holds(key, { protected: header, payload: output.json?.payload ?? '', signature }, alg)).toBe(false)
      // P15: what is not protected does not decide.
      const entry = readSignature({
        protected: header,
        signature,
        ...(unprotected === undefined ? {} : { header: unprotected }),
      })
      expect(entry.ok).toBe(typeof shown.alg === 'string' && ASYMMETRIC.test(shown.alg) && 'kid' in shown)
    }
  })

  it.each(readdirSync(new URL('cookbook/jwk/', folder)))('key %s', (name) => {
    const loaded = loadVerificationKey(read(`cookbook/jwk/${name}`))
    expect(loaded.ok).toBe(/public/.test(name))
    if (!loaded.ok) expect(loaded.reason).toBe(/private/.test(name) ? 'private key material' : 'symmetric key')
  })
})
