package transport

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// A request that never had a connection was not delivered: it is not charged and may be
// repeated.
func TestNoConnectionIsNoDelivery(t *testing.T) {
	t.Parallel()
	discard := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewUnstartedServer(discard)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	closes, err := net.Listen("tcp", "127.0.0.1:0") // in the middle of the TLS handshake
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := closes.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		closes.Close()
		<-ended
	})
	gone := httptest.NewServer(discard)
	gone.Close()
	aborts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(aborts.Close)
	for _, tt := range []struct {
		name, url string
		delivered bool
	}{
		{"a certificate that nobody knows", secure.URL, false},
		{"an end in the middle of the handshake", "https://" + closes.Addr().String(), false},
		{"nobody there", gone.URL, false},
		{"no such host", "http://nowhere.invalid", false},
		{"an end behind the request", aborts.URL, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to, err := url.Parse(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			c := httpClient{url: to, pool: NewPool(1), credential: noCredential{}}
			defer c.pool.CloseIdleConnections()
			r, err := c.request(context.Background(), http.MethodPost, to, []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.send(r)
			if err == nil {
				resp.Body.Close()
				t.Fatalf("answered with %s", resp.Status)
			}
			if Delivered(err) != tt.delivered {
				t.Errorf("%v: delivered %t, want %t", err, !tt.delivered, tt.delivered)
			}
		})
	}
}

// noCredential shows nothing to a server.
type noCredential struct{}

func (noCredential) Headers(context.Context, string) (http.Header, error) { return nil, nil }
func (noCredential) Key(string) string                                    { return "" }
