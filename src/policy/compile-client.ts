/** How this process authenticates at an authorization server: secrets resolved, keys loaded and found strong enough. */
import { createPrivateKey, type webcrypto } from 'node:crypto'
import { importJWK, type JWK } from 'jose'
import type { ClientAuthentication } from '../internal/client-authentication.ts'
import { parseStrictJson } from '../internal/json.ts'
import { loadVerificationKey } from '../internal/verification-key.ts'
import { isProduction, type LoadContext } from './files.ts'
import { pathOf, readTextFile, resolveSecret } from './references.ts'
import type { Report } from './report.ts'
import type { ClientSettings } from './schema-opaque.ts'

/** `at` is the pointer of the client's settings. `undefined` after reporting what is wrong. */
export async function compileClient(
  client: ClientSettings,
  at: string,
  issuer: string | undefined,
  context: LoadContext,
  report: Report,
): Promise<ClientAuthentication | undefined> {
  const { auth, id, secret, key, kid, assertionAudience } = client
  const signs = auth === 'private_key_jwt'
  let complete = true
  const refuse = (member: string, message: string): void => {
    report.error('ERR_POLICY_VALUE', `${at}/${member}`, message, 'key')
    complete = false
  }
  if (auth === 'tls') {
    const message = 'client certificates are not presented by this version: use basic, post or private_key_jwt'
    report.error('ERR_POLICY_UNSUPPORTED', `${at}/auth`, message)
    complete = false
  }
  const shared = auth === 'basic' || auth === 'post'
  if (!shared && secret !== undefined) refuse('secret', `"secret" has no meaning with auth: ${auth}: remove it`)
  if (!signs) {
    for (const [member, value] of Object.entries({ key, kid, assertionAudience }))
      if (value !== undefined) refuse(member, `"${member}" has no meaning with auth: ${auth}: remove it`)
  }
  const needed = shared ? 'secret' : signs ? 'key' : undefined
  if (needed !== undefined && client[needed] === undefined) {
    const message = `"${needed}" is missing: auth: ${auth} needs it; write ${signs ? 'file:PATH of the private key' : 'env:NAME or file:PATH'}`
    report.error('ERR_POLICY_MISSING', `${at}/${needed}`, message, 'key')
    complete = false
  }
  const resolved =
    !shared || secret === undefined ? undefined : await resolveSecret(secret, `${at}/secret`, context, report)
  const loaded = !signs || key === undefined ? undefined : await loadPrivateKey(key, `${at}/key`, context, report)
  if (!complete) return undefined
  if (shared) return resolved === undefined ? undefined : { auth, id, secret: () => resolved }
  if (loaded === undefined || issuer === undefined) return undefined
  const named = kid ?? loaded.kid
  return {
    auth: 'private_key_jwt',
    id,
    key: () => loaded.key,
    ...(named === undefined ? {} : { kid: named }),
    // One text: servers differ about lists, and an assertion for several audiences can be used at each (P47).
    audience: assertionAudience ?? issuer,
  }
}

const EC_ALGORITHMS: Readonly<Record<string, string>> = { 'P-256': 'ES256', 'P-384': 'ES384', 'P-521': 'ES512' }

async function loadPrivateKey(
  reference: string,
  pointer: string,
  context: LoadContext,
  report: Report,
): Promise<{ key: webcrypto.CryptoKey; kid?: string } | undefined> {
  const file = await readTextFile(pathOf(reference, context.baseDir), 16 * 1024)
  if (!file.ok) {
    report.error('ERR_POLICY_REFERENCE', pointer, `the file of ${reference} ${file.why}`)
    return undefined
  }
  const refuse = (why: string): undefined => {
    report.error('ERR_POLICY_KEY_FILE', pointer, `the file of ${reference} ${why}`)
  }
  let jwk: JWK | null
  try {
    jwk = (
      file.text.includes('-----BEGIN')
        ? createPrivateKey(file.text).export({ format: 'jwk' })
        : parseStrictJson(file.text)
    ) as JWK | null
  } catch {
    return refuse('is not a private key: it must be PEM (PKCS #8) or one JWK')
  }
  if (typeof jwk?.d !== 'string') return refuse('is not a private key that can sign')
  const { kty, crv, kid, n, e, x, y } = jwk
  const publicJwk = Object.fromEntries(
    Object.entries({ kty, crv, n, e, x, y }).filter(([, value]) => value !== undefined),
  )
  const strength = loadVerificationKey(publicJwk)
  const alg = jwk.alg ?? (kty === 'EC' ? EC_ALGORITHMS[crv ?? ''] : kty === 'RSA' ? 'RS256' : 'EdDSA')
  if (!strength.ok) return refuse(`cannot be used: ${strength.reason}`)
  if (alg === undefined || !strength.key.algorithms.includes(alg))
    return refuse('states an algorithm that does not fit the key')
  if (isProduction(context) && kid?.startsWith('example-')) {
    report.error('ERR_POLICY_EXAMPLE_KEY', pointer, 'this key is published with the package: make one of your own')
    return undefined
  }
  try {
    const key = (await importJWK({ ...jwk, alg, ext: false }, alg)) as webcrypto.CryptoKey
    return { key, ...(kid === undefined ? {} : { kid }) }
  } catch {
    return refuse('is not a private key that can sign')
  }
}
