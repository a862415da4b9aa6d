package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/internal/loopback"
)

// Limits of one request to an authorization server.
const (
	fetchTime      = 5 * time.Second
	fetchBytes     = 1 << 20
	fetchRedirects = 3
	fetchConns     = 32 // connections per host
)

// fetcher sends requests to authorization servers. They carry nothing of the caller's
// request.
type fetcher struct {
	client *http.Client
}

// newFetcher returns a fetcher that uses transport, nil for one of its own. Its own
// uses the proxy of the environment, like other clients of the machine.
func newFetcher(transport http.RoundTripper) *fetcher {
	if transport == nil {
		transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer{}.dial,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    fetchTime,
			ResponseHeaderTimeout:  fetchTime,
			IdleConnTimeout:        time.Minute,
			MaxConnsPerHost:        fetchConns,
			MaxIdleConnsPerHost:    4,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		}
	}
	return &fetcher{client: &http.Client{Transport: transport, CheckRedirect: sameOrigin}}
}

// dialer connects to issuers. A nil resolver stands for the machine's.
type dialer struct{ resolver *net.Resolver }

// dial connects to an issuer. It checks the resolved address, on the socket that is
// about to connect. It never connects to a link-local address, where cloud machines
// offer credentials. It connects to this machine only for a name that belongs to it, or
// for the proxy of the environment. Private networks are allowed, because many issuers
// are there and the operator names the issuers.
func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	// A name below localhost leads to this machine, if it leads anywhere.
	here := loopback.Host(host) || strings.HasSuffix(strings.ToLower(host), ".localhost") || isProxy(host)
	own := net.Dialer{Timeout: fetchTime, Resolver: d.resolver, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return errForbiddenAddress
		}
		switch ip := a.Addr().Unmap(); {
		case ip.IsLoopback() && here:
			return nil
		case ip.IsLoopback(), ip.IsUnspecified(), ip.IsMulticast(), ip.IsLinkLocalUnicast(), ip.IsLinkLocalMulticast(), ip == cloudMetadata:
			return errForbiddenAddress
		}
		return nil
	}}
	return own.DialContext(ctx, network, address)
}

// cloudMetadata is the IPv6 address at which cloud machines offer credentials.
var cloudMetadata = netip.MustParseAddr("fd00:ec2::254")

// isProxy reports whether a host is the proxy of the environment.
func isProxy(host string) bool {
	for _, scheme := range [...]string{"https", "http"} {
		p, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: "issuer.invalid"}})
		if err == nil && p != nil && strings.EqualFold(p.Hostname(), host) {
			return true
		}
	}
	return false
}

var errForbiddenAddress = errors.New("its name leads to an address of this machine or its network's services")

var errRedirect = errors.New("it redirects to another host; name the place itself in the configuration")

// sameOrigin follows a few redirects of a GET within one origin. Redirects of a POST
// are never followed: its body holds a token and its header a secret.
func sameOrigin(next *http.Request, before []*http.Request) error {
	first := before[0]
	switch {
	case first.Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(before) > fetchRedirects:
		return errors.New("it redirects too often")
	case next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host:
		return errRedirect
	}
	return nil
}

// get returns the body of a document.
func (f *fetcher) get(ctx context.Context, from string) ([]byte, error) {
	return f.send(ctx, http.MethodGet, from, nil, nil)
}

// send sends one request and returns the body of a 200.
func (f *fetcher) send(ctx context.Context, method, to string, body io.Reader, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "toolgate")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: answered %d", method, to, resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, fetchBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, to, err)
	case len(data) > fetchBytes:
		return nil, fmt.Errorf("%s %s: the answer is larger than %d bytes", method, to, fetchBytes)
	}
	return data, nil
}

// object returns a document that is a JSON object.
func (f *fetcher) object(ctx context.Context, from string) (map[string]any, error) {
	data, err := f.get(ctx, from)
	if err != nil {
		return nil, err
	}
	object, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", from, err)
	}
	return object, nil
}

func (f *fetcher) close() { f.client.CloseIdleConnections() }

// serverURL parses a URL of an authorization server: https, or http on this machine,
// without user and fragment. Issuers have no query either (RFC 8414 section 2).
func serverURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL", raw)
	case u.Host == "" || u.Hostname() == "":
		return nil, fmt.Errorf("%q needs a scheme and a host", raw)
	case u.User != nil:
		return nil, errors.New("a URL of an authorization server must hold no user or password")
	case strings.Contains(raw, "#"):
		return nil, fmt.Errorf("%q must have no fragment", raw)
	case u.Scheme == "http" && !loopback.Host(u.Hostname()):
		return nil, fmt.Errorf("%q must use https; http is for this machine only", raw)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q must use https", raw)
	}
	return u, nil
}
