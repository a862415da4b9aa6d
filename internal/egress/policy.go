package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Policy says where requests may lead. The zero Policy allows http and https to every
// host of the public internet, at the default ports.
type Policy struct {
	HTTPSOnly bool
	// Ports that may be reached; nil for 80 and 443. AnyPort allows all.
	Ports   []uint16
	AnyPort bool
	// AllowHosts are the only hosts that may be reached; nil for all. DenyHosts may
	// never be reached, by name or by an address of such a name. An entry is a name,
	// "*.name" for everything below a name, an address, or a block of addresses.
	AllowHosts, DenyHosts []string
	// Allow lists special addresses that may be reached nevertheless.
	Allow []netip.Prefix
	// Resolver resolves names; nil for the machine's.
	Resolver *net.Resolver
}

// Refusal is why a request is not allowed, for whoever asked for it. Rule is what
// forbids it.
type Refusal struct {
	Rule string
	text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.text }

func refuse(rule, format string, args ...any) error {
	return &Refusal{Rule: rule, text: fmt.Sprintf(format, args...)}
}

// hosts is a list of hosts in canonical form.
type hosts struct {
	names    []string // exact
	below    []string // with a leading dot
	prefixes []netip.Prefix
}

func parseHosts(key string, list []string) (hosts, error) {
	var out hosts
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			out.prefixes = append(out.prefixes, p.Masked())
			continue
		}
		if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
			a = a.Unmap().WithZone("")
			out.prefixes = append(out.prefixes, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		name, wild := strings.CutPrefix(text, "*.")
		name, err := hostName(name)
		if err != nil {
			return hosts{}, fmt.Errorf("%s: %q is not a host, \"*.host\", address or block of addresses: %w", key, text, err)
		}
		if wild {
			out.below = append(out.below, "."+name)
		} else {
			out.names = append(out.names, name)
		}
	}
	return out, nil
}

// has reports whether a host, a name or an address in canonical form, is in the list.
func (h *hosts) has(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return h.hasAddr(a)
	}
	return slices.Contains(h.names, host) || slices.ContainsFunc(h.below, func(b string) bool { return strings.HasSuffix(host, b) })
}

func (h *hosts) hasAddr(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(h.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

var errHost = errors.New("not the name of a host")

// hostName returns the canonical form of a name: ASCII, in lower case, without the
// root's dot. Names that other programs would read as a number are refused.
func hostName(host string) (string, error) {
	name, err := idna.Lookup.ToASCII(host)
	if err != nil {
		// Existing names may have underscores; no other characters are allowed.
		name = strings.ToLower(host)
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return "", errHost
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", errHost
		}
	}
	if _, err := strconv.ParseUint(labels[len(labels)-1], 0, 64); err == nil || strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return "", errHost // 2130706433, 127.1, 0x7f.1 (WHATWG URL, ends in a number)
	}
	return name, nil
}

// Guard enforces a policy. It is safe for concurrent use.
type Guard struct {
	policy      Policy
	allow, deny hosts
	denied      denied
}

// New returns the guard of a policy. Entries that are not hosts are an error.
func New(p Policy) (*Guard, error) {
	g := &Guard{policy: p}
	var err error
	if g.allow, err = parseHosts("allowed hosts", p.AllowHosts); err != nil {
		return nil, err
	}
	if g.deny, err = parseHosts("denied hosts", p.DenyHosts); err != nil {
		return nil, err
	}
	if g.policy.Resolver == nil {
		g.policy.Resolver = net.DefaultResolver
	}
	if g.policy.Ports == nil {
		g.policy.Ports = []uint16{80, 443}
	}
	return g, nil
}

// maxURL bounds the length of an address.
const maxURL = 8 << 10

// Parse parses an address that the policy allows. It returns it with a canonical host
// and without fragment. The error contains nothing but the host.
func (g *Guard) Parse(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, refuse("url", "the URL has more than %d bytes", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, refuse("url", "that is not a URL") // the original error contains the URL
	}
	return g.check(u)
}

func (g *Guard) check(in *url.URL) (*url.URL, error) {
	u := *in
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, refuse("scheme", "the URL must begin with https:// or http://")
	case g.policy.HTTPSOnly && u.Scheme != "https":
		return nil, refuse("scheme", "the URL must begin with https://")
	case u.Opaque != "" || u.Host == "":
		return nil, refuse("url", "the URL names no host")
	case u.User != nil:
		return nil, refuse("credentials", "the URL holds a user name or password; leave them out")
	}
	u.Fragment, u.RawFragment = "", ""
	host, err := g.host(u.Hostname())
	if err != nil {
		return nil, err
	}
	port := uint64(443)
	if u.Scheme == "http" {
		port = 80
	}
	if text := u.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return nil, refuse("port", "the URL has a port that is none")
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return nil, refuse("port", "the URL has an empty port")
	}
	if err := g.port(uint16(port)); err != nil {
		return nil, err
	}
	u.Host = host
	if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if in.Port() != "" {
		u.Host += ":" + strconv.FormatUint(port, 10)
	}
	return &u, nil
}

// host returns the canonical form of a host that may be reached.
func (g *Guard) host(host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", refuse("address", "the address %s has a zone, which is of this machine alone", a.WithZone(""))
		}
		if err := g.address(a); err != nil {
			return "", err
		}
		host = a.Unmap().String()
	} else if host, err = hostName(host); err != nil {
		return "", refuse("host", "the URL's host is not a name or an address as they are usually written")
	}
	switch {
	case g.deny.has(host):
		return "", refuse("deny_hosts", "the host %s may not be reached", host)
	case len(g.policy.AllowHosts) > 0 && !g.allow.has(host):
		return "", refuse("allow_hosts", "the host %s is not one that may be reached; these may: %s", host, some(g.policy.AllowHosts))
	}
	return host, nil
}

// some returns a few entries of a list, for a message.
func some(list []string) string {
	const most = 10
	if len(list) > most {
		return strings.Join(list[:most], ", ") + ", ..."
	}
	return strings.Join(list, ", ")
}

func (g *Guard) port(port uint16) error {
	if g.policy.AnyPort || slices.Contains(g.policy.Ports, port) {
		return nil
	}
	texts := make([]string, len(g.policy.Ports))
	for i, p := range g.policy.Ports {
		texts[i] = strconv.Itoa(int(p))
	}
	return refuse("port", "the port %d may not be reached; these may: %s", port, some(texts))
}

// address checks an address before a connection to it.
func (g *Guard) address(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if g.deny.hasAddr(a) {
		return refuse("deny_hosts", "the address %s may not be reached", a)
	}
	what := Special(a)
	if what == "" || slices.ContainsFunc(g.policy.Allow, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return nil
	}
	return refuse("address", "the address %s may not be reached: it is %s, not of the public internet", a, what)
}
