/** RFC 9449 and RFC 8705: every vector, and what the vectors leave open. */
import { createHash, createPrivateKey, createSecretKey, sign as signBytes, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
import { headerView } from '../../../src/internal/headers.ts'
import { compileRequestUrls } from '../../../src/protocol/request-urls.ts'
import { createDpopNonces, type DpopNonces } from '../../../src/schemes/dpop-nonce.ts'
import type { CredentialSource, Outcome } from '../../../src/schemes/scheme.ts'
import {
  type Confirmation,
  createSenderConstraint,
  nameChallenge,
  readConfirmation,
} from '../../../src/schemes/sender-constraint.ts'
import type { Stores } from '../../../src/store/stores.ts'
import { credentials, REQUEST_URL, testContext } from '../../support/credentials.ts'
import { createDpopKey, type DpopKey } from '../../support/dpop.ts'
import { privateJwk } from '../../support/jwt-attacks.ts'

const NOW = 1_800_000_000
const TOKEN = 'eyJhbGciOiJFUzI1NiJ9.example.token'
const granted: Outcome = {
  kind: 'satisfied',
  part: {
    scheme: 'login',
    kind: 'oauth2',
    issuer: 'i',
    subject: 's',
    scopes: new Set(),
    claims: {},
    credential: {},
  },
}
const read = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../vectors/oauth-pop/${name}`, import.meta.url), 'utf8'))

interface DpopCase {
  readonly id: string
  readonly expect: 'valid' | 'invalid' | 'either'
  readonly proof: string | null
  readonly method: string
  readonly url: string
  readonly accessToken: string | null
  readonly expectedJkt: string | null
  readonly expectedNonce?: string
  readonly error?: string
  readonly sequence?: string
}

/** What is decided here where the vectors leave it open; each is a row of the table in docs/tokens.md. */
const DECIDED: Readonly<Record<string, 'valid' | 'invalid'>> = {
  'dpop/htu-query-in-proof': 'valid',
  'dpop/htu-percent-unreserved': 'valid',
  'dpop/htu-space': 'invalid',
  'dpop/iat-float': 'valid',
  'dpop/exp-past': 'invalid',
  'dpop/replay-same-jti-other-key': 'valid',
  'dpop/typ-application': 'valid',
  'dpop/typ-uppercase': 'valid',
  'dpop/leading-space': 'invalid',
  'dpop/dup-htu': 'invalid',
}

/** A request to the one interface of a card at `url`. */
function requestTo(url: string, method: string, proof: string | null): CredentialSource {
  const { origin, pathname, search } = new URL(url)
  const target = pathname + search
  const urlsOf = compileRequestUrls({
    interfaces: [{ url: origin + pathname, binding: 'JSONRPC', version: '1.0' }],
  })
  return {
    headers: headerView(proof === null ? [] : ['DPoP', proof]),
    query: search,
    method,
    target,
    urls: () => urlsOf({ target }),
  }
}

describe('RFC 9449 vectors', () => {
  const { cases } = read('dpop-cases.json') as { cases: DpopCase[] }
  const sequence = testContext(NOW * 1000)

  it('covers the whole collection, and decides all that is open', () => {
    expect(cases).toHaveLength(91)
    const open = cases.filter(({ expect: expected }) => expected === 'either').map(({ id }) => id)
    expect(open.sort()).toEqual(Object.keys(DECIDED).sort())
  })

  it.each(cases)('$id', async (one) => {
    const context = one.sequence === undefined ? testContext(NOW * 1000) : sequence
    const { expectedNonce: nonce } = one
    const nonces: DpopNonces | undefined =
      nonce === undefined ? undefined : { current: () => nonce, accepts: (given) => given === nonce }
    const constraint = createSenderConstraint('optional', nonces === undefined ? context : { ...context, nonces })
    const presented = { kind: 'token', as: 'DPoP', token: one.accessToken as string } as const
    const confirmation = { jkt: one.expectedJkt as string }
    const outcome = await constraint.judge(presented, confirmation, requestTo(one.url, one.method, one.proof), granted)
    const expected = one.expect === 'either' ? DECIDED[one.id] : one.expect
    expect(outcome.kind === 'satisfied' ? 'valid' : 'invalid', JSON.stringify(outcome)).toBe(expected)
    expect(['satisfied', 'invalid', 'malformed']).toContain(outcome.kind)
    if (one.error !== undefined) {
      expect(nameChallenge(presented, outcome)).toMatchObject({
        challenge: { scheme: 'DPoP', error: one.error },
        headers: { 'dpop-nonce': nonce },
      })
    }
  })

  it('a symmetric algorithm is refused before its key is looked at', async () => {
    const one = cases.find(({ id }) => id === 'dpop/alg-hs256-jwk-oct') as DpopCase
    const presented = { kind: 'token', as: 'DPoP', token: one.accessToken as string } as const
    const outcome = createSenderConstraint('dpop', testContext(NOW * 1000)).judge(
      presented,
      { jkt: one.expectedJkt as string },
      requestTo(one.url, one.method, one.proof),
      granted,
    )
    expect(await outcome).toEqual({ kind: 'invalid', code: 'ERR_DPOP_PROOF', detail: 'alg' })
  })

  it('the proof of RFC 9449 §7.1 holds at its time, and those of token requests are none for a resource', async () => {
    const { cases: published, boundAccessToken } = read('rfc9449.json') as {
      cases: {
        id: string
        proof: string
        jkt: string
        accessToken?: string
        request: { method: string; url: string; now: number }
      }[]
      boundAccessToken: { claims: { cnf: unknown } }
    }
    expect(published).toHaveLength(3)
    for (const { id, proof, jkt, accessToken, request } of published) {
      const constraint = createSenderConstraint('dpop', testContext(request.now * 1000))
      const presented = { kind: 'token', as: 'DPoP', token: accessToken ?? TOKEN } as const
      const source = requestTo(request.url, request.method, proof)
      const outcome = await constraint.judge(presented, { jkt }, source, granted)
      expect(outcome, id).toEqual(
        accessToken === undefined ? { kind: 'invalid', code: 'ERR_DPOP_PROOF', detail: 'ath' } : granted,
      )
    }
    expect(readConfirmation(boundAccessToken.claims.cnf)).toEqual({ jkt: published[0]?.jkt })
  })
})

describe('RFC 8705 vectors', () => {
  const file = read('rfc8705.json') as {
    thumbprints: { id: string; certificatePem: string; x5tS256: string }[]
    boundTokenCases: { id: string; cnf?: unknown; presented: string | null; expect: string; policy?: string }[]
  }
  const certificateOf = (id: string | null) => {
    const pem = file.thumbprints.find((one) => one.id === id)?.certificatePem
    return pem === undefined ? {} : { certificate: { raw: new X509Certificate(pem).raw, authorized: false } }
  }
  const bearerWith = (id: string | null): CredentialSource => ({ ...credentials([]), ...certificateOf(id) })
  const presented = { kind: 'token', as: 'Bearer', token: TOKEN } as const

  it.each(file.thumbprints)('thumbprint of $id', ({ id, x5tS256 }) => {
    const constraint = createSenderConstraint('mtls', testContext(NOW * 1000))
    expect(constraint.judge(presented, { x5tS256 }, bearerWith(id), granted)).toBe(granted)
  })

  it.each(file.boundTokenCases)('$id', async ({ cnf, presented: id, expect: expected, policy }) => {
    for (const mode of policy === 'requireBound' ? (['mtls'] as const) : (['optional', 'mtls', 'off'] as const)) {
      if (policy === 'optional' && mode === 'mtls') continue
      const confirmation = readConfirmation(cnf)
      const outcome =
        confirmation !== undefined && 'kind' in confirmation
          ? confirmation
          : await createSenderConstraint(mode, testContext(NOW * 1000)).judge(
              presented,
              confirmation,
              bearerWith(id),
              granted,
            )
      // With `off` a bound token is refused, whatever is presented with it.
      const valid = expected === 'valid' && (mode !== 'off' || cnf === undefined)
      expect(outcome.kind, mode).toBe(valid ? 'satisfied' : 'invalid')
    }
    expect(file.boundTokenCases).toHaveLength(15)
  })

  it('what is no certificate, or a revoked one, proves nothing', () => {
    const [{ id, x5tS256 } = { id: '', x5tS256: '' }] = file.thumbprints
    const constraint = createSenderConstraint('optional', testContext(NOW * 1000))
    const judge = (certificate: NonNullable<CredentialSource['certificate']>) =>
      constraint.judge(presented, { x5tS256 }, { ...credentials([]), certificate }, granted)
    const { certificate } = certificateOf(id)
    if (certificate === undefined) throw new Error('no certificate')
    expect(judge({ unreadable: 'not DER' })).toMatchObject({ code: 'ERR_TOKEN_CERTIFICATE' })
    expect(judge({ ...certificate, authorizationError: 'CERT_REVOKED' })).toMatchObject({
      code: 'ERR_TOKEN_CERTIFICATE',
    })
    expect(judge({ ...certificate, authorizationError: 'DEPTH_ZERO_SELF_SIGNED_CERT' })).toBe(granted)
  })
})

describe('a confirmation', () => {
  const thumbprint = 'ez0lU0R-SMTyfz-G7vZsdpO2SKqMWe70VYVO-xgFluw'

  it('that is not checked here refuses the token', () => {
    for (const cnf of [
      null,
      [],
      {},
      '',
      1,
      true,
      { jwk: { kty: 'EC' } },
      { kid: 'k' },
      { jku: 'https://keys.example' },
      { jwe: 'a.b.c.d.e' },
      { x5t: 'T8Qp8fPmVYqb9iHyzQUaAbxBedY' },
      { JKT: thumbprint },
      { jkt: thumbprint, kid: 'k' },
      { jkt: thumbprint, 'x5t#S256': 1 },
      { jkt: undefined },
      { jkt: null },
      { jkt: [thumbprint] },
      { jkt: `${thumbprint}=` },
      { jkt: thumbprint.slice(1) },
      { jkt: `${thumbprint.slice(0, -1)}x` },
      { jkt: ` ${thumbprint}` },
    ]) {
      expect(readConfirmation(cnf), JSON.stringify(cnf)).toMatchObject({ kind: 'invalid', code: 'ERR_TOKEN_BOUND' })
    }
    expect(readConfirmation(undefined)).toBeUndefined()
  })
})

/** A request with one proof, as `make` changes it. */
async function dpop(
  options: {
    readonly mode?: 'off' | 'optional' | 'dpop' | 'mtls'
    readonly claims?: Record<string, unknown>
    readonly header?: Record<string, unknown>
    readonly lines?: (proof: string) => string[]
    readonly source?: Partial<CredentialSource>
    readonly confirmation?: Confirmation
    readonly stores?: Pick<Stores, 'replay'>
    readonly nonces?: DpopNonces
    readonly key?: DpopKey
    readonly granted?: Outcome
  } = {},
): Promise<Outcome> {
  const key = options.key ?? (await createDpopKey({ htu: REQUEST_URL, now: () => NOW }))
  const proof = await key.proof(TOKEN, options.claims, options.header)
  const lines = options.lines?.(proof) ?? ['DPoP', proof]
  const context = testContext(NOW * 1000)
  const constraint = createSenderConstraint(options.mode ?? 'optional', {
    ...context,
    stores: options.stores ?? context.stores,
    ...(options.nonces === undefined ? {} : { nonces: options.nonces }),
  })
  return constraint.judge(
    { kind: 'token', as: 'DPoP', token: TOKEN },
    options.confirmation ?? { jkt: key.jkt },
    { ...credentials(lines), ...options.source },
    options.granted ?? granted,
  )
}

describe('a DPoP proof', () => {
  const bad = (detail: unknown) => ({ kind: 'invalid', code: 'ERR_DPOP_PROOF', detail })

  it.each(['ES256', 'ES384', 'ES512', 'PS256', 'RS256', 'Ed25519', 'EdDSA'])('holds with a key for %s', async (alg) => {
    const key = await createDpopKey({ htu: REQUEST_URL, now: () => NOW }, alg)
    expect(await dpop({ key })).toBe(granted)
  })

  it('stands in exactly one header line', async () => {
    expect(await dpop({ lines: () => [] })).toEqual(bad('none'))
    const malformed = { kind: 'malformed', code: 'ERR_CREDENTIAL_MALFORMED' }
    expect(await dpop({ lines: (proof) => ['DPoP', proof, 'dpop', proof] })).toMatchObject(malformed)
    expect(await dpop({ lines: (proof) => ['DPoP', proof, 'DPoP', ''] })).toMatchObject(malformed)
    for (const folded of [',', ', ', ' ', '\t', ';, ']) {
      expect(await dpop({ lines: (proof) => ['DPoP', `${proof}${folded}${proof}`] })).toMatchObject(malformed)
    }
  })

  it('is at most 16384 bytes', async () => {
    expect(await dpop({ claims: { filler: 'a'.repeat(10_000) } })).toBe(granted)
    expect(await dpop({ claims: { filler: 'a'.repeat(12_500) } })).toEqual(bad('longer than 16384 bytes'))
  })

  it('has a header without parameters that other readers follow', async () => {
    for (const [name, value] of Object.entries({
      jku: 'https://k.example',
      x5u: 'x',
      x5c: [],
      b64: true,
      cty: 'JWT',
    })) {
      expect(await dpop({ header: { [name]: value } })).toEqual(bad(name))
    }
    expect(await dpop({ header: { kid: 'any' } })).toBe(granted)
  })

  it('has a jwk that is a public key for signing', async () => {
    const { jwk } = await createDpopKey({ htu: REQUEST_URL, now: () => NOW })
    const refused = async (change: Record<string, unknown>) =>
      expect(await dpop({ header: { jwk: { ...jwk, ...change } } }), JSON.stringify(change)).toMatchObject({
        code: 'ERR_DPOP_PROOF',
        detail: expect.stringMatching(/^jwk: /),
      })
    await refused({ d: null })
    await refused({ d: 'AAAA' })
    await refused({ k: 'AAAA' })
    await refused({ use: 'enc' })
    await refused({ key_ops: ['sign'] })
    await refused({ alg: 'ES384' })
    await refused({ crv: 'secp256k1' })
    await refused({ x: `${String(jwk.x)}=` })
  })

  it('of a weak key is refused before its signature is looked at', async () => {
    const weak = privateJwk('dpop-rsa1024')
    const header = { typ: 'dpop+jwt', alg: 'RS256', jwk: { kty: 'RSA', n: weak.n, e: weak.e } }
    const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const input = `${encode(header)}.${encode({ jti: 'j', htm: 'POST', htu: REQUEST_URL, iat: NOW })}`
    const key = createPrivateKey({ key: weak as never, format: 'jwk' })
    const proof = `${input}.${signBytes('sha256', Buffer.from(input), key).toString('base64url')}`
    expect(await dpop({ lines: () => ['DPoP', proof] })).toEqual(bad('jwk: RSA modulus is not 2048 to 8192 bits'))
  })

  it('names its use in at most 256 characters', async () => {
    expect(await dpop({ claims: { jti: 'j'.repeat(256) } })).toBe(granted)
    expect(await dpop({ claims: { jti: 'j'.repeat(257) } })).toEqual(bad('jti'))
  })

  it('that says it is over, or not begun, is refused', async () => {
    expect(await dpop({ claims: { exp: NOW + 1, nbf: NOW } })).toBe(granted)
    expect(await dpop({ claims: { exp: NOW - 5 } })).toEqual(bad('exp'))
    expect(await dpop({ claims: { exp: 'soon' } })).toEqual(bad('exp'))
    expect(await dpop({ claims: { nbf: NOW + 6 } })).toEqual(bad('nbf'))
  })

  it('is for the method as sent', async () => {
    for (const method of ['GET', 'post', 'POST ']) expect(await dpop({ source: { method } })).toEqual(bad('htm'))
  })

  it('is for one of the URLs of the card, and for none when there is none', async () => {
    expect(await dpop({ source: { urls: () => ['https://agent.test/rest', REQUEST_URL] } })).toBe(granted)
    expect(await dpop({ source: { urls: () => [] } })).toMatchObject(bad(expect.stringMatching(/^htu/)))
    for (const htu of [
      'https://agent.test:443/a2a',
      'HTTPS://AGENT.test/./x/../a2a',
      'https://agent.test/%61%32a',
      'https://agent.test/a2a?x=1#y',
    ]) {
      expect(await dpop({ claims: { htu } }), htu).toBe(granted)
    }
    for (const htu of [
      'https://agent.test\\a2a',
      'https://agent.test/a2a\n',
      'https://agent.test/\ta2a',
      'https:agent.test/a2a',
      '//agent.test/a2a',
      'https://u@agent.test/a2a',
      'https://u:p@agent.test/a2a',
      'https://agent.test./a2a',
      'https://agent.test/a2a/',
      'https://agent.test/a2a%2F',
      'https://agent.test/%2561%32a',
      'https://agent.test/a2a%',
      'https://agent.test/ä2a',
      'ftp://agent.test/a2a',
      `https://agent.test/a2a?${'x'.repeat(9000)}`,
    ]) {
      expect(await dpop({ claims: { htu } }), htu).toMatchObject(bad(expect.stringMatching(/^htu/)))
    }
  })

  it('P16 has one spelling: another last character is another signature', async () => {
    const outcome = await dpop({
      lines: (proof) => {
        const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
        const at = alphabet.indexOf(proof.at(-1) as string)
        return ['DPoP', proof.slice(0, -1) + alphabet[at ^ 1]]
      },
    })
    expect(outcome).toMatchObject({ code: 'ERR_DPOP_PROOF' })
  })
})

