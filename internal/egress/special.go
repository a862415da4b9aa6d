package egress

import "net/netip"

// special is a block of addresses outside the public internet.
type special struct {
	prefix netip.Prefix
	what   string
}

// specials are the IANA special-purpose address registries for IPv4 and IPv6 (RFC 6890
// and its successors), with multicast, and with the blocks that embed an IPv4 address
// in an IPv6 one, whose target depends on a translator. Globally reachable blocks are
// included if nobody serves pages there. IPv6 addresses outside of 2000::/3 need no
// entry.
var specials = [...]special{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared by carriers"},
	{netip.MustParsePrefix("127.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "of protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "of AS112"},
	{netip.MustParsePrefix("192.52.193.0/24"), "of multicast relays"},
	{netip.MustParsePrefix("192.88.99.0/24"), "of 6to4 relays"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "of AS112"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::1/128"), "this machine"},
	{netip.MustParsePrefix("::/96"), "an IPv4 address in an IPv6 one"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "an IPv4 address in an IPv6 one"},
	{netip.MustParsePrefix("64:ff9b::/96"), "an IPv4 address in an IPv6 one (NAT64)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an IPv4 address in an IPv6 one (NAT64)"},
	{netip.MustParsePrefix("100::/64"), "discarded"},
	{netip.MustParsePrefix("2001::/32"), "an IPv4 address in an IPv6 one (Teredo)"},
	{netip.MustParsePrefix("2001::/23"), "of protocols"},
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "an IPv4 address in an IPv6 one (6to4)"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "of AS112"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// global is the block of all IPv6 unicast addresses of the internet.
var global = netip.MustParsePrefix("2000::/3")

// Special returns why an address is not of the public internet; empty when it is. Zones
// are ignored, and mapped IPv4 addresses count as IPv4.
func Special(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	for _, s := range &specials {
		if s.prefix.Contains(a) {
			return s.what
		}
	}
	if !a.IsValid() || a.Is6() && !global.Contains(a) {
		return "reserved"
	}
	return ""
}

// Loopback returns the addresses of this machine, for [Policy.Allow].
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}
