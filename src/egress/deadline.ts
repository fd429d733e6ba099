/** One end for a whole request: its time limit or the caller's abort, whichever is first. */
import { TrustError } from '../errors.ts'

export interface Deadline {
  /** Its reason is what the request rejects with: `ERR_EGRESS_TIMEOUT`, or the caller's own reason. */
  readonly signal: AbortSignal
  /** To be called when the request is over, so that nothing stays behind on a caller's long-lived signal. */
  done(): void
}

/** By hand and not with `AbortSignal.any` and `.timeout`, which keep a timer and a listener until the time is up. */
export function startDeadline(timeoutMs: number, origin: string, caller: AbortSignal | null | undefined): Deadline {
  const controller = new AbortController()
  const expire = () => controller.abort(new TrustError('ERR_EGRESS_TIMEOUT', { details: { origin, timeoutMs } }))
  const timer = setTimeout(expire, timeoutMs)
  timer.unref()
  const follow = () => controller.abort(caller?.reason)
  if (caller?.aborted) follow()
  else caller?.addEventListener('abort', follow, { once: true })
  return {
    signal: controller.signal,
    done: () => {
      clearTimeout(timer)
      caller?.removeEventListener('abort', follow)
    },
  }
}
