/** The three spellings of a Standard Webhooks key: `whsec_` shared secret, `whsk_` Ed25519 seed, `whpk_` public key. */
import { createPrivateKey, createPublicKey, createSecretKey, type KeyObject } from 'node:crypto'

export interface WebhookKey {
  readonly version: 'v1' | 'v1a'
  readonly key: KeyObject
}

/**
 * The specification asks for 24 to 64 bytes. 23 stands for the widely published 32-character example that ends in
 * padding; every 31-character text is still too short.
 */
const MIN_SECRET_BYTES = 23
const MAX_SECRET_BYTES = 64
const MIN_SECRET_CHARACTERS = 32
const MAX_KEYS = 8

/** RFC 8410: what stands in front of the 32 bytes of an Ed25519 key in PKCS#8 and SPKI. */
const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex')
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex')

/** Throws `TypeError` that quotes `option` and never the secret. */
export function signingKeys(secrets: unknown, option: string): readonly WebhookKey[] {
  return keysOf(secrets, option, (prefix) => {
    if (prefix === 'whpk')
      throw new TypeError(`"${option}" holds a public key, which signs nothing: give its whsk_ key`)
  })
}

/** As `signingKeys`; an Ed25519 private key verifies as its public half. */
export function verificationKeys(secrets: unknown, option: string): readonly WebhookKey[] {
  const keys = keysOf(secrets, option, () => undefined)
  return keys.map(({ version, key }) => ({ version, key: key.type === 'private' ? createPublicKey(key) : key }))
}

function keysOf(secrets: unknown, option: string, check: (prefix: string) => void): readonly WebhookKey[] {
  const list: readonly unknown[] = Array.isArray(secrets) ? secrets : [secrets]
  if (list.length === 0 || list.length > MAX_KEYS)
    throw new TypeError(`"${option}" must hold 1 to ${MAX_KEYS} secrets, the current one first`)
  return Object.freeze(
    list.map((secret) => {
      const [, prefix = 'whsec', text = ''] = typeof secret === 'string' ? (SPELLING.exec(secret) ?? []) : []
      check(prefix)
      const bytes = Buffer.from(text, 'base64')
      if (prefix === 'whsec' && text.length >= MIN_SECRET_CHARACTERS && isSecret(bytes))
        return { version: 'v1', key: createSecretKey(bytes) } as const
      if (prefix === 'whpk' && bytes.length === 32) return { version: 'v1a', key: publicKey(bytes) } as const
      if (prefix === 'whsk' && (bytes.length === 32 || bytes.length === 64))
        return { version: 'v1a', key: privateKey(bytes, option) } as const
      throw new TypeError(
        `"${option}" must be whsec_ and base64 of 24 to 64 random bytes (a2a-trust keys generate --webhook makes one), ` +
          'or an Ed25519 key as whsk_ or whpk_',
      )
    }),
  )
}

const SPELLING = /^(?:(whsec|whsk|whpk)_)?([A-Za-z0-9+/]+={0,2})$/

function isSecret({ length }: Buffer): boolean {
  return length >= MIN_SECRET_BYTES && length <= MAX_SECRET_BYTES
}

/** The specification does not say whether `whsk_` ends with the public key, so both forms are in use. */
function privateKey(bytes: Buffer, option: string): KeyObject {
  const key = createPrivateKey({
    key: Buffer.concat([PKCS8_ED25519, bytes.subarray(0, 32)]),
    format: 'der',
    type: 'pkcs8',
  })
  if (bytes.length === 64) {
    const spki = createPublicKey(key).export({ format: 'der', type: 'spki' })
    if (!spki.subarray(-32).equals(bytes.subarray(32)))
      throw new TypeError(`"${option}" holds a whsk_ key whose two halves do not belong together`)
  }
  return key
}

function publicKey(bytes: Buffer): KeyObject {
  return createPublicKey({ key: Buffer.concat([SPKI_ED25519, bytes]), format: 'der', type: 'spki' })
}
