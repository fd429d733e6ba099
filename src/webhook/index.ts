/** `a2a-trust/webhook`: push notifications that prove who sent them. */
export type { WebhookEvent, WebhookEventKind } from './event.ts'
export { type WebhookHandlerOptions, webhookHandler } from './node-handler.ts'
export type { PushConfig } from './push-config.ts'
export {
  createPushNotifications,
  type DeliveryConfig,
  type PushCallContext,
  type PushNotifications,
  type PushNotificationsOptions,
} from './push-config-store.ts'
export type { WebhookReceipt, WebhookWork } from './receive.ts'
export type { WebhookRequest, WebhookRequestHeaders } from './request.ts'
export { createWebhookSender, type WebhookSender } from './sender.ts'
export type { DeliveryEvent, PlainPushStore, WebhookSenderOptions } from './sender-options.ts'
export { generateWebhookSecret, type SignWebhookOptions, signWebhook, type WebhookHeaders } from './sign.ts'
export type { RotatingSecret, WebhookSigning } from './signing.ts'
export {
  createWebhookVerifier,
  type WebhookResult,
  type WebhookVerifier,
} from './verifier.ts'
export type { WebhookVerifierOptions } from './verifier-options.ts'
export { receiveWebhook } from './web-handler.ts'
