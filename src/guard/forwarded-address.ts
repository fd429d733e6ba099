/** The caller's address behind proxies: hops are believed from the nearest outward, and only while they are trusted. */
import ipaddr from 'ipaddr.js'
import { familyOf } from '../egress/address.ts'
import type { ClientAddressConfig } from '../policy/compiled.ts'

/** How much of a line is read, in characters, from its end: a caller writes the beginning, and a proxy adds to it. */
const MAX_LINE = 8192

/** A strict literal in its one spelling, IPv4 taken out of IPv6; `undefined` for anything else. */
export function plainAddress(text: string | undefined): string | undefined {
  const family = familyOf(text)
  if (text === undefined || family === 0) return undefined
  return family === 4 ? text : ipaddr.process(text).toString()
}

/**
 * Walks the hops from the right, starting at `peer`, past those that `trusted` knows. The first that is not trusted is
 * the caller; where a hop is no address the walk ends at the one that named it, because nothing further left is better.
 */
export function forwardedAddress(
  header: ClientAddressConfig['header'],
  lines: readonly string[],
  peer: string,
  trusted: (address: string) => boolean,
): string {
  let hop = peer
  for (const line of [...lines].reverse()) {
    for (const node of [...NODES[header](line)].reverse()) {
      const next = trusted(hop) ? addressOf(node) : undefined
      if (next === undefined) return hop
      hop = next
    }
  }
  return hop
}

/** One node that is no address. */
const UNREADABLE: readonly string[] = Object.freeze([''])

const NODES: Readonly<Record<ClientAddressConfig['header'], (line: string) => readonly string[]>> = {
  'x-forwarded-for': listedNodes,
  forwarded: forwardedNodes,
}

/** Of a line that is cut off, what may be half a node is none. */
function listedNodes(line: string): readonly string[] {
  const nodes = line.slice(-MAX_LINE).split(',')
  return line.length > MAX_LINE ? ['', ...nodes.slice(1)] : nodes
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const PARAMETER = new RegExp(`[ \\t]*(${TOKEN})=(?:"((?:[^"\\\\]|\\\\.)*)"|(${TOKEN}))[ \\t]*(?:;|(,)|$)`, 'y')

/** The `for` of each element (RFC 7239 §4), '' where there is none; a line that cannot be read has no node at all. */
function forwardedNodes(line: string): readonly string[] {
  // Where a quoted text begins is only known from the beginning.
  if (line.length > MAX_LINE) return UNREADABLE
  const nodes: string[] = []
  let element = new Map<string, string>()
  PARAMETER.lastIndex = 0
  while (PARAMETER.lastIndex < line.length) {
    const [whole, name = '', quoted, token = '', comma] = PARAMETER.exec(line) ?? []
    const key = name.toLowerCase()
    if (whole === undefined || element.has(key)) return UNREADABLE
    element.set(key, quoted === undefined ? token : quoted.replace(/\\(.)/g, '$1'))
    if (comma === undefined) continue
    nodes.push(element.get('for') ?? '')
    element = new Map()
  }
  nodes.push(element.get('for') ?? '')
  return nodes
}

/** `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`. */
function addressOf(node: string): string | undefined {
  const text = node.replace(/^[ \t]+|[ \t]+$/g, '')
  const [, ipv6, ipv4] = /^(?:\[([0-9a-f:.]*:[0-9a-f:.]*)\]|([\d.]+))(?::\d{1,5})?$/i.exec(text) ?? []
  return plainAddress(ipv6 ?? ipv4 ?? text)
}
