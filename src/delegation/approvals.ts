/**
 * In-task authorization (A2A §7.6): before the agent does one named thing, one named principal allows it, once, on a page
 * of the agent's own. What arrives in messages plays no part in it.
 */
import { TrustError } from '../errors.ts'
import { sha256Hex } from '../internal/sha256.ts'
import { createMemoryApprovalStore } from '../store/approvals-memory.ts'
import type { ApprovalRecord, ApprovalVerdict } from '../store/stores.ts'
import { faultOfCallback, prepareCode } from './approval-code.ts'
import { type ApprovalGrant, createGrant } from './approval-grant.ts'
import {
  type ApprovalEvent,
  type ApprovalRequest,
  type ApprovalsOptions,
  checkApprovalRequest,
  checkApprovalsOptions,
} from './approval-options.ts'
import { approvalDigest, canonicalParameters } from './approval-parameters.ts'
import { isEqual, randomToken } from './approval-token.ts'

export interface PendingApproval {
  /** Where the approver answers. Worth nothing to anybody else, so it may be told to the client. */
  readonly url: string
  /** Unix seconds. */
  readonly expiresAt: number
  /**
   * Rejects with `ERR_APPROVAL_DENIED`, `ERR_APPROVAL_EXPIRED`, `ERR_APPROVAL_CANCELLED` or `ERR_APPROVAL_CREDENTIAL`.
   * Needs no handler for the process to live on.
   */
  readonly granted: Promise<ApprovalGrant>
  /** Ends the waiting, and what was granted and not used yet. */
  cancel(): void
}

/** What the approver's page shows. */
export interface ApprovalView
  extends Pick<
    ApprovalRecord,
    'operation' | 'parameters' | 'summary' | 'taskId' | 'requester' | 'expiresAt' | 'formToken'
  > {
  /** Origin of the authorization server that an approval leads to. */
  readonly leadsTo?: string
}

/** `gone`: there is nothing here for this approver; whether there is for others is not told. `refused`: a forged answer. */
export type ApprovalOutcome = 'approved' | 'denied' | 'gone' | 'refused' | { readonly redirect: string }

export interface Approvals {
  readonly url: string
  /**
   * Begins to wait. Throws `TypeError` for what cannot be meant; rejects with `ERR_APPROVAL_LIMIT`, with
   * `ERR_APPROVAL_CANCELLED` after `close`, and with what the store throws.
   */
  request(request: ApprovalRequest): Promise<PendingApproval>
  /** What `token` asks of `approver`; `undefined` unless they are its actor. Changes nothing. */
  view(token: string, approver: string): Promise<ApprovalView | undefined>
  answer(answer: {
    readonly token: string
    /** Who is logged in: never what the form says. */
    readonly approver: string
    /** From the page that `view` made. */
    readonly formToken: string
    readonly decision: 'approve' | 'deny'
  }): Promise<ApprovalOutcome>
  /** The answer of an authorization server, by the query that it came with. */
  callback(parameters: URLSearchParams, approver: string): Promise<ApprovalOutcome>
  /** Everything that is waited for is cancelled, and nothing more is asked. */
  close(): void
}

interface Waiting {
  readonly record: ApprovalRecord
  readonly settle: (end: Ending) => void
}

type Ending = ApprovalVerdict | { readonly verdict: 'expired' }

const ENDINGS = {
  denied: 'ERR_APPROVAL_DENIED',
  expired: 'ERR_APPROVAL_EXPIRED',
  cancelled: 'ERR_APPROVAL_CANCELLED',
} as const

/** 256 bits: not guessed, and not shorter than what it leads to. */
const TOKEN = /^[\w-]{43}$/
const keyOf = (token: string): string => sha256Hex(`a2a-trust approval\n${token}`)

/**
 * Throws `TypeError` naming an option that cannot be meant. Without a `store` of several processes the pages have to be
 * reached at the process that asked. Not checked: that the pages are mounted at `url`, and who logs approvers in.
 */
