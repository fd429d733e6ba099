/** One text per network peer, for limits: IPv4 as is, IPv6 by its /64, which is what one subscriber holds (P93). */
import ipaddr from 'ipaddr.js'

export function peerKey(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return 'unknown'
  const parsed = ipaddr.process(address)
  return parsed instanceof ipaddr.IPv6
    ? `${parsed.parts
        .slice(0, 4)
        .map((part) => part.toString(16))
        .join(':')}::/64`
    : parsed.toString()
}