describe('replay', () => {
  it('P116 fifty parallel uses of one proof are one success', async () => {
    const key = await createDpopKey({ htu: REQUEST_URL, now: () => NOW })
    const proof = await key.proof(TOKEN)
    const context = testContext(NOW * 1000)
    const constraint = createSenderConstraint('dpop', context)
    const use = () =>
      constraint.judge(
        { kind: 'token', as: 'DPoP', token: TOKEN },
        { jkt: key.jkt },
        credentials(['DPoP', proof]),
        granted,
      )
    const outcomes = await Promise.all(Array.from({ length: 50 }, use))
    expect(outcomes.filter(({ kind }) => kind === 'satisfied')).toHaveLength(1)
    expect(outcomes.filter((one) => 'code' in one && one.code === 'ERR_DPOP_REPLAY')).toHaveLength(49)
    // And not once more for as long as it could be accepted.
    for (const later of [30, 60]) {
      context.now = (NOW + later) * 1000
      expect(await use()).toMatchObject({ code: 'ERR_DPOP_REPLAY' })
    }
    context.now = (NOW + 61) * 1000
    expect(await use()).toMatchObject({ code: 'ERR_DPOP_PROOF' })
  })

  it('P17 P30 a use is named by key, URL and jti, whatever their spelling', async () => {
    const keys: string[] = []
    const stores = { replay: { claim: (key: string) => keys.push(key) > 0 } }
    const key = await createDpopKey({ htu: REQUEST_URL, now: () => NOW })
    const jti = 'a\nb'
    await dpop({ key, stores, claims: { jti } })
    await dpop({ key, stores, claims: { jti, htu: 'https://AGENT.test:443/a2a?other', iat: NOW - 1 } })
    await dpop({ key, stores, claims: { jti: 'b' } })
    const other = 'https://agent.test/rest'
    await dpop({ key, stores, claims: { jti, htu: other }, source: { urls: () => [other] } })
    await dpop({ stores, claims: { jti } })
    expect(keys).toHaveLength(5)
    expect(keys[0]).toBe(keys[1])
    expect(new Set(keys).size).toBe(4)
    expect(keys.every((name) => /^dpop:[A-Za-z0-9_-]{43}$/.test(name))).toBe(true)
  })

  it('a proof is used up only when everything else holds', async () => {
    const claim = vi.fn(() => true)
    const stores = { replay: { claim } }
    await dpop({ stores, claims: { ath: 'x' } })
    await dpop({ stores, lines: (proof) => ['DPoP', `${proof.slice(0, -8)}AAAAAAAA`] })
    const lacking: Outcome = { kind: 'invalid', code: 'ERR_SCOPE_INSUFFICIENT' }
    expect(await dpop({ stores, granted: lacking })).toBe(lacking)
    expect(await dpop({ stores, source: { dryRun: true } })).toBe(granted)
    expect(claim).not.toHaveBeenCalled()
    expect(await dpop({ stores })).toBe(granted)
    expect(claim).toHaveBeenCalledExactlyOnceWith(expect.any(String), 70)
  })

  it('two schemes that judge one request see one use', async () => {
    const key = await createDpopKey({ htu: REQUEST_URL, now: () => NOW })
    const context = testContext(NOW * 1000)
    const source = credentials(['DPoP', await key.proof(TOKEN)])
    const judge = () =>
      createSenderConstraint('optional', context).judge(
        { kind: 'token', as: 'DPoP', token: TOKEN },
        { jkt: key.jkt },
        source,
        granted,
      )
    expect(await Promise.all([judge(), judge()])).toEqual([granted, granted])
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('down')
      },
    ],
    ['rejects', () => Promise.reject(new Error('down'))],
  ] as const)('a store that %s makes it unavailable, not accepted', async (_, claim) => {
    expect(await dpop({ stores: { replay: { claim } } })).toMatchObject({
      kind: 'unavailable',
      code: 'ERR_STORE_UNAVAILABLE',
    })
  })

  it('a store that answers anything but true has seen it', async () => {
    for (const answer of [undefined, null, 0, 1, 'OK', {}, false]) {
      const outcome = await dpop({ stores: { replay: { claim: () => answer as never } } })
      expect(outcome, String(answer)).toMatchObject({ code: 'ERR_DPOP_REPLAY' })
    }
  })
})

