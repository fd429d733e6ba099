/**
 * The one file of this room that knows `@a2a-js/sdk`, an optional peer: it is loaded only once something of the SDK's
 * arrives, to write its events as the SDK does and to answer errors that it understands.
 */
import { TrustError } from '../errors.ts'

interface Serialized {
  readonly body: string
  readonly contentType: string
}

export interface SdkSerializer {
  serialize(streamResponse: never, task: never): Serialized
}

export interface SdkSerializers {
  readonly '1.0': SdkSerializer
  readonly '0.3': SdkSerializer
}

let serializers: Promise<SdkSerializers> | undefined

export function sdkSerializers(): Promise<SdkSerializers> {
  serializers ??= Promise.all([import('@a2a-js/sdk/server'), import('@a2a-js/sdk/compat/v0_3/server')]).then(
    ([{ V1PushNotificationSerializer }, { V03PushNotificationSerializer }]) => ({
      '1.0': new V1PushNotificationSerializer(),
      '0.3': new V03PushNotificationSerializer(),
    }),
  )
  return serializers
}

/** What a caller did wrong, as the SDK's invalid params; anything else, and everything without the SDK, stays what it is. */
export async function asSdkError(error: unknown): Promise<unknown> {
  if (!(error instanceof TrustError) || !/^ERR_PUSH_CONFIG(?:_LIMIT)?$/.test(error.code)) return error
  try {
    const { RequestMalformedError } = await import('@a2a-js/sdk/errors')
    return Object.assign(new RequestMalformedError(error.message), { cause: error })
  } catch {
    return error
  }
}
