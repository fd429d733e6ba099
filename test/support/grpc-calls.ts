/** gRPC calls as they travel: the SDK's own encoders, metadata line by line, and the whole status that comes back. */
import * as sdk from '@a2a-js/sdk'
import { LegacyA2AService } from '@a2a-js/sdk/compat/v0_3/server/grpc'
import { A2AService } from '@a2a-js/sdk/server/grpc'
import { BinaryReader } from '@bufbuild/protobuf/wire'
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  credentials,
  Metadata,
  type ServiceDefinition,
} from '@grpc/grpc-js'

const methods = new Map(
  [...Object.values(A2AService), ...Object.values(LegacyA2AService)].map((one) => [one.path as string, one]),
)

/** The bytes of the message for a method; `body` is ProtoJSON for v1.0 and the decoded form for v0.3. */
export function encodeMessage(path: string, body: unknown): Buffer {
  const method = methods.get(path)
  if (method === undefined) throw new Error(`no such method: ${path}`)
  const name = path.split('/')[2] as string
  const type =
    name === 'CreateTaskPushNotificationConfig'
      ? 'TaskPushNotificationConfig'
      : `${name.replace('SendStreaming', 'Send')}Request`
  const codec = (sdk as unknown as Record<string, { fromJSON(value: unknown): unknown }>)[type]
  const message = path.startsWith('/lf.') ? codec?.fromJSON(body) : body
  return (method.requestSerialize as (value: unknown) => Buffer)(message)
}

/** The services, with answers that need not be whole: what is asked here is whether a handler ran. */
export const services: readonly ServiceDefinition[] = [A2AService, LegacyA2AService].map((service) =>
  Object.fromEntries(
    Object.entries(service).map(([name, method]) => [name, { ...method, responseSerialize: () => Buffer.alloc(0) }]),
  ),
) as unknown as ServiceDefinition[]

export interface GrpcAnswer {
  readonly code: number
  readonly details: string
  readonly metadata: Metadata
  /** What came before the first answer. */
  readonly initial: Metadata
  /** Encoded answers, in order. */
  readonly messages: readonly Buffer[]
}

export interface StartedCall {
  readonly answer: Promise<GrpcAnswer>
  /** When the first message has arrived. */
  readonly first: Promise<void>
  cancel(): void
}

export class GrpcCaller {
  readonly #client: Client

  constructor(port: number, channel: ChannelCredentials = credentials.createInsecure(), options: object = {}) {
    this.#client = new Client(`127.0.0.1:${port}`, channel, { 'grpc.use_local_subchannel_pool': 1, ...options })
  }

  /** Never rejects: OK is a status like any other. */
  call(path: string, message: Buffer, lines: readonly string[] = [], options: CallOptions = {}): Promise<GrpcAnswer> {
    return this.start(path, message, lines, options).answer
  }

  start(path: string, message: Buffer, lines: readonly string[] = [], options: CallOptions = {}): StartedCall {
    const metadata = new Metadata()
    for (let i = 0; i + 1 < lines.length; i += 2) metadata.add(lines[i] as string, lines[i + 1] as string)
    const messages: Buffer[] = []
    let initial = new Metadata()
    const same = (bytes: Buffer) => bytes
    const call = this.#client.makeServerStreamRequest(path, same, same, message, metadata, options)
    call.on('metadata', (received: Metadata) => {
      initial = received
    })
    const answer = new Promise<GrpcAnswer>((resolve) => {
      call.on('status', (status) => resolve({ ...status, initial, messages }))
    })
    const first = new Promise<void>((resolve) => {
      call.on('data', (bytes: Buffer) => {
        messages.push(bytes)
        resolve()
      })
    })
    call.on('error', () => {})
    return { answer, first, cancel: () => call.cancel() }
  }

  close(): void {
    this.#client.close()
  }
}

export interface StatusDetails {
  readonly code: number
  readonly message: string
  readonly details: readonly { readonly type: string; readonly fields: Readonly<Record<number, string>> }[]
}

/** `google.rpc.Status` out of `grpc-status-details-bin`; the text fields of each detail. */
export function statusDetails(metadata: Metadata): StatusDetails | undefined {
  const [bytes] = metadata.get('grpc-status-details-bin')
  if (!Buffer.isBuffer(bytes)) return undefined
  const fields = readFields(bytes)
  return {
    code: Number(fields.find(([field]) => field === 1)?.[1]),
    message: String(fields.find(([field]) => field === 2)?.[1] ?? ''),
    details: fields
      .filter(([field]) => field === 3)
      .map(([, any]) => {
        const [type, value] = readFields(any as Uint8Array).map(([, each]) => each as Buffer)
        const inner = readFields(value as Uint8Array).map(([field, each]) => [field, String(each)])
        return { type: String(type), fields: Object.fromEntries(inner) as Record<number, string> }
      }),
  }
}

function readFields(bytes: Uint8Array): [number, number | Buffer][] {
  const reader = new BinaryReader(bytes)
  const fields: [number, number | Buffer][] = []
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    fields.push([field, type === 0 ? reader.uint32() : Buffer.from(reader.bytes())])
  }
  return fields
}
