import { generateKeyPair, exportJWK, FlattenedSign, importJWK, type JWK } from 'jose'
import { AgentCard, generateAgentCardSignature, verifyAgentCardSignature } from '@a2a-js/sdk'
import { it } from 'vitest'
import { signCard, verifyCard, loadTrust, canonicalizeCard } from '../src/card/index.ts'
import { rigCard } from './support/rig.ts'
const mk = async (kid: string) => { const p = await generateKeyPair('ES256', { extractable: true }); const j = { ...(await exportJWK(p.privateKey)), kid } as JWK; const { d: _, ...pub } = j; return { j, pub, k: p.privateKey } }
const sigOver = async (payload: string, k: any, kid: string) => { const { protected: p, signature } = await new FlattenedSign(Buffer.from(payload)).setProtectedHeader({ alg: 'ES256', kid, typ: 'JOSE' }).sign(k); return { protected: p, signature } }
const plain: any = rigCard({ securityRequirements: [{ schemes: { login: { list: ['a2a:use'] } } }] })
it('probe', async () => {
  const a = await mk('a'), b = await mk('b')
  // 1 warnings hidden
  const cleanSig = await sigOver(canonicalizeCard(JSON.stringify(plain), 'clean'), a.k, 'a')
  const junk: any = {}; for (let i = 0; i < 1500; i++) junk['j' + i] = 1
  const r1 = await verifyCard(JSON.stringify({ ...junk, ...plain, url: 'https://evil', signatures: [cleanSig] }), { jwks: { keys: [a.pub] } })
  console.log('1 warnings', r1.ok && r1.warnings, r1.ok && r1.uncovered.length)
  // 2 threshold
  const evil = { ...plain, url: 'https://evil.example' }
  const bs = await sigOver(canonicalizeCard(JSON.stringify(plain), 'clean'), b.k, 'b')
  const as = await sigOver(canonicalizeCard(JSON.stringify(evil), 'raw'), a.k, 'a')
  const any = ['https://agent.example', 'https://evil.example']
  const trust = await loadTrust({ trust: { version: 1, threshold: 2, signers: [{ name: 'a', origins: any, keys: [a.pub] }, { name: 'b', origins: any, keys: [b.pub] }] } })
  const r2 = await verifyCard(JSON.stringify({ ...evil, signatures: [as, bs] }), { trust })
  console.log('2 threshold', r2.ok && [r2.profile, r2.card.url], !r2.ok && r2.reason)
  // 3 snake interfaces
  const { supportedInterfaces, ...rest } = plain
  const snake = { ...rest, supported_interfaces: [{ url: 'https://victim.example', protocol_binding: 'JSONRPC', protocol_version: '1.0' }] }
  const t1 = await loadTrust({ trust: { version: 1, signers: [{ name: 'a', origins: ['https://agent.example'], keys: [a.pub] }] } })
  const r3 = await verifyCard(JSON.stringify({ ...snake, signatures: [await sigOver(canonicalizeCard(JSON.stringify(snake), 'raw'), a.k, 'a')] }), { trust: t1, origin: 'https://agent.example' })
  console.log('3 snake', r3.ok, !r3.ok && r3.reason, JSON.stringify(AgentCard.fromJSON(snake).supportedInterfaces))
  // 4 same key, two signers
  const t2 = await loadTrust({ trust: { version: 1, signers: [{ name: 'x', origins: ['https://other.example'], keys: [a.pub] }, { name: 'a', origins: ['https://agent.example'], keys: [a.pub] }] } })
  const r4 = await verifyCard((await signCard(JSON.stringify(plain), { key: a.j })).text, { trust: t2, origin: 'https://agent.example' })
  console.log('4 twokeys', r4.ok, !r4.ok && r4.reason)
  // 5 at
  for (const at of ['5', 'Dec 1 2026', '2026-12-01', '1800000000', '2026-13-01T00:00:00Z', '2026-02-30T00:00:00Z'] as string[]) console.log('5', at, await verifyCard('{}', { jwks: { keys: [a.pub] } }, { at }).then((r) => 'accepted', (e) => e.message))
  // 6 object
  for (const x of [plain, undefined, null, 5]) console.log('6', await verifyCard(x as any, { jwks: { keys: [a.pub] } }).then((r) => JSON.stringify(r), (e) => e.message), await signCard(x as any, { key: a.j }).catch((e) => e.code ?? e.message).then(String))
  // 7 snake empty required
  console.log('7', await signCard(JSON.stringify({ ...plain, defaultInputModes: undefined, default_input_modes: [] }), { key: a.j }).then((r) => JSON.stringify(r.card.defaultInputModes), (e) => e.code))
  // 8 perf
  const text4 = (await signCard(JSON.stringify({ ...plain, description: 'd'.repeat(2500) }), { key: a.j })).text
  console.log('size', text4.length)
  const key = await importJWK(a.pub, 'ES256') as any
  const sdk = verifyAgentCardSignature(async () => key)
  const time = async (f: () => Promise<unknown>) => { for (let i = 0; i < 300; i++) await f(); const t = performance.now(); for (let i = 0; i < 1000; i++) await f(); return (performance.now() - t) }
  const jwks = { keys: [a.pub] }
  const { trustJwks } = await import('../src/card/trusted-keys.ts'); const tr = trustJwks(jwks)
  const bytes = Buffer.from(text4)
  for (let r = 0; r < 2; r++) console.log('8 us', 'sdk', await time(() => sdk(JSON.parse(bytes.toString()))), 'ours', await time(() => verifyCard(bytes, { trust: tr })), 'ours jwks', await time(() => verifyCard(bytes, { jwks })))
  // 9 long pointers
  const inner: any = {}; for (let i = 0; i < 5000; i++) inner['k' + i] = 1
  const big = JSON.stringify({ ...plain, ['n'.repeat(1_000_000)]: { } , x: {['n'.repeat(500_000)]: inner}, capabilities: { ...plain.capabilities, extensions: [] , zz: {['n'.repeat(200_000)]: inner}}, signatures: [cleanSig] })
  const t0 = performance.now(), m0 = process.memoryUsage().rss
  const r9 = await verifyCard(big, { jwks })
  console.log('9', r9.ok, !r9.ok && r9.reason, r9.ok && r9.uncovered.length, r9.ok && r9.uncovered.reduce((n, s) => n + s.length, 0), performance.now() - t0, (process.memoryUsage().rss - m0) / 1e6)
}, 120000)
