/** Revocation lists: what a file may hold, and what becomes of callers while it is good, old or gone. */
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createGuard, type Guard } from '../../src/guard.ts'
import { type Certificate, readCertificate } from '../../src/internal/certificate.ts'
import { readRevocationList } from '../../src/internal/crl.ts'
import type { DecisionEvent } from '../../src/types.ts'
import { type ClientCertificate, createClientAuthority, crlPem } from '../support/client-authority.ts'
import { AUDIENCE, NOW, rigCard } from '../support/rig.ts'

const root = createClientAuthority()
const other = createClientAuthority('another root')
const lower = root.intermediate('lower')
const ID = 'spiffe://example.org/agent/a'
const direct = root.issue([6, ID])
const indirect = lower.issue([6, ID])

let folder: string
let guard: Guard | undefined
let now = NOW
const events: DecisionEvent[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'a2a-trust-crl-'))
  now = NOW
  events.length = 0
})
afterEach(async () => {
  await guard?.close()
  guard = undefined
  rmSync(folder, { recursive: true })
})

async function start(crl: string | Buffer | undefined, ca = root.cert): Promise<Guard> {
  writeFileSync(join(folder, 'ca.pem'), ca)
  if (crl !== undefined) writeFileSync(join(folder, 'crl'), crl)
  guard = await createGuard({
    policy: {
      version: 1,
      card: rigCard({
        capabilities: {},
        securitySchemes: { mesh: { mtlsSecurityScheme: {} } },
        securityRequirements: [{ schemes: { mesh: { list: [] } } }],
      }),
      audience: AUDIENCE,
      publicUrl: AUDIENCE,
      schemes: { mesh: { ca: 'file:./ca.pem', crl: 'file:./crl', identities: [ID] } },
    },
    baseDir: folder,
    clock: () => now * 1000,
    onDecision: (event) => events.push(event),
  })
  return guard
}

async function call({ der }: Pick<ClientCertificate, 'der'>, ...chain: ClientCertificate[]) {
  const decision = await (guard as Guard).check({
    method: 'POST',
    target: '/a2a',
    rawHeaders: ['content-type', 'application/json', 'a2a-version', '1.0'],
    body: { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } },
    peer: { certificate: { raw: der, authorized: true, chain: chain.map((each) => each.der) } },
  })
  return decision.allowed ? 'allowed' : `${decision.denial.status} ${decision.code}`
}

const REVOKED = '401 ERR_CERTIFICATE_REVOKED'
const UNKNOWN = '503 ERR_CRL_UNAVAILABLE'

describe('a list that is current', () => {
  it.each<[string, string | Buffer]>([
    ['DER', root.crl({ revoked: ['0a', direct.serial, '0b'] })],
    ['PEM', crlPem(root.crl({ revoked: [direct.serial] }))],
    ['PEM of several', crlPem(other.crl()) + crlPem(root.crl({ revoked: [direct.serial] }))],
    ['two of one authority', crlPem(root.crl()) + crlPem(root.crl({ revoked: [direct.serial] }))],
    ['with a reason', root.crl({ revoked: [direct.serial], entryExtension: ['2.5.29.21', false] })],
    ['with a number', root.crl({ revoked: [direct.serial], extensions: [['2.5.29.20', false]] })],
  ])('refuses the certificate it names: %s', async (_, crl) => {
    await start(crl)
    expect(await call(direct)).toBe(REVOKED)
    expect(events[0]?.failures).toEqual([{ scheme: 'mesh', code: 'ERR_CERTIFICATE_REVOKED' }])
  })

  it('lets another one in, and OpenSSL reads it too', async () => {
    const crl = root.crl({ revoked: ['0a'] })
    expect(() => createSecureContext({ ca: root.cert, crl: crlPem(crl) })).not.toThrow()
    await start(crl)
    expect(await call(direct)).toBe('allowed')
    expect((guard as Guard).health()).toMatchObject({ ok: true })
  })

  it('reaches the certificates of authorities in between', async () => {
    await start(crlPem(root.crl({ revoked: [lower.serial] })) + crlPem(lower.crl()))
    expect(await call(indirect, lower)).toBe(REVOKED)
    await start(crlPem(root.crl()) + crlPem(lower.crl({ revoked: [indirect.serial] })))
    expect(await call(indirect, lower)).toBe(REVOKED)
    await start(crlPem(root.crl()) + crlPem(lower.crl()))
    expect(await call(indirect, lower)).toBe('allowed')
  })

  it('of the issuer is needed for the leaf: one of somebody else leaves it unknown', async () => {
    await start(root.crl())
    expect(await call(indirect, lower)).toBe(UNKNOWN)
    await start(other.crl(), root.cert + other.cert)
    expect(await call(direct)).toBe(UNKNOWN)
  })

  it('that somebody else signed in the name of an intermediate does not count, either way', async () => {
    await start(crlPem(root.crl()) + crlPem(lower.crl({ revoked: [indirect.serial], signer: other })))
    expect(await call(indirect, lower)).toBe(UNKNOWN)
  })
})

