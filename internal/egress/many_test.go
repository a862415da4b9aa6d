package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Many requests that wait for their answers share a connection where the server has HTTP/2.
func TestManyShareAConnection(t *testing.T) {
	const all = 20
	var conns, waiting atomic.Int64
	everyone := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			if waiting.Add(1) == all {
				close(everyone)
			}
			select {
			case <-everyone:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	g := guard(t, Policy{AnyPort: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	c := NewClient(g, Limits{Many: true}, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	defer c.Close()
	if got, err := get(c, s.URL); err != nil || string(got.Body) != "HTTP/2.0" {
		t.Fatalf("%+v, %v", got, err)
	}
	before := conns.Load()
	var asking sync.WaitGroup
	for range all {
		asking.Go(func() {
			if got, err := get(c, s.URL+"/wait"); err != nil || string(got.Body) != "HTTP/2.0" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	asking.Wait()
	if n := conns.Load(); n != before {
		t.Errorf("%d connections, %d before", n, before)
	}
}

// Requests over http that wait for their answers have no goroutines besides those of their
// callers, and end at once with their contexts.
func TestManyWaitAlone(t *testing.T) {
	const all = 20
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := client(t, Policy{AnyPort: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, Limits{Many: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := runtime.NumGoroutine()
	var asking sync.WaitGroup
	for range all {
		asking.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr().String()+"/wait", strings.NewReader("{}"))
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := c.Transport().RoundTrip(req)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			if err == nil {
				resp.Body.Close()
			}
		})
	}
	for range all {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		got, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil || got.Host != l.Addr().String() || got.Header.Get("Accept-Encoding") != "identity" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	deadline := time.After(10 * time.Second)
	for runtime.NumGoroutine() > before+all { // those that have sent the requests end
		select {
		case <-deadline:
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		default:
			runtime.Gosched()
		}
	}
	cancelled := time.Now()
	cancel()
	asking.Wait()
	if took := time.Since(cancelled); took > 5*time.Second {
		t.Errorf("they end after %v", took)
	}
}

// Small buffers cut nothing: neither a long header nor what comes in pieces, in either direction.
func TestManyTakesLargeMessages(t *testing.T) {
	for _, size := range []int{32 * smallBuffer, 256 * smallBuffer} { // by package http1, and by net/http
		t.Run(strconv.Itoa(size), func(t *testing.T) { takesLargeMessages(t, size) })
	}
}

func takesLargeMessages(t *testing.T, size int) {
	t.Helper()
	long, large := strings.Repeat("h", 8*smallBuffer), strings.Repeat("body", size/4)
	url, _, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != large || r.Header.Get("X-Long") != long {
			t.Errorf("%d bytes, a header of %d: %v", len(body), len(r.Header.Get("X-Long")), err)
		}
		w.Header().Set("X-Long", long)
		for part := range slices.Chunk([]byte(large), 4*smallBuffer) {
			_, _ = w.Write(part)
			w.(http.Flusher).Flush()
		}
	})
	c := client(t, Policy{AnyPort: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, Limits{Many: true})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", long)
	got, err := c.Do(context.Background(), req)
	if err != nil || string(got.Body) != large || got.Header.Get("X-Long") != long {
		t.Errorf("%d bytes of %d, a header of %d: %v", len(got.Body), len(large), len(got.Header.Get("X-Long")), err)
	}
}

// The limit of a body holds for answers over http as well.
func TestManyBoundsBodies(t *testing.T) {
	url, _, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 101)) })
	c := client(t, Policy{AnyPort: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, Limits{Many: true, Body: 100})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); len(got) != 100 || !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// What may not be reached is not, whoever sends the request.
func TestManyIsGuarded(t *testing.T) {
	url, _, conns := server(t, func(http.ResponseWriter, *http.Request) {})
	c := client(t, Policy{AnyPort: true}, Limits{Many: true})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Transport().RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if _, refused := errors.AsType[*Refusal](err); !refused || conns.Load() > 0 {
		t.Errorf("%v, %d connections", err, conns.Load())
	}
}
