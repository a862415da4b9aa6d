package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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

// Small buffers cut nothing: neither a long header nor what comes in pieces, in either direction.
func TestManyTakesLargeMessages(t *testing.T) {
	long, large := strings.Repeat("h", 8*smallBuffer), strings.Repeat("body", 64*smallBuffer)
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
