package config

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// self recognises entries that point back at toolgate, which would make it its
// own upstream.
type self struct {
	names  []string // program names
	paths  []string // absolute programs
	listen string   // host:port served
	hosts  []string // host[:port] of public addresses
}

func newSelf(given []string, listen Listen) self {
	s := self{names: []string{"toolgate"}, listen: listen.HTTP}
	for _, g := range append(slices.Clone(given), listen.PublicURL) {
		u, err := url.Parse(g)
		switch {
		case g == "":
		case err == nil && u.Host != "":
			s.hosts = append(s.hosts, strings.ToLower(u.Host))
		case strings.ContainsAny(g, `/\`):
			s.paths = append(s.paths, filepath.Clean(g))
		default:
			s.names = append(s.names, commandName(g))
		}
	}
	return s
}

// reason says why a server is toolgate itself, or "".
func (s self) reason(srv Server) string {
	if srv.URL != "" && s.url(srv.URL) {
		return "it is the address of toolgate itself"
	}
	if srv.Command == "" {
		return ""
	}
	args := srv.Args
	program := slices.Contains(s.names, commandName(srv.Command)) || slices.Contains(s.paths, filepath.Clean(srv.Command))
	if commandName(srv.Command) == "go" && len(args) > 1 && args[0] == "run" {
		for i, a := range args[1:] {
			if path, _, _ := strings.Cut(strings.TrimRight(a, "/"), "@"); path == "cmd/toolgate" || strings.HasSuffix(path, "/cmd/toolgate") {
				program, args = true, args[i+2:]
				break
			}
		}
	}
	if program {
		for _, a := range args {
			if a == "stdio" || a == "up" {
				return "it starts toolgate itself"
			}
		}
	}
	// Bridges such as mcp-remote take the address as an argument.
	if slices.ContainsFunc(srv.Args, s.url) {
		return "it is a bridge to the address of toolgate itself"
	}
	return ""
}

// url reports whether an address is one of our endpoints.
func (s self) url(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	path := strings.TrimRight(u.Path, "/")
	if path != "/mcp" && path != "/sse" && !strings.HasPrefix(path, "/mcp/") {
		return false
	}
	if slices.Contains(s.hosts, strings.ToLower(u.Host)) {
		return true
	}
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil || port == "0" {
		return false
	}
	theirs := u.Port()
	if theirs == "" {
		theirs = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if theirs != port {
		return false
	}
	return strings.EqualFold(u.Hostname(), host) || local(u.Hostname()) && (local(host) || everywhere(host))
}

// local reports whether a host is this machine's loopback, by any name. The
// unspecified address connects to it, and so does the name with a dot at its end, so that
// this is more than package loopback knows.
func local(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
}

// everywhere reports whether a listener's host means all addresses.
func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}
