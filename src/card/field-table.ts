/**
 * The messages of an Agent Card, as far as canonical form depends on them: A2A v1.0 protobuf definition, §8.4.1.
 *
 * A field is written as its type, then `[]` or `{}` for a list or map, then `!` for REQUIRED or `?` for `optional`
 * (presence is kept), then `|` for a member of the message's one `oneof`. Neither mark: a plain field, whose default is
 * the same as absence. `struct` is free JSON.
 */
export type FieldTable = Readonly<Record<string, Readonly<Record<string, string>>>>

export const CARD_V1: FieldTable = {
  AgentCard: {
    name: 'string!',
    description: 'string!',
    supportedInterfaces: 'AgentInterface[]!',
    provider: 'AgentProvider',
    version: 'string!',
    documentationUrl: 'string?',
    capabilities: 'AgentCapabilities!',
    securitySchemes: 'SecurityScheme{}',
    securityRequirements: 'SecurityRequirement[]',
    defaultInputModes: 'string[]!',
    defaultOutputModes: 'string[]!',
    skills: 'AgentSkill[]!',
    iconUrl: 'string?',
  },
  AgentInterface: { url: 'string!', protocolBinding: 'string!', tenant: 'string', protocolVersion: 'string!' },
  AgentProvider: { url: 'string!', organization: 'string!' },
  AgentCapabilities: {
    streaming: 'bool?',
    pushNotifications: 'bool?',
    extensions: 'AgentExtension[]',
    extendedAgentCard: 'bool?',
  },
  AgentExtension: { uri: 'string', description: 'string', required: 'bool', params: 'struct' },
  SecurityScheme: {
    apiKeySecurityScheme: 'APIKeySecurityScheme|',
    httpAuthSecurityScheme: 'HTTPAuthSecurityScheme|',
    oauth2SecurityScheme: 'OAuth2SecurityScheme|',
    openIdConnectSecurityScheme: 'OpenIdConnectSecurityScheme|',
    mtlsSecurityScheme: 'MutualTlsSecurityScheme|',
  },
  APIKeySecurityScheme: { description: 'string', location: 'string!', name: 'string!' },
  HTTPAuthSecurityScheme: { description: 'string', scheme: 'string!', bearerFormat: 'string' },
  OAuth2SecurityScheme: { description: 'string', flows: 'OAuthFlows!', oauth2MetadataUrl: 'string' },
  OAuthFlows: {
    authorizationCode: 'AuthorizationCodeOAuthFlow|',
    clientCredentials: 'ClientCredentialsOAuthFlow|',
    implicit: 'ImplicitOAuthFlow|',
    password: 'PasswordOAuthFlow|',
    deviceCode: 'DeviceCodeOAuthFlow|',
  },
  AuthorizationCodeOAuthFlow: {
    authorizationUrl: 'string!',
    tokenUrl: 'string!',
    refreshUrl: 'string',
    scopes: 'string{}!',
    pkceRequired: 'bool',
  },
  ClientCredentialsOAuthFlow: { tokenUrl: 'string!', refreshUrl: 'string', scopes: 'string{}!' },
  ImplicitOAuthFlow: { authorizationUrl: 'string', refreshUrl: 'string', scopes: 'string{}' },
  PasswordOAuthFlow: { tokenUrl: 'string', refreshUrl: 'string', scopes: 'string{}' },
  DeviceCodeOAuthFlow: {
    deviceAuthorizationUrl: 'string!',
    tokenUrl: 'string!',
    refreshUrl: 'string',
    scopes: 'string{}!',
  },
  OpenIdConnectSecurityScheme: { description: 'string', openIdConnectUrl: 'string!' },
  MutualTlsSecurityScheme: { description: 'string' },
  SecurityRequirement: { schemes: 'StringList{}' },
  StringList: { list: 'string[]' },
  AgentSkill: {
    id: 'string!',
    name: 'string!',
    description: 'string!',
    tags: 'string[]!',
    examples: 'string[]',
    inputModes: 'string[]',
    outputModes: 'string[]',
    securityRequirements: 'SecurityRequirement[]',
  },
}

/** The model of a v0.3 card as a2a-python 0.3 dumps it. `any` is kept as it is. */
export const CARD_V03: FieldTable = {
  AgentCard: {
    name: 'string!',
    description: 'string!',
    url: 'string!',
    version: 'string!',
    protocolVersion: 'string?',
    preferredTransport: 'string?',
    additionalInterfaces: 'AgentInterface[]',
    iconUrl: 'string?',
    documentationUrl: 'string?',
    provider: 'AgentProvider',
    capabilities: 'AgentCapabilities!',
    securitySchemes: 'SecurityScheme{}',
    security: 'any',
    defaultInputModes: 'string[]!',
    defaultOutputModes: 'string[]!',
    skills: 'AgentSkill[]!',
    supportsAuthenticatedExtendedCard: 'bool?',
  },
  AgentInterface: { transport: 'string!', url: 'string!' },
  AgentProvider: { organization: 'string!', url: 'string!' },
  AgentCapabilities: {
    streaming: 'bool?',
    pushNotifications: 'bool?',
    stateTransitionHistory: 'bool?',
    extensions: 'AgentExtension[]',
  },
  AgentExtension: { uri: 'string!', description: 'string?', required: 'bool?', params: 'struct' },
  AgentSkill: {
    id: 'string!',
    name: 'string!',
    description: 'string!',
    tags: 'string[]!',
    examples: 'string[]',
    inputModes: 'string[]',
    outputModes: 'string[]',
    security: 'any',
  },
  // `type` is a constant of each model, so a dump without defaults leaves it out.
  SecurityScheme: {
    description: 'string?',
    in: 'string?',
    name: 'string?',
    scheme: 'string?',
    bearerFormat: 'string?',
    flows: 'any',
    oauth2MetadataUrl: 'string?',
    openIdConnectUrl: 'string?',
  },
}

/** Defaults that a v0.3 dump leaves out. */
export const DEFAULTS_V03: Readonly<Record<string, unknown>> = {
  protocolVersion: '0.3.0',
  preferredTransport: 'JSONRPC',
}
