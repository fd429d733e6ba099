/** Client certificates: every path and identity of the vectors, and what a request makes of them. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readCertificate } from '../../../src/internal/certificate.ts'
import { identitiesOf, matches, parseSpiffeId, patternProblem } from '../../../src/internal/certificate-identity.ts'
import { findPaths, purposeProblem, validityOf } from '../../../src/internal/certificate-path.ts'
import { createMtlsScheme } from '../../../src/schemes/mtls.ts'
import type { PeerCertificate } from '../../../src/types.ts'
import { credentials } from '../../support/credentials.ts'

interface Case {
  readonly id: string
  readonly expect: 'valid' | 'invalid' | 'either'
  readonly now: number
  readonly trustAnchors: readonly string[]
  readonly intermediates: readonly string[]
  readonly leaf: string
  readonly identity?: {
    readonly spiffeId?: string | null
    readonly dns?: readonly string[]
    readonly uri?: readonly string[]
    readonly notDns?: readonly string[]
    readonly notUri?: readonly string[]
  }
}

const read = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../vectors/x509/${name}`, import.meta.url), 'utf8'))
const { cases } = read('mtls-client.json') as { cases: Case[] }
const spiffe = read('spiffe-ids.json') as {
  cases: { id: string; expect: string; trustDomain?: string; path?: string }[]
}
const byId = (id: string): Case => cases.find((each) => each.id === id) as Case
const der = (pem: string): Buffer => new X509Certificate(pem).raw

function verdictOf({ leaf, intermediates, trustAnchors, now }: Case): string {
  const certificate = readCertificate(der(leaf))
  if (certificate === undefined || purposeProblem(certificate) !== undefined) return 'invalid'
  const [sent, anchors] = [intermediates, trustAnchors].map((list) =>
    list.flatMap((pem) => readCertificate(der(pem)) ?? []),
  )
  const paths = findPaths(certificate, sent as never, anchors as never)
  return paths.some((path) => validityOf(path, now) === 'valid') ? 'valid' : 'invalid'
}

function schemeFor({ trustAnchors, now }: Case, identities: readonly string[], clock = () => now * 1000) {
  return createMtlsScheme({ type: 'mtls', name: 'mesh', ca: trustAnchors, identities }, { clock })
}

function peerFor({ leaf, intermediates }: Case, changes: Partial<PeerCertificate> = {}): PeerCertificate {
  return { raw: der(leaf), authorized: true, chain: intermediates.map(der), ...changes }
}

const source = (certificate?: PeerCertificate) => ({
  ...credentials([]),
  ...(certificate === undefined ? {} : { certificate }),
})

describe('paths', () => {
  it.each(cases.filter((each) => each.expect !== 'either'))('$id is $expect', (each) => {
    expect(verdictOf(each)).toBe(each.expect)
  })

  it('where the rules leave it open, the answer is the stricter one', () => {
    const open = cases.filter((each) => each.expect === 'either')
    expect(open.filter((each) => verdictOf(each) === 'valid').map(({ id }) => id)).toEqual([
      'mtls/ku/absent',
      'mtls/identity/san-uri-nul',
    ])
  })
})

describe('P90 P91 identities', () => {
  it.each(cases.filter((each) => each.identity !== undefined))('$id', (each) => {
    const named = identitiesOf(readCertificate(der(each.leaf))!)
    const found = named.ok ? named.identities : []
    const { spiffeId, dns = [], uri, notDns = [], notUri = [] } = each.identity!
    expect(found.filter((identity) => identity.startsWith('spiffe:'))).toEqual(spiffeId ? [spiffeId] : [])
    if (named.ok && uri !== undefined) expect(named.uris).toEqual(uri)
    for (const name of [...notDns, ...notUri]) expect(found).not.toContain(name)
    for (const name of dns) if (!name.includes(',')) expect(found).toContain(name)
  })

  it('SPIFFE IDs of the vectors', () => {
    for (const { id, expect: verdict, trustDomain, path } of spiffe.cases) {
      const parsed = parseSpiffeId(id)
      expect(parsed === undefined ? 'invalid' : 'valid', JSON.stringify(id)).toBe(verdict)
      if (parsed !== undefined) expect(parsed).toEqual({ trustDomain, path: path ?? '' })
    }
  })

  it.each([
    ['spiffe://example.org/agents/*', 'spiffe://example.org/agents/a', true],
    ['spiffe://example.org/agents/*', 'spiffe://example.org/agents/a/b', false],
    ['spiffe://example.org/agents/*', 'spiffe://example.org/agents', false],
    ['spiffe://example.org/*/a', 'spiffe://example.org/x/a', true],
    ['spiffe://example.org/a', 'spiffe://example.org/ab', false],
    ['*.example.org', 'a.example.org', true],
    ['*.example.org', 'a.b.example.org', false],
    ['*.example.org', 'example.org', false],
    ['https://example.org/*', 'https://example.org/', false],
  ])('%s and %s: %s', (pattern, identity, expected) => {
    expect(patternProblem(pattern)).toBeUndefined()
    expect(matches(pattern, identity)).toBe(expected)
  })

  it.each([
    '*',
    '*.org',
    'a.*.org',
    'Example.org',
    'localhost',
    'spiffe://*/a',
    'spiffe://example.org',
    'spiffe://e/a*',
    'spiffe://e/../a',
    'https://e/?q',
    'https://E/a',
    'https://*/a',
    'urn:x',
    'http://e/a',
    'spiffe://e/%61',
  ])('%s is no pattern', (pattern) => {
    expect(patternProblem(pattern)).toBeTypeOf('string')
    expect(() => schemeFor(byId('mtls/valid/rsa'), [pattern])).toThrow(TypeError)
  })
})

