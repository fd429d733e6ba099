/**
 * One gRPC call written frame by frame (RFC 9113): header fields repeated, in any order and spelling, as no client
 * library sends them.
 */
import { connect } from 'node:net'

export interface RawAnswer {
  readonly grpcStatus: number
}

const FRAME = { data: 0, headers: 1, settings: 4, ping: 6 } as const
const END_STREAM = 1
const END_HEADERS = 4
const ACK = 1

export function rawGrpcCall(
  port: number,
  path: string,
  lines: readonly string[],
  messages: readonly Uint8Array[],
  options: { readonly authority?: string; readonly compressed?: boolean } = {},
): Promise<RawAnswer> {
  const { authority = 'agent.example', compressed = false } = options
  const head = [':method', 'POST', ':scheme', 'http', ':path', path, ':authority', authority]
  const fields = [...head, 'content-type', 'application/grpc', 'te', 'trailers', ...lines]
  const block: Buffer[] = []
  // HPACK (RFC 7541 §6.2.3): literal, never indexed, new name, no Huffman code.
  for (const text of fields.keys()) {
    if (text % 2 === 0)
      block.push(Buffer.from([0x10]), literal(fields[text] as string), literal(fields[text + 1] as string))
  }
  const body = messages.map((bytes) => {
    const prefix = Buffer.alloc(5)
    prefix.writeUInt8(compressed ? 1 : 0, 0)
    prefix.writeUInt32BE(bytes.length, 1)
    return Buffer.concat([prefix, bytes])
  })
  const socket = connect(port, '127.0.0.1')
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  // SETTINGS_HEADER_TABLE_SIZE 0: answers come without references that a reader would have to remember.
  socket.write(frame(FRAME.settings, 0, 0, Buffer.from('000100000000', 'hex')))
  socket.write(frame(FRAME.headers, END_HEADERS, 1, Buffer.concat(block)))
  socket.write(frame(FRAME.data, END_STREAM, 1, Buffer.concat(body)))
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0)
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('the connection ended without an answer')))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      while (received.length >= 9) {
        const length = received.readUIntBE(0, 3)
        if (received.length < 9 + length) return
        const type = received.readUInt8(3)
        const flags = received.readUInt8(4)
        const payload = received.subarray(9, 9 + length)
        received = received.subarray(9 + length)
        if (type === FRAME.settings && (flags & ACK) === 0) socket.write(frame(FRAME.settings, ACK, 0, Buffer.alloc(0)))
        if (type !== FRAME.headers || (flags & END_STREAM) === 0) continue
        const found = grpcStatusIn(payload)
        socket.removeAllListeners('close').destroy()
        if (found === undefined) reject(new Error('trailers without grpc-status'))
        else resolve({ grpcStatus: found })
        return
      }
    })
  })
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** String literal without Huffman code (RFC 7541 §5.2), with a 7-bit prefix integer for its length. */
function literal(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  const length: number[] = []
  if (bytes.length < 127) length.push(bytes.length)
  else {
    length.push(127)
    let rest = bytes.length - 127
    for (; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128)
    length.push(rest)
  }
  return Buffer.concat([Buffer.from(length), bytes])
}

/** `grpc-status` as nghttp2 writes it (RFC 7541, Huffman code); its value is too short to gain from that code. */
const NAME = Buffer.from('9acac8b21234da8f', 'hex')

function grpcStatusIn(block: Buffer): number | undefined {
  const at = block.indexOf(NAME)
  if (at === -1) return undefined
  const start = at + NAME.length + 1
  return Number(block.toString('latin1', start, start + block.readUInt8(start - 1)))
}