describe('lists that OpenSSL made', () => {
  const { cases } = JSON.parse(readFileSync(new URL('../vectors/crl/openssl.json', import.meta.url), 'utf8')) as {
    cases: { id: string; ca: string; good: string; revoked: string; crl: string }[]
  }
  const der = (pem: string) => ({ der: new X509Certificate(pem).raw })

  it.each(cases)('$id', async ({ ca, good, revoked, crl }) => {
    await start(crl, ca)
    expect(await call(der(good))).toBe('allowed')
    expect(await call(der(revoked))).toBe(REVOKED)
    now = Date.parse('2027-02-01T00:00:01Z') / 1000
    expect(await call(der(good))).toBe(UNKNOWN)
  })

  it('are signed over every octet', () => {
    for (const { ca, crl } of cases) {
      const authority = readCertificate(new X509Certificate(ca).raw) as Certificate
      const list = Buffer.from(crl.replace(/-----[A-Z0-9 ]+-----|\s/g, ''), 'base64')
      expect(readRevocationList(list).isSignedBy(authority)).toBe(true)
      for (let at = 0; at < list.length; at += 1) {
        const changed = Buffer.from(list)
        changed[at] = (changed[at] as number) ^ 1
        expect(readsAndHolds(changed, authority), `octet ${at}`).toBe(false)
      }
    }
  })

  function readsAndHolds(list: Buffer, authority: Certificate): boolean {
    try {
      return readRevocationList(list).isSignedBy(authority)
    } catch {
      return false
    }
  }
})

