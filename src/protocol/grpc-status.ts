/**
 * `google.rpc.Status` with its details, which gRPC carries in `grpc-status-details-bin` (A2A v1.0 §10.6). Protocol
 * buffers as far as these few messages need them, in field order, so that the bytes are those of any other encoder.
 */

export interface GrpcStatusInput {
  readonly code: number
  readonly message: string
  readonly reason: string
  readonly domain: string
  /** Whole seconds. */
  readonly retryAfterSeconds?: number
}

const TYPE = 'type.googleapis.com/google.rpc.'

export function encodeGrpcStatus({ code, message, reason, domain, retryAfterSeconds }: GrpcStatusInput): Uint8Array {
  const errorInfo = [...text(1, reason), ...text(2, domain)]
  const details = [any('ErrorInfo', errorInfo)]
  // RetryInfo.retry_delay is a Duration, whose first field are the seconds.
  if (retryAfterSeconds !== undefined) details.push(any('RetryInfo', block(1, integer(1, retryAfterSeconds))))
  return Uint8Array.from([...integer(1, code), ...text(2, message), ...details.flatMap((each) => block(3, each))])
}

/** `google.protobuf.Any`. */
function any(name: string, value: readonly number[]): number[] {
  return [...text(1, TYPE + name), ...block(2, value)]
}

function integer(field: number, value: number): number[] {
  return [field << 3, ...varint(value)]
}

function text(field: number, value: string): number[] {
  return value === '' ? [] : block(field, [...Buffer.from(value)])
}

function block(field: number, bytes: readonly number[]): number[] {
  return [(field << 3) | 2, ...varint(bytes.length), ...bytes]
}

/** Up to 31 bits: codes, lengths and seconds. */
function varint(value: number): number[] {
  const bytes = []
  let rest = value
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return [...bytes, rest]
}
