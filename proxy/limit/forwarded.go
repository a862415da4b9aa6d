package limit

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses of reverse proxies that say for whom they make a request. None
// are trusted by the zero value.
type Proxies []netip.Prefix

// ParseProxies reads address ranges, such as 10.0.0.0/8, and addresses.
func ParseProxies(texts []string) (Proxies, error) {
	var all Proxies
	for _, text := range texts {
		one, err := netip.ParsePrefix(text)
		if err != nil {
			ip, wrong := netip.ParseAddr(text)
			if wrong != nil {
				return nil, fmt.Errorf("%q is not an address range; write it as 10.0.0.0/8", text)
			}
			one = netip.PrefixFrom(ip, ip.BitLen())
		}
		all = append(all, one)
	}
	return all, nil
}

// maxHops bounds how many addresses of a header are looked at.
const maxHops = 32

// Has tells whether an address, with or without a port, is that of a trusted proxy.
func (p Proxies) Has(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && p.has(ip)
}

func (p Proxies) has(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(one netip.Prefix) bool { return one.Contains(ip) })
}

// Client is the network (see [Network]) of the client that makes a request. It is the
// address that connects, or, where that is a trusted proxy, the last address of
// X-Forwarded-For that is no trusted proxy: everything to its left comes from the client
// and may be invented. What is not an address ends the search at the proxy behind it.
func (p Proxies) Client(r *http.Request) string {
	client := Network(r.RemoteAddr)
	if !p.Has(r.RemoteAddr) {
		return client
	}
	hops := 0
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for line != "" {
			at := strings.LastIndexByte(line, ',')
			hop := strings.TrimSpace(line[at+1:])
			line = line[:max(at, 0)]
			ip, err := netip.ParseAddr(hop)
			if hops++; err != nil || hops > maxHops {
				return client
			}
			client = Network(net.JoinHostPort(ip.String(), "0"))
			if !p.has(ip) {
				return client
			}
		}
	}
	return client
}