describe('time', () => {
  it('a list that runs out makes callers wait, health says so, and a reload mends it', async () => {
    await start(root.crl())
    now = NOW + 3600
    expect(await call(direct)).toBe('allowed')
    now += 1
    expect(await call(direct)).toBe(UNKNOWN)
    expect(events.at(-1)?.failures).toMatchObject([{ scheme: 'mesh', code: 'ERR_CRL_UNAVAILABLE' }])
    expect((guard as Guard).health()).toMatchObject({
      ok: false,
      schemes: [{ ok: false, detail: expect.any(String) as string }],
    })
    writeFileSync(join(folder, 'crl'), root.crl({ revoked: ['0a'], thisUpdate: now, nextUpdate: now + 60 }))
    await (guard as Guard).reload()
    expect(await call(direct)).toBe('allowed')
    writeFileSync(join(folder, 'crl'), root.crl({ revoked: [direct.serial], thisUpdate: now, nextUpdate: now + 60 }))
    await (guard as Guard).reload()
    expect(await call(direct)).toBe(REVOKED)
    now += 61
    expect(await call(direct)).toBe(REVOKED)
  })

  it('a list of tomorrow is none today, and one that is old at the start is a warning', async () => {
    await start(root.crl({ thisUpdate: NOW + 1 }))
    expect(await call(direct)).toBe(UNKNOWN)
    await start(root.crl({ nextUpdate: NOW - 1 }))
    expect(await call(direct)).toBe(UNKNOWN)
    expect((guard as Guard).health()).toMatchObject({
      ok: false,
      warnings: [expect.stringContaining('out of date') as string],
    })
  })

  it('without a certificate it is missing, whatever the list', async () => {
    await start(root.crl({ nextUpdate: NOW - 1 }))
    const decision = await (guard as Guard).check({ method: 'POST', target: '/a2a', rawHeaders: [], body: {} })
    expect(decision).toMatchObject({ allowed: false, code: 'ERR_CREDENTIAL_MISSING' })
  })

  it('a reload of a file that is broken keeps the lists there are', async () => {
    await start(root.crl({ revoked: [direct.serial] }))
    writeFileSync(join(folder, 'crl'), 'nothing')
    await expect((guard as Guard).reload()).rejects.toMatchObject({ code: 'ERR_POLICY_INVALID' })
    expect(await call(direct)).toBe(REVOKED)
  })
})

describe('files that are refused at the start', () => {
  const unsigned = createClientAuthority('no lists', false)
  it.each<[string, string | Buffer, RegExp, string?]>([
    ['empty', '', /no revocation list/],
    ['a certificate', root.cert, /no revocation list/],
    ['a list beside something else', crlPem(root.crl()) + root.cert, /no revocation list/],
    ['bad base64', '-----BEGIN X509 CRL-----\n!!!!\n-----END X509 CRL-----\n', /no revocation list/],
    ['no list inside', crlPem(Buffer.from('3003020101', 'hex')), /cannot be used/],
    ['a byte more', Buffer.concat([root.crl(), Buffer.of(0)]), /cannot be used/],
    ['cut off', root.crl().subarray(0, 200), /cannot be used/],
    ['signed by another', root.crl({ signer: other }), /not signed by/],
    ['of an authority that may not sign lists', unsigned.crl(), /not signed by/, unsigned.cert],
    ['SHA-1', root.crl({ digest: 'sha1' }), /weak/],
    ['without nextUpdate', root.crl({ nextUpdate: undefined }), /no nextUpdate/],
    ['a delta', root.crl({ extensions: [['2.5.29.27', true]] }), /critical extension 2\.5\.29\.27/],
    ['one distribution point', root.crl({ extensions: [['2.5.29.28', true]] }), /critical extension 2\.5\.29\.28/],
    [
      'of several authorities',
      root.crl({ revoked: ['0a'], entryExtension: ['2.5.29.29', true] }),
      /critical extension 2\.5\.29\.29/,
    ],
  ])('%s', async (_, crl, message, ca) => {
    await expect(start(crl, ca)).rejects.toMatchObject({
      code: 'ERR_POLICY_INVALID',
      problems: [{ pointer: '/schemes/mesh/crl', message: expect.stringMatching(message) as string }],
    })
  })

  it('one that is not there', async () => {
    await expect(start(undefined)).rejects.toMatchObject({ problems: [{ code: 'ERR_POLICY_UNREADABLE' }] })
  })

  it('a list cut off or changed at any place is refused or not signed, and never throws anything else', () => {
    const list = root.crl({ revoked: [direct.serial, '0a'] })
    const anchor = readRevocationList(list)
    expect(anchor.revoked.size).toBe(2)
    for (let at = 0; at < list.length; at += 1) {
      expect(() => readRevocationList(list.subarray(0, at))).toThrow(/./)
      const changed = Buffer.from(list)
      changed[at] = (changed[at] as number) ^ 1
      try {
        readRevocationList(changed)
      } catch (error) {
        expect((error as Error).constructor.name).toBe('DerError')
      }
    }
  })
})