export function createApprovals(options: ApprovalsOptions): Approvals {
  checkApprovalsOptions(options)
  const { url, clock = Date.now, maxPerTask = 8, maxPerRequester = 100, onApproval, logger } = options
  const store = options.store ?? createMemoryApprovalStore({ clock })
  const waiting = new Map<string, Waiting>()
  let closed = false

  const isOver = ({ expiresAt }: Pick<ApprovalRecord, 'expiresAt'>): boolean => expiresAt * 1000 <= clock()

  function tell(record: ApprovalRecord, kind: ApprovalEvent['kind'], more: Partial<ApprovalEvent> = {}): void {
    const { taskId, operation, parameters, actor } = record
    const digest = approvalDigest(taskId, operation, parameters)
    const event = { time: new Date(clock()).toISOString(), kind, taskId, operation, digest, actor, ...more }
    try {
      onApproval?.(Object.freeze(event))
    } catch (cause) {
      logger?.error({ err: cause }, 'onApproval threw')
    }
    const { time: _, ...fields } = event
    if (kind === 'refused')
      logger?.warn({ code: 'ERR_APPROVAL_REFUSED', ...fields }, 'an answer to an approval was not accepted')
    else logger?.info(fields, `approval ${kind}`)
  }

  function assertRoom({ taskId, requester }: ApprovalRequest): void {
    const records = [...waiting.values()].map(({ record }) => record)
    const isFull =
      records.filter((record) => record.taskId === taskId).length >= maxPerTask ||
      (requester !== undefined && records.filter((record) => record.requester === requester).length >= maxPerRequester)
    if (isFull) throw new TrustError('ERR_APPROVAL_LIMIT', { details: { maxPerTask, maxPerRequester } })
  }

  async function request(asked: ApprovalRequest): Promise<PendingApproval> {
    checkApprovalRequest(asked)
    if (closed) throw new TrustError('ERR_APPROVAL_CANCELLED')
    assertRoom(asked)
    const token = randomToken()
    const key = keyOf(token)
    const code = asked.authorizationCode === undefined ? undefined : prepareCode(url, token, asked.authorizationCode)
    const { taskId, operation, summary, actor, requester, expiresInSeconds = 600 } = asked
    const record: ApprovalRecord = Object.freeze({
      taskId,
      operation,
      parameters: canonicalParameters(asked.parameters),
      summary,
      actor,
      ...(requester === undefined ? {} : { requester }),
      expiresAt: Math.floor(clock() / 1000) + expiresInSeconds,
      formToken: randomToken(),
      ...(code === undefined ? {} : { authorization: code.record }),
    })
    let cancelled = false
    let ended: Ending | undefined
    const ending = new Promise<Ending>((resolve) => {
      const settle = (end: Ending): void => {
        if (ended !== undefined) return
        ended = end
        waiting.delete(key)
        tell(record, end.verdict)
        resolve(end)
      }
      waiting.set(key, { record, settle })
    })
    const settle = (waiting.get(key) as Waiting).settle

    async function grantOf(end: Ending): Promise<ApprovalGrant> {
      if (end.verdict !== 'approved') throw new TrustError(ENDINGS[end.verdict], { details: { operation } })
      if (code !== undefined && end.code === undefined) throw new TrustError('ERR_APPROVAL_CREDENTIAL')
      const credential =
        end.code === undefined || code === undefined ? undefined : { value: await code.obtain(end.code) }
      return createGrant({
        ...record,
        ...(credential === undefined ? {} : { credential }),
        isOver: () => isOver(record),
        isCancelled: () => cancelled,
      })
    }

    const withdraw = (): void => {
      void (async () => store.take(key))().catch((cause: unknown) => {
        logger?.warn({ err: cause, taskId, operation }, 'an approval that is over could not be removed from its store')
      })
    }
    let stop = (): void => undefined
    try {
      stop = await store.listen(key, settle)
      await store.put(key, record)
    } catch (fault) {
      stop()
      waiting.delete(key)
      throw fault
    }
    const timer = startTimer(
      () => record.expiresAt * 1000 - clock(),
      () => settle({ verdict: 'expired' }),
    )
    const granted = ending.then((end) => {
      timer.stop()
      stop()
      if (end.verdict === 'expired' || end.verdict === 'cancelled') withdraw()
      return grantOf(end)
    })
    granted.catch(() => undefined)
    tell(record, 'requested')
    if (closed) settle({ verdict: 'cancelled' })
    return Object.freeze({
      url: `${url}/${token}`,
      expiresAt: record.expiresAt,
      granted,
      cancel() {
        cancelled = true
        settle({ verdict: 'cancelled' })
      },
    })
  }

  /** The record that the token names, if this approver is the one to answer it. */
  async function find(token: string, approver: string): Promise<{ key: string; record: ApprovalRecord } | undefined> {
    if (!TOKEN.test(token)) return undefined
    const key = keyOf(token)
    const record = await store.find(key)
    const here = waiting.get(key)
    if (here !== undefined && isOver(here.record)) here.settle({ verdict: 'expired' })
    if (record === undefined || isOver(record)) return undefined
    if (record.actor !== approver) {
      tell(record, 'refused', { by: approver, detail: 'another actor' })
      return undefined
    }
    return { key, record }
  }

  async function end(key: string, verdict: ApprovalVerdict): Promise<ApprovalOutcome> {
    const taken = await store.take(key)
    if (taken === undefined || isOver(taken)) return 'gone'
    await store.announce(key, verdict)
    return verdict.verdict === 'approved' ? 'approved' : 'denied'
  }

  return Object.freeze({
    url,
    request,
    async view(token: string, approver: string) {
      const found = await find(token, approver)
      if (found === undefined) return undefined
      const { authorization, actor: _, ...shown } = found.record
      return Object.freeze({
        ...shown,
        ...(authorization === undefined ? {} : { leadsTo: new URL(authorization.url).origin }),
      })
    },
    async answer({ token, approver, formToken, decision }: Parameters<Approvals['answer']>[0]) {
      const found = await find(token, approver)
      if (found === undefined) return 'gone'
      const { key, record } = found
      if (!isEqual(formToken, record.formToken)) {
        tell(record, 'refused', { by: approver, detail: 'form token' })
        return 'refused'
      }
      if (decision !== 'approve') return end(key, { verdict: 'denied' })
      // The answer of the authorization server is what takes it: until then the approver may turn back.
      if (record.authorization !== undefined) return { redirect: record.authorization.url }
      return end(key, { verdict: 'approved' })
    },
    async callback(parameters: URLSearchParams, approver: string) {
      const [token = '', state = '', ...rest] = (parameters.get('state') ?? '').split('.')
      const found = rest.length > 0 ? undefined : await find(token, approver)
      if (found?.record.authorization === undefined) return 'gone'
      const { key, record } = found
      const detail = faultOfCallback(parameters, state, found.record.authorization)
      if (detail !== undefined) {
        tell(record, 'refused', { by: approver, detail })
        return 'refused'
      }
      const code = parameters.get('code')
      return end(key, code === null ? { verdict: 'denied' } : { verdict: 'approved', code })
    },
    close() {
      closed = true
      for (const { settle } of [...waiting.values()]) settle({ verdict: 'cancelled' })
    },
  })
}

/** Calls `over` when `leftMs` says so: looked at again each time, since clocks are set back. Keeps no process alive. */
function startTimer(leftMs: () => number, over: () => void): { stop(): void } {
  let timer: NodeJS.Timeout
  const arm = (): void => {
    timer = setTimeout(() => (leftMs() > 0 ? arm() : over()), Math.max(leftMs(), 0))
    timer.unref()
  }
  arm()
  return { stop: () => clearTimeout(timer) }
}
