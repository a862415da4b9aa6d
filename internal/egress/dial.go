package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// dialTime bounds one connection including name resolution.
	dialTime = 10 * time.Second
	// deniedTime is how long the addresses of denied names are cached.
	deniedTime = 30 * time.Second
)

// DialContext connects to an address that the policy allows. It checks the resolved
// address, on the socket that is about to connect.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if _, err := g.host(host); err != nil {
		return nil, err
	}
	forbidden, err := g.denied.addresses(ctx, g)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{
		Resolver: g.policy.Resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return g.control(network, address, forbidden)
		},
	}
	conn, err := d.DialContext(ctx, network, address)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return nil, refusal // without the socket's own words around it
	}
	return conn, err
}

func (g *Guard) control(network, address string, forbidden []netip.Addr) error {
	if network != "tcp4" && network != "tcp6" {
		return refuse("address", "connections over %s are not made", network)
	}
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return refuse("address", "the name was resolved to something that is not an address")
	}
	if err := g.port(a.Port()); err != nil {
		return err
	}
	if slices.Contains(forbidden, a.Addr().Unmap().WithZone("")) {
		return refuse("deny_hosts", "the address %s may not be reached: it is that of a host that may not be", a.Addr())
	}
	return g.address(a.Addr())
}

// denied caches the addresses of denied names.
type denied struct {
	mu    sync.Mutex
	until time.Time
	known []netip.Addr
}

// addresses returns the current addresses of the denied names. A name that does not
// exist has none. If a name cannot be resolved at the moment, nothing may be reached.
func (d *denied) addresses(ctx context.Context, g *Guard) ([]netip.Addr, error) {
	if len(g.deny.names) == 0 {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.until) {
		return d.known, nil
	}
	var all []netip.Addr
	for _, name := range g.deny.names {
		list, err := g.policy.Resolver.LookupNetIP(ctx, "ip", name)
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("resolve %s, which may not be reached: %w", name, err)
		}
		for _, a := range list {
			all = append(all, a.Unmap().WithZone(""))
		}
	}
	d.known, d.until = all, time.Now().Add(deniedTime)
	return all, nil
}
