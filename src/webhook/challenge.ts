/**
 * Proof that whoever registers a webhook controls it: a signed challenge, which only a receiver made for webhooks answers.
 * It is told from an event by a header and its shape, and never runs work.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import type { Egress } from '../egress/index.ts'
import type { HeaderView } from '../internal/headers.ts'
import { parseStrictJson } from '../internal/json.ts'
import type { Clock } from '../types.ts'
import { type AttemptConfig, type AttemptContext, headersOf } from './attempt.ts'
import { createHosts } from './hosts.ts'

const HEADER = 'webhook-challenge'
const CHALLENGE = /^[A-Za-z0-9_-]{22,256}$/
const MAX_ANSWER_BYTES = 1024

/** What a receiver answers to a challenge; `undefined` for everything that is none. The signature is the caller's to check. */
export function challengeAnswer(headers: HeaderView, body: Uint8Array): string | undefined {
  if (headers.all(HEADER).length !== 1 || body.byteLength > MAX_ANSWER_BYTES) return undefined
  const challenge = challengeIn(body)
  return challenge === undefined ? undefined : JSON.stringify({ challenge })
}

/**
 * Resolves with whether the receiver gave the challenge back, with 200 and nothing else. Sent with what a delivery carries.
 * Not proven: that the receiver checked a signature, nor control by the caller of a service that gives back all it gets.
 */
async function provesControl(
  config: AttemptConfig & { readonly taskId: string; readonly version: string },
  { egress, ...context }: Omit<AttemptContext, 'allows'> & { readonly egress: Pick<Egress, 'fetch'> },
  nowMs: number,
): Promise<boolean> {
  const challenge = randomBytes(32).toString('base64url')
  const { taskId, version } = config
  const id = `chl_${randomUUID().replaceAll('-', '')}`
  const message = { id, taskId, version, body: JSON.stringify({ challenge }), contentType: 'application/json' }
  try {
    const headers = { ...(await headersOf(message, config, context, Math.floor(nowMs / 1000))), [HEADER]: '1' }
    const response = await egress.fetch(config.url, { method: 'POST', headers, body: message.body, redirect: 'error' })
    const answer = await boundedBody(response)
    return response.status === 200 && challengeIn(answer) === challenge
  } catch {
    return false
  }
}

/** For one host: two challenges at once, five a second, and none for a minute after five that were not answered. */
const CHALLENGES = { concurrency: 2, perSecond: 5, failures: 5, openMs: 60_000 }

/** Registering must not be a way to have this agent call a host as often as one likes. */
export function createChallenger(context: Parameters<typeof provesControl>[1], clock: Clock) {
  const hosts = createHosts(CHALLENGES)
  return async (config: Parameters<typeof provesControl>[0]): Promise<'proven' | 'unproven' | 'busy'> => {
    const { host } = new URL(config.url)
    if (hosts.take(host, '', clock()) > 0) return 'busy'
    const proven = await provesControl(config, context, clock())
    hosts.release(host, proven ? 'ok' : 'failed', clock())
    return proven ? 'proven' : 'unproven'
  }
}

function challengeIn(body: Uint8Array): string | undefined {
  try {
    const { challenge, ...more } = parseStrictJson(body) as Readonly<Record<string, unknown>>
    const isOne = typeof challenge === 'string' && CHALLENGE.test(challenge) && Object.keys(more).length === 0
    return isOne ? challenge : undefined
  } catch {
    return undefined
  }
}

/** Breaking off cancels the rest. */
async function boundedBody({ body }: Response): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += (chunk as Uint8Array).length
    if (bytes > MAX_ANSWER_BYTES) return new Uint8Array()
    chunks.push(chunk as Uint8Array)
  }
  return Buffer.concat(chunks)
}