describe('auth-scheme and setting', () => {
  const jkt = 'ez0lU0R-SMTyfz-G7vZsdpO2SKqMWe70VYVO-xgFluw'
  const judge = (mode: 'off' | 'optional' | 'dpop' | 'mtls', as: 'Bearer' | 'DPoP', confirmation?: Confirmation) =>
    createSenderConstraint(mode, testContext(NOW * 1000)).judge(
      { kind: 'token', as, token: TOKEN },
      confirmation,
      credentials([]),
      granted,
    )

  it.each([
    ['off', 'Bearer', undefined, 'satisfied'],
    ['off', 'DPoP', undefined, 'ERR_TOKEN_UNBOUND'],
    ['off', 'Bearer', { jkt }, 'ERR_TOKEN_BOUND'],
    ['off', 'DPoP', { jkt }, 'ERR_TOKEN_BOUND'],
    ['off', 'Bearer', { x5tS256: jkt }, 'ERR_TOKEN_BOUND'],
    ['optional', 'Bearer', undefined, 'satisfied'],
    ['optional', 'DPoP', undefined, 'ERR_TOKEN_UNBOUND'],
    ['optional', 'Bearer', { jkt }, 'ERR_TOKEN_BOUND'],
    ['optional', 'Bearer', { jkt, x5tS256: jkt }, 'ERR_TOKEN_BOUND'],
    ['optional', 'DPoP', { jkt }, 'ERR_DPOP_PROOF'],
    ['optional', 'DPoP', { jkt, x5tS256: jkt }, 'ERR_TOKEN_CERTIFICATE'],
    ['optional', 'DPoP', { x5tS256: jkt }, 'ERR_TOKEN_UNBOUND'],
    ['optional', 'Bearer', { x5tS256: jkt }, 'ERR_TOKEN_CERTIFICATE'],
    ['dpop', 'Bearer', undefined, 'ERR_TOKEN_UNBOUND'],
    ['dpop', 'Bearer', { x5tS256: jkt }, 'ERR_TOKEN_UNBOUND'],
    ['dpop', 'Bearer', { jkt }, 'ERR_TOKEN_BOUND'],
    ['mtls', 'Bearer', undefined, 'ERR_TOKEN_UNBOUND'],
    ['mtls', 'DPoP', { jkt }, 'ERR_TOKEN_UNBOUND'],
    ['mtls', 'Bearer', { jkt, x5tS256: jkt }, 'ERR_TOKEN_BOUND'],
  ] as const)('%s, %s, %j: %s', async (mode, as, confirmation, expected) => {
    const outcome = await judge(mode, as, confirmation)
    expect('code' in outcome ? outcome.code : outcome.kind).toBe(expected)
  })

  it('with both bindings, both have to hold', async () => {
    const certificate = { raw: Buffer.from('stands for a certificate'), authorized: false }
    const x5tS256 = createHash('sha256').update(certificate.raw).digest('base64url')
    const key = await createDpopKey({ htu: REQUEST_URL, now: () => NOW })
    const both = { key, confirmation: { jkt: key.jkt, x5tS256 }, source: { certificate } }
    for (const mode of ['optional', 'dpop', 'mtls'] as const) {
      expect(await dpop({ ...both, mode })).toBe(granted)
      expect(await dpop({ ...both, mode, confirmation: { jkt: key.jkt, x5tS256: jkt } })).toMatchObject({
        code: 'ERR_TOKEN_CERTIFICATE',
      })
      expect(await dpop({ ...both, mode, lines: () => [] })).toMatchObject({ code: 'ERR_DPOP_PROOF' })
    }
  })

  it('only what can be answered is asked for', () => {
    const schemes = (mode: 'off' | 'optional' | 'dpop' | 'mtls') =>
      createSenderConstraint(mode, testContext(0)).challenges.map(({ scheme }) => scheme)
    expect(schemes('off')).toEqual(['Bearer'])
    expect(schemes('mtls')).toEqual(['Bearer'])
    expect(schemes('optional')).toEqual(['Bearer', 'DPoP'])
    expect(schemes('dpop')).toEqual(['DPoP'])
  })
})

