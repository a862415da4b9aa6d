package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names answers what names lead to, as a name server does.
type names map[string][]string

// resolver returns one that asks these names.
func (n names) resolver(t *testing.T) *net.Resolver {
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
			k, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := n.answer(buf[:k]); out != nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (n names) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Header.Response, m.Additionals = true, nil
	list, known := n[strings.TrimSuffix(q.Name.String(), ".")]
	switch {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case len(list) == 1 && list[0] == "fails":
		m.RCode = dnsmessage.RCodeServerFailure
	default:
		for _, text := range list {
			a := netip.MustParseAddr(text)
			h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}
			if q.Type == dnsmessage.TypeA && a.Is4() {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
			}
			if q.Type == dnsmessage.TypeAAAA && a.Is6() {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// server counts its connections.
func server(t *testing.T, h http.HandlerFunc) (url string, port uint16, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	_, text, _ := net.SplitHostPort(s.Listener.Addr().String())
	n, _ := strconv.ParseUint(text, 10, 16)
	return s.URL, uint16(n), conns
}

func client(t *testing.T, p Policy, l Limits) *Client {
	t.Helper()
	c := NewClient(guard(t, p), l, nil)
	t.Cleanup(c.Close)
	return c
}

func get(c *Client, url string) (*Answer, error) {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return c.Do(context.Background(), req)
}

// TestNamesThatLeadInside resolves names to every kind of address. The server
// listens where most of them lead; nothing may reach it.
func TestNamesThatLeadInside(t *testing.T) {
	_, port, conns := server(t, func(http.ResponseWriter, *http.Request) {})
	inside := names{
		"loop.example": {"127.0.0.1"}, "six.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"}, "zero.example": {"0.0.0.0"},
		"zeros.example": {"::"}, "meta.example": {"169.254.169.254"}, "meta6.example": {"fd00:ec2::254"}, "nat64.example": {"64:ff9b::7f00:1"},
		"sixtofour.example": {"2002:7f00:1::"}, "teredo.example": {"2001:0:4136:e378:8000:63bf:80ff:fffe"}, "compatible.example": {"::7f00:1"},
		"private.example": {"10.0.0.1", "172.16.0.1", "192.168.0.1"}, "carrier.example": {"100.64.0.1"}, "site.example": {"fec0::1"},
		"two.example": {"127.0.0.1", "127.0.0.2"},
	}
	c := client(t, Policy{AnyPort: true, Resolver: inside.resolver(t)}, Limits{})
	for name := range inside {
		_, err := get(c, fmt.Sprintf("http://%s:%d/", name, port))
		if rule(err) != "address" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestANameThatChanges is resolved to something else each time: what counts is
// where the connection leads.
func TestANameThatChanges(t *testing.T) {
	_, port, conns := server(t, func(http.ResponseWriter, *http.Request) {})
	n := names{"flips.example": {"127.0.0.1"}}
	c := client(t, Policy{AnyPort: true, Resolver: n.resolver(t)}, Limits{})
	for range 3 {
		if _, err := get(c, fmt.Sprintf("http://flips.example:%d/", port)); rule(err) != "address" {
			t.Error(err)
		}
	}
	if conns.Load() != 0 {
		t.Error("it was reached")
	}
}

func TestDeniedByTheAddressOfAName(t *testing.T) {
	_, port, conns := server(t, func(http.ResponseWriter, *http.Request) {})
	n := names{"secret.example": {"127.0.0.1"}, "alias.example": {"127.0.0.1"}, "fails.example": {"fails"}}
	p := Policy{AnyPort: true, Resolver: n.resolver(t), Allow: Loopback(), DenyHosts: []string{"secret.example", "gone.example"}}
	c := client(t, p, Limits{})
	for _, host := range []string{"secret.example", "alias.example", "127.0.0.1"} {
		if _, err := get(c, fmt.Sprintf("http://%s:%d/", host, port)); rule(err) != "deny_hosts" {
			t.Errorf("%s: %v", host, err)
		}
	}
	p.DenyHosts = []string{"fails.example"}
	if _, err := get(client(t, p, Limits{}), fmt.Sprintf("http://alias.example:%d/", port)); err == nil || rule(err) == "" {
		t.Errorf("what is denied cannot be resolved, and all else is reached: %v", err)
	}
	if conns.Load() != 0 {
		t.Error("it was reached")
	}
	p.DenyHosts = []string{"gone.example"}
	if _, err := get(client(t, p, Limits{}), fmt.Sprintf("http://alias.example:%d/", port)); err != nil {
		t.Errorf("a denied name that does not exist: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	inner, _, conns := server(t, func(http.ResponseWriter, *http.Request) {})
	var seen atomic.Value
	base, port, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/4", "/3", "/2", "/1":
			n, _ := strconv.Atoi(r.URL.Path[1:])
			http.Redirect(w, r, "/"+strconv.Itoa(n-1), http.StatusFound)
		case "/to":
			http.Redirect(w, r, r.URL.Query().Get("url"), http.StatusTemporaryRedirect)
		default:
			seen.Store(r.Header.Clone())
			fmt.Fprint(w, "here")
		}
	})
	n := names{"outside.example": {"127.0.0.1"}, "elsewhere.example": {"127.0.0.1"}}
	c := client(t, Policy{AnyPort: true, Resolver: n.resolver(t), Allow: Loopback(), DenyHosts: []string{"evil.example"}}, Limits{Redirects: 3})
	for to, want := range map[string]string{
		"/3": "", "/4": "redirects", "/loop": "redirects",
		"/to?url=" + url.QueryEscape("http://10.0.0.1/"):       "address",
		"/to?url=" + url.QueryEscape("http://[fe80::1%25lo]/"): "address",
		"/to?url=" + url.QueryEscape("http://evil.example/"):   "deny_hosts",
		"/to?url=" + url.QueryEscape("http://u:p@a.example/"):  "credentials",
		"/to?url=" + url.QueryEscape("file:///etc/passwd"):     "scheme",
		"/to?url=" + url.QueryEscape("ftp://a.example/"):       "scheme",
	} {
		if _, err := get(c, base+to); rule(err) != want {
			t.Errorf("%s: %v; want %q", to, err, want)
		}
	}
	guarded := client(t, Policy{Ports: []uint16{port}, Allow: Loopback()}, Limits{Redirects: 3})
	if _, err := get(guarded, base+"/to?url="+url.QueryEscape(inner+"/x")); rule(err) != "port" || conns.Load() != 0 {
		t.Errorf("a redirect to another port: %v, %d connections", err, conns.Load())
	}
	none := client(t, Policy{AnyPort: true, Allow: Loopback()}, Limits{})
	if got, err := get(none, base+"/1"); err != nil || got.Status != http.StatusFound {
		t.Errorf("a redirect that is not followed: %v, %v", got, err)
	}

	other := fmt.Sprintf("http://outside.example:%d", port)
	ask := func(method, where string, body io.Reader) error {
		req, err := http.NewRequest(method, base+"/to?url="+url.QueryEscape(where), body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", "secret")
		req.Header.Set("Accept", "text/plain")
		_, err = c.Do(t.Context(), req)
		return err
	}
	if err := ask(http.MethodGet, other+"/end", nil); err != nil {
		t.Fatal(err)
	}
	if h := seen.Load().(http.Header); h.Get("X-Api-Key") != "" || h.Get("Referer") != "" || h.Get("Accept") != "text/plain" {
		t.Errorf("another host was sent %v", h)
	}
	if err := ask(http.MethodPost, other+"/end", strings.NewReader("secret")); rule(err) != "redirects" {
		t.Errorf("the body went to another host: %v", err)
	}
	if err := ask(http.MethodPost, base+"/end", strings.NewReader("secret")); err != nil {
		t.Errorf("the body does not go to the same host: %v", err)
	}
}

func TestLimits(t *testing.T) {
	stop := make(chan struct{})
	base, _, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			zeros := make([]byte, 1<<20)
			for range 64 {
				if _, err := z.Write(zeros); err != nil {
					return
				}
			}
			z.Close()
		case "/exact":
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1000))
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("x", 8000))
		case "/br":
			w.Header().Set("Content-Encoding", "br")
		case "/hangs":
			w.(http.Flusher).Flush()
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "/drips":
			for range 1000 {
				if _, err := w.Write([]byte("x")); err != nil || r.Context().Err() != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}
	})
	defer close(stop)
	limits := Limits{Body: 1000, Header: 4000}
	if got, err := get(client(t, Policy{AnyPort: true, Allow: Loopback()}, limits), base+"/exact"); err != nil || got.Cut || len(got.Body) != 1000 {
		t.Errorf("a body of exactly the limit: %v", err)
	}
	big := client(t, Policy{AnyPort: true, Allow: Loopback()}, Limits{Body: 1 << 20})
	if got, err := get(big, base+"/bomb"); err != nil || !got.Cut || len(got.Body) != 1<<20 {
		t.Errorf("a body that grows when it is decompressed: %v", err)
	}
	limits.Timeout = 300 * time.Millisecond
	c := client(t, Policy{AnyPort: true, Allow: Loopback()}, limits)
	for _, path := range []string{"/header", "/br", "/hangs", "/drips"} {
		_, err := get(c, base+path+"?hunter2")
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNoProxyAndNoCookies(t *testing.T) {
	proxied := make(chan string, 1)
	proxy, _, _ := server(t, func(_ http.ResponseWriter, r *http.Request) { proxied <- r.URL.String() })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	var cookies atomic.Int64
	base, port, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		cookies.Add(int64(len(r.Cookies())))
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	})
	n := names{"site.example": {"127.0.0.1"}}
	c := client(t, Policy{AnyPort: true, Resolver: n.resolver(t), Allow: Loopback()}, Limits{})
	for range 2 {
		if _, err := get(c, fmt.Sprintf("http://site.example:%d/", port)); err != nil {
			t.Fatal(err)
		}
	}
	if cookies.Load() != 0 || base == "" {
		t.Error("a cookie came back")
	}
	select {
	case got := <-proxied:
		t.Errorf("the proxy was asked for %s", got)
	default:
	}
}

func TestTheCallersEnd(t *testing.T) {
	entered := make(chan struct{}, 1)
	base, _, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	req, _ := http.NewRequest(http.MethodGet, base, http.NoBody)
	if _, err := client(t, Policy{AnyPort: true, Allow: Loopback()}, Limits{}).Do(ctx, req); err != context.Canceled { //nolint:errorlint // it must be the very error
		t.Error(err)
	}
}
