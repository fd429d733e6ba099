/** What every adapter for web hosts needs of a request: its body. */

export type BodyResult =
  | { readonly ok: true; readonly bytes: Uint8Array | undefined }
  | { readonly ok: false; readonly code: 'ERR_REQUEST_TOO_LARGE' | 'ERR_REQUEST_MALFORMED' }

/** The whole body of a `Request`, up to `maxBytes` and without a content coding. */
export async function readBody({ body, bodyUsed, headers }: Request, maxBytes: number): Promise<BodyResult> {
  if (bodyUsed) return { ok: false, code: 'ERR_REQUEST_MALFORMED' }
  if (body === null) return { ok: true, bytes: undefined }
  if ((headers.get('content-encoding') ?? 'identity').toLowerCase() !== 'identity') {
    return { ok: false, code: 'ERR_REQUEST_MALFORMED' }
  }
  if (Number(headers.get('content-length') ?? 0) > maxBytes) return { ok: false, code: 'ERR_REQUEST_TOO_LARGE' }
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    // Leaving the loop cancels the stream.
    for await (const chunk of body) {
      size += chunk.byteLength
      if (size > maxBytes) return { ok: false, code: 'ERR_REQUEST_TOO_LARGE' }
      chunks.push(chunk)
    }
  } catch {
    return { ok: false, code: 'ERR_REQUEST_MALFORMED' }
  }
  return { ok: true, bytes: concatenated(chunks, size) }
}

function concatenated(chunks: readonly Uint8Array[], size: number): Uint8Array | undefined {
  if (size === 0) return undefined
  const bytes = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.byteLength
  }
  return bytes
}
