/**
 * Headers in which proxies, gateways and identity providers' modules tell the server behind them who is calling. In front
 * of the guard nobody is trusted to have set them, so a handler that reads one believes the caller (A51, P88).
 */

/** By who sets them: to be read in one go by someone who looks for theirs. A name is one of these or begins with it and `-`. */
const FAMILIES = [
  // Reverse proxies that end TLS (nginx, Apache, HAProxy, Traefik, Envoy, Azure, AWS)
  ...['client-cert', 'x-client-cert', 'x-client-certificate', 'x-client-dn', 'x-client-verify'],
  ...['x-client-subject', 'x-client-san', 'x-client-verified'],
  ...['ssl-client', 'x-ssl', 'x-tls', 'x-forwarded-client', 'x-forwarded-tls', 'x-forwarded-ssl-client'],
  ...['x-arr-clientcert', 'x-amzn-mtls', 'x-spiffe', 'x-a2a-agent'],
  // Authenticating proxies (oauth2-proxy, Authelia, authentik, Pomerium, Vouch, Kong, APISIX, Grafana, Tailscale, Teleport)
  ...['x-auth', 'x-authenticated', 'x-forwarded-access-token', 'x-forwarded-authorization', 'x-remote', 'remote-name'],
  ...['x-authelia', 'x-authentik', 'x-pomerium', 'x-vouch', 'x-consumer', 'x-credential', 'x-anonymous-consumer'],
  ...['x-userinfo', 'x-webauth', 'tailscale-user', 'tailscale-headers-info', 'teleport-jwt-assertion'],
  // Clouds (AWS, Google, Cloudflare, Azure)
  ...['x-amzn-oidc', 'x-goog-iap', 'x-goog-authenticated', 'x-endpoint-api-userinfo', 'x-apigateway-api-userinfo'],
  ...['x-serverless-authorization', 'cf-access', 'x-ms-client-principal', 'x-ms-token'],
  // Modules and products (mod_auth_openidc, Shibboleth, SiteMinder, WebSEAL, Okta, Hasura, Kubernetes)
  ...[
    'oidc',
    'x-oidc',
    'shib',
    'x-shib',
    'eppn',
    'sm-user',
    'smuser',
    'sm-universalid',
    'iv-user',
    'iv-groups',
    'iv-creds',
  ],
  ...['x-okta', 'x-hasura', 'impersonate', 'x-impersonate'],
  // Home-made
  ...['x-jwt', 'x-id-token', 'x-access-token', 'x-client-id', 'x-tenant', 'x-tenant-id'],
]

/** `X-User`, `Remote-Groups`, `X-Forwarded-Preferred-Username` and their like. Not `User-Agent`. */
const CALLER =
  /^(?:x-)?(?:(?:forwarded|remote|authenticated|auth|original|proxy|real|current|end|logged-in)-)?(?:user|username|userid|useremail|email|groups?|roles?|scopes?|principal|subject|sub|identity|preferred-username)(?:-(?:id|name|email|groups?|roles?|type|extra.*))?$/

const exact = new Set(FAMILIES)

/** Whether a header names a caller. `name` in lower case, `_` turned into `-`. */
export function namesCaller(name: string): boolean {
  if (exact.has(name) || CALLER.test(name)) return true
  for (let at = name.indexOf('-'); at > 0; at = name.indexOf('-', at + 1)) if (exact.has(name.slice(0, at))) return true
  return false
}
