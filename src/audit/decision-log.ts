/** One event per decision, to the operator's callback and logger. */
import type { DecisionEvent, Logger } from '../types.ts'

export interface DecisionSink {
  readonly onDecision?: ((event: DecisionEvent) => void) | undefined
  readonly logger?: Logger | undefined
}

/**
 * Hands the event to the callback and the logger. A sink that throws is reported to the logger and changes nothing:
 * the decision is already made.
 */
export function recordDecision(sink: DecisionSink, event: DecisionEvent): void {
  const failed = (cause: unknown): void => sink.logger?.error({ err: cause }, 'onDecision threw')
  try {
    // TypeScript takes an async function for one that returns nothing: its rejection must not end the process.
    const result: unknown = sink.onDecision?.(event)
    if (result instanceof Promise) result.catch(failed)
  } catch (cause) {
    failed(cause)
  }
  if (sink.logger === undefined) return
  // A logger writes its own time: twice the same member would be one that readers disagree about.
  const { time: _, ...fields } = event
  if (event.allowed) sink.logger.info(fields, 'a2a request allowed')
  else sink.logger.warn(fields, 'a2a request denied')
}
