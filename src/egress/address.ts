/**
 * Which IP addresses are on the public Internet. IANA IPv4 and IPv6 Special-Purpose Address Registries; what the
 * registries leave open is refused, and so is every form that carries an IPv4 address inside an IPv6 one.
 */
import { BlockList, isIP } from 'node:net'

const SPECIAL_IPV4 = [
  '0.0.0.0/8', // this network, RFC 791
  '10.0.0.0/8', // private, RFC 1918
  '100.64.0.0/10', // shared address space, RFC 6598
  '127.0.0.0/8', // loopback, RFC 1122
  '168.63.129.16/32', // in no registry: Azure's host agent, the same address inside every virtual machine
  '169.254.0.0/16', // link-local and cloud metadata, RFC 3927
  '172.16.0.0/12', // private, RFC 1918
  '192.0.0.0/24', // protocol assignments, RFC 6890
  '192.0.2.0/24', // documentation, RFC 5737
  '192.31.196.0/24', // AS112, RFC 7535
  '192.52.193.0/24', // AMT, RFC 7450
  '192.88.99.0/24', // 6to4 relay, RFC 7526
  '192.168.0.0/16', // private, RFC 1918
  '192.175.48.0/24', // AS112, RFC 7534
  '198.18.0.0/15', // benchmarking, RFC 2544
  '198.51.100.0/24', // documentation, RFC 5737
  '203.0.113.0/24', // documentation, RFC 5737
  '224.0.0.0/4', // multicast, RFC 5771
  '240.0.0.0/4', // reserved and broadcast, RFC 1112
]

/** Inside 2000::/3. Everything outside of it (mapped, NAT64, unique local, link-local, multicast …) is refused anyway. */
const SPECIAL_IPV6 = [
  '2001::/23', // protocol assignments with Teredo, ORCHID and benchmarking, RFC 2928
  '2001:db8::/32', // documentation, RFC 3849
  '2002::/16', // 6to4, RFC 3056
  '2620:4f:8000::/48', // AS112, RFC 7534
  '3fff::/20', // documentation, RFC 9637
]

/** Addresses in any of `ranges` (CIDR, or one address). Throws `RangeError` for an entry that is neither. */
export function addressSet(ranges: readonly string[]): (address: string) => boolean {
  // One list for each family: a list that holds both reads a mapped IPv6 address as the IPv4 one inside.
  const lists = { 4: new BlockList(), 6: new BlockList() }
  for (const range of ranges) {
    const [base = '', bits, ...rest] = range.split('/')
    const family = familyOf(base)
    const width = family === 4 ? 32 : 128
    const prefix = bits === undefined ? width : /^(?:0|[1-9]\d{0,2})$/.test(bits) ? Number(bits) : Number.NaN
    if (family === 0 || rest.length > 0 || !(prefix <= width)) throw new RangeError(`${range} is no IP range`)
    lists[family].addSubnet(base, prefix, family === 4 ? 'ipv4' : 'ipv6')
  }
  return (address) => {
    const family = familyOf(address)
    return family !== 0 && lists[family].check(address, family === 4 ? 'ipv4' : 'ipv6')
  }
}

const special = addressSet([...SPECIAL_IPV4, ...SPECIAL_IPV6])
const globalUnicast = addressSet(['2000::/3'])

/**
 * Whether `text` is a strict address literal (dotted quad, or IPv6 without zone) that is globally reachable unicast.
 * Anything else, other spellings of addresses included, is `false`. Not checked: whether anybody answers there.
 */
export function isPublicAddress(text: string): boolean {
  switch (familyOf(text)) {
    case 4:
      return !special(text)
    case 6:
      return globalUnicast(text) && !special(text) && !isIsatap(text)
    case 0:
      return false
  }
}

/** 4, 6, or 0 for what is no strict literal. */
export function familyOf(text: unknown): 0 | 4 | 6 {
  // A zone names an interface of this host: never part of an address on the Internet.
  return typeof text !== 'string' || text.includes('%') ? 0 : (isIP(text) as 0 | 4 | 6)
}

/** ISATAP (RFC 5214) interface identifiers embed an IPv4 address below any prefix. */
function isIsatap(text: string): boolean {
  // The URL parser writes every IPv6 address in one form; its groups are then plain hex.
  const compressed = new URL(`http://[${text}]`).hostname.slice(1, -1)
  const [head = '', tail] = compressed.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const groups = [...left, ...new Array<string>(8 - left.length - right.length).fill('0'), ...right]
  return groups[5] === '5efe' && (groups[4] === '0' || groups[4] === '200')
}
