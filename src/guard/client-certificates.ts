/** TLS options of a server whose callers may present a client certificate. */
import { constants } from 'node:crypto'

/** The members of Node's `https.ServerOptions` that are set here. */
interface ClientCertificateOptions {
  readonly requestCert?: boolean
  readonly rejectUnauthorized?: boolean
  readonly secureOptions?: number
}

/**
 * `options` for `https.createServer`, with a client certificate asked for and not demanded, so that the guard decides,
 * and answers a bad one with a denial instead of a broken connection. Sessions are not resumed: a resumed one carries
 * the leaf without its chain. It does not check any certificate: only a policy with an mtls scheme does.
 *
 * Give `ca` to tell callers which authorities are known, and `crl` to have revoked certificates refused.
 *
 * @example https.createServer(optionalClientCertificates({ key, cert, ca }), app)
 */
export function optionalClientCertificates<Options extends object>(
  options: Options & ClientCertificateOptions,
): Options & Required<ClientCertificateOptions> {
  const secureOptions = (options.secureOptions ?? 0) | constants.SSL_OP_NO_TICKET
  return { ...options, requestCert: true, rejectUnauthorized: false, secureOptions }
}
