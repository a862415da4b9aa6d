// Package loopback tells what is this machine alone: where nothing can be read on the way, and
// who comes from no other machine. Checks that mean something else say so where they are.
package loopback

import (
	"net"
	"strings"
)

// Host tells whether a name or address, without a port, is this machine's alone: localhost,
// or a loopback address. Every other name may lead anywhere, localhost.example and
// x.localhost included.
func Host(name string) bool {
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// Address tells whether only this machine reaches a listener at a host:port, or is the other
// end of a connection from there. An address without a port is none.
func Address(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && Host(host)
}

// Name returns the host of a Host header, without its port and the brackets of an address.
func Name(header string) string {
	name := header
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = host
	}
	return strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
}
