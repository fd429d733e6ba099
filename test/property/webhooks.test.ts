/** A webhook with one byte or character changed is refused, and nothing that arrives makes the verifier throw. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createWebhookVerifier, signWebhook } from '../../src/webhook/index.ts'

const NOW = 1_800_000_000
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const BODY = Buffer.from('{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}')
const headers = { ...signWebhook({ secret: SECRET, id: 'msg_1', timestampSeconds: NOW, body: BODY }) }
/** Forgets at once, so that nothing is refused for having been seen. */
const verifier = createWebhookVerifier({
  secrets: SECRET,
  clock: () => NOW * 1000,
  replayStore: { claim: () => true },
})

it('every other body is refused', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: BODY.length - 1 }), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
      const body = Buffer.from(BODY)
      body[at] = (body[at] as number) ^ flip
      expect(await verifier.verify({ headers, body })).toMatchObject({ ok: false, reason: 'ERR_WEBHOOK_SIGNATURE' })
    }),
    { numRuns: 500 },
  )
  expect(await verifier.verify({ headers, body: BODY })).toMatchObject({ ok: true })
})

it('every other header is refused', async () => {
  const edit = fc.record({ at: fc.nat({ max: 100 }), remove: fc.nat({ max: 2 }), insert: fc.string({ maxLength: 2 }) })
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...Object.keys(headers)), edit, async (name, { at, remove, insert }) => {
      const value = headers[name as keyof typeof headers]
      const from = at % value.length
      const changed = value.slice(0, from) + insert + value.slice(from + remove)
      // Spaces part the entries of the list, and say nothing.
      if (changed.trim() === value) return
      expect((await verifier.verify({ headers: { ...headers, [name]: changed }, body: BODY })).ok).toBe(false)
    }),
    { numRuns: 500 },
  )
})

it('whatever is given, it answers with a code', async () => {
  const lines = fc.array(fc.tuple(fc.constantFrom(...Object.keys(headers), 'authorization'), fc.anything()))
  const given = fc.oneof(fc.anything(), lines, lines.map(Object.fromEntries))
  await fc.assert(
    fc.asyncProperty(given, fc.oneof(fc.anything(), fc.uint8Array()), async (headers, body) => {
      const result = await verifier.verify({ headers, body } as never)
      expect(result).toMatchObject({ ok: false, reason: expect.stringMatching(/^ERR_/), status: expect.any(Number) })
    }),
    { numRuns: 500 },
  )
})
