/** RFC 9701: answers that are signed, and everything that looks like one. */
import { importJWK, SignJWT } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { goodAnswer, type IntrospectionEndpoint, opaqueRig, startIntrospection } from '../../support/introspection.ts'
import { privateJwk } from '../../support/jwt-attacks.ts'
import { fileKeys, ISSUER, NOW, sign } from '../../support/tokens.ts'

const SIGNED = 'application/token-introspection+jwt'
let endpoint: IntrospectionEndpoint
beforeAll(async () => {
  endpoint = await startIntrospection()
})
afterAll(() => endpoint.close())
beforeEach(() => {
  endpoint.questions.length = 0
})

function says(text: string, contentType = SIGNED): void {
  endpoint.answer = (_question, response) => void response.writeHead(200, { 'content-type': contentType }).end(text)
}

interface Change {
  readonly claims?: Record<string, unknown>
  readonly header?: Record<string, unknown>
  readonly signer?: string
}

async function signedAnswer({ claims = {}, header = {}, signer = 'ec-1' }: Change = {}): Promise<string> {
  const all = { iss: ISSUER, aud: 'agent', iat: NOW, token_introspection: goodAnswer(), ...claims }
  const protectedHeader = { alg: 'ES256', kid: signer, typ: 'token-introspection+jwt', ...header }
  const key = await importJWK(privateJwk(signer) as never, protectedHeader.alg)
  return new SignJWT(JSON.parse(JSON.stringify(all))).setProtectedHeader(protectedHeader as never).sign(key)
}

const rig = () => opaqueRig(endpoint, { signed: { algorithms: ['ES256'], keys: fileKeys('ec-1', 'rsa-1') } })

describe('a signed answer', () => {
  it('is asked for, verified, and counts as an unsigned one would', async () => {
    says(await signedAnswer(), `${SIGNED}; charset=utf-8`)
    expect(await rig().present('t')).toMatchObject({ kind: 'satisfied', part: { subject: 'alice', issuer: ISSUER } })
    expect(endpoint.questions[0]?.headers.accept).toBe(SIGNED)
  })

  it('may be for us among others, and may say no', async () => {
    says(await signedAnswer({ claims: { aud: ['https://x.test', 'agent'] } }))
    expect(await rig().present('t')).toMatchObject({ kind: 'satisfied' })
    says(await signedAnswer({ claims: { token_introspection: { active: false } } }))
    expect(await rig().present('t')).toMatchObject({ kind: 'invalid', code: 'ERR_TOKEN_INACTIVE' })
  })

  it('is judged like any answer once it is verified', async () => {
    says(await signedAnswer({ claims: { token_introspection: goodAnswer({ aud: 'https://other.test' }) } }))
    expect(await rig().present('t')).toMatchObject({ kind: 'invalid', code: 'ERR_TOKEN_AUDIENCE' })
  })

  it.each<[string, Change]>([
    ['of another type', { header: { typ: 'JWT' } }],
    ['without a type', { header: { typ: undefined } }],
    ['that is an access token', { header: { typ: 'at+jwt' } }],
    ['of another issuer', { claims: { iss: `${ISSUER}/` } }],
    ['for another client', { claims: { aud: 'agent-2' } }],
    ['for nobody', { claims: { aud: undefined } }],
    ['without a time', { claims: { iat: undefined } }],
    ['without an answer', { claims: { token_introspection: undefined } }],
    ['whose answer is outside', { claims: { token_introspection: undefined, ...goodAnswer() } }],
    ['whose answer is a list', { claims: { token_introspection: [goodAnswer()] } }],
    ['whose answer is text', { claims: { token_introspection: JSON.stringify(goodAnswer()) } }],
    ['whose active is text', { claims: { token_introspection: goodAnswer({ active: 'true' }) } }],
    ['with an algorithm that is not configured', { header: { alg: 'RS256' }, signer: 'rsa-1' }],
    ['with a key that is not published', { signer: 'ec-other' }],
    ['with another key under a published kid', { signer: 'ec-other', header: { kid: 'ec-1' } }],
    ['with a key of its own choice', { header: { jku: 'https://evil.test/keys' } }],
  ])('%s says nothing', async (_name, change) => {
    says(await signedAnswer(change))
    expect(await rig().present('t')).toMatchObject({ kind: 'unavailable', code: 'ERR_INTROSPECTION_INVALID' })
  })

  it('changed on the way, unsigned, encrypted or in another dress says nothing', async () => {
    const good = await signedAnswer()
    const [header, , signature] = good.split('.')
    const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const forged = encode({ iss: ISSUER, aud: 'agent', iat: NOW, token_introspection: goodAnswer({ sub: 'root' }) })
    const none = encode({ alg: 'none', typ: 'token-introspection+jwt' })
    const texts: [string, string?][] = [
      [`${header}.${forged}.${signature}`],
      [`${none}.${forged}.`],
      [`${none}.${forged}.${signature}`],
      [`${header}..${signature}`],
      ['a.b.c.d.e'],
      [` ${good}`],
      [`${good}\n`],
      [good, 'application/json'],
      [good, 'application/jwt'],
      [await sign({ aud: 'agent' })],
      [JSON.stringify(goodAnswer()), 'application/json'],
      [JSON.stringify(goodAnswer())],
      [''],
    ]
    for (const [text, type] of texts) {
      says(text, type)
      expect(await rig().present('t'), `${text} ${type}`).toMatchObject({ kind: 'unavailable' })
    }
  })
})
