/**
 * The URL a caller used, told from the card: never from `Host` or a forwarding header, which the caller writes (P87).
 * Where the agent is mounted is not known here, so there can be more than one.
 */
import { normalizeHttpUri } from '../internal/http-uri.ts'
import type { RequestHead } from '../types.ts'
import type { CardModel } from './card-model.ts'

/** Normalised, without query; empty when no interface of the card fits. */
export type RequestUrls = (head: Pick<RequestHead, 'target' | 'binding'>) => readonly string[]

interface Place {
  readonly binding: string
  readonly origin: string
  /** As the card writes it. */
  readonly path: string
  /** Without a trailing slash, and behind a proxy that takes the path of `publicUrl` off. */
  readonly mounts: readonly (readonly [mount: string, publicMount: string])[]
}

/**
 * Reads the interfaces off a card, once. A target may be relative to the mount of an interface, or the whole path with
 * or without the path of `publicUrl`, as `compileMounts` takes it.
 */
export function compileRequestUrls(card: Pick<CardModel, 'interfaces'>, publicUrl?: string): RequestUrls {
  const base = publicUrl === undefined ? '' : new URL(publicUrl).pathname.replace(/\/+$/, '')
  const places = card.interfaces.flatMap(({ binding, url }) => placeOf(binding, url, base) ?? [])
  return ({ target, binding }) => {
    const [path = ''] = target.split(/[?#]/, 1)
    const found = new Set<string>()
    for (const place of places) {
      if (binding !== undefined && place.binding !== binding) continue
      const url = normalizeHttpUri(place.origin + publicPath(place, path))
      if (url !== undefined) found.add(url)
    }
    return [...found]
  }
}

function placeOf(binding: string, url: string, base: string): Place | undefined {
  // gRPC interfaces are often written as host and port alone.
  const text = binding === 'GRPC' && !/^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? `https://${url}` : url
  if (!URL.canParse(text)) return undefined
  const { origin, pathname } = new URL(text)
  const mount = pathname.replace(/\/+$/, '')
  const mounts: [string, string][] = [[mount, mount]]
  if (base !== '' && mount.startsWith(`${base}/`)) mounts.push([mount.slice(base.length), mount])
  return { binding, origin, path: pathname, mounts: mounts.filter(([inner]) => inner !== '') }
}

function publicPath({ path, mounts }: Place, target: string): string {
  // The mount itself: which of its two spellings was used is lost, and callers use the one of the card.
  if (target === '' || target === '/') return path
  for (const [inner, outer] of mounts) {
    if (target === inner || target.startsWith(`${inner}/`)) return outer + target.slice(inner.length)
  }
  return path.replace(/\/+$/, '') + target
}
