package signin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// flipping is a name server that answers another address after the first time.
type flipping struct {
	mu          sync.Mutex
	first, then []netip.Addr
	asked       map[dnsmessage.Type]int
}

// next are the addresses of a kind to answer now.
func (f *flipping) next(kind dnsmessage.Type) (out []netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.then
	if f.asked[kind] == 0 {
		all = f.first
	}
	f.asked[kind]++
	for _, a := range all {
		if a.Is4() == (kind == dnsmessage.TypeA) {
			out = append(out, a)
		}
	}
	return out
}

func (f *flipping) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Header.Response, m.Additionals = true, nil
	for _, a := range f.next(q.Type) {
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0}
		if a.Is4() {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		} else {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// resolver returns one that asks it.
func (f *flipping) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := f.answer(buf[:n]); out != nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestNamesThatFlip has the name of an authorization server lead to an address that
// may be reached when it is looked up first, and inside after that: of each request on
// the way to a token the second one is not made.
func TestNamesThatFlip(t *testing.T) {
	var hits atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Connection", "close") // so that each request looks the name up
		http.Error(w, "canary", http.StatusTeapot)
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	at, err := netip.ParseAddrPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	trust := &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12}
	origin := "https://example.com:" + port // the name in the certificate
	m := &oauth.Metadata{Issuer: origin, TokenEndpoint: origin + "/token", RegistrationEndpoint: origin + "/register", RevocationEndpoint: origin + "/revoke"}
	r := &oauth.Registration{ID: "client", Secret: "canary-secret"}
	for name, fetch := range map[string]func(context.Context, *oauth.Client) error{
		"resource metadata": func(ctx context.Context, c *oauth.Client) error {
			_, err := c.FindResource(ctx, "https://mcp.example/mcp", oauth.Challenge{ResourceMetadata: origin + "/resource"})
			return err
		},
		"server metadata": func(ctx context.Context, c *oauth.Client) error {
			_, err := c.FindServer(ctx, origin)
			return err
		},
		"registration": func(ctx context.Context, c *oauth.Client) error {
			_, err := c.Register(ctx, m, oauth.NewDocument("toolgate", "https://gw.example/callback"))
			return err
		},
		"token": func(ctx context.Context, c *oauth.Client) error {
			_, err := c.ClientCredentials(ctx, m, r, "https://mcp.example/mcp", nil)
			return err
		},
		"revocation": func(ctx context.Context, c *oauth.Client) error {
			return c.Revoke(ctx, m, r, "canary-token", "access_token")
		},
	} {
		for _, inside := range []string{"127.0.0.2", "169.254.169.254", "10.0.0.1", "::1", "fd00:ec2::254", "::ffff:127.0.0.3"} {
			flips := &flipping{first: []netip.Addr{at.Addr()}, then: []netip.Addr{netip.MustParseAddr(inside).Unmap()}, asked: map[dnsmessage.Type]int{}}
			policy, err := egressPolicy(&config.Server{URL: "https://mcp.example/mcp"})
			if err != nil {
				t.Fatal(err)
			}
			policy.Resolver = flips.resolver(t)
			policy.Allow = []netip.Prefix{netip.PrefixFrom(at.Addr(), at.Addr().BitLen())} // as a public one
			c, err := reaching(policy, trust)
			if err != nil {
				t.Fatal(err)
			}
			before := hits.Load()
			var refusal *egress.Refusal
			refused := false
			for i := 0; i < 3 && !refused; i++ { // one of them asks at several places
				refusal, refused = errors.AsType[*egress.Refusal](fetch(t.Context(), c))
			}
			if n := hits.Load() - before; !refused || refusal.Rule != "address" || n != 1 {
				t.Errorf("%s, then %s: refused: %v, after %d requests", name, inside, refusal, n)
			}
		}
	}
}
