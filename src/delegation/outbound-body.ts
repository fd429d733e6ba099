/** Bodies that are read while they are sent: each chunk is looked at before it goes on, and none goes on after a find. */
import { Readable, Transform } from 'node:stream'
import { TrustError } from '../errors.ts'
import type { OutboundCheck } from './outbound-check.ts'

/** A Node stream of the same bytes. What ends one ends the other. */
export function checkedStream(body: Readable, check: OutboundCheck): Readable {
  const checked = new Transform({
    readableObjectMode: body.readableObjectMode,
    writableObjectMode: body.readableObjectMode,
    transform(chunk: unknown, encoding, callback) {
      const error = check.body(chunk, encoding)
      if (error === undefined) callback(null, chunk)
      else callback(error)
    },
  })
  // Whoever sends the stream hears of it as well; before that there is nobody who would.
  checked.on('error', () => body.destroy())
  checked.on('close', () => body.destroy())
  body.on('error', (fault) => checked.destroy(fault))
  body.on('close', () => {
    if (!body.readableEnded) checked.destroy()
  })
  return body.pipe(checked)
}

export async function* checkedChunks(
  body: AsyncIterable<unknown> | Iterable<unknown>,
  check: OutboundCheck,
): AsyncGenerator<unknown, void, undefined> {
  const chunks = Symbol.asyncIterator in body ? body[Symbol.asyncIterator]() : body[Symbol.iterator]()
  let isOver = false
  try {
    for (;;) {
      const { done = false, value } = await chunks.next()
      isOver = done
      if (done) return
      const error = check.body(value)
      if (error !== undefined) throw error
      yield value
    }
  } catch (fault) {
    isOver ||= !(fault instanceof TrustError)
    throw fault
  } finally {
    // Not waited for: what `fetch` hands over does not end before the request does.
    if (!isOver) void Promise.resolve(chunks.return?.()).catch(() => undefined)
  }
}

/** For a `fetch`, which takes web streams. */
export function checkedWebStream(body: ReadableStream<Uint8Array>, check: OutboundCheck): ReadableStream<Uint8Array> {
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>(
      {
        transform(chunk, controller) {
          const error = check.body(chunk)
          if (error !== undefined) throw error
          controller.enqueue(chunk)
        },
      },
      undefined,
      { highWaterMark: 0 },
    ),
  )
}

export function isNodeStream(body: unknown): body is Readable {
  return body instanceof Readable || (typeof body === 'object' && body !== null && 'pipe' in body && 'on' in body)
}
