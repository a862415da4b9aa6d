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
)

// Bounds of one request to an authorization server.
const (
	fetchTime      = 5 * time.Second
	fetchBytes     = 1 << 20
	fetchRedirects = 3
	fetchConns     = 32 // connections to one host
)

// fetcher sends requests to authorization servers. They carry what is written
// here and nothing of the request that was the reason for them.
type fetcher struct {
	client *http.Client
}

// newFetcher returns a fetcher over a transport, nil for one of its own. Its
// own uses the proxy of the environment, as other clients of the machine do.
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

// dialer reaches issuers. Its resolver is that of the machine where it is nil.
type dialer struct{ resolver *net.Resolver }

// dial makes a connection to an issuer. It goes by the address that a name was resolved
// to, on the socket that is about to connect: none is made to a link-local address,
// where the credentials of cloud machines are had, nor to this machine for a name that
// is not its own, but for the proxy of the environment, which may be here. Private
// networks are where many issuers are, and the operator names the issuers.
func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	here := onThisMachine(&url.URL{Host: net.JoinHostPort(host, "0")}) || strings.HasSuffix(strings.ToLower(host), ".localhost") || isProxy(host)
	own := net.Dialer{Timeout: fetchTime, Resolver: d.resolver, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return errInside
		}
		switch ip := a.Addr().Unmap(); {
		case ip.IsLoopback() && here:
			return nil
		case ip.IsLoopback(), ip.IsUnspecified(), ip.IsMulticast(), ip.IsLinkLocalUnicast(), ip.IsLinkLocalMulticast(), ip == cloudMetadata:
			return errInside
		}
		return nil
	}}
	return own.DialContext(ctx, network, address)
}

// cloudMetadata is where machines of a cloud have their credentials over IPv6.
var cloudMetadata = netip.MustParseAddr("fd00:ec2::254")

// isProxy tells whether a host is the proxy of the environment.
func isProxy(host string) bool {
	for _, scheme := range [...]string{"https", "http"} {
		p, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: "issuer.invalid"}})
		if err == nil && p != nil && strings.EqualFold(p.Hostname(), host) {
			return true
		}
	}
	return false
}

var errInside = errors.New("its name leads to an address of this machine or its network's services")

var errRedirect = errors.New("it redirects to another host; name the place itself in the configuration")

// sameOrigin follows a few redirects of a GET inside one origin. The answer to
// a POST is never followed: its body holds a token and its header a secret.
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

// serverURL reads an address of an authorization server: https, or http on this
// machine. It has no user, no fragment, and where it is an issuer no query
// (RFC 8414 section 2).
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
	case u.Scheme == "http" && !onThisMachine(u):
		return nil, fmt.Errorf("%q must use https; http is for this machine only", raw)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q must use https", raw)
	}
	return u, nil
}

func onThisMachine(u *url.URL) bool {
	name := u.Hostname()
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