describe('scheme', () => {
  const chain = byId('mtls/valid/one-intermediate')
  const all = ['spiffe://example.org/*/*']

  it('names the caller by the matched identity and its trust domain', () => {
    const outcome = schemeFor(chain, all).authenticate(source(peerFor(chain)))
    expect(outcome).toMatchObject({
      kind: 'satisfied',
      part: { kind: 'mtls', issuer: 'spiffe://example.org', subject: 'spiffe://example.org/agent/a' },
    })
  })

  it('nothing presented is absent', () => {
    expect(schemeFor(chain, all).authenticate(source())).toEqual({ kind: 'absent' })
  })

  it.each<[string, Case, Partial<PeerCertificate>, string]>([
    ['another name', chain, {}, 'ERR_CERTIFICATE_IDENTITY'],
    ['not DER', chain, { raw: Buffer.from('x') }, 'ERR_CERTIFICATE_MALFORMED'],
    ['a byte more', chain, { raw: Buffer.concat([der(chain.leaf), Buffer.of(0)]) }, 'ERR_CERTIFICATE_MALFORMED'],
    ['no chain', chain, { chain: [] }, 'ERR_CERTIFICATE_UNTRUSTED'],
    ['refused by TLS without a reason', chain, { authorized: false }, 'ERR_CERTIFICATE_UNTRUSTED'],
    ['revoked', chain, { authorized: false, authorizationError: 'CERT_REVOKED' }, 'ERR_CERTIFICATE_UNTRUSTED'],
    ['another purpose', byId('mtls/eku/code-signing-only'), {}, 'ERR_CERTIFICATE_PURPOSE'],
    ['two URIs', byId('mtls/identity/two-uris'), {}, 'ERR_CERTIFICATE_IDENTITY'],
    ['NUL', byId('mtls/identity/san-uri-nul'), {}, 'ERR_CERTIFICATE_IDENTITY'],
  ])('%s is invalid', (_, each, changes, code) => {
    const outcome = schemeFor(each, ['spiffe://example.org/other']).authenticate(source(peerFor(each, changes)))
    expect(outcome).toMatchObject({ kind: 'invalid', code })
  })

  it('judges time at every request on one connection', () => {
    let now = chain.now
    const scheme = schemeFor(chain, all, () => now * 1000)
    const peer = peerFor(chain, { authorized: false, authorizationError: 'CERT_HAS_EXPIRED' })
    expect(scheme.authenticate(source(peer))).toMatchObject({ kind: 'satisfied' })
    now += 10 * 31_536_000
    expect(scheme.authenticate(source(peer))).toMatchObject({ code: 'ERR_CERTIFICATE_EXPIRED' })
    now = 1_500_000_000
    expect(scheme.authenticate(source(peer))).toMatchObject({ code: 'ERR_CERTIFICATE_NOT_YET_VALID' })
    now = chain.now
    expect(scheme.authenticate(source(peer))).toMatchObject({ kind: 'satisfied' })
  })

  it('a truncated certificate at any length is refused and never throws', () => {
    const raw = der(chain.leaf)
    for (let length = 0; length < raw.length; length += 1) {
      expect(readCertificate(raw.subarray(0, length))).toBeUndefined()
    }
  })
})