describe('nonces', () => {
  let nowMs = NOW * 1000
  const secret = createSecretKey('a secret of two processes, for tests', 'utf8')
  const nonces = createDpopNonces(() => nowMs, secret)

  it('are the same in every process with the secret, and others with another or none', () => {
    expect(createDpopNonces(() => nowMs, secret).current()).toBe(nonces.current())
    const random = createDpopNonces(() => nowMs).current()
    expect(random).not.toBe(nonces.current())
    expect(createDpopNonces(() => nowMs).current()).not.toBe(random)
    expect(nonces.current()).toMatch(/^[A-Za-z0-9_-]{43}$/)
  })

  it('are handed out for two minutes, and accepted for two to four', () => {
    const start = NOW * 1000
    nowMs = start
    const nonce = nonces.current()
    nowMs = start + 119_999
    expect(nonces.current()).toBe(nonce)
    nowMs = start + 120_000
    expect(nonces.current()).not.toBe(nonce)
    expect(nonces.accepts(nonce)).toBe(true)
    nowMs = start + 240_000
    expect(nonces.accepts(nonce)).toBe(false)
    // A process whose clock is behind accepts what one ahead of it has handed out.
    nowMs = start - 1
    expect(nonces.accepts(nonce)).toBe(true)
    nowMs = start - 120_001
    expect(nonces.accepts(nonce)).toBe(false)
    nowMs = start
    for (const other of [undefined, null, '', 1, [nonce], nonce.toLowerCase(), `${nonce}=`]) {
      expect(nonces.accepts(other), String(other)).toBe(false)
    }
  })

  it('a proof without one, or with an old one, is told the current one; the next comes before it is needed', async () => {
    nowMs = NOW * 1000
    const asked = { kind: 'invalid', code: 'ERR_DPOP_NONCE', headers: { 'dpop-nonce': nonces.current() } }
    expect(await dpop({ nonces })).toMatchObject(asked)
    expect(await dpop({ nonces, claims: { nonce: 'x' } })).toMatchObject(asked)
    const nonce = nonces.current()
    expect(await dpop({ nonces, claims: { nonce } })).toBe(granted)
    nowMs += 120_000
    expect(await dpop({ nonces, claims: { nonce } })).toEqual({
      ...granted,
      headers: { 'dpop-nonce': nonces.current(), 'cache-control': 'no-store' },
    })
  })
})
